"""Texts for spreadsheets, and times."""

from datetime import UTC, datetime, timedelta

import pytest

from verification.values import clock
from verification.values.formats import escape_formula, past_moment, unescape_formula
from verification.values.local_time import utc_text


@pytest.mark.parametrize(
    ("cell", "escaped"),
    [
        ("=cmd", "'=cmd"),
        ("\n=cmd", "'\n'=cmd"),
        ("Ltd;=cmd", "Ltd;'=cmd"),
        ('Ltd;"=cmd"', 'Ltd;"\'=cmd"'),
        ("Ltd\r\n\uff0bcmd", "Ltd\r\n'\uff0bcmd"),
        ("a; b-c = d@e.test\r\nf;g", "a; b-c = d@e.test\r\nf;g"),
    ],
)
def test_no_part_of_a_cell_begins_a_formula(cell: str, escaped: str) -> None:
    assert escape_formula(cell) == escaped
    assert unescape_formula(escaped) == cell


def test_moment_is_past_by_the_clock_of_all_machines(monkeypatch) -> None:
    monkeypatch.setattr(clock, "_correction", timedelta(minutes=5))

    assert past_moment(utc_text(datetime.now(UTC) + timedelta(minutes=5)))
