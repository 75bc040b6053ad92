"""Do the next due action of one object of the sandbox now.

No clock changes. A skip locks the object and calls the function that the job calls at
the due time. If that function compares times, the skip first sets the object's due time
to now. Checks, deliveries and erasures run in jobs, outside of the transaction: for
them the skip sets the due time and schedules the job.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import Generic, TypeVar
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet

from monitoring.models import PauseReason, Rule, RuleStatus, locked_rules
from monitoring.runs import launch_rules
from verification.checks.due_checks import wake_up
from verification.checks.models import CheckResult
from verification.consents.links import consent_links
from verification.consents.models import Consent
from verification.decisions.decide import finish_waiting_decline
from verification.decisions.models import AdverseNotice
from verification.decisions.notices import is_stopped, waiting_notices
from verification.jobs.names import JobName
from verification.jobs.queue import schedule_job
from verification.payments.links import payment_links
from verification.payments.models import Payment
from verification.privacy.retention import erase_ahead, erasure_time
from verification.references.models import Reference
from verification.references.requests import reference_links
from verification.reports.hosted_links import HostedLinks
from verification.reports.models import Report
from verification.reports.status import locked_reports
from verification.sandbox.payments import expire_payment
from verification.values.clock import now
from webhooks.models import Configuration, Delivery
from workspaces.models import Client, Environment

Thing = TypeVar("Thing", Report, Rule, Delivery)
# The row that is due, and when
Found = tuple[UUID, datetime] | None
Links = HostedLinks[Consent] | HostedLinks[Payment] | HostedLinks[Reference]


class MomentName(StrEnum):
    CONSENT_REMINDER = "CONSENT_REMINDER"
    CONSENT_EXPIRY = "CONSENT_EXPIRY"
    PAYMENT_REMINDER = "PAYMENT_REMINDER"
    PAYMENT_EXPIRY = "PAYMENT_EXPIRY"
    REFERENCE_REMINDER = "REFERENCE_REMINDER"
    REFERENCE_EXPIRY = "REFERENCE_EXPIRY"
    CHECK_RETRY = "CHECK_RETRY"
    DECLINE_FINAL = "DECLINE_FINAL"
    RETENTION = "RETENTION"
    MONITORING_RUN = "MONITORING_RUN"
    DELIVERY_RETRY = "DELIVERY_RETRY"


N = MomentName


class NothingDue(Exception):
    """Nothing is due for the object, or a job or another skip is doing it."""


@dataclass(frozen=True, slots=True)
class Moment(Generic[Thing]):
    """A kind of due moment. `find` returns its row and time, `bring` does it now."""

    name: MomentName
    effect: str
    find: Callable[[Thing], Found]
    # Returns the effect if it differs from `effect`.
    bring: Callable[[Thing, UUID], str | None]


@dataclass(frozen=True, slots=True)
class Due(Generic[Thing]):
    """The next moment of one object, with its row and time."""

    moment: Moment[Thing]
    row_id: UUID
    at: datetime


@dataclass(frozen=True, slots=True)
class Kind(Generic[Thing]):
    """A kind of object. `locked` locks the rows that it reads."""

    rows: Callable[[], QuerySet[Thing]]
    locked: Callable[[], QuerySet[Thing]]
    moments: tuple[Moment[Thing], ...]

    def next_moment(self, client: Client, pk: UUID) -> Due[Thing] | None:
        """Return the next due moment. Raises the model's DoesNotExist."""
        return self._next(_own(self.rows(), client).get(pk=pk))

    @transaction.atomic
    def skip(self, client: Client, pk: UUID) -> tuple[Due[Thing], Due[Thing] | None]:
        """Do the next due moment now, once. Returns it and the moment after it.

        The second of two concurrent skips finds another moment once it has the lock,
        and raises NothingDue. Raises also the model's DoesNotExist.
        """
        expected = self.next_moment(client, pk)
        thing = _own(self.locked(), client).get(pk=pk)
        due = self._next(thing)
        if due is None:
            raise NothingDue("Nothing is due for it, or a job is doing it now.")
        if due != expected:
            raise NothingDue("A job or another skip has just done it.")
        effect = due.moment.bring(thing, due.row_id) or due.moment.effect
        done = replace(due, moment=replace(due.moment, effect=effect))
        return done, self.next_moment(client, pk)

    def _next(self, thing: Thing) -> Due[Thing] | None:
        found = [(moment, moment.find(thing)) for moment in self.moments]
        dues = [Due(moment, *row) for moment, row in found if row]
        return min(dues, key=lambda due: due.at, default=None)


def _own(rows: QuerySet[Thing], client: Client) -> QuerySet[Thing]:
    """Return the client's rows in the sandbox, also for a client of production."""
    return rows.filter(workspace=client.workspace, environment=Environment.SANDBOX)


def _remind(links: Links, report: Report, row_id: UUID) -> None:
    links.remind(row_id)


def _expire(links: Links, report: Report, row_id: UUID) -> None:
    links.model.objects.filter(pk=row_id).update(expires_at=now())
    links.expire(row_id)


def _expire_payment(report: Report, row_id: UUID) -> None:
    expire_payment(Payment.objects.select_for_update(no_key=True).get(pk=row_id))


def _waiting_checks(report: Report) -> QuerySet[CheckResult]:
    """Return the checks that wait for their time and that no worker has claimed."""
    return CheckResult.every.filter(
        report=report, claims=0, waits_for="", next_attempt_at__gt=now()
    )


def _find_check(report: Report) -> Found:
    rows = _waiting_checks(report).order_by("next_attempt_at", "pk")
    result = rows.first()
    return (
        (result.pk, result.next_attempt_at)
        if result and result.next_attempt_at
        else None
    )


def _run_check(report: Report, row_id: UUID) -> None:
    at = now()
    # If a worker has already claimed the check, that worker runs it.
    _waiting_checks(report).filter(pk=row_id).update(next_attempt_at=at, turn_at=at)
    wake_up()


def _find_decline(report: Report) -> Found:
    waiting = waiting_notices().filter(report=report, waits_until__isnull=False)
    notice = waiting.filter(stopped_at=None).first()
    if notice is None or notice.waits_until is None or is_stopped(notice):
        return None
    return notice.pk, notice.waits_until


def _finish_decline(report: Report, row_id: UUID) -> None:
    AdverseNotice.objects.filter(pk=row_id).update(waits_until=now())
    finish_waiting_decline(row_id)
    if waiting_notices().filter(pk=row_id).exists():
        raise NothingDue("The decline cannot become final now.")


def _find_retention(report: Report) -> Found:
    time = erasure_time(report)
    return (report.pk, time) if time else None


def _erase(report: Report, row_id: UUID) -> None:
    if not erase_ahead(report):
        raise NothingDue("The report is kept.")


def _find_run(rule: Rule) -> Found:
    is_active = rule.status == RuleStatus.ACTIVE
    return (rule.pk, rule.launch_at) if is_active else None


def _launch_run(rule: Rule, row_id: UUID) -> str | None:
    runs_made = rule.runs_made
    launch_rules([row_id], rule.launch_at)
    rule.refresh_from_db()
    if rule.pause_reason:
        reason = PauseReason(rule.pause_reason).label
        return f"The rule was paused and did not run. {reason}."
    if rule.runs_made == runs_made:
        raise NothingDue("A run of the rule is under way, or its workspace suspended.")
    return None


def _find_delivery(delivery: Delivery) -> Found:
    due = delivery.next_attempt_at
    if due is None or delivery.leased_until:
        return None
    # Only an ended delivery outlives it.
    receiver = delivery.configuration
    if receiver is None or not receiver.enabled:
        return None
    time = max(due, receiver.resting_until or due)
    return (delivery.pk, time) if time > now() else None


def _send(delivery: Delivery, row_id: UUID) -> None:
    """Make the delivery due, and end the rest of its receiver after failures.

    Other deliveries that wait for the end of that rest may go out first.
    """
    at = now()
    Delivery.objects.filter(pk=row_id).update(next_attempt_at=at)
    receivers = Configuration.objects.filter(deliveries=row_id, resting_until__gt=at)
    receivers.update(resting_until=at)
    schedule_job(JobName.SEND_DELIVERIES)


def _of_links(
    links: Links, reminder: tuple[MomentName, str], expiry: tuple[MomentName, str]
) -> tuple[Moment[Report], Moment[Report]]:
    expire = _expire_payment if links is payment_links else partial(_expire, links)
    return (
        Moment(*reminder, links.next_reminder, partial(_remind, links)),
        Moment(*expiry, links.next_expiry, expire),
    )


REPORTS = Kind(
    lambda: Report.objects.select_related("workspace"),
    locked_reports,
    (
        *_of_links(
            consent_links,
            (N.CONSENT_REMINDER, "Remind the subject of the consent."),
            (N.CONSENT_EXPIRY, "End the subject's time to answer."),
        ),
        *_of_links(
            payment_links,
            (N.PAYMENT_REMINDER, "Remind the payer."),
            (N.PAYMENT_EXPIRY, "End the payer's time to pay."),
        ),
        *_of_links(
            reference_links,
            (N.REFERENCE_REMINDER, "Remind the referee."),
            (N.REFERENCE_EXPIRY, "End the referee's time to answer."),
        ),
        Moment(
            N.CHECK_RETRY,
            "Ask the source of a check again.",
            _find_check,
            _run_check,
        ),
        Moment(
            N.DECLINE_FINAL,
            "End the waiting time of the decline, which becomes final.",
            _find_decline,
            _finish_decline,
        ),
        Moment(
            N.RETENTION,
            "Erase the report, as its retention is over.",
            _find_retention,
            _erase,
        ),
    ),
)
RULES = Kind(
    lambda: Rule.objects.all(),
    locked_rules,
    (Moment(N.MONITORING_RUN, "Run the rule's checks.", _find_run, _launch_run),),
)
DELIVERIES = Kind(
    lambda: Delivery.objects.all(),
    lambda: Delivery.objects.select_for_update(no_key=True),
    (Moment(N.DELIVERY_RETRY, "Send the event again.", _find_delivery, _send),),
)
