"""Charts as SVG without a viewBox: x in per cent, y in pixels: their text never scales.

Each day says its values in its tooltip; the highest bar and the last point have theirs
written. A chart has a title and a description for people who cannot see it, and a table
that says the same. Colours are classes of the style sheet.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import NamedTuple

from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from verification.console.base import Text
from verification.figures.summary import Duration

# Pixels: above the highest line, and below the base line with its dates
ABOVE, BELOW = 14, 22
# The height of a row: a name with its times, and a line
ROW = 40
# Pixels between the parts of a bar
GAP = 1.5
# A text this near to an edge, in per cent of the width, begins or ends at it.
EDGE = 6
LONGEST_NAME = 24
# Widths of the scale beside a chart: classes of the style sheet
SCALE, MONEY, NAMES = "", "plot-money", "plot-names"
TICKS = [
    timedelta(seconds=seconds)
    for seconds in (
        *(0.01, 0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120, 300, 600, 1800),
        *(3600, 7200, 21_600, 43_200, 86_400 * 2, 86_400 * 5, 86_400 * 20),
    )
]
MOST_TICKS = 5
# A label for which a phone has no room
WIDE_ONLY = SafeString(' class="wide-only"')
LINES_HEIGHT = 150
DOT = '<circle class="f1" cx="{}" cy="{}" r="{}"/>'

Write = Callable[[float], str]


class Part(NamedTuple):
    """One kind of value in each bar, in a colour of the style sheet: f1 to f5."""

    label: Text
    values: Sequence[float]
    colour: str = "f1"
    total: str = ""


class Change(NamedTuple):
    """A change against the period before. `is_better` is None where nobody can say."""

    # -1, 0 or 1
    direction: int
    text: Text
    before: Text
    is_better: bool | None = None


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart with its legend, and its table: headings, and rows of texts."""

    name: str
    title: Text
    plot: SafeString
    legend: Sequence[Part] = ()
    hint: Text = ""
    # The total of the period, for charts without a tile
    total: Text = ""
    change: Change | None = None
    columns: Sequence[Text] = ()
    rows: Sequence[Sequence[Text]] = ()


def draw_bars(
    name: str,
    words: tuple[Text, Text],
    labels: Sequence[str],
    parts: Sequence[Part],
    *,
    height: int = 220,
    scale: str = SCALE,
    write: Write = "{:,.0f}".format,
    dates: int = 5,
) -> SafeString:
    """Draw a bar for each label, with the parts upon each other.

    `words` are title and description; `dates` says how many labels are written.
    """
    sums = [
        sum(max(value, 0) for value in bar)
        for bar in zip(*(part.values for part in parts), strict=True)
    ]
    top, bottom = round_up(max(sums, default=0)), height - BELOW
    wide = 100 / max(len(labels), 1)
    pixels = (bottom - ABOVE) / top
    highest = sums.index(max(sums)) if any(sums) else None
    # Words are read once, as a chart of many days says them often.
    names = {part.colour: str(part.label) for part in parts}
    bars = []
    for number, label in enumerate(labels):
        x, below, drawn, said = number * wide, 0.0, [], []
        for part in parts:
            value = part.values[number]
            if value <= 0:
                continue
            said.append(f"{names[part.colour]} {write(value)}")
            below += value
            tall = max(value * pixels - GAP, 1)
            drawn.append(
                f'<rect class="{part.colour}" y="{bottom - below * pixels:.0f}"'
                f' height="{tall:.0f}"/>'
            )
        # A bar cannot show less than nothing, but its words say so.
        tip = f"{label}: {write(sum(part.values[number] for part in parts))}"
        if len(parts) > 1 and said:
            tip += f" ({', '.join(said)})"
        bars.append(_day(tip, x, wide, bottom, drawn))
    written = SafeString("")
    if highest is not None:
        text = write(sums[highest])
        y = bottom - sums[highest] * pixels - 4
        written = _label(text, (highest + 0.5) * wide, y)
    middles = [(number + 0.5) * wide for number in range(len(labels))]
    inside = _grid(height) + SafeString("".join(bars)) + written
    inside += _dates(labels, middles, dates, height)
    return _plot(name, words, height, _scale(top, height), inside, scale)


def draw_lines(
    name: str,
    words: tuple[Text, Text],
    labels: Sequence[str],
    now: Sequence[float | None],
    before: Sequence[float | None],
    *,
    write: Write,
) -> SafeString:
    """Draw a line, and the previous period's dashed. A value of None has no point."""
    known = [value for value in (*now, *before) if value is not None]
    top, bottom = round_up(max(known, default=0)), LINES_HEIGHT - BELOW
    step = 98 / max(len(labels) - 1, 1)
    places = [1 + step * number for number in range(len(labels))]

    def points(values: Iterable[float | None]) -> list[tuple[float, float]]:
        return [
            (x, bottom - value * (bottom - ABOVE) / top)
            for x, value in zip(places, values, strict=True)
            if value is not None
        ]

    def line(values: Iterable[float | None], css: str) -> str:
        return "".join(
            f'<line class="curve {css}" x1="{_x(x1)}" x2="{_x(x2)}" y1="{_y(y1)}"'
            f' y2="{_y(y2)}"/>'
            for (x1, y1), (x2, y2) in pairwise(points(values))
        )

    days = (
        _day(f"{label}: {write(value)}", max(x - step / 2, 0), step, bottom)
        for label, x, value in zip(labels, places, now, strict=True)
        if value is not None
    )
    lines = line(before, "base dashed") + line(now, "k1")
    inside = _grid(LINES_HEIGHT) + SafeString(lines + "".join(days))
    if drawn := points(now):
        x, y = drawn[-1]
        last = next(value for value in reversed(now) if value is not None)
        inside += format_html(DOT, _x(x), _y(y), 4)
        # On the side of the point where the earlier line does not end
        is_below = y + 24 < bottom and all(y >= y2 for _x, y2 in points(before)[-1:])
        inside += _label(write(last), x, y + 20 if is_below else max(y - 8, 10))
    inside += _dates(labels, places, 3, LINES_HEIGHT)
    scale = _scale(top, LINES_HEIGHT)
    return _plot(name, words, LINES_HEIGHT, scale, inside, SCALE)


def draw_ranges(
    name: str, words: tuple[Text, Text], rows: Sequence[tuple[str, Duration]]
) -> SafeString:
    """Draw a line from the median to the 95 % of each row, on a scale of doublings."""
    if not rows:
        return SafeString("")
    height = ROW * len(rows) + BELOW
    lowest = min(math.log2(_ms(took.median)) for label, took in rows) - 0.5
    highest = max(math.log2(_ms(took.slow)) for label, took in rows) + 0.5

    def place(duration: timedelta) -> str:
        return _x(share(duration))

    def share(duration: timedelta) -> float:
        return 100 * (math.log2(_ms(duration)) - lowest) / (highest - lowest)

    names, lines = [], []
    for number, (label, took) in enumerate(rows):
        y = ROW * number + 14
        short = label if len(label) <= LONGEST_NAME else f"{label[:LONGEST_NAME]}…"
        names.append(
            format_html(
                '<text class="label" x="0" y="{}">{}</text>'
                '<text x="0" y="{}">{}</text>',
                *(y, short, y + 16, _times(took)),
            )
        )
        lines.append(
            format_html(
                '<g><title>{}: {}</title><line class="range" x1="{}" x2="{}" y1="{}"'
                ' y2="{}"/>' + DOT + "</g>",
                *(label, _times(took), place(took.median), place(took.slow)),
                *(y + 4, y + 4, place(took.median), y + 4, 5),
            )
        )
    ticks = [(share(tick), tick) for tick in TICKS if 0 <= share(tick) <= 100]
    ticks = ticks[:: math.ceil(len(ticks) / MOST_TICKS) or 1]
    left_out = range(1, len(ticks), 2) if len(ticks) > 3 else ()
    bottom = ROW * len(rows)
    grid = format_html_join(
        "",
        '<line class="grid" x1="{0}" x2="{0}" y1="0" y2="{1}"/>'
        '<text{5} x="{0}" y="{2}" text-anchor="{3}">{4}</text>',
        (
            (
                *(_x(x), bottom, bottom + 18, _anchor(x), duration_text(tick)),
                WIDE_ONLY if n in left_out else "",
            )
            for n, (x, tick) in enumerate(ticks)
        ),
    )
    inside = grid + SafeString("".join(lines))
    left = SafeString("".join(names))
    return _plot(name, words, height, left, inside, NAMES)


def draw_spark(values: Iterable[float | None]) -> SafeString:
    """Draw the course of a figure without a scale, beside its number."""
    known = [value for value in values if value is not None]
    if len(known) < 2 or not any(known):
        return SafeString("")
    # Spend is below zero on a day on which more was given back than charged.
    low, high = min(0, *known), max(0, *known)
    step = 84 / (len(known) - 1)
    heights = [round(25 - 22 * (value - low) / (high - low)) for value in known]
    moves = " ".join(f"{_y(step)} {y2 - y1}" for y1, y2 in pairwise(heights))
    return format_html(
        '<svg class="spark" viewBox="0 0 88 28" aria-hidden="true">'
        '<path d="M2 {}l{}"/><circle cx="86" cy="{}" r="2.5"/></svg>',
        *(heights[0], moves, heights[-1]),
    )


def change_of(
    now: float | None,
    before: float | None,
    write: Callable[[float], Text],
    *,
    in_points: bool = False,
    more_is_better: bool | None = None,
) -> Change | None:
    """Return the change in per cent or points.

    None without an earlier value, and no percentage of one that is not above zero.
    """
    if before is None or now is None or not (before > 0 or in_points):
        return None
    if in_points:
        text = _("%(count)s points") % {"count": f"{abs(now - before):,.1f}"}
        direction = _sign(round(now - before, 1))
    else:
        percent = round(100 * (now - before) / before)
        text, direction = f"{abs(percent):,} %", _sign(percent)
    better = more_is_better if direction > 0 else not more_is_better
    is_known = more_is_better is not None and direction
    return Change(direction, text, write(before), better if is_known else None)


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


def round_up(value: float) -> float:
    """Return the next round number with a round half, and 2 at least."""
    if value <= 2:
        return 2
    power = 10 ** math.floor(math.log10(value))
    firsts = (
        (2, 4, 6, 8, 10) if power == 1 else (1, 1.2, 1.6, 2, 2.4, 3, 4, 5, 6, 8, 10)
    )
    return float(next(n * power for n in firsts if n * power >= value))


def short_number(value: float) -> str:
    """Shorten thousands and millions, so that a scale stays narrow."""
    for unit, sign in ((1_000_000, "M"), (1_000, "k")):
        if value >= 10 * unit or value >= unit == 1_000_000:
            return f"{value / unit:g} {sign}"
    return f"{value:,g}"


def _two_digits(value: float) -> float:
    return float(f"{value:.2g}")


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


def _plot(
    name: str,
    words: tuple[Text, Text],
    height: int,
    left: SafeString,
    inside: SafeString,
    scale: str,
) -> SafeString:
    title, description = words
    return format_html(
        '<div class="plot {0}"><svg height="{1}" aria-hidden="true">{2}</svg>'
        '<svg height="{1}" role="img" aria-labelledby="{3}-t {3}-d">'
        '<title id="{3}-t">{4}</title><desc id="{3}-d">{5}</desc>{6}</svg></div>',
        *(scale, height, left, name, title, description, inside),
    )


def _day(
    tip: str, x: float, wide: float, bottom: int, drawn: Iterable[str] = ()
) -> str:
    """Return what stands for a day, with its tooltip; all but that are numbers.

    The bars of each day have the same place within its own drawing, which compresses.
    """
    return (
        f'<svg class="day" x="{_x(x)}" width="{_x(wide)}"><title>{escape(tip)}</title>'
        f'<rect class="hit" height="{bottom}"/>{"".join(drawn)}</svg>'
    )


def _grid(height: int) -> SafeString:
    bottom = height - BELOW
    return format_html_join(
        "",
        '<line class="{0}" x1="0" x2="100%" y1="{1}" y2="{1}"/>',
        (("base", bottom), ("grid", _y((bottom + ABOVE) / 2)), ("grid", ABOVE)),
    )


def _scale(top: float, height: int) -> SafeString:
    bottom = height - BELOW
    return format_html_join(
        "",
        '<text x="100%" dx="-8" y="{}" text-anchor="end">{}</text>',
        (
            (_y(bottom + 4 - share * (bottom - ABOVE)), short_number(top * share))
            for share in (0, 0.5, 1)
        ),
    )


def _label(text: str, x: float, y: float) -> SafeString:
    """Write a value beside its bar or point, and inside of the chart at its edges."""
    anchor = _anchor(x, edge=2 * len(text) if len(text) > 3 else 0)
    place = {"start": max(x - 2, 0), "end": min(x + 2, 100)}.get(anchor, x)
    return format_html(
        '<text class="label" x="{}" y="{}" text-anchor="{}">{}</text>',
        *(_x(place), _y(y), anchor, text),
    )


def _anchor(x: float, edge: float = EDGE) -> str:
    if x < edge:
        return "start"
    return "end" if x > 100 - edge else "middle"


def _dates(
    labels: Sequence[str], places: Sequence[float], most: int, height: int
) -> SafeString:
    """Write the first and the last label, and some between at equal distances.

    A phone leaves out every second one between them if there are more than three.
    """
    chosen = list(_chosen(places, most))
    left_out = range(1, len(chosen) - 1, 2) if len(chosen) > 3 else ()
    return format_html_join(
        "",
        '<text{} x="{}" y="{}" text-anchor="{}">{}</text>',
        (
            (WIDE_ONLY if n in left_out else "", _x(x), height - 4, anchor, labels[at])
            for n, (at, x, anchor) in enumerate(chosen)
        ),
    )


def _chosen(places: Sequence[float], most: int) -> Iterator[tuple[int, float, str]]:
    """Yield (number, place, anchor) of the labels that are written."""
    last = len(places) - 1
    count = min(most, len(places))
    for number in sorted({round(last * n / max(count - 1, 1)) for n in range(count)}):
        if number == 0:
            yield number, 0.0, "start"
        elif number == last:
            yield number, 100.0, "end"
        else:
            yield number, places[number], "middle"


def _x(share: float) -> str:
    return f"{share:.2f}".rstrip("0").rstrip(".") + "%"


def _y(pixels: float) -> str:
    return f"{pixels:.1f}".removesuffix(".0")


def _times(took: Duration) -> str:
    return f"{duration_text(took.median)} · {duration_text(took.slow)}"


def _ms(duration: timedelta) -> float:
    return duration / timedelta(milliseconds=1)
