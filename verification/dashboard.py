"""The first page of the back office: what needs a person, and how the service does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.core.cache import cache
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.timezone import now

from verification.backoffice import charts
from verification.figures import Figures, figures
from verification.golive.admin import waiting
from verification.golive.models import Application, NameChange
from verification.jobs.models import Job
from verification.notifications.admin import to_review
from verification.notifications.models import (
    Block,
    Notification,
    NotificationStatus,
)
from verification.ordering.report_admin import stuck
from verification.payments.models import Checkout, Refund, RefundStatus
from verification.reports.models import Report
from verification.sources.admin import in_doubt
from verification.sources.models import Call
from webhooks.admin import failing
from webhooks.models import Configuration
from workspaces.admin import low
from workspaces.models import Account
from workspaces.staff_entry import StaffEntry, StaffEntryStatus

SECONDS = 60
# Nobody needs to know more exactly how much there is to do.
COUNTED = 999


@dataclass(frozen=True, slots=True)
class Box:
    """What waits for a person, and the list of it; `label` is of the model listed."""

    title: str
    icon: str
    label: str
    query: str
    rows: Callable[[], QuerySet[Any]]

    @property
    def url(self) -> str:
        listing = reverse(f"admin:{self.label.replace('.', '_')}_changelist")
        return f"{listing}?{self.query}"

    @property
    def permission(self) -> str:
        return self.label.replace(".", ".view_")


BOXES = [
    Box(
        "Go-live to review",
        "rocket_launch",
        "golive.application",
        "waits=staff",
        lambda: waiting(Application.objects.all()),
    ),
    Box(
        "Name changes to review",
        "badge",
        "golive.namechange",
        "status__exact=WAITING",
        lambda: NameChange.objects.filter(status=NameChange.Status.WAITING),
    ),
    Box(
        "Payments in doubt",
        "help",
        "payments.checkout",
        "doubt=any",
        lambda: Checkout.objects.exclude(doubts=[]),
    ),
    Box(
        "Refunds to decide",
        "undo",
        "payments.refund",
        "status__exact=REQUESTED",
        lambda: Refund.objects.filter(status=RefundStatus.REQUESTED),
    ),
    Box(
        "Entries to decide",
        "edit_note",
        "workspaces.staffentry",
        "status__exact=REQUESTED",
        lambda: StaffEntry.objects.filter(status=StaffEntryStatus.REQUESTED),
    ),
    Box(
        "Source calls in doubt",
        "contact_support",
        "sources.call",
        "doubt=open",
        lambda: in_doubt(Call.objects.all()),
    ),
    Box(
        "Reports stuck",
        "hourglass_top",
        "reports.report",
        "stuck=hour",
        lambda: stuck(Report.objects.all()),
    ),
    Box(
        "Receivers failing or disabled",
        "webhook",
        "webhooks.configuration",
        "trouble=any",
        lambda: failing(Configuration.objects.all()),
    ),
    Box(
        "Requesters unknown to recipients",
        "block",
        "notifications.block",
        "review=open",
        lambda: to_review(Block.objects.all()),
    ),
    Box(
        "Jobs that gave up",
        "pending_actions",
        "jobs.job",
        "gave_up_at__isempty=0",
        lambda: Job.objects.filter(gave_up_at__isnull=False),
    ),
    Box(
        "Messages not sent",
        "mail_off",
        "notifications.notification",
        "status__exact=FAILED",
        lambda: Notification.objects.filter(status=NotificationStatus.FAILED),
    ),
    Box(
        "Low balances",
        "account_balance_wallet",
        "workspaces.account",
        "balance=low",
        lambda: low(Account.objects.all()),
    ),
]


def callback(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Named by the settings; looks at the database once a minute."""
    counts = cache.get_or_set("dashboard:counts", _counts, SECONDS)
    shown = [
        {
            "title": box.title,
            "icon": box.icon,
            "url": box.url,
            "count": f"{COUNTED}+" if count > COUNTED else count,
            "waits": bool(count),
        }
        for box, count in zip(BOXES, counts or [], strict=True)
        if request.user.has_perm(box.permission)
    ]
    more: dict[str, Any] = {"boxes": shown}
    if request.user.has_perm("reports.view_report"):
        found = cache.get_or_set("dashboard:figures", lambda: figures(now()), SECONDS)
        assert found is not None  # noqa: S101
        more |= {"figures": found, "charts": _charts(found)}
        more["earns"] = request.user.has_perm("workspaces.view_ledgerentry")
        if more["earns"]:
            more["revenue"] = _revenue(found)
    return {**context, **more}


def _counts() -> list[int]:
    return [box.rows().order_by()[: COUNTED + 1].count() for box in BOXES]


def _charts(found: Figures) -> dict[str, str]:
    hours, days = found.hours, found.days
    told = f"{hours.total} checks in 24 hours, {sum(hours.failed)} of them failed"
    week = f"{days.total} checks in 7 days, {sum(days.failed)} of them failed"
    rates = [
        100 * failed / done if done else None
        for failed, done in zip(hours.failed, hours.done, strict=True)
    ]
    return {
        "checks": charts.bars(told, hours.done, hours.failed),
        "week": charts.bars(week, days.done, days.failed),
        "failures": charts.lines(f"{hours.failure_rate:.1f} % failed", rates),
        "latency": charts.lines(
            "How long checks took, half of them and 95 of 100, by hour",
            hours.median,
            hours.slow,
        ),
    }


def _revenue(found: Figures) -> dict[str, Any]:
    total = sum(found.revenue)
    told = f"KES {total:,.2f} in 7 days"
    # A day on which more was given back than earned has no bar.
    earned = [max(float(day), 0.0) for day in found.revenue]
    return {"total": total, "chart": charts.bars(told, earned)}
