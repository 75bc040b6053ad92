"""What fields of pages are drawn with.

Small charts, drawn here: nothing is fetched and no script runs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import wraps
from typing import Any

from django.conf import settings
from django.urls import reverse
from django.utils.html import format_html, format_html_join

from verification.values.local_time import format_nairobi


def cached_display(display: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """For what asks the database: a page asks for each of its fields twice."""

    @wraps(display)
    def kept(office: Any, obj: Any) -> Any:
        shown = obj.__dict__.setdefault("_shown", {})
        if display not in shown:
            shown[display] = display(office, obj)
        return shown[display]

    return kept


def link(obj: Any, text: str | None = None) -> str:
    """A link to the row's own page."""
    meta = obj._meta
    url = reverse(f"admin:{meta.app_label}_{meta.model_name}_change", args=[obj.pk])
    return format_html('<a href="{}">{}</a>', url, text or obj)


def table(headings: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """Cells are text, HTML that is safe, or times."""
    return format_html(
        '<div class="scroll" tabindex="0" role="group" aria-label="Table">'
        "<table><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>",
        format_html_join("", "<th>{}</th>", ((h,) for h in headings)),
        format_html_join("", "<tr>{}</tr>", ((_cells(row),) for row in rows)),
    )


def _cells(row: Iterable[Any]) -> str:
    shown = (
        format_nairobi(cell, settings.DATETIME_FORMAT)
        if isinstance(cell, datetime)
        else cell
        for cell in row
    )
    return format_html_join("", "<td>{}</td>", ((cell,) for cell in shown))


def json_block(value: Any) -> str:
    if value is None:
        return "-"
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return format_html("<pre>{}</pre>", text)


WIDTH, HEIGHT = 480, 120


def bar_chart(told: str, values: Sequence[float], bad: Sequence[float] = ()) -> str:
    """One bar for each value; the part of it that is `bad` in another colour."""
    top = max([*values, 1])
    step = WIDTH / max(len(values), 1)
    marks = [_bar("good", i, value, top, step) for i, value in enumerate(values)]
    marks += [_bar("bad", i, value, top, step) for i, value in enumerate(bad) if value]
    return _draw_chart(told, format_html_join("", "{}", ((mark,) for mark in marks)))


def line_chart(told: str, *series: Sequence[float | None]) -> str:
    """A line for each series; where there is nothing it is broken."""
    top = max([v for values in series for v in values if v is not None], default=1) or 1
    drawn = [
        ("line-" + str(number), _path(values, top))
        for number, values in enumerate(series)
    ]
    path = '<path class="{}" d="{}" fill="none"/>'
    return _draw_chart(told, format_html_join("", path, drawn))


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


def _draw_chart(told: str, marks: str) -> str:
    return format_html(
        '<svg class="plot" role="img" aria-label="{}" viewBox="0 0 {} {}" '
        'preserveAspectRatio="none">{}</svg>',
        told,
        WIDTH,
        HEIGHT,
        marks,
    )
