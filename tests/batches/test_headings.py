"""Words of people's files: headings, totals and what is no name."""

import pytest

from verification.batches.headings import (
    SYNONYMS,
    UNUSED,
    fold,
    folded,
    is_footer,
    is_name,
)


@pytest.mark.parametrize(
    "text",
    [
        *["Total", "TOTAL:", "Grand total", "Sub-total", "Total (KES) 200", "Jumla"],
        *["Jumla kuu: 200", "Prepared by: Jane Wanjiru", "Total amount", "Average"],
    ],
)
def test_line_below_the_rows_is_a_footer_and_no_name(text):
    assert is_footer(text)
    assert not is_name(text, of_company=False)


@pytest.mark.parametrize("text", ["Total Energies Kenya PLC", "Jumla Hassan", "Sumaya"])
def test_name_that_begins_like_a_footer_is_a_name(text):
    assert not is_footer(text)
    assert is_name(text, of_company=True)


@pytest.mark.parametrize(
    "text", ["200", "12345678", "KES 20,000", "N/A", "nil", "-", "NB: 12% interest", ""]
)
def test_number_amount_placeholder_or_remark_is_no_name(text):
    assert not is_name(text, of_company=False)


@pytest.mark.parametrize(
    "text",
    ["Wanjiku Kamau", "محمد علي", "王小明", "Ng'ang'a", "K. O'Brien-Otieno", "A" * 200],
)
def test_names_of_all_scripts_are_names(text):
    assert is_name(text, of_company=False)


def test_heading_has_one_meaning_at_most():
    unused = folded(UNUSED)
    meant = [word for words in SYNONYMS.values() for word in folded(words)]

    assert len(set(meant)) == len(meant)
    assert not set(meant) & set(unused)
    assert all(meant)
    assert fold(" S/No. ") == "sno"
