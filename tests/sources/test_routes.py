from datetime import timedelta

import pytest
from django.db import IntegrityError
from django.utils.timezone import now

from tests.checks.engine import ledger_totals, only_result, work_until_done
from tests.checks.source import CLEAR, DOWN
from tests.hosted.conftest import asking
from tests.sources.two import CHECK, calls, orders
from tests.world.clock import let_time_pass
from tests.world.subject import visible_text
from verification.checks.models import CheckResult
from verification.consents.models import Consent, ConsentRecord
from verification.sources.models import Call, Source

REFUSED = (422, {})
NOT_UNDERSTOOD = (500, {})
TRIPPED = {"failures_in_row": 10, "rests": 1}


def rests(name, seconds=30):
    """This source has tripped the breaker, and rests for so long from now on."""
    until = now() + timedelta(seconds=seconds)
    Source.objects.update_or_create(
        name=name, defaults={**TRIPPED, "resting_until": until}
    )


def test_first_source_that_answers_is_the_only_one_called(paying_api, two):
    paying_api.create(*orders(1))

    paying_api.work()

    assert (len(two.first.asked), len(two.second.asked)) == (1, 0)
    assert calls() == [("first", "ANSWERED")]
    call = Call.objects.get()
    assert call.reference == two.first.asked[0]["reference"]
    assert (call.passed_over, call.why) == ([], "")
    assert call.begun_at <= call.ended_at


@pytest.mark.parametrize("failing", [DOWN, NOT_UNDERSTOOD])
def test_next_source_is_called_at_once_after_no_answer(paying_api, two, failing):
    ordered = paying_api.create(*orders(1))
    two.first.answers(failing)

    paying_api.work()

    assert paying_api.report(ordered["id"])["status"] == "READY"
    assert calls() == [("first", "UNAVAILABLE"), ("second", "ANSWERED")]
    why = "ACME_DOWN" if failing == DOWN else "SOURCE_ERROR"
    assert Call.objects.get(source="first").why == why
    assert only_result().tries == 0


@pytest.mark.parametrize("answer", [REFUSED, (200, {"score": 90})])
def test_answer_calls_no_other_source(paying_api, two, answer):
    paying_api.create(*orders(1))
    two.first.answers(answer)

    work_until_done(paying_api)

    assert two.second.asked == []


def test_each_round_calls_all_sources(paying_api, two):
    paying_api.create(*orders(1))
    two.first.answers(DOWN)
    two.second.answers(DOWN)

    work_until_done(paying_api)

    assert only_result().failure_code == "ACME_DOWN"
    assert (len(two.first.asked), len(two.second.asked)) == (5, 5)
    assert ledger_totals() == {"CHARGE": -50, "REVERSAL": 50}


def test_resting_source_is_skipped_with_its_reason(paying_api, two):
    rests("first")
    paying_api.create(*orders(1))

    paying_api.work()

    assert two.first.asked == []
    assert calls() == [("second", "ANSWERED")]
    assert Call.objects.get().passed_over == [["first", "RESTING"]]


def test_unconfigured_source_is_skipped(paying_api, two):
    two.set_route("nobody", "second")
    paying_api.create(*orders(1))

    paying_api.work()

    assert calls() == [("second", "ANSWERED")]
    assert Call.objects.get().passed_over == [["nobody", "NOT_CONFIGURED"]]


def test_check_waits_for_the_first_probe_when_all_rest(paying_api, two):
    rests("first", 40)
    rests("second", 90)
    paying_api.create(*orders(1))

    paying_api.work()

    assert two.first.asked == two.second.asked == []
    assert calls() == [("first", "NOT_ASKED")]
    result = only_result()
    assert result.tries == 1
    assert 39 < (result.next_attempt_at - now()).total_seconds() < 46


def test_source_with_the_inquiry_is_polled_for_its_answer(paying_api, two):
    two.set_route("second", "first")
    paying_api.create(*orders(1))
    later = (now() + timedelta(seconds=5)).isoformat()
    two.second.answers(DOWN)
    two.first.answers((202, {"askAt": later}), CLEAR)

    paying_api.work()
    two.second.answers(CLEAR)
    let_time_pass()
    paying_api.work()

    assert calls() == [
        ("second", "UNAVAILABLE"),
        ("first", "NOT_YET"),
        ("first", "ANSWERED"),
    ]
    assert len(two.second.asked) == 1


def test_check_has_one_call_under_way(paying_api, two):
    paying_api.create(*orders(1))
    made = {"attempt": 1, "tries": 0, "reference": "r", "result": only_result()}
    Call.objects.create(source="first", **made)

    with pytest.raises(IntegrityError, match="a_check_has_one_call_under_way"):
        Call.objects.create(source="second", **made)


def test_sandbox_writes_no_calls_and_no_sources(api, two):
    api.create(*orders(3))

    api.work()

    assert CheckResult.objects.filter(status="COMPLETED").count() == 3
    assert not Call.objects.exists()
    assert not Source.objects.exists()


@pytest.fixture
def agreed(paying_api, two):
    """A subject who consented to a notice that names the first source only."""
    two.set_route("first")
    visitor = asking(paying_api)(**CHECK)
    visitor.prove()
    assert "To: first." in visible_text(visitor.text())
    visitor.grant()
    return visitor


def test_check_calls_only_sources_of_the_notice(paying_api, two, agreed):
    two.first.answers(DOWN)
    two.set_route("second", "first")

    work_until_done(paying_api)

    assert {source for source, _ in calls()} == {"first"}
    assert Consent.objects.get().shown_sources == {"IDENTITY": ["first"]}
    evidence = ConsentRecord.objects.get().evidence
    assert evidence["sources"] == {"IDENTITY": ["first"]}
    assert "To: first." in evidence["text"]


def test_check_fails_when_no_source_of_the_notice_is_left(paying_api, two, agreed):
    two.set_route("second")

    paying_api.work()

    assert calls() == []
    result = only_result()
    assert (result.status, result.failure_code) == ("FAILED", "SOURCE_NOT_CONSENTED")
    report = paying_api.report(agreed.report_id)
    (told,) = report["checkResults"]
    assert told["failure"]["retryable"] is False
    assert "Order a new report" in told["failure"]["message"]
    assert ledger_totals() == {"CHARGE": -50, "REVERSAL": 50}


def test_changed_route_is_shown_before_the_grant(paying_api, two):
    two.set_route("first")
    visitor = asking(paying_api)(**CHECK)
    visitor.prove()
    form = visitor.form()
    two.set_route("first", "second")

    visitor.post("grant", **form)

    assert "This page has changed" in visitor.text()
    assert Consent.objects.get().status == "PENDING"


def test_attested_consent_keeps_the_route(paying_api, two):
    two.set_route("first")
    paying_api.create(*orders(1))
    two.set_route("second")

    paying_api.work()

    assert calls() == [("second", "ANSWERED")]


def test_check_definition_lists_the_recipients(paying_api, two):
    found = paying_api.get("/checks/definitions/IDENTITY").json()["recipients"]

    assert found == [
        {"name": "first", "country": None},
        {"name": "second", "country": None},
    ]
