"""Events are recorded in the transaction that causes them."""

import pytest
from django.db import IntegrityError, connection, transaction

from tests.world.clients import HOSTED, Api, company, person
from tests.world.orders import create_report_with_status, two_checks
from verification.checks.models import CheckDefinition, CheckResult
from verification.reports.models import Report
from webhooks.models import Event
from workspaces.models import Workspace

REPORT = {
    "id",
    "workspaceId",
    "status",
    "createdAt",
    "selfVerification",
    "paymentMode",
    "consentStatus",
    "checksRequested",
    "package",
    "reference",
    "checkStack",
}
CHECK = {
    "id",
    "resultId",
    "definitionId",
    "type",
    "name",
    "displayName",
    "description",
    "category",
    "status",
    "riskLevel",
    "riskScore",
    "summary",
    "flags",
    "details",
    "executedAt",
    "durationMs",
    "reused",
}
ALWAYS = {"workspaceId", "report", "subject", "reportId"}
OF_A_REPORT = ALWAYS | {"riskScore", "riskLevel"}
OF_A_CHECK = OF_A_REPORT | {
    "check",
    "checkId",
    "checkResultId",
    "checkType",
    "checkName",
    "checkDefinitionId",
    "status",
}


def event_names(report_id: str) -> list[str]:
    recorded = Event.objects.filter(report_id=report_id).order_by("created_at", "id")
    return [event.name for event in recorded]


def payload_of(report_id: str, name: str) -> dict:
    return Event.objects.get(report_id=report_id, name=name).payload


COMPLETED, FAILED = "check.completed", "check.failed"
CREATED = "report.created"


def test_launch_of_a_draft_records_no_second_creation(api: Api):
    report = api.create(two_checks(), draft=True)
    api.post(f"/reports/{report['id']}/draft", {"purpose": "Other"})
    api.post(f"/reports/{report['id']}/launch")
    api.work()

    assert event_names(report["id"]) == [CREATED, COMPLETED, COMPLETED, "report.ready"]


def test_each_report_of_an_order_has_its_place_link_and_event(api: Api):
    items = [{**company(fullName=f"Company {n}"), "consent": HOSTED} for n in range(60)]

    reports = api.create(*items)

    assert len({one["consentState"]["consentUrl"] for one in reports}) == 60
    for number in (0, 1, 29, 59):
        report = api.report(reports[number]["id"])
        assert report["subject"]["fullName"] == f"Company {number}"
    created = Event.objects.filter(name=CREATED)
    assert {str(event.report_id) for event in created} == {one["id"] for one in reports}
    for event in created[:3]:
        assert event.payload["reportId"] == str(event.report_id)


def test_payload_of_report_created(api: Api):
    created = api.create({**two_checks(), "consent": HOSTED})

    data = payload_of(created["id"], CREATED)
    report = api.report(created["id"])
    workspace = str(api.workspace.pk)
    assert set(data) == OF_A_REPORT
    assert set(data["report"]) == REPORT
    assert data["reportId"] == data["report"]["id"] == created["id"]
    assert data["workspaceId"] == data["report"]["workspaceId"] == workspace
    assert data["report"]["status"] == "PENDING_CONSENT"
    assert data["report"]["consentStatus"] == "PENDING"
    assert data["report"]["createdAt"] == report["createdAt"]
    assert data["report"]["paymentMode"] == "SELF"
    assert data["report"]["selfVerification"] is False
    assert data["report"]["checksRequested"] == ["IDENTITY", "KRA_PIN"]
    assert data["report"]["checkStack"] == [
        {
            "checkName": result["checkName"],
            "status": "PENDING",
            "checkResultId": result["id"],
        }
        for result in report["checkResults"]
    ]
    subject = Report.objects.get(pk=created["id"]).subject_id
    assert data["subject"] == {"id": str(subject), "type": "INDIVIDUAL"}
    assert (data["riskScore"], data["riskLevel"]) == (None, "UNKNOWN")


def test_report_of_an_individual_is_self_verification(api: Api):
    Workspace.objects.update(kind=Workspace.Kind.INDIVIDUAL)
    report = Api(api.workspace, "sandbox").create(company())

    assert payload_of(report["id"], CREATED)["report"]["selfVerification"] is True
    assert (
        payload_of(report["id"], CREATED)["report"]["consentStatus"] == "NOT_REQUIRED"
    )


def test_payload_of_check_completed(api: Api):
    item = {**person(idNumber="90000003"), "checksRequested": ["IDENTITY"]}
    report = api.create(item)
    api.work()

    data = payload_of(report["id"], COMPLETED)
    check, (result,) = data["check"], api.report(report["id"])["checkResults"]
    definition = CheckDefinition.objects.get(name="IDENTITY")
    assert set(data) == OF_A_CHECK
    assert set(check) == CHECK
    assert check["id"] == check["resultId"] == result["id"]
    assert check["definitionId"] == str(definition.pk)
    assert (check["type"], check["name"]) == ("IDENTITY", "IDENTITY")
    assert check["displayName"] == definition.display_name
    assert check["description"] == definition.description
    assert check["category"] == "IDENTITY"
    assert check["riskScore"] == result["score"]
    assert check["executedAt"] == result["startedAt"]
    for member in ("status", "riskLevel", "summary", "flags", "details", "durationMs"):
        assert check[member] == result[member]
    assert check["reused"] is False
    assert check["flags"]
    flat = {name: data[name] for name in ("status", "riskLevel", "riskScore")}
    assert flat.items() <= check.items()
    assert data["checkId"] == data["checkResultId"] == result["id"]
    assert data["checkType"] == data["checkName"] == "IDENTITY"
    assert data["checkDefinitionId"] == check["definitionId"]


def test_payload_of_check_failed(api: Api):
    item = {**person(idNumber="90000008"), "checksRequested": ["IDENTITY"]}
    report = api.create(item)
    api.work()

    data = payload_of(report["id"], FAILED)
    (result,) = api.report(report["id"])["checkResults"]
    assert set(data) == OF_A_CHECK
    assert set(data["check"]) == CHECK | {"failure"}
    assert data["check"]["failure"] == result["failure"]
    assert data["status"] == data["check"]["status"] == "FAILED"
    assert data["check"]["riskScore"] is None


def test_report_is_processing_while_checks_run(api: Api):
    running = payload_of(create_report_with_status(api, "RUNNING"), CREATED)
    partial = payload_of(
        create_report_with_status(api, "PARTIAL on the way"), COMPLETED
    )

    assert running["report"]["status"] == "PROCESSING"
    assert partial["report"]["status"] == "PROCESSING"
    stack = [check["status"] for check in partial["report"]["checkStack"]]
    assert stack == ["RUNNING", "COMPLETED"]


def test_event_of_a_draft_has_status_draft(api: Api):
    assert (
        payload_of(create_report_with_status(api, "DRAFT"), CREATED)["report"]["status"]
        == "DRAFT"
    )


def test_payload_of_report_ready(api: Api):
    report_id = create_report_with_status(api, "READY")

    data, report = payload_of(report_id, "report.ready"), api.report(report_id)
    assert set(data) == OF_A_REPORT
    assert data["report"]["status"] == "READY"
    assert data["riskScore"] == report["riskScore"]
    assert data["riskLevel"] == report["riskLevel"]
    assert [c["status"] for c in data["report"]["checkStack"]] == ["COMPLETED"] * 2


def test_payload_of_report_failed(api: Api):
    report_id = create_report_with_status(api, "FAILED")

    data, report = payload_of(report_id, "report.failed"), api.report(report_id)
    assert set(data) == OF_A_REPORT | {"failure"}
    assert data["failure"] == report["failure"]
    assert data["report"]["status"] == "FAILED"


def test_second_event_of_a_cause_is_refused(api: Api):
    create_report_with_status(api, "READY")

    for event in Event.objects.all():
        event.pk = None
        once = pytest.raises(IntegrityError, match="one_event_a_cause")
        with once, transaction.atomic():
            Event(
                workspace=event.workspace,
                environment=event.environment,
                name=event.name,
                cause=event.cause,
            ).save(force_insert=True)
    result = CheckResult.objects.first()
    cause = Event.objects.get(name=COMPLETED, cause__startswith=str(result.pk)).cause
    assert cause == f"{result.pk}:1"


def test_event_belongs_to_workspace_and_environment(api: Api, live_api: Api):
    live_api.account.__class__.objects.update(credit_limit=1000)
    for client in (api, live_api):
        report = client.create(company())
        client.work()
        events = Event.objects.filter(report_id=report["id"])
        assert {e.environment for e in events} == {client.environment}
        assert {e.workspace_id for e in events} == {client.workspace.pk}


def test_refused_request_records_no_event(api: Api, live_api: Api):
    api.refused("/reports", {"reports": [{**company(), "purpose": ""}]})
    live_api.refused("/reports", {"reports": [company()]})

    assert not Event.objects.exists()


def test_payload_is_encrypted_in_the_table(api: Api):
    create_report_with_status(api, "READY")

    with connection.cursor() as cursor:
        cursor.execute("SELECT payload FROM webhooks_event")
        payloads = [bytes(payload) for (payload,) in cursor.fetchall()]
    assert payloads
    assert not any(b"Wanjiku" in p or b"reportId" in p for p in payloads)
