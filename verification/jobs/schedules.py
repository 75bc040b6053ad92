"""The jobs that run by the clock.

A missed time runs once, however many clusters there are: every half minute each of them
claims the due schedules under a lock.
"""

from datetime import timedelta
from typing import NamedTuple

from django.db import transaction
from django.utils.timezone import now
from django_q.models import Failure, Schedule

from verification.jobs.models import Heartbeat, Job
from verification.jobs.queue import job

FAILURE_RETENTION = timedelta(days=30)


class ScheduledJob(NamedTuple):
    name: str
    minutes: int
    function: str


SCHEDULES = [
    ScheduledJob("Run due checks", 1, "verification.checks.engine.run_due_checks"),
    ScheduledJob("Expire consents", 1, "verification.consents.links.expire_consents"),
    ScheduledJob("Remind subjects", 10, "verification.consents.links.remind_subjects"),
    ScheduledJob(
        "Remind referees and expire references",
        10,
        "verification.references.requests.remind_and_expire_references",
    ),
    ScheduledJob(
        "Look at checkouts", 1, "verification.payments.settlement.poll_due_checkouts"
    ),
    ScheduledJob("Send refunds", 1, "verification.payments.refunds.send_refunds"),
    ScheduledJob(
        "Give back what was not done",
        1,
        "verification.payments.refunds.refund_unfinished_parts",
    ),
    ScheduledJob("Expire payments", 1, "verification.payments.links.expire_payments"),
    ScheduledJob("Remind payers", 10, "verification.payments.links.remind_payers"),
    ScheduledJob(
        "Reconcile payments",
        24 * 60,
        "verification.payments.reconciliation.reconcile_yesterday",
    ),
    ScheduledJob(
        "Alert operators of payments",
        1,
        "verification.payments.alerts.send_urgent_alerts",
    ),
    ScheduledJob(
        "Tell operators of payments",
        24 * 60,
        "verification.payments.alerts.send_daily_alerts",
    ),
    ScheduledJob(
        "Purge events of payment providers",
        60,
        "verification.payments.provider_events.purge_payment_events",
    ),
    ScheduledJob(
        "Purge operator alerts",
        60,
        "verification.payments.alerts.purge_operator_alerts",
    ),
    ScheduledJob("Run monitoring rules", 1, "monitoring.runs.launch_due_runs"),
    ScheduledJob("Compare what was left", 5, "monitoring.alerts.compare_lost_runs"),
    ScheduledJob("Tell of paused rules", 10, "monitoring.pauses.notify_paused"),
    ScheduledJob("Purge old alerts", 60, "monitoring.alerts.purge_alerts"),
    ScheduledJob("Send due deliveries", 1, "webhooks.delivery.send_due_deliveries"),
    ScheduledJob(
        "Send due notifications",
        1,
        "verification.notifications.delivery.send_due_notifications",
    ),
    ScheduledJob(
        "Purge recipients of old notifications",
        60,
        "verification.notifications.outbox.purge_recipients",
    ),
    ScheduledJob("Purge old events", 60, "webhooks.events.purge_events"),
    ScheduledJob(
        "Purge used idempotency keys",
        60,
        "verification.reports.idempotency.purge_idempotency_records",
    ),
    ScheduledJob("Tell low balances", 10, "workspaces.ledger.notify_low_balances"),
    ScheduledJob("Purge old notes of staff", 24 * 60, "workspaces.models.purge_notes"),
    ScheduledJob(
        "Purge counts of past minutes", 10, "workspaces.rate_limits.purge_counts"
    ),
    ScheduledJob(
        "End expired invitations",
        24 * 60,
        "workspaces.members.end_expired_invitations",
    ),
    ScheduledJob(
        "Purge ended sessions", 24 * 60, "verification.accounts.sessions.purge_sessions"
    ),
    ScheduledJob(
        "Purge sign-ups that nobody confirmed",
        24 * 60,
        "verification.accounts.models.purge_unconfirmed_users",
    ),
    ScheduledJob(
        "Purge counts of sources", 60, "verification.sources.health.purge_old_minutes"
    ),
    ScheduledJob(
        "Erase callbacks that no check has read",
        60,
        "verification.checks.callbacks.erase_unread_answers",
    ),
    ScheduledJob(
        "Purge old job failures", 24 * 60, "verification.jobs.schedules.purge_failures"
    ),
]


@transaction.atomic
def sync_schedules() -> None:
    """Store the schedules of this file, and keep the next time of each."""
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


@job
def purge_failures() -> None:
    """Delete failures, jobs that were given up and heartbeats of ended clusters."""
    before = now() - FAILURE_RETENTION
    Failure.objects.filter(stopped__lt=before).delete()
    Job.objects.filter(gave_up_at__lt=before).delete()
    Heartbeat.objects.filter(beat_at__lt=before).delete()
