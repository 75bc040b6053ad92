"""The requests that a report has sent to people, for its client to see."""

from __future__ import annotations

from django.db.models import QuerySet

from verification.checks.refereeing import causes_of
from verification.notifications.models import Notification
from verification.ordering.payers import request_causes
from verification.ordering.telling import reminder_cause, request_cause
from verification.payments.models import Payment
from verification.reports.models import Report


def messages_of(report: Report) -> QuerySet[Notification]:
    """Requests and reminders by the present links of the report, oldest first."""
    causes: list[str] = []
    if consent := getattr(report, "consent", None):
        causes += [request_cause(consent), reminder_cause(consent)]
    payment: Payment | None = getattr(report, "payment", None)
    if payment:
        causes += request_causes(payment)
    for reference in report.references.all():
        causes += causes_of(reference)
    return Notification.objects.filter(cause__in=causes).order_by("id")
