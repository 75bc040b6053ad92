"""A drawing of a rule's runs: a line of time with a mark for each run.

It is plain SVG without scripts. Marks differ in shape and height as well as in colour,
and a description says the same for people who cannot see the drawing.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from django.conf import settings
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from monitoring.models import Severity
from verification.values.local_time import format_nairobi

WIDTH, HEIGHT, MARGIN, LINE = 640, 96, 16, 72
# Each severity has a height above the line, a colour, and the points of a shape.
SHAPES: dict[str, tuple[int, str, str]] = {
    "": (0, "#5b6b7a", "-3,0 0,3 3,0 0,-3"),
    Severity.INFO: (14, "#1f6fb2", "-5,-5 5,-5 5,5 -5,5"),
    Severity.WARNING: (32, "#9a5b00", "0,-7 7,6 -7,6"),
    Severity.CRITICAL: (50, "#b3261e", "-3,-7 3,-7 7,-3 7,3 3,7 -3,7 -7,3 -7,-3"),
}
WORDS = {"": "without a change"} | {s: f"with a change, {s.value}" for s in Severity}


class Mark(NamedTuple):
    """A run: its number, its time, and the severity of its alert or ""."""

    number: int
    at: datetime
    severity: str


def timeline(marks: Sequence[Mark]) -> SafeString:
    """Draw runs, which must be in the order of their times."""
    if not marks:
        return format_html("<p>{}</p>", "No runs yet.")
    first, last = marks[0].at, marks[-1].at
    return format_html(
        '<svg role="img" aria-labelledby="runs-title runs-words" width="{}" height="{}"'
        ' viewBox="0 0 {} {}" xmlns="http://www.w3.org/2000/svg">'
        '<title id="runs-title">{}</title><desc id="runs-words">{}</desc>'
        '<line x1="{}" y1="{}" x2="{}" y2="{}" stroke="#5b6b7a"/>{}{}</svg>',
        *(WIDTH, HEIGHT, WIDTH, HEIGHT),
        "Runs over time",
        describe_marks(marks),
        *(MARGIN, LINE, WIDTH - MARGIN, LINE),
        format_html_join("", "{}", ((_draw_mark(m, first, last),) for m in marks)),
        _draw_dates(first, last),
    )


def describe_marks(marks: Sequence[Mark]) -> str:
    """Return the drawing's content as text."""
    counts = Counter(mark.severity for mark in marks)
    parts = ", ".join(f"{counts[s]} {WORDS[s]}" for s in SHAPES if counts[s])
    runs = "1 run" if len(marks) == 1 else f"{len(marks)} runs"
    return f"{runs} from {_day(marks[0].at)} to {_day(marks[-1].at)}: {parts}."


def _draw_mark(mark: Mark, first: datetime, last: datetime) -> SafeString:
    above, colour, points = SHAPES[mark.severity]
    span = max(last - first, timedelta(microseconds=1))
    x = MARGIN + (WIDTH - 2 * MARGIN) * ((mark.at - first) / span)
    return format_html(
        '<polygon points="{}" fill="{}" transform="translate({} {})">'
        "<title>{}</title></polygon>",
        points,
        colour,
        f"{x:.1f}",
        LINE - above,
        f"Run {mark.number}, {_day(mark.at)}, {WORDS[mark.severity]}",
    )


def _draw_dates(first: datetime, last: datetime) -> SafeString:
    text = '<text x="{}" y="{}" font-size="11" fill="currentColor" {}>{}</text>'
    below = HEIGHT - 6
    start = format_html(text, MARGIN, below, "", _day(first))
    if _day(first) == _day(last):
        return start
    anchor = format_html('text-anchor="{}"', "end")
    return start + format_html(text, WIDTH - MARGIN, below, anchor, _day(last))


def _day(at: datetime) -> str:
    return format_nairobi(at, settings.DATE_FORMAT)
