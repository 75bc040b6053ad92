"""The gate of `make check` finds each kind of change that breaks clients."""

import copy
from collections.abc import Callable
from typing import Any

from tests.api.compatibility import broken, corrected, findings
from verification.api.docs import document

Json = dict[str, Any]
CREATE, LIST = ("/api/v1/reports", "post"), ("/api/v1/reports", "get")


def operation(whole: Json, key: tuple[str, str]) -> Json:
    path, method = key
    found: Json = whole["paths"][path][method]
    return found


def schema(whole: Json, name: str) -> Json:
    found: Json = whole["components"]["schemas"][name]
    return found


def remove(whole: Json, *steps: Any) -> None:
    for step in steps[:-1]:
        whole = whole[step]
    del whole[steps[-1]]


def members(whole: Json, name: str) -> Json:
    found: Json = schema(whole, name)["properties"]
    return found


BREAKING: list[tuple[str, Callable[[Json], Any]]] = [
    ("getTimeline: removed (GET /api/v1/reports/{reportId}/events)",
     lambda d: remove(d, "paths", "/api/v1/reports/{reportId}/events")),
    ("listReports: renamed to reports",
     lambda d: operation(d, LIST).update(operationId="reports")),
    ("listReports: another key or scope is needed",
     lambda d: operation(d, LIST).update(security=[{"Bearer": ["audit:read"]}])),
    ("listReports: removed parameter from",
     lambda d: operation(d, LIST)["parameters"].pop(0)),
    ("createReports: no longer answers 201",
     lambda d: remove(operation(d, CREATE), "responses", "201")),
    ("createReports: new answer 202",
     lambda d: operation(d, CREATE)["responses"].update({"202": {}})),
    ("launchReport: a body is now required",
     lambda d: operation(d, ("/api/v1/reports/{reportId}/launch", "post")).update(
         requestBody={"required": True, "content": {}})),
    ("insufficient-balance: status 409 in place of 402",
     lambda d: d["components"]["examples"]["insufficient-balance"]["value"].update(
         status=409)),
    ("createReports.reports[].purpose: smaller maxLength",
     lambda d: members(d, "ReportItem")["purpose"].update(maxLength=400)),
    ("createReports.reports[].reference: removed",
     lambda d: remove(members(d, "ReportItem"), "reference")),
    ("createReports.reports[].payer: now required",
     lambda d: schema(d, "ReportItem")["required"].append("payer")),
    ("createReports.reports[].payer: no longer null",
     lambda d: members(d, "ReportItem")["payer"]["anyOf"].pop()),
    ("createReports.reports[].paymentMode: no longer CANDIDATE",
     lambda d: schema(d, "PaymentMode")["enum"].remove("CANDIDATE")),
    ("exportReports 200.paymentState.paidAt: removed",
     lambda d: remove(members(d, "PaymentState"), "paidAt")),
    ("report.ready: removed event", lambda d: remove(d, "webhooks", "report.ready")),
    ("report.failed.data.failure.code: may be integer",
     lambda d: members(d, "Failure")["code"].update(type="integer")),
]  # fmt: skip
# Of members that those remove or change
MORE_BREAKING: list[tuple[str, Callable[[Json], Any]]] = [
    ("listReports: parameter from is now required",
     lambda d: operation(d, LIST)["parameters"][0].update(required=True)),
    ("createReports 201.reports[].id: may be null",
     lambda d: members(d, "CreatedReport")["id"].update(type=["string", "null"])),
    ("createReports 201.reports[].id: another format",
     lambda d: members(d, "CreatedReport")["id"].pop("format")),
    ("createReports 201.reports[].status: may be missing",
     lambda d: schema(d, "CreatedReport")["required"].remove("status")),
]  # fmt: skip
COMPATIBLE: list[Callable[[Json], Any]] = [
    lambda d: d["paths"].update({"/api/v1/new": {}}),
    lambda d: members(d, "ReportItem").update(new={"type": "string"}),
    lambda d: members(d, "Report").update(new={"type": "string"}),
    lambda d: members(d, "ReportItem")["purpose"].update(maxLength=900),
    lambda d: schema(d, "ReportStatus")["enum"].append("NEW"),
    lambda d: schema(d, "CheckName")["enum"].append("NEW"),
    lambda d: schema(d, "ReportStatus").update(description="Said otherwise."),
    lambda d: operation(d, CREATE)["responses"].pop("402"),
]


def test_breaking_changes_are_named():
    for changes in (BREAKING, MORE_BREAKING):
        changed = copy.deepcopy(document())
        for _, change in changes:
            change(changed)

        found = broken(document(), changed)
        assert [finding for finding, _ in changes if finding not in found] == []


def test_compatible_changes_are_allowed():
    changed = copy.deepcopy(document())
    for change in COMPATIBLE:
        change(changed)

    assert broken(document(), changed) == []


def test_present_document_keeps_what_released_ones_promise():
    found = {finding for _, finding in findings(document())}

    assert found == corrected()


def test_next_major_version_may_break_clients():
    changed = copy.deepcopy(document())
    remove(changed, "paths", "/api/v1/reports")
    changed["info"]["version"] = "2.0.0"

    assert list(findings(changed)) == []
