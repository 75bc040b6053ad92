from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitoring.models import Cadence, next_run_time

SECONDS = st.integers(946_684_800, 4_102_444_800)
TIMES = SECONDS.map(lambda seconds: datetime.fromtimestamp(seconds, UTC))


def day(text: str) -> datetime:
    return datetime.fromisoformat(f"{text}T09:30:00+00:00")


def times(start: str, cadence: str, count: int) -> list[str]:
    found = [day(start)]
    while len(found) <= count:
        found.append(next_run_time(day(start), cadence, found[-1]))
    return [f"{time:%Y-%m-%d}" for time in found[1:]]


def test_monthly_rule_of_the_31st_runs_on_the_last_day():
    assert times("2028-01-31", "MONTHLY", 4) == [
        "2028-02-29",
        "2028-03-31",
        "2028-04-30",
        "2028-05-31",
    ]
    assert times("2027-01-31", "MONTHLY", 2) == ["2027-02-28", "2027-03-31"]


@pytest.mark.parametrize(
    ("start", "cadence", "expected"),
    [
        ("2027-03-27", "DAILY", ["2027-03-28", "2027-03-29"]),
        ("2027-12-27", "WEEKLY", ["2028-01-03", "2028-01-10"]),
        ("2027-11-30", "QUARTERLY", ["2028-02-29", "2028-05-30"]),
        ("2027-08-31", "SEMI_ANNUALLY", ["2028-02-29", "2028-08-31"]),
        ("2028-02-29", "ANNUALLY", ["2029-02-28", "2030-02-28"]),
    ],
)
def test_each_cadence_counts_whole_periods(start, cadence, expected):
    assert times(start, cadence, 2) == expected


def test_rule_of_a_leap_day_runs_on_it_each_leap_year():
    assert times("2028-02-29", "ANNUALLY", 4)[-1] == "2032-02-29"


def test_times_are_counted_in_utc():
    nairobi = timezone(timedelta(hours=3))
    # This is the first day of the month in Nairobi and the last of January in UTC.
    start = datetime(2028, 2, 1, 1, 30, tzinfo=nairobi)

    found = next_run_time(start, "MONTHLY", start)

    assert found == datetime(2028, 2, 29, 22, 30, tzinfo=UTC)
    assert found.utcoffset() == timedelta(0)


@given(TIMES, TIMES, st.sampled_from(list(Cadence)))
def test_next_time_is_the_first_after_the_moment(start, after, cadence):
    found = next_run_time(start, cadence, after)

    assert found > max(start, after)
    before = next_run_time(start, cadence, max(start, found - timedelta(days=367)))
    while (following := next_run_time(start, cadence, before)) < found:
        before = following
    assert before <= max(start, after) or before == found


def test_unknown_cadence_is_an_error():
    with pytest.raises(ValueError, match="HOURLY"):
        next_run_time(day("2028-01-01"), "HOURLY", day("2028-01-01"))
