"""Texts for spreadsheets."""

import pytest

from verification.values.formats import escape_formula, unescape_formula


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
