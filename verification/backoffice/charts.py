"""Small charts, drawn here: nothing is fetched and no script runs."""

from __future__ import annotations

from collections.abc import Sequence

from django.utils.html import format_html, format_html_join

WIDTH, HEIGHT = 480, 120


def bars(told: str, values: Sequence[float], bad: Sequence[float] = ()) -> str:
    """One bar for each value; the part of it that is `bad` in another colour."""
    top = max([*values, 1])
    step = WIDTH / max(len(values), 1)
    marks = [_bar("good", i, value, top, step) for i, value in enumerate(values)]
    marks += [_bar("bad", i, value, top, step) for i, value in enumerate(bad) if value]
    return _drawn(told, format_html_join("", "{}", ((mark,) for mark in marks)))


def lines(told: str, *series: Sequence[float | None]) -> str:
    """A line for each series; where there is nothing it is broken."""
    top = max([v for values in series for v in values if v is not None], default=1) or 1
    drawn = [
        ("line-" + str(number), _path(values, top))
        for number, values in enumerate(series)
    ]
    path = '<path class="{}" d="{}" fill="none"/>'
    return _drawn(told, format_html_join("", path, drawn))


def _bar(kind: str, at: int, value: float, top: float, step: float) -> str:
    height = HEIGHT * value / top
    return format_html(
        '<rect class="{}" x="{}" y="{}" width="{}" height="{}"/>',
        kind,
        round(at * step + step * 0.12, 1),
        round(HEIGHT - height, 1),
        round(step * 0.76, 1),
        round(height, 1),
    )


def _path(values: Sequence[float | None], top: float) -> str:
    step = WIDTH / max(len(values), 1)
    path, pen = [], "M"
    for at, value in enumerate(values):
        if value is None:
            pen = "M"
            continue
        y = HEIGHT - (HEIGHT - 4) * value / top - 2
        # Level for most of its span, so that one that stands alone is seen, too.
        path.append(f"{pen}{at * step:.1f} {y:.1f}h{step * 0.7:.1f}")
        pen = "L"
    return "".join(path)


def _drawn(told: str, marks: str) -> str:
    return format_html(
        '<svg class="plot" role="img" aria-label="{}" viewBox="0 0 {} {}" '
        'preserveAspectRatio="none">{}</svg>',
        told,
        WIDTH,
        HEIGHT,
        marks,
    )
