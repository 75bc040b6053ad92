"""The jobs that run by the clock, and how often.

A missed time runs once, however many clusters there are: every half minute each of them
claims the due schedules under a lock.
"""

from datetime import timedelta

from django_q.models import Failure

from verification.jobs.models import Heartbeat, Job
from verification.jobs.queue import job
from verification.values.clock import now

FAILURE_RETENTION = timedelta(days=30)
DAILY = 24 * 60
# job -> minutes from one run to the next
SCHEDULES = {
    "verification.checks.engine.run_due_checks": 1,
    "verification.consents.links.expire_consents": 1,
    "verification.consents.links.remind_subjects": 10,
    "verification.references.requests.remind_and_expire_references": 10,
    "verification.decisions.notices.record_outcomes": 1,
    "verification.decisions.decide.finish_waiting_declines": 1,
    "verification.payments.settlement.poll_due_checkouts": 1,
    "verification.payments.refunds.send_refunds": 1,
    "verification.payments.refunds.refund_unfinished_parts": 1,
    "verification.payments.links.expire_payments": 1,
    "verification.payments.links.remind_payers": 10,
    "verification.payments.reconciliation.reconcile_yesterday": DAILY,
    "verification.payments.audit.audit_nightly": DAILY,
    "verification.payments.alerts.send_urgent_alerts": 1,
    "verification.payments.alerts.send_daily_alerts": DAILY,
    "verification.payments.provider_events.purge_payment_events": 60,
    "verification.payments.alerts.purge_operator_alerts": 60,
    "monitoring.runs.launch_due_runs": 1,
    "monitoring.alerts.compare_lost_runs": 5,
    "monitoring.pauses.notify_paused": 10,
    "verification.figures.daily.count_changed_days": 5,
    "verification.privacy.retention.erase_expired_reports": 60,
    "verification.privacy.requests.remind_of_deadlines": 60,
    "verification.privacy.requests.erase_old_details": DAILY,
    "verification.privacy.staff_erasures.erase_undecided": DAILY,
    "verification.privacy.erasure.resume_erasures": 1,
    "verification.privacy.erasure.sweep_erasures": 1,
    "verification.privacy.replay.replay_unknown": 60,
    "verification.privacy.people.fill_further_ids": 5,
    "webhooks.delivery.send_due_deliveries": 1,
    "verification.notifications.delivery.send_due_notifications": 1,
    "verification.notifications.outbox.purge_recipients": 60,
    "verification.digests.messages.send_news": 1,
    "verification.digests.messages.send_digests": 10,
    "webhooks.events.purge_events": 60,
    "verification.batches.models.purge_uploads": 60,
    "verification.reports.idempotency.purge_idempotency_records": 60,
    "workspaces.ledger.notify_low_balances": 10,
    "workspaces.models.purge_notes": DAILY,
    "workspaces.rate_limits.purge_counts": 10,
    "workspaces.api_requests.purge_api_requests": 60,
    "workspaces.members.end_expired_invitations": DAILY,
    "verification.accounts.sessions.purge_sessions": DAILY,
    "verification.accounts.models.purge_unconfirmed_users": DAILY,
    "verification.sources.health.purge_old_minutes": 60,
    "verification.checks.callbacks.erase_unread_answers": 60,
    "verification.jobs.schedules.purge_failures": DAILY,
}


@job
def purge_failures() -> None:
    """Delete failures, jobs that were given up and heartbeats of ended clusters."""
    before = now() - FAILURE_RETENTION
    Failure.objects.filter(stopped__lt=before).delete()
    Job.objects.filter(gave_up_at__lt=before).delete()
    Heartbeat.objects.filter(beat_at__lt=before).delete()
