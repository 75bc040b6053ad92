"""Verbs of members on reports, which cost what the page has shown or do nothing.

They call the API's own verbs: `create_reports`, `edit_draft`, `launch_together`,
`retry` and `cancel`. Each compares the digest of the page's quote (`order_quotes.py`)
with the price in its own transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Q, QuerySet

from verification import links
from verification.checks.models import CheckResult, ResultStatus
from verification.consents.links import consent_links
from verification.consents.models import Consent, is_consent_refused
from verification.console.order_inputs import Choice, Item, Offer, Values, draft_changes
from verification.console.order_quotes import (
    PricedCheck,
    digest_of,
    digest_of_drafts,
    quote_cancellations,
    quote_retry,
    read_items,
    request_body,
)
from verification.payments.links import payment_links
from verification.payments.models import PAYABLE_STATUSES, Payment
from verification.reports import launch as launches
from verification.reports.create import NewReport, create_reports
from verification.reports.drafts import edit_draft
from verification.reports.ends import cancel
from verification.reports.hosted_links import is_over
from verification.reports.idempotency import IdempotencyKey, run_once
from verification.reports.models import Report, ReportStatus, Subject, SubjectType
from verification.reports.request import Order
from verification.reports.status import NotRetryable, lock_report
from verification.values.clock import now
from workspaces.models import Client

# The fingerprint of an order's Idempotency-Key begins with this.
REQUEST = "console order"
# An order page points out reports about the same subject that are newer than this.
SAME_SUBJECT = timedelta(days=1)
MOST_OTHERS = 3


class QuoteChanged(Exception):
    """Price, reuse or known reports differ from what the member has seen."""


class CancellationChanged(Exception):
    """State or credit of a report differ from what the member has seen."""


def same_subject_reports(client: Client, orders: Sequence[Order]) -> list[Report]:
    """Return newer reports about the subjects, which might be the same orders."""
    return list(_newer_reports(client, [x.subject for x in orders])[:MOST_OTHERS])


def _newer_reports(client: Client, subjects: Sequence[Subject]) -> QuerySet[Report]:
    ids = [one.in_workspace(*client.where).id for one in subjects]
    about = Q(subject_id__in=ids)
    # Such a person has another id in each report.
    if names := [one.search_name for one in subjects if one.has_name_alone]:
        about |= Q(search_name__in=names, subject_type=SubjectType.INDIVIDUAL)
    found = Report.objects.filter(
        about,
        **client.lookups,
        created_at__gt=now() - SAME_SUBJECT,
        erased_at=None,
    )
    return found.exclude(status=ReportStatus.CANCELLED).order_by("-id")


def require_known(
    client: Client, created: Iterable[NewReport], known: Iterable[str]
) -> None:
    """Raise QuoteChanged if another report is about a subject and not `known` by id."""
    reports = [new.report for new in created]
    found = _newer_reports(client, [Subject(one.subject or {}) for one in reports])
    others = found.exclude(pk__in=[report.pk for report in reports])
    newest = others.values_list("pk", flat=True)[:MOST_OTHERS]
    if not {str(pk) for pk in newest} <= set(known):
        raise QuoteChanged


def place_order(
    client: Client,
    items: Sequence[Item],
    *,
    draft: bool,
    key: str,
    digest: str,
    also: Callable[[list[NewReport]], None],
) -> tuple[list[UUID], bool]:
    """Create the reports of a quote, once for each key.

    Returns their ids, and whether an earlier request has created them.
    `also` is called in the same transaction: it checks permission and writes the trail.
    Raises QuoteChanged if a launched report would cost something else than the quote
    with this digest, and what `read_orders`, `create_reports` and `run_once` raise;
    then nothing is ordered.
    """

    def carry_out() -> dict[str, Any]:
        created = create_reports(client, read_items(client, items, draft))
        if not draft:
            require_quoted((new.report.pk for new in created), digest)
        also(created)
        return {"reports": [str(new.report.pk) for new in created]}

    body = request_body(items, draft)
    done = run_once(IdempotencyKey.read(key, client, REQUEST, body), carry_out)
    return [UUID(report) for report in done.body["reports"]], done.replayed


def require_quoted(report_ids: Iterable[UUID], digest: str) -> None:
    """Raise QuoteChanged if new reports cost something else than the quote."""
    if digest_of(_priced_checks(report_ids).values()) != digest:
        raise QuoteChanged


def _priced_checks(report_ids: Iterable[UUID]) -> dict[UUID, list[PricedCheck]]:
    """Return what each check of these reports costs."""
    lines: dict[UUID, list[PricedCheck]] = {pk: [] for pk in report_ids}
    for row in CheckResult.objects.filter(report__in=list(lines)).order_by("position"):
        lines[row.report_id].append((row.name, row.price, row.reused_from_id))
    return lines


def save_draft(
    client: Client, report: Report, choice: Choice, values: Values, offer: Offer
) -> list[str]:
    """Change a draft by the API's verb; return the names of the changed members.

    Only what differs is sent: an edit of a member that the notice shows voids the
    subject's consent, even with the same value. Raises as `edit_draft`.
    """
    changed = draft_changes(report, choice, values, offer)
    if changed:
        edit_draft(client, report.pk, changed)
    return sorted(changed)


@transaction.atomic
def launch_as_quoted(client: Client, report_ids: Sequence[UUID], digest: str) -> None:
    """Launch drafts for the price that was shown, all or none.

    Raises as `launch_together`, or QuoteChanged.
    """
    launches.launch_together(client, report_ids)
    if digest_of_drafts(_priced_checks(report_ids)) != digest:
        raise QuoteChanged


@transaction.atomic
def retry_as_quoted(client: Client, report_id: UUID, digest: str) -> Report:
    """Run the failed checks that were shown again, once.

    Raises as `retry`, or QuoteChanged if a retry has run since.
    """
    report = lock_report(client, report_id)
    launches.check_retryable(report, launches.failed_checks(report))
    if quote_retry(report)[1] != digest:
        raise QuoteChanged
    return launches.retry(client, report_id)


@transaction.atomic
def cancel_as_quoted(client: Client, report_id: UUID, digest: str) -> Report:
    """Cancel a report in the state and for the credit that were shown.

    Raises as `cancel`, or CancellationChanged if checks have begun since.
    """
    report = lock_report(client, report_id)
    shown = quote_cancellations([report])[report.pk].digest
    if not report.is_ended and shown != digest:
        raise CancellationChanged
    return cancel(client, report_id)


def actions_of(
    report: Report, results: list[CheckResult] | None = None
) -> dict[str, Any]:
    """Return the verbs that the report's status and links allow now.

    `blockers` are codes of why a draft cannot be launched. `results` are those of the
    report with their definitions, if the caller has them.
    """
    is_draft = report.status == ReportStatus.DRAFT
    if results is None:
        has_verbs = is_draft or report.is_ended
        rows = report.results.select_related("definition")
        results = list(rows) if has_verbs else []
    blockers = launches.launch_blockers(report, results) if is_draft else []
    failed = [one for one in results if one.status == ResultStatus.FAILED]
    consent = getattr(report, "consent", None)
    payment = getattr(report, "payment", None)
    return {
        "launch": is_draft and not blockers,
        "blockers": blockers,
        "consent_gap": launches.consent_gap(report, results),
        "edit": is_draft and report.subject is not None,
        "cancel": not report.is_ended,
        "retry": _may_retry(report, failed),
        "resend_consent": consent_links.can_renew(report, consent),
        "resend_payment": payment_links.can_renew(report, payment),
        "repeat": report.subject is not None,
    }


def links_of(report: Report) -> dict[str, str]:
    """Return the links that work now, for members who hand them over themselves."""
    at, found = now(), {}
    consent = getattr(report, "consent", None)
    if consent and not report.is_ended and _waits(consent, at):
        is_pending = consent.status == Consent.Status.PENDING
        if is_pending and consent.mode == Consent.Mode.SERVICE_HOSTED:
            found["consent_url"] = links.consent_url(consent.pk, consent.generation)
    payment = getattr(report, "payment", None)
    is_payable = report.status in PAYABLE_STATUSES and not is_consent_refused(report)
    if payment and payment.is_outstanding and is_payable and _waits(payment, at):
        found["payment_url"] = links.payment_url(payment.pk, payment.generation)
    return found


def _waits(row: Consent | Payment, at: datetime) -> bool:
    return row.expires_at is not None and not is_over(row, at)


def _may_retry(report: Report, failed: list[CheckResult]) -> bool:
    try:
        launches.check_retryable(report, failed)
    except NotRetryable:
        return False
    return True
