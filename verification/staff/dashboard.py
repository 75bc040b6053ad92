"""The dashboard of the admin: open tasks of staff, and figures of the service.

Figures of the last 24 hours and 7 days: checks, failures, latency, revenue.

Queries find rows by id, which grows with time, so each reads only its span. Checks of
reports that are older than the span are not counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.core.cache import cache
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse

from verification.backoffice import widgets
from verification.db.base import run_sql
from verification.db.ids import first_id_at
from verification.golive.admin import filter_waiting
from verification.golive.models import Application, NameChange
from verification.jobs.models import Job
from verification.notifications.admin import to_review
from verification.notifications.models import Block, Notification, NotificationStatus
from verification.payments.models import Checkout, Refund, RefundStatus
from verification.privacy.models import SubjectRequest
from verification.privacy.staff_erasures import erasures_to_decide
from verification.reports.admin import filter_stuck
from verification.reports.models import Report
from verification.sources.admin import calls_in_doubt
from verification.sources.models import Call
from verification.values.clock import now
from verification.values.local_time import NAIROBI, format_nairobi
from webhooks.admin import failing
from webhooks.models import Configuration
from workspaces.admin import filter_low_balance
from workspaces.create import OPERATOR_ID
from workspaces.models import Account, Environment, StaffEntry

CACHE_SECONDS = 60

# Higher counts are shown as "999+".
MAX_COUNT = 999


@dataclass(frozen=True, slots=True)
class Box:
    """A count of rows that need a person, with a link to their list.

    `label` names the model and `query` the filter of the list. `environment` is the
    lookup of the rows' environment, empty if they have none. `note` returns a line
    about the rows, if there are any.
    """

    title: str
    icon: str
    label: str
    query: str
    rows: Callable[[], QuerySet[Any]]
    environment: str = "environment"
    note: Callable[[QuerySet[Any]], str] = lambda rows: ""

    def found(self, environment: str) -> QuerySet[Any]:
        """Return an environment's rows; those without one belong to production."""
        if not self.environment:
            rows = self.rows()
            return rows if environment == Environment.PRODUCTION else rows.none()
        return self.rows().filter(**self._environment_lookup(environment))

    def url(self, environment: str) -> str:
        listing = reverse(f"admin:{self.label.replace('.', '_')}_changelist")
        only = self._environment_lookup(environment) if self.environment else {}
        more = "".join(f"&{name}__exact={value}" for name, value in only.items())
        return f"{listing}?{self.query}{more}"

    def _environment_lookup(self, environment: str) -> dict[str, Any]:
        if self.environment == "sandbox":
            return {"sandbox": int(environment == Environment.SANDBOX)}
        return {self.environment: environment}

    @property
    def permission(self) -> str:
        return self.label.replace(".", ".view_")


def _next_due(requests: QuerySet[Any]) -> str:
    first = requests.order_by("due_at").values_list("due_at", flat=True).first()
    return f"next due {format_nairobi(first)}" if first else ""


BOXES = [
    Box(
        "Go-live to review",
        "rocket_launch",
        "golive.application",
        "waits=staff",
        lambda: filter_waiting(Application.objects.all()),
        "",
    ),
    Box(
        "Name changes to review",
        "badge",
        "golive.namechange",
        "status__exact=WAITING",
        lambda: NameChange.objects.filter(status=NameChange.Status.WAITING),
        "",
    ),
    Box(
        "Payments to review",
        "help",
        "payments.checkout",
        "review_flag=any",
        lambda: Checkout.objects.exclude(review_flags=[]),
    ),
    Box(
        "Refunds to decide",
        "undo",
        "payments.refund",
        "status__exact=REQUESTED",
        lambda: Refund.objects.filter(status=RefundStatus.REQUESTED),
        "checkout__environment",
    ),
    Box(
        "Entries to decide",
        "edit_note",
        "workspaces.staffentry",
        "status__exact=REQUESTED",
        lambda: StaffEntry.objects.filter(status=StaffEntry.Status.REQUESTED),
        "account__environment",
    ),
    Box(
        "Requests of subjects open",
        "contact_mail",
        "privacy.subjectrequest",
        "state=clocked",
        lambda: SubjectRequest.objects.clocked(),
        "",
        _next_due,
    ),
    Box(
        "Requests of subjects overdue",
        "notification_important",
        "privacy.subjectrequest",
        "state=overdue",
        lambda: SubjectRequest.objects.overdue(),
        "",
    ),
    Box(
        "Erasures to decide",
        "delete_forever",
        "privacy.stafferasure",
        "status__exact=REQUESTED",
        erasures_to_decide,
        "",
    ),
    Box(
        "Source calls in doubt",
        "contact_support",
        "sources.call",
        "doubt=open",
        lambda: calls_in_doubt(Call.objects.all()),
        "",
    ),
    Box(
        "Reports stuck",
        "hourglass_top",
        "reports.report",
        "stuck=hour",
        lambda: filter_stuck(Report.objects.all()),
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
        "",
    ),
    Box(
        "Jobs that gave up",
        "pending_actions",
        "jobs.job",
        "gave_up_at__isempty=0&dismissed_at__isempty=1",
        lambda: Job.objects.given_up(),
        "",
    ),
    Box(
        "Messages not sent",
        "mail_off",
        "notifications.notification",
        "status__exact=FAILED",
        lambda: Notification.objects.filter(status=NotificationStatus.FAILED),
        "sandbox",
    ),
    Box(
        "Low balances",
        "account_balance_wallet",
        "workspaces.account",
        "balance=low",
        lambda: filter_low_balance(Account.objects.all()),
    ),
]

# Production has all boxes, the sandbox those whose rows have an environment.
BOX_ENVIRONMENTS = [
    (box, environment)
    for environment in (Environment.PRODUCTION, Environment.SANDBOX)
    for box in BOXES
    if box.environment or environment == Environment.PRODUCTION
]


def callback(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Add the boxes and figures; unfold's DASHBOARD_CALLBACK. Cached for a minute."""
    counts = cache.get_or_set("dashboard:counts", _count_boxes, CACHE_SECONDS)
    shown: dict[str, list[dict[str, Any]]] = {"production": [], "sandbox": []}
    for (box, environment), (count, note) in zip(
        BOX_ENVIRONMENTS, counts or [], strict=True
    ):
        # Of the sandbox, boxes without rows are left out.
        if request.user.has_perm(box.permission) and (
            count or environment == Environment.PRODUCTION
        ):
            shown[environment].append(
                {
                    "title": box.title,
                    "icon": box.icon,
                    "url": box.url(environment),
                    "count": f"{MAX_COUNT}+" if count > MAX_COUNT else count,
                    "waits": bool(count),
                    "note": note,
                }
            )
    more: dict[str, Any] = {
        "boxes": shown["production"],
        "sandbox_boxes": shown["sandbox"],
    }
    if request.user.has_perm("reports.view_report"):
        latest = cache.get_or_set(
            "dashboard:figures", lambda: figures(now()), CACHE_SECONDS
        )
        assert latest is not None  # noqa: S101
        more |= {"figures": latest, "charts": _charts(latest)}
        more["earns"] = request.user.has_perm("workspaces.view_ledgerentry")
        if more["earns"]:
            more["revenue"] = _revenue(latest)
    return {**context, **more}


def _count_boxes() -> list[tuple[int, str]]:
    counted = []
    for box, environment in BOX_ENVIRONMENTS:
        rows = box.found(environment)
        count = rows.order_by()[: MAX_COUNT + 1].count()
        counted.append((count, box.note(rows) if count else ""))
    return counted


def _charts(latest: Figures) -> dict[str, str]:
    hours = latest.hours
    rates = [
        100 * failed / done if done else None
        for failed, done in zip(hours.failed, hours.done, strict=True)
    ]
    return {
        "checks": _bars(hours, "24 hours"),
        "week": _bars(latest.days, "7 days"),
        "sandbox": _bars(latest.sandbox_hours, "24 hours"),
        "sandbox_week": _bars(latest.sandbox_days, "7 days"),
        "failures": widgets.line_chart(f"{hours.failure_rate:.1f} % failed", rates),
        "latency": widgets.line_chart(
            "How long checks took, half of them and 95 of 100, by hour",
            hours.median,
            hours.slow,
        ),
    }


def _bars(span: Span, time: str) -> str:
    label = f"{span.total} checks in {time}, {sum(span.failed)} of them failed"
    return widgets.bar_chart(label, span.done, span.failed)


def _revenue(latest: Figures) -> dict[str, Any]:
    total = sum(latest.revenue)
    label = f"KES {total:,.2f} in 7 days"
    # A day with more refunds than earnings has no bar.
    earned = [max(float(day), 0.0) for day in latest.revenue]
    return {"total": total, "chart": widgets.bar_chart(label, earned)}


HOURS, DAYS = 24, 7

# (environment, start) -> what CHECKS counts
Rows = dict[tuple[str, datetime], tuple[Any, ...]]

CHECKS = """
SELECT r.environment, date_trunc(%(unit)s, c.completed_at, 'Africa/Nairobi'), count(*),
    count(*) FILTER (WHERE c.status = 'FAILED'),
    percentile_cont(0.5) WITHIN GROUP (ORDER BY c.duration_ms),
    percentile_cont(0.95) WITHIN GROUP (ORDER BY c.duration_ms)
FROM checks_checkresult c JOIN reports_report r ON r.id = c.report_id
WHERE c.id >= %(first)s AND r.id >= %(first)s
    AND c.completed_at >= %(since)s AND c.completed_at < %(until)s
    AND c.status IN ('COMPLETED', 'FAILED')
GROUP BY 1, 2
"""

# Charges less reversals, and payments less refunds, in production. The operator's own
# workspace is left out.
REVENUE = """
SELECT day, sum(amount) FROM (
    SELECT date_trunc('day', e.created_at, 'Africa/Nairobi') AS day, -e.amount AS amount
    FROM workspaces_ledgerentry e JOIN workspaces_account a ON a.id = e.account_id
    WHERE e.id >= %(first)s AND e.created_at >= %(since)s AND e.created_at < %(until)s
        AND e.kind IN ('CHARGE', 'REVERSAL') AND a.environment = 'production'
        AND a.workspace_id <> %(operator)s
    UNION ALL
    SELECT date_trunc('day', paid_at, 'Africa/Nairobi'), paid_amount - refunded
    FROM payments_checkout
    WHERE id >= %(first)s AND paid_at >= %(since)s AND paid_at < %(until)s
        AND is_counted AND report_id IS NOT NULL AND environment = 'production'
) AS earned GROUP BY day
"""


@dataclass(frozen=True, slots=True)
class Span:
    """Checks in each hour or day, oldest first."""

    starts: list[datetime]
    done: list[int]
    failed: list[int]
    median: list[float | None]
    slow: list[float | None]

    @property
    def total(self) -> int:
        return sum(self.done)

    @property
    def failure_rate(self) -> float:
        return 100 * sum(self.failed) / self.total if self.total else 0.0


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of production, and those of the sandbox in `sandbox_*`."""

    hours: Span
    days: Span
    sandbox_hours: Span
    sandbox_days: Span
    revenue: list[Decimal]


def figures(at: datetime) -> Figures:
    """Return the figures, by hours and days of Nairobi, with the current ones."""
    hour = at.astimezone(NAIROBI).replace(minute=0, second=0, microsecond=0)
    day = hour.replace(hour=0)
    hours = [hour - timedelta(hours=n) for n in reversed(range(HOURS))]
    days = [day - timedelta(days=n) for n in reversed(range(DAYS))]
    earned = {row[0]: row[1] for row in _rows(REVENUE, days[0], at, "day")}
    revenue = [earned.get(start, Decimal(0)) for start in days]
    live_hours, play_hours = _spans("hour", hours, at)
    live_days, play_days = _spans("day", days, at)
    return Figures(live_hours, live_days, play_hours, play_days, revenue)


def _spans(unit: str, starts: list[datetime], until: datetime) -> tuple[Span, Span]:
    """Return the spans of production and of the sandbox."""
    found = {row[:2]: row[2:] for row in _rows(CHECKS, starts[0], until, unit)}
    live = _span(Environment.PRODUCTION, starts, found)
    return live, _span(Environment.SANDBOX, starts, found)


def _span(environment: str, starts: list[datetime], found: Rows) -> Span:
    rows = [found.get((environment, start), (0, 0, None, None)) for start in starts]
    done, failed, median, slow = (list(column) for column in zip(*rows, strict=True))
    return Span(starts, done, failed, median, slow)


def _rows(sql: str, since: datetime, until: datetime, unit: str) -> list[Any]:
    given: dict[str, Any] = {
        "unit": unit,
        "since": since,
        "until": until,
        "first": first_id_at(since - timedelta(hours=1)),
        "operator": OPERATOR_ID,
    }
    return run_sql(sql, given)
