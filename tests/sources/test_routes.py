from datetime import timedelta

import pytest
from django.db import IntegrityError
from django.utils.timezone import now

from tests.checks.engine import only_result, paid, work_until_done
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


def test_the_first_that_answers_is_the_only_one_asked(paying_api, two):
    paying_api.create(*orders(1))

    paying_api.work()

    assert (len(two.first.asked), len(two.second.asked)) == (1, 0)
    assert calls() == [("first", "ANSWERED")]
    call = Call.objects.get()
    assert call.reference == two.first.asked[0]["reference"]
    assert (call.passed_over, call.why) == ([], "")
    assert call.begun_at <= call.ended_at


@pytest.mark.parametrize("failing", [DOWN, NOT_UNDERSTOOD])
def test_the_next_source_is_asked_at_once_where_one_does_not_answer(
    paying_api, two, failing
):
    ordered = paying_api.create(*orders(1))
    two.first.answers(failing)

    paying_api.work()

    assert paying_api.report(ordered["id"])["status"] == "READY"
    assert calls() == [("first", "UNAVAILABLE"), ("second", "ANSWERED")]
    why = "ACME_DOWN" if failing == DOWN else "SOURCE_ERROR"
    assert Call.objects.get(source="first").why == why
    assert only_result().tries == 0


@pytest.mark.parametrize("answer", [CLEAR, REFUSED, (200, {"score": 90})])
def test_no_other_source_is_asked_where_one_has_answered(paying_api, two, answer):
    paying_api.create(*orders(1))
    two.first.answers(answer)

    work_until_done(paying_api)

    assert two.second.asked == []


def test_all_are_asked_in_each_round_until_the_policy_is_used_up(paying_api, two):
    paying_api.create(*orders(1))
    two.first.answers(DOWN)
    two.second.answers(DOWN)

    work_until_done(paying_api)

    assert only_result().failure_code == "ACME_DOWN"
    assert (len(two.first.asked), len(two.second.asked)) == (5, 5)
    assert paid() == {"CHARGE": -50, "REVERSAL": 50}


def test_a_source_that_rests_is_passed_over_and_it_is_said_why(paying_api, two):
    rests("first")
    paying_api.create(*orders(1))

    paying_api.work()

    assert two.first.asked == []
    assert calls() == [("second", "ANSWERED")]
    assert Call.objects.get().passed_over == [["first", "RESTING"]]


def test_a_source_that_is_not_configured_is_passed_over(paying_api, two):
    two.routed("nobody", "second")
    paying_api.create(*orders(1))

    paying_api.work()

    assert calls() == [("second", "ANSWERED")]
    assert Call.objects.get().passed_over == [["nobody", "NOT_CONFIGURED"]]


def test_where_all_rest_the_check_waits_for_the_first_to_be_tried(paying_api, two):
    rests("first", 40)
    rests("second", 90)
    paying_api.create(*orders(1))

    paying_api.work()

    assert two.first.asked == two.second.asked == []
    assert calls() == [("first", "NOT_ASKED")]
    result = only_result()
    assert result.tries == 1
    assert 39 < (result.next_attempt_at - now()).total_seconds() < 46


def test_who_has_the_inquiry_is_asked_for_its_answer(paying_api, two):
    two.routed("second", "first")
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


def test_a_check_has_one_call_under_way(paying_api, two):
    paying_api.create(*orders(1))
    made = {"attempt": 1, "tries": 0, "reference": "r", "result": only_result()}
    Call.objects.create(source="first", **made)

    with pytest.raises(IntegrityError, match="a_check_has_one_call_under_way"):
        Call.objects.create(source="second", **made)


def test_the_sandbox_makes_no_calls_and_holds_no_source(api, two):
    api.create(*orders(3))

    api.work()

    assert CheckResult.objects.filter(status="COMPLETED").count() == 3
    assert not Call.objects.exists()
    assert not Source.objects.exists()


@pytest.fixture
def agreed(paying_api, two):
    """A subject who was shown the first source alone, and agreed."""
    two.routed("first")
    visitor = asking(paying_api)(**CHECK)
    visitor.enter()
    assert "To: first." in visible_text(visitor.text())
    visitor.grant()
    return visitor


def test_a_check_asks_only_sources_that_the_subject_was_shown(paying_api, two, agreed):
    two.first.answers(DOWN)
    two.routed("second", "first")

    work_until_done(paying_api)

    assert {source for source, _ in calls()} == {"first"}
    assert Consent.objects.get().shown_sources == {"IDENTITY": ["first"]}
    evidence = ConsentRecord.objects.get().evidence
    assert evidence["sources"] == {"IDENTITY": ["first"]}
    assert "To: first." in evidence["text"]


def test_a_check_fails_when_no_source_is_left_that_was_shown(paying_api, two, agreed):
    two.routed("second")

    paying_api.work()

    assert calls() == []
    result = only_result()
    assert (result.status, result.failure_code) == ("FAILED", "SOURCE_NOT_CONSENTED")
    report = paying_api.report(agreed.report_id)
    (told,) = report["checkResults"]
    assert told["failure"]["retryable"] is False
    assert "Order a new report" in told["failure"]["message"]
    assert paid() == {"CHARGE": -50, "REVERSAL": 50}


def test_a_route_that_changed_since_the_page_was_read_is_shown_first(paying_api, two):
    two.routed("first")
    visitor = asking(paying_api)(**CHECK)
    visitor.enter()
    form = visitor.form()
    two.routed("first", "second")

    answer = visitor.post("grant", **form)

    assert answer["Location"].endswith("?changed")
    assert Consent.objects.get().status == "PENDING"


def test_an_attested_consent_leaves_the_route_as_it_is(paying_api, two):
    two.routed("first")
    paying_api.create(*orders(1))
    two.routed("second")

    paying_api.work()

    assert calls() == [("second", "ANSWERED")]


def test_a_check_definition_lists_who_receives_details(paying_api, two):
    found = paying_api.get("/checks/definitions/IDENTITY").json()["recipients"]

    assert found == [
        {"name": "first", "country": None},
        {"name": "second", "country": None},
    ]
