"""The kinds of exports: the rows of a period, their shapes, columns and masks.

Each page of rows is read by a statement of its own, so neither memory nor a transaction
grows with an export.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self, TypeVar
from uuid import UUID

from django.contrib.auth.models import User
from django.db import close_old_connections, connection
from django.db.models import Exists, Model, OuterRef, Q, QuerySet

from monitoring.models import alerts_of
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
# Members that a masked export hides
PERSONAL_OF_RESULT = (
    "summary",
    "details",
    "flags.message",
    "evidence.providerReference",
)
PERSONAL_OF_DECISION = ("note", "notOnBureau")
M = TypeVar("M", bound=Model)
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
    """The network address of a member or key."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of export."""

    name: str
    columns: tuple[str, ...]
    """The members in a CSV file. A dot leads into an object, or into each of a list."""
    rows: Callable[[Client], QuerySet[Any]]
    render: Callable[[Client, list[Any]], list[Shape]]
    personal: tuple[str, ...] = ()
    """The members that a masked export hides; a dot leads on as in the columns."""
    mask_more: Callable[[Item], None] = lambda item: None
    disclosed: Callable[[list[Any], list[Any]], Iterable[UUID]] = lambda *page: ()
    """Return the reports whose findings are on a page."""
    is_by_id: bool = False
    """True if the index of the rows has IDs, which hold the time of creation."""

    def read(
        self, client: Client, start: datetime, end: datetime
    ) -> Iterator[list[Any]]:
        """Yield the rows of the period, in pages."""
        pages = _pages_by_id if self.is_by_id else _pages
        return pages(self.rows(client), start, end)

    def mask(self, item: Item) -> Item:
        """Mask the personal members, in place."""
        self.mask_more(item)
        _mask_members(item, self.personal)
        return item


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
    return Report.objects.filter(**client.lookups)


def _by_report(rows: QuerySet[M], reports: Sequence[Report]) -> dict[UUID, list[M]]:
    found: dict[UUID, list[M]] = defaultdict(list)
    for row in rows.filter(report__in=[report.pk for report in reports]):
        found[row.report_id].append(row)  # type: ignore[attr-defined]
    return found


def _render_reports(client: Client, reports: list[Any]) -> list[Shape]:
    results = _by_report(CheckResult.objects.order_by("position"), reports)
    decisions = _by_report(Decision.objects.select_related("notice"), reports)
    made = Correction.objects.select_related("request").order_by("id")
    corrections = _by_report(made, reports)
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


def _render_results(client: Client, reports: list[Any]) -> list[Shape]:
    results = _by_report(CheckResult.objects.order_by("position"), reports)
    return [
        ExportedResult.of(result, report, reference=report.reference)
        for report in reports
        for result in results[report.pk]
    ]


def _render_decisions(client: Client, decisions: list[Any]) -> list[Shape]:
    names = names_of(decisions)
    return [DecisionBody.of(decision, names) for decision in decisions]


def _render_audit_trail(client: Client, events: list[Any]) -> list[Shape]:
    names = {one.actor for one in events if one.actor_kind == ActorKind.MEMBER}
    is_member = Exists(
        Member.objects.filter(user=OuterRef("pk"), workspace=client.workspace)
    )
    users = User.objects.filter(username__in=names).annotate(is_member=is_member)
    # A former member's address may have changed since.
    people = {
        user.username: user.email if user.is_member else user.get_full_name()
        for user in users
    }
    known = {name: called for name, called in people.items() if called}
    return [AuditEventBody.of(event, known) for event in events]


def _mask_members(item: Item, paths: Iterable[str]) -> None:
    """Mask the members at these paths, in place."""
    for path in paths:
        *way, name = path.split(".")
        for holder in members_at(item, way):
            if isinstance(holder, dict) and name in holder:
                holder[name] = mask(holder[name], name)


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


def _mask_report(item: Item) -> None:
    if item["subject"]:
        kind = item["subject"]["subjectType"]
        item["subject"] = {**mask(item["subject"]), "subjectType": kind}
    # A link admits anybody who has it.
    item["consentState"]["consentUrl"] = item["paymentState"]["paymentUrl"] = None


def _mask_actor(item: Item) -> None:
    if item["actorKind"] == ActorKind.MEMBER:
        item["actor"] = mask_email(item["actor"]) or DOTS


REPORTS = Kind(
    name="reports",
    columns=(
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
    rows=lambda client: _reports_of(client).select_related("consent", "payment"),
    render=_render_reports,
    personal=(
        "purpose",
        "returnUrl",
        "consentState.reason",
        *(f"checkResults.{member}" for member in PERSONAL_OF_RESULT),
        "corrections.reason",
        *(f"decision.{member}" for member in PERSONAL_OF_DECISION),
        *(f"proposedDecision.{member}" for member in PERSONAL_OF_DECISION),
    ),
    mask_more=_mask_report,
    # A report with a finding need not have a score.
    disclosed=lambda reports, rendered: {
        one.id
        for one in rendered
        if any(result.details is not None for result in one.check_results)
    },
)
RESULTS = Kind(
    name="results",
    columns=(
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
    # Results have no index by time.
    rows=_reports_of,
    render=_render_results,
    personal=PERSONAL_OF_RESULT,
    disclosed=lambda reports, rendered: {
        one.report_id for one in rendered if one.details is not None
    },
)
DECISIONS = Kind(
    name="decisions",
    columns=(
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
    rows=lambda client: Decision.objects.select_related("notice").filter(
        **client.lookups
    ),
    is_by_id=True,
    render=_render_decisions,
    personal=PERSONAL_OF_DECISION,
)
ALERTS = Kind(
    name="alerts",
    columns=(
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
        "reference",
    ),
    rows=alerts_of,
    render=lambda client, rows: [AlertBody.of(row) for row in rows],
    personal=("message", "changes.old", "changes.new"),
    disclosed=lambda alerts, rendered: {alert.report_id for alert in alerts},
)
AUDIT_TRAIL = Kind(
    name="audit-trail",
    columns=(
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
    rows=lambda client: AuditEvent.objects.filter(workspace_id=client.workspace.pk),
    render=_render_audit_trail,
    personal=("reason", "address"),
    mask_more=_mask_actor,
)
KINDS = {kind.name: kind for kind in (REPORTS, RESULTS, DECISIONS, ALERTS, AUDIT_TRAIL)}
