from datetime import timedelta

import pytest

from webhooks.results import RETRY_DELAYS, next_retry_delay


def waits(failures: int, status: int | None = 500, retry_after: float | None = None):
    return [next_retry_delay(failures, status, retry_after) for _ in range(300)]


@pytest.mark.parametrize(("failures", "seconds"), list(enumerate(RETRY_DELAYS, 1)))
def test_each_wait_is_that_of_the_schedule_give_or_take_a_fifth(
    failures: int, seconds: int
):
    found = waits(failures)
    assert min(found) >= timedelta(seconds=seconds * 0.8)
    assert max(found) <= timedelta(seconds=seconds * 1.2)
    assert max(found) - min(found) > timedelta(seconds=seconds * 0.2)


def test_ten_attempts_take_about_three_days():
    assert (
        timedelta(days=3) < timedelta(seconds=sum(RETRY_DELAYS)) < timedelta(days=3.5)
    )


def test_there_is_no_eleventh_attempt():
    assert next_retry_delay(10, 500, None) is None


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("failures", "asked", "waited"),
    [(1, 60, 60), (1, 3_600, 3_600), (1, 90_000, 3_600), (9, 200_000, 172_800)],
)
def test_retry_after_makes_it_longer_within_bounds(
    status: int, failures: int, asked: int, waited: int
):
    assert set(waits(failures, status, asked)) == {timedelta(seconds=waited)}


def test_retry_after_never_makes_it_shorter():
    assert min(waits(2, 429, 1)) >= timedelta(seconds=240)


@pytest.mark.parametrize("status", [200, 400, 500, 502, None])
def test_retry_after_counts_on_429_and_503_alone(status: int | None):
    assert max(waits(1, status, 600)) <= timedelta(seconds=6)
