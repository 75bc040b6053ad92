import pytest

from tests.checks.engine import FAILED, definitions, found
from tests.world.clients import person
from verification.checks.due_checks import claim
from verification.checks.models import CheckResult
from verification.checks.results import Cancelled, Retry, record_outcomes
from verification.reports.models import RiskLevel
from webhooks.models import Event


@pytest.fixture
def ordered(api):
    """A report of three checks; none has begun."""
    return api.create(person())["id"]


@pytest.fixture
def end(api, ordered):
    """End checks, by their position, and read the report."""

    def end(**outcomes):
        claims = {claimed.name: claimed for claimed in claim(10)}
        record_outcomes(
            [(claims[n], outcome) for n, outcome in outcomes.items()], definitions()
        )
        waiting = CheckResult.objects.filter(next_attempt_at__isnull=False)
        waiting.update(next_attempt_at="2026-01-01T00:00:00Z")
        return api.report(ordered)

    return end


def moves(api, report_id):
    timeline = api.get(f"/reports/{report_id}/events").json()["events"]
    return [move["to"] for move in timeline]


def ends():
    """The events that say that a report has ended."""
    names = ["report.ready", "report.failed"]
    return list(Event.objects.filter(name__in=names).order_by("created_at"))


def test_report_is_ready_when_all_checks_completed(api, ordered, end):
    report = end(IDENTITY=found(1), KRA_PIN=found(2), CRB_SCORE=found(3))

    assert report["status"] == "READY"
    assert report["completedAt"]
    assert report["failure"] is None
    assert moves(api, ordered) == ["RUNNING", "READY"]
    assert [event.name for event in ends()] == ["report.ready"]


def test_report_is_partial_while_checks_run(api, ordered, end):
    report = end(KRA_PIN=found(2))

    assert report["status"] == "PARTIAL"
    assert report["completedAt"] is None
    assert ends() == []
    assert moves(api, ordered) == ["RUNNING", "PARTIAL"]


def test_waiting_check_does_not_move_the_report(api, ordered, end):
    at = CheckResult.objects.first().created_at

    report = end(IDENTITY=Retry(at, tries=1))

    assert report["status"] == "RUNNING"
    assert moves(api, ordered) == ["RUNNING"]


def test_report_fails_when_no_check_completed(api, ordered, end):
    report = end(IDENTITY=FAILED, KRA_PIN=FAILED, CRB_SCORE=FAILED)

    assert report["status"] == "FAILED"
    assert report["completedAt"]
    assert report["failure"]["code"] == "CHECKS_FAILED"
    assert (report["riskScore"], report["riskLevel"]) == (None, "UNKNOWN")
    (event,) = ends()
    assert event.name == "report.failed"
    assert event.payload["failure"]["code"] == "CHECKS_FAILED"
    assert event.payload["report"]["status"] == "FAILED"


@pytest.mark.parametrize("other", [FAILED, Cancelled()], ids=["failed", "cancelled"])
def test_report_ends_partial_when_some_checks_failed(api, ordered, end, other):
    report = end(IDENTITY=found(1), KRA_PIN=other, CRB_SCORE=found(3))

    assert report["status"] == "PARTIAL"
    assert report["completedAt"]
    assert "1 of 3" in report["failure"]["message"]
    (event,) = ends()
    assert event.name == "report.failed"
    assert event.payload["report"]["status"] == "PARTIAL"


def test_report_ends_partial_after_it_was_partial(api, ordered, end):
    report = end(KRA_PIN=FAILED)
    assert (report["status"], report["failure"]) == ("PARTIAL", None)
    end(IDENTITY=found(1))
    report = end(CRB_SCORE=found(3))

    assert report["completedAt"]
    assert moves(api, ordered) == ["RUNNING", "PARTIAL", "PARTIAL"]
    assert len(ends()) == 1


def test_report_is_ready_when_its_retry_completes(api, ordered, end):
    end(IDENTITY=found(1), KRA_PIN=FAILED, CRB_SCORE=found(3))
    api.post(f"/reports/{ordered}/retry")
    assert api.report(ordered)["completedAt"] is None

    report = end(KRA_PIN=found(90))

    assert report["status"] == "READY"
    assert report["failure"] is None
    assert report["riskScore"] == 90
    assert moves(api, ordered) == ["RUNNING", "PARTIAL", "PARTIAL", "READY"]
    assert [event.name for event in ends()] == ["report.failed", "report.ready"]


def test_report_ends_again_when_its_retry_fails(api, ordered, end):
    end(IDENTITY=FAILED, KRA_PIN=FAILED, CRB_SCORE=FAILED)
    api.post(f"/reports/{ordered}/retry")
    assert api.report(ordered)["status"] == "RUNNING"

    report = end(IDENTITY=FAILED, KRA_PIN=FAILED, CRB_SCORE=FAILED)

    assert report["status"] == "FAILED"
    assert [event.name for event in ends()] == ["report.failed", "report.failed"]


LEVELS = {0: "LOW", 29: "LOW", 30: "MEDIUM", 69: "MEDIUM", 70: "HIGH", 100: "HIGH"}


def test_risk_level_follows_from_the_score():
    assert {score: RiskLevel.of(score) for score in LEVELS} == LEVELS


def test_worst_finding_decides_the_score(end):
    report = end(IDENTITY=found(None), KRA_PIN=found(71), CRB_SCORE=found(30))

    assert (report["riskScore"], report["riskLevel"]) == (71, "HIGH")
    levels = [result["riskLevel"] for result in report["checkResults"]]
    assert levels == ["UNKNOWN", "HIGH", "MEDIUM"]


def test_report_without_a_score_has_an_unknown_level(end):
    report = end(IDENTITY=found(None), KRA_PIN=found(None), CRB_SCORE=found(None))

    assert (report["riskScore"], report["riskLevel"]) == (None, "UNKNOWN")


def test_score_rises_while_checks_end(end):
    assert end(IDENTITY=found(0))["riskScore"] == 0
    assert end(KRA_PIN=found(45))["riskScore"] == 45
    assert end(CRB_SCORE=found(10))["riskScore"] == 45


def test_last_event_lists_the_status_of_every_check(api, ordered, end):
    end(IDENTITY=found(5), KRA_PIN=FAILED, CRB_SCORE=found(30))

    (event,) = ends()
    stack = event.payload["report"]["checkStack"]
    assert [(check["checkName"], check["status"]) for check in stack] == [
        ("IDENTITY", "COMPLETED"),
        ("KRA_PIN", "FAILED"),
        ("CRB_SCORE", "COMPLETED"),
    ]
    assert event.payload["riskScore"] == 30
