"""What runs by the clock. A missed time runs once, and any number of clusters run it
once: each takes what is due under a lock, every half minute."""

from typing import NamedTuple

from django.db import transaction
from django_q.models import Schedule


class Every(NamedTuple):
    name: str
    minutes: int
    function: str


SCHEDULES = [
    Every("Run due checks", 1, "verification.checks.tasks.run_due"),
    Every("Expire consents", 1, "verification.consents.tasks.expire_consents"),
    Every("Remind subjects", 10, "verification.consents.tasks.remind_subjects"),
    Every("Chase references", 10, "verification.references.tasks.chase_references"),
    Every("Look at checkouts", 1, "verification.payments.tasks.look_at_checkouts"),
    Every("Send refunds", 1, "verification.payments.tasks.send_refunds"),
    Every(
        "Give back what was not done", 1, "verification.payments.tasks.give_back_undone"
    ),
    Every("Expire payments", 1, "verification.payments.tasks.expire_payments"),
    Every("Remind payers", 10, "verification.payments.tasks.remind_payers"),
    Every(
        "Reconcile payments", 24 * 60, "verification.payments.tasks.reconcile_payments"
    ),
    Every(
        "Alert operators of payments", 1, "verification.payments.tasks.alert_operators"
    ),
    Every(
        "Tell operators of payments",
        24 * 60,
        "verification.payments.tasks.tell_operators",
    ),
    Every(
        "Purge events of payment providers",
        60,
        "verification.payments.tasks.purge_payment_events",
    ),
    Every("Run monitoring rules", 1, "monitoring.tasks.run_due"),
    Every("Compare what was left", 5, "monitoring.tasks.compare_left"),
    Every("Tell of paused rules", 10, "monitoring.tasks.tell_paused"),
    Every("Purge old alerts", 60, "monitoring.tasks.purge_alerts"),
    Every("Send due deliveries", 1, "webhooks.tasks.send_due"),
    Every("Send due notifications", 1, "verification.notifications.tasks.send_due"),
    Every(
        "Purge recipients of old notifications",
        60,
        "verification.notifications.tasks.purge_recipients",
    ),
    Every("Purge old events", 60, "webhooks.tasks.purge_events"),
    Every(
        "Purge used idempotency keys",
        60,
        "verification.reports.tasks.purge_idempotency_keys",
    ),
    Every("Tell low balances", 10, "workspaces.tasks.tell_low_balances"),
    Every("Purge old notes of staff", 24 * 60, "workspaces.tasks.purge_notes"),
    Every("Purge counts of past minutes", 10, "workspaces.tasks.purge_rate_counts"),
    Every(
        "End expired invitations",
        24 * 60,
        "workspaces.tasks.end_expired_invitations",
    ),
    Every(
        "Purge ended sessions", 24 * 60, "verification.accounts.tasks.purge_sessions"
    ),
    Every(
        "Purge sign-ups that nobody confirmed",
        24 * 60,
        "verification.accounts.tasks.purge_unconfirmed",
    ),
    Every("Purge counts of sources", 60, "verification.sources.tasks.purge_minutes"),
    Every(
        "Erase callbacks that no check has read",
        60,
        "verification.checks.tasks.erase_callbacks",
    ),
    Every("Purge old job failures", 24 * 60, "verification.jobs.tasks.purge_failures"),
]


@transaction.atomic
def declare() -> None:
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
