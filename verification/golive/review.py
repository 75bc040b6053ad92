"""The data of the review page, read in a bounded number of queries."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from verification.checks.models import CheckResult, ResultStatus
from verification.golive.company_report import CHECK
from verification.golive.models import Application, Document
from verification.reports.models import Report
from verification.values.masking import mask
from workspaces.models import ApiKey, Member

LABELS = {
    "tradingName": "Trading name",
    "registrationNumber": "Registration number",
    "kraPin": "KRA PIN",
    "country": "Country",
    "address": "Address",
    "contactName": "Contact",
    "contactEmail": "Contact's e-mail",
    "contactPhone": "Contact's phone",
    "publicContact": "Contact for people",
    "volume": "Reports a month",
    "purpose": "Purpose",
}
# Shown without a reveal: not personal.
PUBLIC_DETAILS = {"tradingName", "publicContact", "country", "volume", "purpose"}
FINDING_LABELS = {
    "registeredName": "Registered name",
    "registrationNumber": "Registration number",
    "companyStatus": "Status",
    "companyType": "Kind",
    "incorporatedOn": "Incorporated on",
    "registeredAddress": "Address",
    "directors": "Directors",
    "shareholders": "Shareholders",
    "nameMatch": "Name agrees",
}
# Shown without a reveal: public in the register.
PUBLIC_FINDINGS = {
    "registeredName",
    "companyStatus",
    "companyType",
    "incorporatedOn",
    "nameMatch",
}
MAX_ROWS = 50


@dataclass
class Review:
    application: Application
    details: list[tuple[str, Any]]
    documents: list[Document]
    result: CheckResult | None
    findings: list[tuple[str, Any]]
    members: list[tuple[Member, Any]]
    earlier: list[Application]
    keys: int
    reports: list[Report]
    moments: list[tuple[datetime, str, str]]


def review_of(application: Any) -> Review:
    """Collect the review. Personal data is masked unless `application.is_revealed`."""
    workspace, is_open = application.workspace, application.is_revealed
    result = _result(application)
    finding = (result and result.finding) or {}
    members = workspace.members.select_related("user").order_by("created_at", "id")
    earlier = workspace.applications.exclude(pk=application.pk).order_by("-id")
    reports = Report.objects.filter(workspace=workspace).order_by("-created_at", "-id")
    return Review(
        application,
        _rows(application.details, LABELS, PUBLIC_DETAILS, is_open=is_open),
        list(application.documents.order_by("id")),
        result,
        _rows(
            finding.get("details") or {},
            FINDING_LABELS,
            PUBLIC_FINDINGS,
            is_open=is_open,
        ),
        [(m, _email(m.user.email, is_open=is_open)) for m in members[:MAX_ROWS]],
        list(earlier.defer("details")[:MAX_ROWS]),
        ApiKey.objects.filter(workspace=workspace).count(),
        list(reports.defer("subject")[:5]),
        _timeline(application),
    )


def is_running(result: CheckResult | None) -> bool:
    return bool(
        result and result.status in {ResultStatus.PENDING, ResultStatus.RUNNING}
    )


def _result(application: Application) -> CheckResult | None:
    if application.report_id is None:
        return None
    results = CheckResult.objects.select_related("report")
    return results.filter(report=application.report_id, name=CHECK).first()


def _rows(
    values: dict[str, Any], labels: dict[str, str], public: set[str], *, is_open: bool
) -> list[tuple[str, Any]]:
    shown = {
        name: values[name] if is_open or name in public else mask(values[name], name)
        for name in labels
        if values.get(name) not in (None, "", [])
    }
    return [(labels[name], _text(value)) for name, value in shown.items()]


def _text(value: Any) -> Any:
    """Return a value of a finding as text; lists are joined."""
    if isinstance(value, dict):
        return ", ".join(str(each) for each in value.values() if each is not None)
    if isinstance(value, list):
        return "; ".join(str(_text(each)) for each in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value


def _email(address: str, *, is_open: bool) -> Any:
    return address if is_open else mask(address, "email")


def _timeline(application: Application) -> list[tuple[datetime, str, str]]:
    moments = [
        (application.created_at, "Begun", ""),
        (application.submitted_at, "Submitted", _name(application.submitted_by)),
        (application.taken_at, "Taken", _name(application.taken_by)),
        (
            application.decided_at,
            application.get_status_display(),
            _name(application.decided_by),
        ),
    ]
    return [(at, what, by) for at, what, by in moments if at is not None]


def _name(user: Any) -> str:
    if user is None:
        return ""
    # User names of members are random.
    return user.get_username() if user.is_staff else user.get_full_name() or "a member"
