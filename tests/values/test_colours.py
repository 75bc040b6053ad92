import pytest
from hypothesis import given
from hypothesis import strategies as st

from verification.values.colours import (
    BLACK,
    EDGE_RATIO,
    TEXT_RATIO,
    WHITE,
    contrast,
    label_on,
    nearest,
    parse_colour,
    stands_out,
)

COLOURS = st.integers(0, 0xFFFFFF).map(lambda number: f"#{number:06x}")
LIGHT, DARK = ("#ffffff", "#e3f1ef"), ("#0d1514", "#143330")


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


@given(COLOURS, st.sampled_from([LIGHT, DARK]), st.sampled_from([3.0, 4.5]))
def test_nearest_colour_passes_on_all_backgrounds(colour, backgrounds, ratio):
    found = nearest(colour, lambda c: stands_out(c, backgrounds, ratio))

    assert stands_out(found, backgrounds, ratio)
    assert parse_colour(found) == found


def test_colour_that_passes_stays():
    assert nearest("#0f766e", lambda c: stands_out(c, LIGHT, EDGE_RATIO)) == "#0f766e"


@pytest.mark.parametrize(
    ("colour", "strongest"), [("#43b02a", 1), ("#ff9999", 0), ("#99ccff", 2)]
)
def test_nearest_colour_keeps_the_hue(colour, strongest):
    found = nearest(colour, lambda c: stands_out(c, LIGHT, EDGE_RATIO))

    channels = [int(found[at : at + 2], 16) for at in (1, 3, 5)]
    assert channels.index(max(channels)) == strongest
    # And is no darker than it has to be.
    assert contrast(found, "#e3f1ef") < EDGE_RATIO + 0.1
