import pytest
from hypothesis import given
from hypothesis import strategies as st

from verification.values.colours import (
    BLACK,
    TEXT_RATIO,
    WHITE,
    contrast,
    label_on,
    mix,
    parse_colour,
)

COLOURS = st.integers(0, 0xFFFFFF).map(lambda number: f"#{number:06x}")


@pytest.mark.parametrize(
    ("typed", "colour"),
    [
        ("#0F766E", "#0f766e"),
        ("0f766e", "#0f766e"),
        (" #0F7 ", "#00ff77"),
        ("", None),
        ("red", None),
        ("#0f766e1", None),
        ("#0f766g", None),
        ("#0f766e;}*{display:none", None),
        ("url(https://x.example)", None),
        ("#\N{FULLWIDTH DIGIT ONE}11", None),
    ],
)
def test_colour_is_read(typed, colour):
    assert parse_colour(typed) == colour


def test_contrast_is_that_of_wcag():
    assert contrast(BLACK, WHITE) == pytest.approx(21)
    assert contrast(WHITE, WHITE) == 1
    # The example of many guides: the lightest grey that is readable on white
    assert contrast("#767676", WHITE) == pytest.approx(4.54, abs=0.005)
    assert contrast("#777777", WHITE) == pytest.approx(4.48, abs=0.005)


@given(COLOURS)
def test_label_is_readable_on_every_colour(colour):
    assert contrast(label_on(colour), colour) >= TEXT_RATIO


@pytest.mark.parametrize(
    ("share", "mixed"), [(0, "#0f766e"), (0.6, "#9fc8c5"), (1, "#ffffff")]
)
def test_colours_are_mixed_by_channel(share, mixed):
    assert mix("#0f766e", WHITE, share) == mixed
