"""Charts say each value in words, and stay within their frame."""

import re
from datetime import timedelta
from xml.etree import ElementTree

import pytest

from verification.console.charts import (
    Part,
    change_of,
    draw_bars,
    draw_lines,
    draw_ranges,
    draw_spark,
    round_up,
    short_number,
)
from verification.figures.summary import Duration

WORDS = ("Reports", "Rises from 1 to 3")
LABELS = ["1 Nov", "2 Nov", "3 Nov"]


def numbers(drawn: str, name: str) -> list[float]:
    found = re.findall(rf' {name}="([\d.]+)%?"', drawn)
    return [float(number) for number in found]


def tips(drawn: str) -> list[str]:
    return re.findall(r'<svg class="day"[^>]*><title>(.*?)</title>', drawn)


def written(drawn: str) -> list[str]:
    return re.findall(r'<text class="label".*?>(.*?)</text>', drawn)


def test_bar_says_its_parts_and_the_highest_is_written():
    parts = [Part("Ready", [1, 0, 2], "f1"), Part("Failed", [0, 0, 1], "f3")]
    drawn = draw_bars("c", WORDS, LABELS, parts)

    assert tips(drawn) == [
        "1 Nov: 1 (Ready 1)",
        "2 Nov: 0",
        "3 Nov: 3 (Ready 2, Failed 1)",
    ]
    assert written(drawn) == ["3"]
    ElementTree.fromstring(drawn)  # noqa: S314


def test_phone_shows_fewer_dates_with_the_first_and_the_last():
    labels = [f"{day} Nov" for day in range(1, 10)]
    drawn = draw_bars("c", WORDS, labels, [Part("Ready", [1] * 9)])

    dates = re.findall(r'<text( class="wide-only")? x="[^>]*>([^<]* Nov)<', drawn)
    assert [date for _, date in dates] == ["1 Nov", "3 Nov", "5 Nov", "7 Nov", "9 Nov"]
    assert [date for wide, date in dates if not wide] == ["1 Nov", "5 Nov", "9 Nov"]


@pytest.mark.parametrize("most", [0, 1, 7, 99, 12_345_678.9, 10**12])
def test_bars_stay_in_their_frame(most):
    values = [0.0, most / 3, most]
    drawn = draw_bars("c", WORDS, LABELS, [Part("Spend", values)], height=200)

    assert all(0 <= y <= 200 for y in numbers(drawn, "y"))
    assert all(0 <= x <= 100 for x in numbers(drawn, "x"))
    assert "viewBox" not in drawn
    assert "style" not in drawn


def test_names_are_escaped():
    drawn = draw_bars("c", ("<b>", "&"), ["<i>"], [Part("<u>", [1]), Part("x", [1])])

    assert not {"<b>", "<i>", "<u>"} & set(re.findall("<.>", drawn))
    ElementTree.fromstring(drawn)  # noqa: S314


def test_line_leaves_out_days_without_a_value():
    drawn = draw_lines(
        "c", WORDS, LABELS, [4, None, 2], [None, 8, 8], write="{:.0f} h".format
    )

    assert tips(drawn) == ["1 Nov: 4 h", "3 Nov: 2 h"]
    assert written(drawn) == ["2 h"]
    assert drawn.count('class="curve k1"') == 1
    assert drawn.count("dashed") == 1


@pytest.mark.parametrize(("earlier", "is_below"), [(2, False), (6, True)])
def test_last_value_stands_off_the_earlier_line(earlier, is_below):
    drawn = draw_lines("c", WORDS, LABELS, [4] * 3, [earlier] * 3, write=str)

    [point] = numbers(drawn, "cy")
    [label] = re.findall(r'<text class="label".*? y="([\d.]+)"', drawn)
    assert (float(label) > point) is is_below


def test_line_of_nothing_has_no_point():
    drawn = draw_lines("c", WORDS, LABELS, [None] * 3, [None] * 3, write=str)

    assert "circle" not in drawn
    assert tips(drawn) == []


def test_range_names_its_check_and_times():
    took = Duration(timedelta(seconds=1), timedelta(seconds=30))
    name = "A check with a very long name"
    drawn = draw_ranges("c", WORDS, [(name, took)])

    assert f"<title>{name}: 1 s · 30 s</title>" in drawn
    assert draw_ranges("c", WORDS, []) == ""


def test_phone_shows_fewer_times_on_a_scale_of_many():
    took = Duration(timedelta(seconds=1), timedelta(seconds=15))
    drawn = draw_ranges("c", WORDS, [("KRA PIN", took)])

    times = re.findall(r'<text( class="wide-only")? x="[^0"][^>]*>([^<]*)<', drawn)
    assert [time for _, time in times] == ["1 s", "2 s", "4 s", "8 s", "15 s"]
    assert [time for wide, time in times if not wide] == ["1 s", "4 s", "15 s"]


@pytest.mark.parametrize("values", [[], [1], [0, 0], [None, 3, None]])
def test_spark_needs_a_course(values):
    assert draw_spark(values) == ""
    assert "<path" in draw_spark([1, None, 2])


def test_spend_below_zero_is_drawn_and_said():
    drawn = draw_bars("c", WORDS, LABELS, [Part("Spend", [0, -50, 30], "f1")])

    assert tips(drawn) == ["1 Nov: 0", "2 Nov: -50", "3 Nov: 30"]
    heights = re.search(r'd="M2 (\d+)l.*?cy="(\d+)"', draw_spark([0, -50, 30]))
    assert heights
    assert 3 == int(heights[2]) < int(heights[1]) < 25
    assert "<path" in draw_spark([0, 0, -50, 0])


@pytest.mark.parametrize(
    ("value", "top"),
    [(0, 2), (2, 2), (3, 4), (9, 10), (22, 24), (101, 120), (4_769, 5_000)],
)
def test_scale_ends_at_a_round_number_with_a_round_half(value, top):
    assert round_up(value) == top
    assert (top / 2) % 1 == 0


@pytest.mark.parametrize(
    ("value", "text"),
    [(24, "24"), (5_000, "5,000"), (12_000, "12 k"), (2_500_000, "2.5 M")],
)
def test_scale_shortens_thousands(value, text):
    assert short_number(value) == text


def test_change_is_better_only_where_that_is_certain():
    faster = change_of(3, 4, str, more_is_better=False)
    more = change_of(241, 176, str)
    share = change_of(91.3, 89.2, str, in_points=True, more_is_better=True)

    assert faster
    assert (faster.direction, faster.text, faster.is_better) == (-1, "25 %", True)
    assert more
    assert (more.direction, more.text, more.is_better) == (1, "37 %", None)
    assert share
    assert (share.text, share.is_better) == ("2.1 points", True)


@pytest.mark.parametrize(("now", "before"), [(None, 1), (1, None), (5, 0), (9, -3)])
def test_change_needs_a_value_before(now, before):
    assert change_of(now, before, str) is None
