"""What can be exported: the rows of a period, their shapes, columns and masks.

Rows are read page by page, each page by a statement of its own, so neither memory nor a
transaction grows with an export.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self, cast
from uuid import UUID

from django.contrib.auth.models import User
from django.db import close_old_connections, connection
from django.db.models import Exists, OuterRef, Q, QuerySet

from monitoring.models import Alert, alerts_of
from verification.api.monitoring import AlertBody
from verification.api.report_shapes import CheckResultBody, DecisionBody
from verification.api.reports import build_body
from verification.backoffice.models import ActorKind, AuditEvent
from verification.checks.models import CheckResult
from verification.db.base import force_custom_plan
from verification.db.ids import first_id_at
from verification.decisions.decide import names_of
from verification.decisions.models import Decision
from verification.privacy.models import Correction
from verification.reports.models import Report
from verification.values.masking import DOTS, mask, mask_email
from verification.values.shapes import Shape, Timestamp
from workspaces.models import Client, Member

PAGE_SIZE = 200
STAFF_NAME = "staff"
# What a masked report and result show of these members
PERSONAL_OF_REPORT = ("purpose", "returnUrl", "consentState.reason")
PERSONAL_OF_RESULT = (
    "summary",
    "details",
    "flags.message",
    "evidence.providerReference",
)
Item = dict[str, Any]


class ExportedResult(CheckResultBody):
    """A check result with its report."""

    report_id: UUID
    reference: str | None
    """The client's own id of the report."""


class AuditEventBody(Shape):
    """One act of a member, a key, our staff or the service in your workspace."""

    id: UUID
    action: str
    actor_kind: ActorKind
    actor: str
    """The member's e-mail address, or the name of one who has left; or the key. Staff
    are not named."""
    object_type: str
    object_id: str
    fields: list[str]
    """Names of the fields that were changed or shown, never their values."""
    reason: str
    request_id: str
    address: str | None
    """The network address of a member."""
    created_at: Timestamp

    @classmethod
    def of(cls, event: AuditEvent, people: Mapping[str, str]) -> Self:
        """`people` says how users are called, by their user names."""
        if event.actor_kind == ActorKind.MEMBER:
            return cls.from_row(event, actor=people.get(event.actor, event.actor))
        if event.actor_kind != ActorKind.STAFF:
            return cls.from_row(event)
        # The operator's own people and their notes are not the client's.
        return cls.from_row(event, actor=STAFF_NAME, reason="", address=None)


@dataclass(frozen=True, slots=True)
class Kind:
    """What can be exported."""

    name: str
    columns: tuple[str, ...]
    """The members in a CSV file. A dot leads into an object, or into each of a list."""
    read: Callable[[Client, datetime, datetime], Iterator[list[Any]]]
    """Yield the rows of the period, in pages."""
    render: Callable[[Client, list[Any]], list[Shape]]
    mask: Callable[[Item], Item]
    disclosed: Callable[[list[Any], list[Shape]], Iterable[UUID]]
    """Return the reports of which a page tells findings."""


def _pages(rows: QuerySet[Any], start: datetime, end: datetime) -> Iterator[list[Any]]:
    """Read rows by the time of their creation, each page after the last row before."""
    ordered = rows.filter(created_at__lt=end).order_by("created_at", "id")
    page = ordered.filter(created_at__gte=start)
    while found := _read(page):
        yield found
        if len(found) < PAGE_SIZE:
            return
        last = found[-1]
        later = Q(created_at__gt=last.created_at) | Q(pk__gt=last.pk)
        page = ordered.filter(later, created_at__gte=last.created_at)


def _pages_by_id(
    rows: QuerySet[Any], start: datetime, end: datetime
) -> Iterator[list[Any]]:
    """Read rows whose index has ids, which hold the time of their creation."""
    ordered = rows.filter(pk__lt=first_id_at(end)).order_by("id")
    page = ordered.filter(pk__gte=first_id_at(start))
    while found := _read(page):
        yield found
        if len(found) < PAGE_SIZE:
            return
        page = ordered.filter(pk__gt=found[-1].pk)


def _read(page: QuerySet[Any]) -> list[Any]:
    # Several threads make the pages, and one may have lost its connection.
    if not connection.in_atomic_block:
        close_old_connections()
    with force_custom_plan():
        return list(page[:PAGE_SIZE])


def _reports_of(client: Client) -> QuerySet[Report]:
    return Report.objects.filter(
        workspace=client.workspace, environment=client.environment
    )


def _read_reports(
    client: Client, start: datetime, end: datetime
) -> Iterator[list[Any]]:
    return _pages(_reports_of(client).select_related("consent", "payment"), start, end)


def _results_of(reports: Sequence[Report]) -> dict[UUID, list[CheckResult]]:
    found: dict[UUID, list[CheckResult]] = defaultdict(list)
    rows = CheckResult.objects.filter(report__in=[report.pk for report in reports])
    for result in rows.order_by("position"):
        found[result.report_id].append(result)
    return found


def _render_reports(client: Client, reports: list[Any]) -> list[Shape]:
    results = _results_of(reports)
    decisions: dict[UUID, list[Decision]] = defaultdict(list)
    made = Decision.objects.select_related("notice")
    for decision in made.filter(report__in=[r.pk for r in reports]):
        decisions[decision.report_id].append(decision)
    corrections: dict[UUID, list[Correction]] = defaultdict(list)
    rows = Correction.objects.filter(report__in=[report.pk for report in reports])
    for correction in rows.select_related("request").order_by("id"):
        corrections[correction.report_id].append(correction)
    return [
        build_body(
            client,
            report,
            results[report.pk],
            corrections[report.pk],
            decisions[report.pk],
        )
        for report in reports
    ]


def _read_results(
    client: Client, start: datetime, end: datetime
) -> Iterator[list[Any]]:
    """Yield the reports of the period, whose results have no index by time."""
    return _pages(_reports_of(client), start, end)


def _render_results(client: Client, reports: list[Any]) -> list[Shape]:
    results = _results_of(reports)
    return [
        ExportedResult.of(result, report, reference=report.reference)
        for report in reports
        for result in results[report.pk]
    ]


def _read_decisions(
    client: Client, start: datetime, end: datetime
) -> Iterator[list[Any]]:
    decisions = Decision.objects.select_related("notice").filter(
        workspace=client.workspace, environment=client.environment
    )
    return _pages_by_id(decisions, start, end)


def _render_decisions(client: Client, decisions: list[Any]) -> list[Shape]:
    names = names_of(decisions)
    return [DecisionBody.of(decision, names) for decision in decisions]


def _read_alerts(client: Client, start: datetime, end: datetime) -> Iterator[list[Any]]:
    return _pages(alerts_of(client), start, end)


def _read_audit_trail(
    client: Client, start: datetime, end: datetime
) -> Iterator[list[Any]]:
    events = AuditEvent.objects.filter(workspace_id=client.workspace.pk)
    return _pages(events, start, end)


def _render_audit_trail(client: Client, events: list[Any]) -> list[Shape]:
    names = {one.actor for one in events if one.actor_kind == ActorKind.MEMBER}
    is_member = Exists(
        Member.objects.filter(user=OuterRef("pk"), workspace=client.workspace)
    )
    users = User.objects.filter(username__in=names).annotate(is_member=is_member)
    # Who has left may have another address since.
    people = {
        user.username: user.email if user.is_member else user.get_full_name()
        for user in users
    }
    known = {name: called for name, called in people.items() if called}
    return [AuditEventBody.of(event, known) for event in events]


def _rated(reports: list[Any], rendered: list[Shape]) -> Iterable[UUID]:
    return [report.pk for report in reports if report.risk_score is not None]


def _with_findings(reports: list[Any], rendered: list[Shape]) -> Iterable[UUID]:
    results = cast(list[ExportedResult], rendered)
    return {one.report_id for one in results if one.details is not None}


def _reports_of_alerts(alerts: list[Any], rendered: list[Shape]) -> Iterable[UUID]:
    return {alert.report_id for alert in cast(list[Alert], alerts)}


def _mask_members(item: Item, paths: Iterable[str]) -> Item:
    """Mask the members at these paths, in place."""
    for path in paths:
        *way, name = path.split(".")
        for holder in members_at(item, way):
            if isinstance(holder, dict) and name in holder:
                holder[name] = mask(holder[name], name)
    return item


def members_at(value: Any, way: Sequence[str]) -> list[Any]:
    """Return what a path leads to, for each entry of the lists on its way."""
    found = [value]
    for name in way:
        found = [one[name] for one in found if isinstance(one, dict) and name in one]
        found = [
            entry
            for one in found
            for entry in (one if isinstance(one, list) else [one])
        ]
    return found


def _mask_report(item: Item) -> Item:
    if item["subject"]:
        kind = item["subject"]["subjectType"]
        item["subject"] = {**mask(item["subject"]), "subjectType": kind}
    # Links let in whoever has them.
    item["consentState"]["consentUrl"] = item["paymentState"]["paymentUrl"] = None
    for result in item["checkResults"]:
        _mask_members(result, PERSONAL_OF_RESULT)
    for correction in item["corrections"]:
        _mask_members(correction, ["reason"])
    for name in ("decision", "proposedDecision"):
        if item[name]:
            _mask_decision(item[name])
    return _mask_members(item, PERSONAL_OF_REPORT)


def _mask_result(item: Item) -> Item:
    return _mask_members(item, PERSONAL_OF_RESULT)


def _mask_decision(item: Item) -> Item:
    return _mask_members(item, ["note", "notOnBureau"])


def _mask_alert(item: Item) -> Item:
    return _mask_members(item, ["message", "changes.old", "changes.new"])


def _mask_audit_event(item: Item) -> Item:
    if item["actorKind"] == ActorKind.MEMBER:
        item["actor"] = mask_email(item["actor"]) or DOTS
    return _mask_members(item, ["reason", "address"])


REPORTS = Kind(
    "reports",
    (
        "id",
        "reference",
        "status",
        "subject.subjectType",
        "subject.fullName",
        "subject.firstName",
        "subject.middleName",
        "subject.lastName",
        "subject.idNumber",
        "subject.registrationNumber",
        "subject.email",
        "subject.phone",
        "subject.dateOfBirth",
        "subject.country",
        "checksRequested",
        "purpose",
        "riskScore",
        "riskLevel",
        "package",
        "decision.status",
        "decision.reasonCodes",
        "decision.decidedAt",
        "consentState.status",
        "paymentMode",
        "paymentState.status",
        "paymentState.amount.amount",
        "paymentState.amount.currency",
        "paymentState.paidAt",
        "failure.code",
        "monitoringId",
        "createdAt",
        "updatedAt",
        "completedAt",
        "restrictedAt",
        "erasedAt",
    ),
    _read_reports,
    _render_reports,
    _mask_report,
    _rated,
)
RESULTS = Kind(
    "results",
    (
        "reportId",
        "reference",
        "id",
        "checkName",
        "status",
        "summary",
        "riskLevel",
        "score",
        "flags.code",
        "details",
        "evidence.provider",
        "evidence.providerReference",
        "evidence.retrievedAt",
        "failure.code",
        "failure.message",
        "reused",
        "startedAt",
        "completedAt",
        "durationMs",
    ),
    _read_results,
    _render_results,
    _mask_result,
    _with_findings,
)
DECISIONS = Kind(
    "decisions",
    (
        "reportId",
        "id",
        "status",
        "state",
        "reasonCodes",
        "note",
        "madeBy",
        "madeByName",
        "madeAt",
        "secondName",
        "secondAt",
        "decidedAt",
        "finalAt",
        "withdrawnAt",
        "notOnBureau",
        "notice.number",
        "notice.state",
        "notice.servedAt",
        "notice.reviewAskedAt",
    ),
    _read_decisions,
    _render_decisions,
    _mask_decision,
    lambda rows, rendered: [],
)
ALERTS = Kind(
    "alerts",
    (
        "id",
        "monitoringId",
        "reportId",
        "kind",
        "title",
        "message",
        "severity",
        "read",
        "actioned",
        "changes",
        "createdAt",
    ),
    _read_alerts,
    lambda client, rows: [AlertBody.of(row) for row in rows],
    _mask_alert,
    _reports_of_alerts,
)
AUDIT_TRAIL = Kind(
    "audit-trail",
    (
        "id",
        "createdAt",
        "action",
        "actorKind",
        "actor",
        "objectType",
        "objectId",
        "fields",
        "reason",
        "requestId",
        "address",
    ),
    _read_audit_trail,
    _render_audit_trail,
    _mask_audit_event,
    lambda rows, rendered: [],
)
KINDS = {kind.name: kind for kind in (REPORTS, RESULTS, DECISIONS, ALERTS, AUDIT_TRAIL)}
