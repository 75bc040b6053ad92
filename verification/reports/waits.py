"""The reasons why a report has not ended, and their times, for staff."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet

from verification.checks.models import CheckResult, ResultStatus
from verification.consents.models import Consent, ConsentStatus
from verification.jobs.models import Job
from verification.jobs.names import JobName
from verification.payments.models import Checkout, CheckoutStatus, Payment
from verification.references.models import Reference, ReferenceStatus
from verification.reports.hosted_links import link_end
from verification.reports.models import Report, ReportStatus
from verification.sources.models import Call, CallOutcome, Source
from verification.values.clock import now

LINK_SENT = "link sent"
UNFINISHED = (ResultStatus.PENDING, ResultStatus.RUNNING)


@dataclass(frozen=True, slots=True)
class Wait:
    """One thing that a report waits for; `until` is its end, or the next attempt.

    `began` says what happened at `since`.
    """

    what: str
    since: datetime
    until: datetime | None = None
    began: str = "since"


def find_waits(report: Report) -> list[Wait]:
    """Return what the report waits for; nothing if it has ended."""
    if report.is_ended:
        return []
    waits = [*_gates(report)]
    if report.workspace.suspended_at:
        suspended = Wait("the suspended workspace", report.workspace.suspended_at)
        waits.insert(0, suspended)
    return waits


def _gates(report: Report) -> Iterator[Wait]:
    if report.status == ReportStatus.DRAFT:
        yield Wait("the client, to launch the draft", report.created_at)
    if report.status == ReportStatus.PENDING_CONSENT:
        consent = report.consent
        what = "the subject's consent"
        yield Wait(what, consent.link_made_at, link_end(consent), LINK_SENT)
    if report.status == ReportStatus.PENDING_PAYMENT:
        payment = report.payment
        since, until = payment.link_made_at, link_end(payment)
        yield Wait("the payment", since, until, LINK_SENT)
        checkouts = Checkout.objects.filter(
            payment_id=payment.pk, status=CheckoutStatus.OPEN
        )
        for checkout in checkouts.order_by("id"):
            what = f"checkout {checkout.number}, open at {checkout.provider}"
            yield Wait(what, checkout.created_at, checkout.next_poll_at)
    if report.status in {ReportStatus.RUNNING, ReportStatus.PARTIAL}:
        yield from _checks(report)


def _checks(report: Report) -> Iterator[Wait]:
    results = report.results.filter(status__in=UNFINISHED).select_related("definition")
    unfinished = list(results.order_by("position"))
    if not unfinished:
        yield Wait("the job that ends it: all checks have ended", report.updated_at)
        return
    ids = [result.pk for result in unfinished]
    calls = Call.objects.filter(result__in=ids).order_by("result_id", "-id")
    last = {
        call.result_id: call for call in calls.distinct("result_id").defer("answer")
    }
    pending = report.references.filter(status=ReferenceStatus.PENDING)
    references = {one.result_id: one for one in pending.defer("answers", "evidence")}
    names = {r.waits_for for r in unfinished} | {c.source for c in last.values()}
    sources = Source.objects.in_bulk(names)
    at = now()
    for result in unfinished:
        call = last.get(result.pk)
        source = sources.get(result.waits_for or (call.source if call else ""))
        wait = _check(result, references.get(result.pk), call, source, at)
        what = f"{result.definition.display_name}: {wait.what}"
        yield replace(wait, what=what)


def _check(
    result: CheckResult,
    reference: Reference | None,
    call: Call | None,
    source: Source | None,
    at: datetime,
) -> Wait:
    due, begun = result.next_attempt_at, result.started_at or result.created_at
    if reference:
        since, until = reference.link_made_at, link_end(reference)
        return Wait(f"the referee ({reference.number})", since, until, LINK_SENT)
    if source and source.resting_until and source.resting_until > at:
        since = source.failing_since or begun
        return Wait(f"source {source.name}, which rests", since, source.resting_until)
    if result.waits_for:
        return Wait(f"room at source {result.waits_for}", begun)
    if call and call.end == CallOutcome.UNDER_WAY:
        return Wait(f"source {call.source}, which is called", call.begun_at)
    if call and call.end == CallOutcome.NOT_YET:
        return Wait(f"the answer of source {call.source}", call.begun_at, due)
    if due is None:
        return Wait("nothing: no attempt is planned", begun)
    if due <= at:
        return Wait(f"its turn in the queue{_job(at)}", due)
    if result.claims:
        return Wait("the worker that has claimed it", begun, due)
    source_name = f" at source {call.source}" if call else ""
    why = f", after {call.why}" if call and call.why else ""
    return Wait(f"the next attempt{source_name}{why}", begun, due)


def _job(at: datetime) -> str:
    """Return a remark if the job that runs due checks is missing, or else ""."""
    jobs = Job.objects.filter(function=JobName.RUN_DUE_CHECKS, gave_up_at=None)
    return "" if jobs.filter(due_at__lte=at).exists() else ", without a job that is due"


def waiting_for_consent(reports: QuerySet[Any]) -> QuerySet[Any]:
    asked = Consent.objects.filter(
        status=ConsentStatus.PENDING, mode=Consent.Mode.SERVICE_HOSTED
    )
    waiting = reports.filter(status=ReportStatus.PENDING_CONSENT)
    return waiting.filter(pk__in=asked.values("report_id"))


def waiting_for_payment(reports: QuerySet[Any]) -> QuerySet[Any]:
    asked = Payment.objects.filter(status__in=Payment.OUTSTANDING)
    waiting = reports.filter(status=ReportStatus.PENDING_PAYMENT)
    return waiting.filter(pk__in=asked.values("report_id"))


def waiting_for_referee(reports: QuerySet[Any]) -> QuerySet[Any]:
    asked = Reference.objects.filter(status=ReferenceStatus.PENDING)
    return reports.filter(pk__in=asked.values("report_id"))


def waiting_for_source(reports: QuerySet[Any]) -> QuerySet[Any]:
    """Filter reports with a check that has called a source, or waits for its room."""
    called = Exists(Call.objects.filter(result=OuterRef("pk")))
    return reports.filter(pk__in=_due_checks(~Q(waits_for="") | Q(called)))


def waiting_in_the_queue(reports: QuerySet[Any]) -> QuerySet[Any]:
    return reports.filter(
        pk__in=_due_checks(Q(waits_for="", next_attempt_at__lte=now()))
    )


def _due_checks(condition: Q) -> QuerySet[Any]:
    """Return the reports of unfinished checks; partial indexes have these checks."""
    unfinished = CheckResult.objects.filter(next_attempt_at__isnull=False)
    return unfinished.filter(condition).values("report_id")
