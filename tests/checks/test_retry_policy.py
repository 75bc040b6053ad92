from dataclasses import replace
from datetime import timedelta
from typing import ClassVar

import pytest
from django.utils.timezone import now

from tests.checks.engine import ledger_totals, only_result, work_until_done
from tests.checks.source import CLEAR, DOWN
from tests.world.clients import person
from tests.world.clock import let_time_pass
from verification.checks.due_checks import claim
from verification.checks.engine import MIN_POLL_INTERVAL, call_provider
from verification.checks.models import CheckDefinition, CheckResult
from verification.checks.results import Failed, Retry
from verification.providers.base import Unavailable
from verification.reports.models import Report

POLICY = {
    "maxAttempts": 5,
    "initialDelaySeconds": 2,
    "backoffMultiplier": 3,
    "maxDelaySeconds": 30,
}
REFUSED = (422, {})
NOT_UNDERSTOOD = (500, {})


@pytest.fixture
def ordered(paying_api, source):
    """A live report of one check that costs 50, not begun."""
    return paying_api.create(person() | {"checksRequested": ["IDENTITY"]})


def result_of(api, ordered):
    (result,) = api.report(ordered["id"])["checkResults"]
    return result


class Down:
    name = "down"
    waits_on_network = False
    not_told: ClassVar[dict[str, tuple[str, ...]]] = {}

    def ask(self, inquiry):
        raise Unavailable("ACME_DOWN", "Acme is down.")


def test_engine_retries_until_the_source_answers(paying_api, source, ordered):
    source.answers(DOWN, DOWN, CLEAR)

    work_until_done(paying_api)

    assert paying_api.report(ordered["id"])["status"] == "READY"
    references = [asked["reference"] for asked in source.asked]
    assert references == [f"{only_result().pk}-1"] * 3
    assert ledger_totals() == {"CHARGE": -50}


def test_check_fails_with_the_message_of_the_source(paying_api, source, ordered):
    CheckDefinition.objects.update(retry_policy=POLICY | {"maxAttempts": 2})
    source.answers(DOWN)

    work_until_done(paying_api)

    assert len(source.asked) == 2
    assert result_of(paying_api, ordered)["failure"] == {
        "code": "ACME_DOWN",
        "message": "Acme is down.",
        "retryable": True,
    }
    assert ledger_totals() == {"CHARGE": -50, "REVERSAL": 50}


def test_retry_by_the_client_has_all_tries_again(paying_api, source, ordered):
    CheckDefinition.objects.update(retry_policy=POLICY | {"maxAttempts": 2})
    source.answers(*[DOWN] * 3, CLEAR)
    work_until_done(paying_api)

    paying_api.post(f"/reports/{ordered['id']}/retry")
    work_until_done(paying_api)

    assert paying_api.report(ordered["id"])["status"] == "READY"
    result = only_result().pk
    references = [asked["reference"] for asked in source.asked]
    assert references == [f"{result}-1"] * 2 + [f"{result}-2"] * 2


def test_refusal_fails_the_check_at_once(paying_api, source, ordered):
    source.answers(REFUSED)

    paying_api.work()

    assert len(source.asked) == 1
    failure = result_of(paying_api, ordered)["failure"]
    assert (failure["code"], failure["retryable"]) == ("ACME_REFUSED", False)
    assert ledger_totals() == {"CHARGE": -50, "REVERSAL": 50}


@pytest.mark.parametrize(
    ("tries", "longest"), [(0, 2), (1, 6), (2, 18), (3, 30)], ids=str
)
def test_pause_lies_between_zero_and_the_delay_of_the_policy(ordered, tries, longest):
    (claimed,) = claim(1)
    claimed = replace(claimed, tries=tries)

    pauses = []
    for _ in range(300):
        asked_at = now()
        _, outcome = call_provider(Down(), claimed, POLICY)
        assert isinstance(outcome, Retry)
        assert outcome.tries == tries + 1
        pauses.append((outcome.at - asked_at).total_seconds())

    assert 0 <= min(pauses) < 0.1 * longest
    assert 0.9 * longest < max(pauses) <= longest + 0.05


def test_last_try_has_no_pause(ordered):
    (claimed,) = claim(1)

    _, outcome = call_provider(Down(), replace(claimed, tries=4), POLICY)

    assert outcome == Failed("ACME_DOWN", "Acme is down.", retryable=True)


def test_pending_answer_uses_no_try(paying_api, source, ordered):
    CheckDefinition.objects.update(retry_policy=POLICY | {"maxAttempts": 2})
    at = now() + timedelta(days=3)
    source.answers((202, {"askAt": at.isoformat()}))

    for _ in range(3):
        paying_api.work()
        result = only_result()
        assert (result.next_attempt_at, result.tries) == (at, 0)
        let_time_pass()

    source.answers(CLEAR)
    paying_api.work()
    assert paying_api.report(ordered["id"])["status"] == "READY"


def test_poll_waits_at_least_a_second(paying_api, source, ordered):
    source.answers((202, {"askAt": "2020-01-01T00:00:00Z"}))
    before = now()

    paying_api.work()

    assert len(source.asked) == 1
    assert only_result().next_attempt_at >= before + MIN_POLL_INTERVAL


UNREADABLE = {
    "raises": NOT_UNDERSTOOD,
    "no score": (200, {}),
    "a time of nowhere": (202, {"askAt": "2020-01-01T00:00:00"}),
}


def test_check_fails_when_every_answer_is_unreadable(paying_api, source, ordered):
    CheckDefinition.objects.update(retry_policy=POLICY | {"maxAttempts": 3})
    source.answers(*UNREADABLE.values())

    work_until_done(paying_api)

    failure = result_of(paying_api, ordered)["failure"]
    assert (failure["code"], failure["retryable"]) == ("SOURCE_ERROR", True)
    assert len(source.asked) == len(UNREADABLE)


def test_message_of_an_unexpected_exception_is_not_logged(
    paying_api, source, ordered, log_lines
):
    source.answers(NOT_UNDERSTOOD)

    paying_api.work()

    logged = str(log_lines())
    assert "acme raised ValueError" in logged
    assert "12345678" not in logged


def test_unreadable_subject_does_not_stop_other_reports(paying_api, source, ordered):
    other = paying_api.create(person() | {"checksRequested": ["IDENTITY"]})
    Report.objects.filter(pk=ordered["id"]).update(subject=b"not ours")
    unreadable = CheckResult.objects.get(report=ordered["id"])

    work_until_done(paying_api)

    assert paying_api.report(other["id"])["status"] == "READY"
    unreadable.refresh_from_db()
    assert unreadable.failure_code == "SOURCE_ERROR"
