"""Find the messages about a report, for its client and for staff."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet

from verification.consents.messages import code_cause
from verification.notifications.models import Notification
from verification.payments.models import Refund
from verification.reports.links import reminder_cause, request_cause
from verification.reports.models import Report

LINK_CAUSES = (request_cause, reminder_cause)


def client_messages(report: Report) -> QuerySet[Notification]:
    """Return the messages with the report's present links, oldest first."""
    rows = [getattr(report, name, None) for name in ("consent", "payment")]
    rows += report.references.all()
    causes = [cause(row) for row in rows if row for cause in LINK_CAUSES]
    return Notification.objects.filter(cause__in=causes).order_by("id")


def message_causes(report: Report) -> list[str]:
    """Return the causes of all messages about the report, with earlier links too."""
    causes = []
    for name in ("consent", "payment"):
        if row := getattr(report, name, None):
            causes += _link_causes(name, row)
    if consent := getattr(report, "consent", None):
        codes = range(1, consent.codes_sent + 1)
        causes += [code_cause(consent, number) for number in codes]
    for reference in report.references.only("generation"):
        causes += [*_link_causes("reference", reference), f"receipt:{reference.pk}"]
    records = report.consent_records.values_list("pk", flat=True)
    causes += [f"receipt:{pk}" for pk in records]
    for checkout in report.checkouts.values_list("pk", flat=True):
        causes += [f"paid:{checkout}", f"short:{checkout}"]
    refunds = Refund.objects.filter(checkout__report=report)
    return causes + [f"refunded:{pk}" for pk in refunds.values_list("pk", flat=True)]


def _link_causes(name: str, row: Any) -> list[str]:
    links = [f"{name}:{row.pk}:{n}" for n in range(1, row.generation + 1)]
    kinds = ("reminder", "locked", "wanted")
    return [*links, *(f"{cause}:{kind}" for cause in links for kind in kinds)]
