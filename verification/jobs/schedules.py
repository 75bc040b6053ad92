"""What runs by the clock. A missed time runs once, and any number of clusters run it
once: each takes what is due under a lock, every half minute."""

from typing import NamedTuple

from django.db import transaction
from django_q.models import Schedule


class ScheduledJob(NamedTuple):
    name: str
    minutes: int
    function: str


SCHEDULES = [
    ScheduledJob("Run due checks", 1, "verification.checks.tasks.run_due"),
    ScheduledJob("Expire consents", 1, "verification.consents.links.expire_consents"),
    ScheduledJob("Remind subjects", 10, "verification.consents.links.remind_subjects"),
    ScheduledJob(
        "Chase references",
        10,
        "verification.references.links.remind_and_expire_references",
    ),
    ScheduledJob("Look at checkouts", 1, "verification.payments.tasks.poll_checkouts"),
    ScheduledJob("Send refunds", 1, "verification.payments.tasks.send_refunds"),
    ScheduledJob(
        "Give back what was not done",
        1,
        "verification.payments.tasks.refund_unfinished_parts",
    ),
    ScheduledJob("Expire payments", 1, "verification.payments.links.expire_payments"),
    ScheduledJob("Remind payers", 10, "verification.payments.links.remind_payers"),
    ScheduledJob(
        "Reconcile payments", 24 * 60, "verification.payments.tasks.reconcile_payments"
    ),
    ScheduledJob(
        "Alert operators of payments",
        1,
        "verification.payments.tasks.send_urgent_alerts",
    ),
    ScheduledJob(
        "Tell operators of payments",
        24 * 60,
        "verification.payments.tasks.send_daily_alerts",
    ),
    ScheduledJob(
        "Purge events of payment providers",
        60,
        "verification.payments.tasks.purge_payment_events",
    ),
    ScheduledJob("Run monitoring rules", 1, "monitoring.tasks.run_due"),
    ScheduledJob("Compare what was left", 5, "monitoring.tasks.compare_lost_runs"),
    ScheduledJob("Tell of paused rules", 10, "monitoring.tasks.notify_paused"),
    ScheduledJob("Purge old alerts", 60, "monitoring.tasks.purge_alerts"),
    ScheduledJob("Send due deliveries", 1, "webhooks.tasks.send_due"),
    ScheduledJob(
        "Send due notifications", 1, "verification.notifications.tasks.send_due"
    ),
    ScheduledJob(
        "Purge recipients of old notifications",
        60,
        "verification.notifications.tasks.purge_recipients",
    ),
    ScheduledJob("Purge old events", 60, "webhooks.tasks.purge_events"),
    ScheduledJob(
        "Purge used idempotency keys",
        60,
        "verification.reports.tasks.purge_idempotency_keys",
    ),
    ScheduledJob("Tell low balances", 10, "workspaces.tasks.notify_low_balances"),
    ScheduledJob("Purge old notes of staff", 24 * 60, "workspaces.tasks.purge_notes"),
    ScheduledJob(
        "Purge counts of past minutes", 10, "workspaces.tasks.purge_rate_counts"
    ),
    ScheduledJob(
        "End expired invitations",
        24 * 60,
        "workspaces.tasks.end_expired_invitations",
    ),
    ScheduledJob(
        "Purge ended sessions", 24 * 60, "verification.accounts.tasks.purge_sessions"
    ),
    ScheduledJob(
        "Purge sign-ups that nobody confirmed",
        24 * 60,
        "verification.accounts.tasks.purge_unconfirmed_users",
    ),
    ScheduledJob(
        "Purge counts of sources", 60, "verification.sources.tasks.purge_minutes"
    ),
    ScheduledJob(
        "Erase callbacks that no check has read",
        60,
        "verification.checks.tasks.erase_callbacks",
    ),
    ScheduledJob(
        "Purge old job failures", 24 * 60, "verification.jobs.tasks.purge_failures"
    ),
]


@transaction.atomic
def sync_schedules() -> None:
    """Make the stored schedules those of this file, keeping when each is next due."""
    Schedule.objects.exclude(name__in=[s.name for s in SCHEDULES]).delete()
    for schedule in SCHEDULES:
        Schedule.objects.update_or_create(
            name=schedule.name,
            defaults={
                "func": schedule.function,
                "schedule_type": Schedule.MINUTES,
                "minutes": schedule.minutes,
                "repeats": -1,
            },
        )
