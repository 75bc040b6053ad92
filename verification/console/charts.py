"""Drawings of figures as plain SVG, each with the table that says the same.

Parts of a bar differ in their pattern as well as in their colour, and a drawing has a
title and a description for people who cannot see it. Colours are those of the style
sheet, so that they suit light and dark pages and paper.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from verification.console.base import Text
from verification.figures.summary import Duration

WIDTH, HEIGHT, MARGIN, ABOVE, BELOW = 400, 190, 8, 16, 24
# The place of the scale beside bars
LEFT = 56
ROW = 44
# The patterns of parts, in their order; `patterns.html` draws them.
PATTERNS = ("solid", "stripes", "dots", "lines", "cross")
TEXT = '<text x="{}" y="{}" font-size="12" fill="currentColor"{}>{}</text>'
END, MIDDLE = (format_html(' text-anchor="{}"', where) for where in ("end", "middle"))


class Part(NamedTuple):
    """One kind of value in each bar."""

    label: Text
    values: Sequence[float]


@dataclass(frozen=True, slots=True)
class Drawing:
    """A drawing with its legend, and its table: headings, and rows of texts."""

    name: str
    title: Text
    svg: SafeString
    # Patterns with their labels
    legend: Sequence[tuple[str, Text]]
    columns: Sequence[Text]
    rows: Sequence[Sequence[Text]]


def legend_of(parts: Sequence[Part]) -> list[tuple[str, Text]]:
    if len(parts) == 1:
        return []
    return [(p, part.label) for p, part in zip(PATTERNS, parts, strict=False)]


def draw_bars(
    name: str, title: Text, words: str, labels: Sequence[str], parts: Sequence[Part]
) -> SafeString:
    """Draw a bar for each label, with the parts upon each other."""
    heights = [
        sum(max(v, 0) for v in bar)
        for bar in zip(*(p.values for p in parts), strict=True)
    ]
    highest = _round_up(max(heights, default=0))
    wide = (WIDTH - LEFT - MARGIN) / max(len(labels), 1)
    bottom, high = HEIGHT - BELOW, HEIGHT - BELOW - ABOVE
    below = [0.0] * len(labels)
    drawn = []
    for pattern, part in zip(PATTERNS, parts, strict=False):
        path = []
        for number, value in enumerate(part.values):
            if value <= 0:
                continue
            up = high * value / highest
            x, width = LEFT + wide * (number + 0.1), wide * 0.8
            y = bottom - below[number] - up
            path.append(
                "M{} {}h{}v{}h-{}z".format(*map(_short, (x, y, width, up, width)))
            )
            below[number] += up
        if path:
            drawn.append(
                format_html(
                    '<path class="edge" d="{}" fill="url(#{})"/>',
                    "".join(path),
                    f"pattern-{pattern}",
                )
            )
    grid = format_html_join(
        "",
        '<path class="grid" d="M{} {}H{}"/>' + TEXT,
        (
            (LEFT, y, WIDTH - MARGIN, LEFT - 6, y + 4, END, f"{value:,.12g}")
            for value, y in ((highest, bottom - high), (highest / 2, bottom - high / 2))
        ),
    )
    axis = format_html(
        '<path class="axis" d="M{} {}H{}"/>', LEFT, bottom, WIDTH - MARGIN
    )
    inside = grid + SafeString("".join(drawn)) + axis + _dates(labels)
    return _svg(name, title, words, HEIGHT, inside)


def draw_durations(
    name: str, title: Text, words: str, rows: Sequence[tuple[str, Duration]]
) -> SafeString:
    """Draw a line from the median to the 95 % of each row, on a scale of doublings."""
    if not rows:
        return SafeString("")
    lowest = min(math.log2(_ms(took.median)) for label, took in rows) - 0.5
    highest = max(math.log2(_ms(took.slow)) for label, took in rows) + 0.5
    drawn = []
    for number, (label, took) in enumerate(rows):
        y = ABOVE + ROW * number + 20
        left, right = (
            MARGIN
            + (WIDTH - 2 * MARGIN) * (math.log2(_ms(t)) - lowest) / (highest - lowest)
            for t in (took.median, took.slow)
        )
        drawn.append(
            format_html(
                TEXT + '<path class="span" d="M{} {}H{}M{} {}v14"/>'
                '<circle class="dot" cx="{}" cy="{}" r="5"/>',
                *(MARGIN, y - 12, "", _times(label, took)),
                *(f"{left:.1f}", y, f"{right:.1f}", f"{right:.1f}", y - 7),
                *(f"{left:.1f}", y),
            )
        )
    height = ABOVE + ROW * len(rows)
    return _svg(name, title, words, height, SafeString("".join(drawn)))


def duration_text(duration: timedelta) -> str:
    """Format with two digits that count, as a percentile is wrong by some percent."""
    seconds = duration.total_seconds()
    if seconds < 1:
        return _("%(count)s ms") % {"count": f"{_two_digits(seconds * 1000):g}"}
    for unit, most, text in (
        (1, 60, _("%(count)s s")),
        (60, 60, _("%(count)s min")),
        (3600, 48, _("%(count)s h")),
    ):
        if seconds < unit * most:
            return text % {"count": f"{_two_digits(seconds / unit):g}"}
    return _("%(count)s days") % {"count": f"{_two_digits(seconds / 86400):g}"}


def _two_digits(value: float) -> float:
    return float(f"{value:.2g}")


def _svg(
    name: str, title: Text, words: str, height: int, inside: SafeString
) -> SafeString:
    return format_html(
        '<svg class="drawing" role="img" aria-labelledby="{0}-title {0}-words"'
        ' viewBox="0 0 {1} {2}" xmlns="http://www.w3.org/2000/svg">'
        '<title id="{0}-title">{3}</title><desc id="{0}-words">{4}</desc>{5}</svg>',
        *(name, WIDTH, height, title, words, inside),
    )


def _times(label: str, took: Duration) -> str:
    return f"{label}: {duration_text(took.median)}, {duration_text(took.slow)}"


def _dates(labels: Sequence[str]) -> SafeString:
    """Write the first and the last label, and the one in the middle of many."""
    if not labels:
        return SafeString("")
    y = HEIGHT - 8
    first = format_html(TEXT, LEFT, y, "", labels[0])
    if len(labels) == 1:
        return first
    last = format_html(TEXT, WIDTH - MARGIN, y, END, labels[-1])
    if len(labels) % 2 == 0 or len(labels) < 5:
        return first + last
    middle = labels[len(labels) // 2]
    return (
        first + format_html(TEXT, (LEFT + WIDTH - MARGIN) / 2, y, MIDDLE, middle) + last
    )


def _round_up(value: float) -> float:
    """Return the next number that begins with 1, 2, 4, 6 or 8, and 2 at least."""
    if value <= 2:
        return 2
    power = 10 ** math.floor(math.log10(value))
    return float(next(n * power for n in (1, 2, 4, 6, 8, 10) if n * power >= value))


def _short(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _ms(duration: timedelta) -> float:
    return duration / timedelta(milliseconds=1)
