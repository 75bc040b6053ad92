"""What reports of each status show and are found by, and the verbs that refuse them."""

from typing import Any

import pytest

from tests.reports.test_cancel import CANCELLED
from tests.reports.test_events import event_names
from tests.reports.test_retry import RETRYABLE
from tests.world.clients import Api, create_lender
from tests.world.orders import STATUSES, count_rows, create_report_with_status
from verification.api.report_shapes import (
    CheckResultBody,
    ConsentState,
    PaymentState,
    ReportBody,
    SubjectBody,
)
from verification.reports.models import Report
from workspaces.models import Workspace


@pytest.fixture(scope="module")
def reports(module_transaction: None) -> dict[str, str]:
    """A report of each status, by the status, for all tests of this file."""
    api = Api(create_lender(), "sandbox")
    # The running one last: bringing the others where they are would end it.
    last_running = sorted(STATUSES, key=lambda status: status == "RUNNING")
    return {status: create_report_with_status(api, status) for status in last_running}


@pytest.fixture
def workspace(reports: dict[str, str], db: None) -> Workspace:
    return Workspace.objects.get(reports=reports["READY"])


def rows() -> list[dict[str, Any]]:
    return list(Report.objects.order_by("pk").values())


@pytest.mark.parametrize(
    ("verb", "body", "taken", "code"),
    [
        ("launch", None, {"DRAFT"}, "report-not-launchable"),
        ("draft", {"purpose": "Other"}, {"DRAFT"}, "report-not-editable"),
        ("cancel", None, set(CANCELLED), "report-not-cancellable"),
        ("retry", None, set(RETRYABLE), "report-not-retryable"),
    ],
)
def test_verb_refuses_a_report_of_another_status(
    api: Api, reports, verb: str, body: Any, taken: set[str], code: str
):
    before = rows(), count_rows()

    for status in set(STATUSES) - taken:
        problem = api.refused(f"/reports/{reports[status]}/{verb}", body)

        assert (problem["status"], problem["code"]) == (409, code), status
        assert problem["reportStatus"] == status.split()[0], status
        reasons = ["NOT_A_DRAFT"] if verb == "launch" else None
        assert problem.get("reasons") == reasons, status
    assert (rows(), count_rows()) == before


def test_list_filters_by_each_status(api: Api, reports):
    for status in {name.split()[0] for name in STATUSES}:
        listed = api.get("/reports", status=status).json()["content"]

        expected = {r for name, r in reports.items() if name.split()[0] == status}
        assert {report["id"] for report in listed} == expected


def test_report_has_all_members_in_every_status(api: Api, reports):
    for status in STATUSES:
        report = api.report(reports[status])

        assert set(report) == members(ReportBody), status
        assert set(report["subject"]) == members(SubjectBody) | (
            {"kraPin"} if "PARTIAL" in status else set()
        )
        assert set(report["consentState"]) == members(ConsentState), status
        assert set(report["paymentState"]) == members(PaymentState), status
        for result in report["checkResults"]:
            assert set(result) == members(CheckResultBody)
        assert bool(report["completedAt"]) == (
            status in {"PARTIAL ended", "READY", "FAILED", "CANCELLED"}
        )


def members(shape: Any) -> set[str]:
    return {field.alias for field in shape.model_fields.values()}


CREATED, ENDED = ("created", "key"), ("check ended", "engine")
STORIES = {
    "DRAFT": [(None, "DRAFT", *CREATED)],
    "PENDING_CONSENT": [(None, "PENDING_CONSENT", *CREATED)],
    "PENDING_PAYMENT": [(None, "PENDING_PAYMENT", *CREATED)],
    "RUNNING": [(None, "RUNNING", *CREATED)],
    "PARTIAL on the way": [
        (None, "RUNNING", *CREATED),
        ("RUNNING", "PARTIAL", *ENDED),
    ],
    "PARTIAL ended": [(None, "RUNNING", *CREATED), ("RUNNING", "PARTIAL", *ENDED)],
    "READY": [(None, "RUNNING", *CREATED), ("RUNNING", "READY", *ENDED)],
    "FAILED": [(None, "RUNNING", *CREATED), ("RUNNING", "FAILED", *ENDED)],
    "CANCELLED": [
        (None, "RUNNING", *CREATED),
        ("RUNNING", "CANCELLED", "cancelled", "key"),
    ],
}
MEMBERS = {"id", "from", "to", "trigger", "actor", "createdAt"}


def test_timeline_has_each_move_with_trigger_and_actor(api: Api, reports):
    for status, story in STORIES.items():
        moves = api.get(f"/reports/{reports[status]}/events").json()["events"]

        assert [
            (m["from"], m["to"], m["trigger"], m["actor"].split()[0]) for m in moves
        ] == story
        assert all(set(move) == MEMBERS for move in moves), status


COMPLETED, FAILED = "check.completed", "check.failed"
EVENTS = {
    "DRAFT": [],
    "PENDING_CONSENT": [],
    "PENDING_PAYMENT": [],
    "PARTIAL on the way": [COMPLETED],
    "PARTIAL ended": [FAILED, COMPLETED, "report.failed"],
    "READY": [COMPLETED, COMPLETED, "report.ready"],
    "FAILED": [FAILED, FAILED, "report.failed"],
    "CANCELLED": [],
}


def test_each_event_is_recorded_once(api: Api, reports):
    for _ in range(2):
        for status, events in EVENTS.items():
            assert event_names(reports[status]) == ["report.created", *events], status
        api.work()
