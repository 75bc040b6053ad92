"""The register of data subjects' requests: open them, answer them, keep their clocks.

Each use of a right is an entry, from a page, the API or staff. The deadlines are
settings: SUBJECT_REQUEST_DAYS names the days for each kind, and where they come from.
Before and after a deadline the data protection officer gets an e-mail, and so does the
owner of the workspace that has to answer. It names numbers of requests only.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Count, Q
from django.utils.translation import override

from verification.db.ids import uuid7
from verification.jobs.queue import job
from verification.links import console_url
from verification.notifications.models import Channel, Kind
from verification.notifications.outbox import OutgoingMessage, notify
from verification.privacy.models import Origin, Outcome, RequestKind, SubjectRequest
from verification.reports.models import Report
from verification.values.clock import now
from verification.values.local_time import format_nairobi, utc_text
from workspaces.models import Environment, Workspace

# The time from the first e-mail to a deadline
NOTICE = timedelta(days=3)
# The retention of typed details after the answer, for questions about it
DETAILS_RETENTION = timedelta(days=90)
# One run writes about this many requests, and the next one about the others.
MAX_REMINDED = 100


class AlreadyAnswered(Exception):
    """The request has an answer, which stays."""

    def __init__(self) -> None:
        super().__init__("It is answered already, and the answer stays.")


def open_request(
    kind: RequestKind,
    origin: Origin,
    *,
    requested_by: str,
    report: Report | None = None,
    workspace: Workspace | None = None,
    environment: str = "",
    subject_id: UUID | None = None,
    further_ids: Iterable[UUID] | None = None,
    details: dict[str, Any] | None = None,
    proved_address: bytes | None = None,
    received_at: datetime | None = None,
    request_id: UUID | None = None,
) -> SubjectRequest:
    """Enter a request in the register; call it in the transaction of the request.

    A report brings its workspace, environment and subject. `requested_by` names the
    actor as the audit trail does, and `details` are what the person typed. The clock
    starts at `received_at`, for a letter that came earlier.
    """
    if report is not None:
        workspace, environment = report.workspace, report.environment
        subject_id = report.subject_id
    at = received_at or now()
    return SubjectRequest.objects.create(
        pk=request_id or uuid7(),
        kind=kind,
        origin=origin,
        workspace=workspace,
        environment=environment,
        subject_id=subject_id,
        further_ids=None if further_ids is None else sorted(further_ids),
        report=report,
        details=details,
        proved_address=proved_address,
        requested_by=requested_by,
        received_at=at,
        due_at=deadline(kind, at),
    )


def deadline(kind: RequestKind, received_at: datetime) -> datetime:
    """Return when a request of this kind has to be answered."""
    return received_at + timedelta(days=settings.SUBJECT_REQUEST_DAYS[kind])


def answer_request(
    request: SubjectRequest, outcome: Outcome, *, reason: str = ""
) -> None:
    """Record the answer. Raises AlreadyAnswered; `reason` is needed for a refusal."""
    answered = SubjectRequest.objects.filter(pk=request.pk, answered_at=None).update(
        answered_at=now(), outcome=outcome, reason=reason
    )
    if not answered:
        raise AlreadyAnswered
    request.refresh_from_db(fields=["answered_at", "outcome", "reason"])


def count_open_requests() -> dict[str, tuple[int, int]]:
    """Return {kind: (open, overdue)} of real people, with each kind."""
    rows = SubjectRequest.objects.clocked().values("kind")
    counted = rows.annotate(open=Count("pk"), late=Count("pk", Q(due_at__lt=now())))
    found = {row["kind"]: (row["open"], row["late"]) for row in counted}
    return {kind: found.get(kind, (0, 0)) for kind in RequestKind.values}


@job
def erase_old_details() -> None:
    """Erase what people typed in requests that were answered `DETAILS_RETENTION` ago.

    A request from /my-data belongs to no report, with which it would be erased.
    """
    before = now() - DETAILS_RETENTION
    old = SubjectRequest.objects.filter(answered_at__lt=before, details__isnull=False)
    old.update(details=None)


@job
@transaction.atomic
def remind_of_deadlines() -> None:
    """Send e-mails about deadlines within NOTICE, and about missed ones.

    Each request is in one e-mail before its deadline and in one after it. Parallel jobs
    take different requests.
    """
    at = now()
    late = Q(due_at__lt=at, overdue_notified_at=None)
    soon = Q(due_at__gte=at, due_at__lt=at + NOTICE, reminded_at=None)
    clocked = SubjectRequest.objects.clocked().filter(late | soon)
    locked = clocked.select_for_update(of=("self",), skip_locked=True)
    rows = list(locked.select_related("workspace").order_by("due_at")[:MAX_REMINDED])
    overdue = [row for row in rows if row.due_at < at]
    due = [row for row in rows if row.due_at >= at]
    ids = [[row.pk for row in some] for some in (overdue, due)]
    SubjectRequest.objects.filter(pk__in=ids[0]).update(overdue_notified_at=at)
    SubjectRequest.objects.filter(pk__in=ids[1]).update(reminded_at=at)
    if rows:
        notify(*_messages_to_officer(rows, at), *_messages_to_owners(rows, at))


def notify_owner(request: SubjectRequest) -> None:
    """Write about a request that the client answers; the sandbox has no deadlines."""
    if request.environment != Environment.SANDBOX:
        notify(*_messages_to_owners([request], request.received_at))


def _messages_to_officer(
    rows: Sequence[SubjectRequest], at: datetime
) -> list[OutgoingMessage]:
    url = f"{settings.BASE_URL}/admin/privacy/subjectrequest/?state=open"
    return [
        OutgoingMessage(
            Kind.REQUESTS_DUE,
            Channel.EMAIL,
            cause=f"requests-due:{rows[0].pk}:{utc_text(at)}:{number}",
            recipient=address,
            context=_reminder_context(rows, at, url),
        )
        for number, address in enumerate(settings.PRIVACY_CONTACTS)
    ]


def _messages_to_owners(
    rows: Sequence[SubjectRequest], at: datetime
) -> list[OutgoingMessage]:
    """Return a message for each page of a workspace that answers some of them."""
    by_page: dict[tuple[Workspace, str], list[SubjectRequest]] = defaultdict(list)
    for row in rows:
        page = _page_to_answer(row)
        if page and row.workspace:
            by_page[row.workspace, page].append(row)
    return [
        OutgoingMessage(
            Kind.REQUESTS_DUE,
            Channel.EMAIL,
            cause=f"requests-due:{own[0].pk}:{utc_text(at)}:owner",
            recipient=workspace.contact_email,
            context=_reminder_context(
                own, at, console_url(page, workspace.pk, Environment.PRODUCTION)
            ),
            workspace_id=workspace.pk,
        )
        for (workspace, page), own in by_page.items()
    ]


def _page_to_answer(row: SubjectRequest) -> str:
    """Return the page on which the client itself answers this kind, or ""."""
    if row.kind == RequestKind.REVIEW:
        return "queue"
    is_theirs = row.kind == RequestKind.CORRECTION or row.proved_address
    return "corrections" if is_theirs else ""


def _reminder_context(
    rows: Sequence[SubjectRequest], at: datetime, url: str
) -> dict[str, Any]:
    context: dict[str, Any] = {"count": len(rows), "url": url}
    for language, suffix in (("en", ""), ("sw", "Sw")):
        with override(language):
            context |= {
                f"overdue{suffix}": [_line(row) for row in rows if row.due_at < at],
                f"due{suffix}": [_line(row) for row in rows if row.due_at >= at],
            }
    return context


def _line(row: SubjectRequest) -> str:
    client = f", {row.workspace.name}" if row.workspace else ""
    kind = row.get_kind_display()
    return f"{row.number}, {kind}{client}: {format_nairobi(row.due_at)}"
