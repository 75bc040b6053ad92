"""The life of a hosted link, which belongs to a consent, a payment or a reference.

- A link is made with its row. It expires CONSENT_LINK_DAYS, PAYMENT_LINK_DAYS or
  REFERENCE_LINK_DAYS later; a job then closes it.
- Its visitor is reminded once, after half of that time.
- The client, staff, or the visitor of an expired link can renew it, once a minute.
  The new link replaces the old one: the row's generation rises, unsent messages are
  cancelled, and a trigger of the database stores the old digest as a RetiredLink. The
  page of the old link then says that there is a newer one.
- Where only the client can renew a link, its visitor can ask the client for that, once.
- The time of the links of a suspended workspace stands still.

The subclasses of HostedLinks in `consents.links`, `payments.links` and
`references.requests` hold what differs. Tokens and URLs are in `verification.links`.
"""

import math
from abc import ABC, abstractmethod
from datetime import datetime, timedelta
from typing import Any, ClassVar, Generic, TypeVar
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import DateTimeField, ExpressionWrapper, F, QuerySet, Value
from django.db.models.expressions import CombinedExpression
from django.db.models.functions import Greatest
from django.db.models.lookups import LessThanOrEqual

from verification import links
from verification.consents.models import Consent
from verification.jobs.claims import sweep
from verification.notifications.models import Channel, Kind, Notification
from verification.notifications.outbox import OutgoingMessage, cancel, notify
from verification.payments.models import Payment
from verification.references.models import Reference
from verification.reports.models import Report, ReportStatus
from verification.reports.status import lock_report, lock_with_report, record_note
from verification.values.clock import now
from verification.values.local_time import utc_text
from workspaces.models import Client, Environment, Workspace

RESEND_INTERVAL = timedelta(minutes=1)

Row = TypeVar("Row", Consent, Payment, Reference)
ClientRow = TypeVar("ClientRow", Consent, Payment)


class NotRenewable(Exception):
    """No new link can be sent; `status` is that of the consent or payment."""

    noun: ClassVar[str]

    def __init__(self, status: str, message: str = "") -> None:
        super().__init__(message or f"A {self.noun} that is {status} needs no link.")
        self.status = status


class ResendTooSoon(Exception):
    """The last link is less than a minute old; `seconds` are left."""

    def __init__(self, seconds: int) -> None:
        super().__init__(f"A link was made within the last minute; wait {seconds} s.")
        self.seconds = seconds


def require_resend_interval(last: datetime, at: datetime) -> None:
    """Raise ResendTooSoon if the last link or code is less than a minute old."""
    left = last + RESEND_INTERVAL - at
    if left > timedelta():
        raise ResendTooSoon(math.ceil(left.total_seconds()))


def make_link(row: Consent | Payment | Reference, at: datetime) -> None:
    """Set the digest and the period of the row's link, without saving the row."""
    token = links.token(_purpose(row), row.pk, row.generation)
    row.token_digest = links.digest(token)
    start_period(row, at)


def start_period(row: Consent | Payment | Reference, at: datetime) -> None:
    """Let the time in which the link works begin now, without saving the row."""
    days = {
        Consent: settings.CONSENT_LINK_DAYS,
        Payment: settings.PAYMENT_LINK_DAYS,
        Reference: settings.REFERENCE_LINK_DAYS,
    }
    row.link_made_at, row.reminded_at = at, None
    row.expires_at = at + timedelta(days=days[type(row)])


def link_end(row: Consent | Payment | Reference) -> datetime | None:
    """Return until when the link works if a suspension of its workspace ends now."""
    begin = row.report.workspace.suspended_at
    if row.expires_at is None or begin is None:
        return row.expires_at
    return row.expires_at + (now() - max(begin, row.link_made_at))


def is_over(row: Consent | Payment | Reference, at: datetime) -> bool:
    """Return whether the time of the row's link, if it has one, has passed."""
    end = link_end(row)
    return end is not None and end <= at


def request_cause(row: Consent | Payment | Reference) -> str:
    """Return the cause of the messages that bring the present link."""
    return f"{_purpose(row)}:{row.pk}:{row.generation}"


def reminder_cause(row: Consent | Payment | Reference) -> str:
    return f"{request_cause(row)}:reminder"


def _purpose(row: Consent | Payment | Reference) -> str:
    """Return "consent", "payment" or "reference"."""
    return str(row._meta.model_name)


def locked_cause(consent: Consent) -> str:
    return f"{request_cause(consent)}:locked"


def code_cause(consent: Consent) -> str:
    """Return the cause of the last code's message."""
    return f"consent:{consent.pk}:code:{consent.codes_sent}"


def cancel_requests(*rows: Consent | Payment | Reference) -> None:
    """Cancel unsent messages that ask for an answer by the present links."""
    causes = [cause(row) for row in rows for cause in (request_cause, reminder_cause)]
    for row in rows:
        if isinstance(row, Consent):
            causes += [locked_cause(row), code_cause(row)]
    cancel(*causes)


def client_messages(report: Report) -> QuerySet[Notification]:
    """Return the messages with the report's present links, oldest first.

    A referee who has answered has none.
    """
    rows = [getattr(report, name, None) for name in ("consent", "payment")]
    rows += report.references.filter(submitted_at=None, declined_at=None)
    causes = [
        cause(row) for row in rows if row for cause in (request_cause, reminder_cause)
    ]
    return Notification.objects.filter(cause__in=causes).order_by("id")


class HostedLinks(ABC, Generic[Row]):
    """The links of one model."""

    model: type[Row]

    @abstractmethod
    def waiting(self) -> QuerySet[Row]:
        """Return the rows that wait for their visitor."""

    @abstractmethod
    def require_renewable(self, report: Report, row: Row, at: datetime) -> None:
        """Raise an error that says why no new link can be sent."""

    def can_renew(self, report: Report, row: Row | None) -> bool:
        """Return whether a new link can be sent for the row, if there is one."""
        if row is None:
            return False
        try:
            self.require_renewable(report, row, now())
        except NotRenewable:
            return False
        return True

    @abstractmethod
    def reset(self, row: Row) -> None:
        """Reset the fields that belong to the old link, without saving the row."""

    @abstractmethod
    def request(self, report: Report, row: Row) -> list[OutgoingMessage]:
        """Return the messages that bring the present link."""

    @abstractmethod
    def reminder(self, report: Report, row: Row) -> list[OutgoingMessage] | None:
        """Return the reminders, or None to leave the row to a later run."""

    @abstractmethod
    def close(self, report: Report, row: Row, at: datetime) -> None:
        """End a link whose time is up, unless its visitor was faster."""

    def lock(self, row_id: UUID) -> tuple[Report, Row]:
        return lock_with_report(self.model, row_id)

    def lock_to_remind(self, row_id: UUID) -> tuple[Report, Row]:
        return self.lock(row_id)

    @transaction.atomic
    def renew(self, row_id: UUID) -> Row:
        """Send a new link for staff, or for the visitor of an expired one.

        Raises what `require_renewable` raises, and ResendTooSoon.
        """
        report, row = self.lock(row_id)
        self._replace(report, row)
        return row

    def _replace(self, report: Report, row: Row) -> None:
        at = now()
        self.require_renewable(report, row, at)
        require_resend_interval(row.link_made_at, at)
        cancel_requests(row)
        row.generation += 1
        make_link(row, at)
        self.reset(row)
        row.save()
        Report.objects.filter(pk=report.pk).update(updated_at=at)
        notify(*self.request(report, row))

    def prolong(self, workspace: Workspace) -> None:
        """Leave a suspension that ends now out of the time of the workspace's links.

        Held messages then say the new end.
        """
        begin = Greatest(F("link_made_at"), Value(workspace.suspended_at))
        lost = Value(now(), DateTimeField()) - begin
        mine = self.waiting().filter(report__workspace=workspace)
        mine.update(
            link_made_at=F("link_made_at") + lost, expires_at=F("expires_at") + lost
        )
        held = Notification.objects.filter(
            workspace=workspace,
            next_attempt_at__isnull=False,
            cause__startswith=f"{self.model._meta.model_name}:",
        )
        ends = {str(pk): end for pk, end in mine.values_list("pk", "expires_at")}
        for message in held:
            end, context = ends.get(message.cause.split(":")[1]), message.context or {}
            if end and context.get("expiresAt"):
                context["expiresAt"] = utc_text(end)
                message.save(update_fields=["context"])

    def expire_due(self) -> None:
        due = self.waiting().filter(expires_at__lte=now())
        sweep(due.filter(report__workspace__suspended_at=None), self.expire)

    @transaction.atomic
    def expire(self, row_id: UUID) -> None:
        report, row = self.lock(row_id)
        at = now()
        if is_over(row, at):
            self.close(report, row, at)

    def remind_due(self) -> None:
        sweep(self.due_reminders(now()), self.remind)

    def due_reminders(self, at: datetime) -> QuerySet[Row]:
        return self.unreminded(at).filter(
            LessThanOrEqual(self._remind_at(), at),
            report__workspace__suspended_at=None,
        )

    def unreminded(self, at: datetime) -> QuerySet[Row]:
        """Return the rows whose visitor gets a reminder, now or later."""
        return self.waiting().filter(reminded_at=None, expires_at__gt=at)

    def reminder_time(self) -> CombinedExpression:
        """Return when the link has spent half of its time."""
        return F("expires_at") - (F("expires_at") - F("link_made_at")) / 2

    def _remind_at(self) -> ExpressionWrapper:
        return ExpressionWrapper(self.reminder_time(), output_field=DateTimeField())

    def next_reminder(self, report: Report) -> tuple[UUID, datetime] | None:
        """Return the row whose reminder is due first, and when."""
        rows = self.unreminded(now()).filter(report=report)
        times = dict(rows.values_list("pk", self._remind_at()))
        for row in sorted(rows.filter(pk__in=times), key=lambda row: times[row.pk]):
            row.report = report
            if self.reminder(report, row):
                return row.pk, times[row.pk]
        return None

    def next_expiry(self, report: Report) -> tuple[UUID, datetime] | None:
        """Return the row whose link expires first, and when."""
        rows = self.waiting().filter(report=report, expires_at__isnull=False)
        row = rows.order_by("expires_at").first()
        return (row.pk, row.expires_at) if row and row.expires_at else None

    @transaction.atomic
    def remind(self, row_id: UUID) -> None:
        report, row = self.lock_to_remind(row_id)
        messages = None if row.reminded_at else self.reminder(report, row)
        if messages is None:
            return
        row.reminded_at = now()
        row.save(update_fields=["reminded_at"])
        notify(*messages)


class ClientLinks(HostedLinks[ClientRow]):
    """Links that the client can send again through the API."""

    asker: ClassVar[str]
    not_renewable: ClassVar[type[NotRenewable]]

    @abstractmethod
    def can_visitor_renew(self, report: Report) -> bool:
        """Return whether the page of an expired link offers a new one.

        It does for a draft, as any other report has failed, and only if the message
        reaches the visitor: otherwise they would lose the old link for nothing.
        """

    @abstractmethod
    def client_action_needed(self, report: Report, row: ClientRow, at: datetime) -> str:
        """Return why the link is of no use if only the client can send another one.

        It is LOCKED, EXPIRED, or SOURCES_CHANGED since the subject agreed; else "".
        """

    def absence(self, report: Report) -> NotRenewable:
        """Return why a report without a row has no link to send."""
        return self.not_renewable("NOT_REQUIRED")

    @transaction.atomic
    def resend(self, client: Client, report_id: UUID) -> Report:
        """Send a new link for the client. Raises as `renew`, or Report.DoesNotExist."""
        report = lock_report(client, report_id)
        rows = self.model.objects.select_for_update(no_key=True)
        row = rows.filter(report=report).first()
        if row is None:
            raise self.absence(report)
        row.report = report
        self._replace(report, row)
        return report

    @transaction.atomic
    def ask_client(self, row_id: UUID, generation: int) -> None:
        """Tell the client, once for each link, that the visitor asks for another one.

        The report stays as it is: the client sends a link, or orders again.
        """
        report, row = self.lock(row_id)
        at = now()
        if row.generation != generation or row.link_requested_at:
            return
        if not (why := self.client_action_needed(report, row, at)):
            return
        row.link_requested_at = at
        row.save(update_fields=["link_requested_at"])
        record_note(report, f"{self.asker} asks for a new link", self.asker, at)
        notify(self._client_message(report, row, why))

    def _client_message(
        self, report: Report, row: ClientRow, why: str
    ) -> OutgoingMessage:
        workspace = report.workspace
        place = workspace.pk, report.environment, report.pk
        context: dict[str, Any] = {
            "workspace": workspace.name,
            "reportId": str(report.pk),
            "reference": report.reference or "",
            "asker": self.asker,
            "why": why,
            # The client cannot send a link of a report that has failed.
            "canResend": not report.is_ended,
            "isDraft": report.status == ReportStatus.DRAFT,
            "url": links.console_url("reports-detail", *place),
        }
        return OutgoingMessage(
            Kind.NEW_LINK_WANTED,
            Channel.EMAIL,
            f"{request_cause(row)}:wanted",
            workspace.contact_email,
            context,
            workspace_id=workspace.pk,
            sandbox=report.environment == Environment.SANDBOX,
            report_id=report.pk,
        )
