"""All that is known of one report, in a bounded number of queries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import Model

from verification.backoffice.rendering import link
from verification.checks.models import CheckResult
from verification.consents.models import ConsentRecord
from verification.notifications.models import Notification
from verification.ordering.messages import causes_of
from verification.payments.models import Checkout, PaymentEvent, Refund
from verification.references.models import Reference
from verification.reports.models import Report
from webhooks.models import Delivery, Event
from workspaces.models import LedgerEntry

# A report has at most 10 checks; what is shown of anything is bounded, too.
SHOWN = 100


@dataclass
class Story:
    report: Report
    changes: list[Any]
    results: list[CheckResult]
    records: list[ConsentRecord]
    references: list[Reference]
    checkouts: list[Checkout]
    events: list[Event]
    entries: list[LedgerEntry]
    messages: list[Notification]
    # Asked for only where there is a checkout.
    refunds: list[Refund] = field(default_factory=list)
    provider_events: list[PaymentEvent] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Moment:
    at: datetime
    icon: str
    what: str
    page: str = ""
    by: str = ""


def story_of(report: Report) -> Story:
    results = list(report.results.all()[:SHOWN])
    events = Event.objects.filter(report_id=report.pk).select_related("delivery")
    # Found by the results: their index is the one entries have.
    entries = LedgerEntry.objects.filter(result_id__in=[r.pk for r in results])
    messages = Notification.objects.filter(cause__in=causes_of(report))
    messages = messages.defer("context", "recipient")
    references = report.references.defer("answers", "evidence")
    story = Story(
        report,
        list(report.status_changes.all()[:SHOWN]),
        results,
        list(report.consent_records.defer("evidence")[:SHOWN]),
        list(references.order_by("id")[:SHOWN]),
        list(report.checkouts.order_by("id")[:SHOWN]),
        list(events.defer("payload").order_by("id")[:SHOWN]),
        list(entries.order_by("id")[:SHOWN]),
        list(messages.order_by("id")[:SHOWN]),
    )
    if story.checkouts:
        paid = {"checkout__in": story.checkouts}
        story.refunds = list(Refund.objects.filter(**paid).order_by("id")[:SHOWN])
        told = PaymentEvent.objects.filter(**paid).defer("body").order_by("id")
        story.provider_events = list(told[:SHOWN])
    return story


def timeline(story: Story) -> list[Moment]:
    """Everything that has a time, oldest first."""
    return sorted(_moments(story), key=lambda moment: moment.at)


def _moments(story: Story) -> Iterator[Moment]:
    for change in story.changes:
        told = f"{change} · {change.trigger}"
        yield Moment(change.created_at, "swap_horiz", told, by=change.actor)
    for record in story.records:
        told = f"Consent {record.happened.lower()}, receipt {record.number}"
        yield Moment(record.created_at, "how_to_reg", told, _page(record))
    for result in story.results:
        if result.completed_at:
            told = f"{result.name} {result.status.lower()}"
            yield Moment(result.completed_at, "fact_check", told, _page(result))
    yield from _answers(story)
    yield from _payments(story)
    for event in story.events:
        yield Moment(event.created_at, "webhook", *_delivered(event))


def _answers(story: Story) -> Iterator[Moment]:
    for reference in story.references:
        name, page = f"Reference {reference.number}", _page(reference)
        yield Moment(reference.created_at, "reviews", f"{name} asked for", page)
        if at := reference.submitted_at or reference.declined_at:
            told = f"{name} {reference.status.lower()}"
            yield Moment(at, "reviews", told, page)


def _payments(story: Story) -> Iterator[Moment]:
    for checkout in story.checkouts:
        name, page = f"Checkout {checkout.number}", _page(checkout)
        begun = f"{name} begun at {checkout.provider}"
        if checkout.is_prompt:
            begun = f"{name}: M-Pesa prompt by {checkout.provider}"
        by = checkout.started_by
        yield Moment(checkout.created_at, "point_of_sale", begun, page, by)
        if checkout.paid_at:
            told = f"{name} paid: {checkout.paid_currency} {checkout.paid_amount}"
            yield Moment(checkout.paid_at, "payments", told, page)
    for refund in story.refunds:
        told = f"Refund of {refund.amount} {refund.status.lower()}"
        at = refund.ended_at or refund.created_at
        yield Moment(at, "undo", told, _page(refund), refund.requested_by)
    for event in story.provider_events:
        told = f"{event.provider}: {event.type}"
        yield Moment(event.received_at, "receipt_long", told, _page(event))


def _delivered(event: Event) -> tuple[str, str]:
    delivery: Delivery | None = getattr(event, "delivery", None)
    if delivery is None:
        return f"{event.name}, for no receiver", _page(event)
    told = f"{event.name} {delivery.status.lower()}, {delivery.attempts} attempts"
    return told, _page(delivery)


def _page(row: Model) -> str:
    return link(row, "open")
