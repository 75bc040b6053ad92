"""All jobs by name: the one way by which a lower layer starts work in a higher one.

The value of a name is the path of the job's function, which rows of the queue hold. A
path stays while older versions may run beside this one (docs/engineer/migrations.md).
"""

from enum import StrEnum
from typing import Self

DAILY = 24 * 60


class JobName(StrEnum):
    """A job, and the minutes from one run to the next if it runs by the clock.

    A missed time runs once, however many clusters there are: every half minute each of
    them claims the due schedules under a lock.
    """

    minutes: int | None

    def __new__(cls, path: str, minutes: int | None = None) -> Self:
        name = str.__new__(cls, path)
        name._value_, name.minutes = path, minutes
        return name

    COMPARE_LOST_RUNS = "monitoring.alerts.compare_lost_runs", 5
    COMPARE_RUNS = "monitoring.alerts.compare_runs"
    NOTIFY_PAUSED = "monitoring.pauses.notify_paused", 10
    LAUNCH_DUE_RUNS = "monitoring.runs.launch_due_runs", 1
    RELEASE_RULES = "monitoring.runs.release_rules"
    PURGE_USERS = "verification.accounts.models.purge_unconfirmed_users", DAILY
    PURGE_SESSIONS = "verification.accounts.sessions.purge_sessions", DAILY
    CHECK_AUDIT_TRAIL = "verification.audit_trail.check.check_nightly", DAILY
    CONTINUE_AUDIT_CHECK = "verification.audit_trail.check.continue_check"
    EXPORT_AUDIT_EVENTS = "verification.audit_trail.export.export_events", 1
    SEAL_AUDIT_EVENTS = "verification.audit_trail.seals.seal_events", 1
    PURGE_UPLOADS = "verification.batches.models.purge_uploads", 60
    ERASE_UNREAD_ANSWERS = "verification.checks.callbacks.erase_unread_answers", 60
    PURGE_NEXT_RESULTS = "verification.checks.next_results.purge_next_results", 60
    RUN_DUE_CHECKS = "verification.checks.engine.run_due_checks", 1
    EXPIRE_CONSENTS = "verification.consents.links.expire_consents", 1
    REMIND_SUBJECTS = "verification.consents.links.remind_subjects", 10
    OPEN_CASES = "verification.decisions.cases.open_cases"
    RELEASE_CASES = "verification.decisions.cases.release_cases"
    FINISH_WAITING_DECLINES = "verification.decisions.decide.finish_waiting_declines", 1
    REVIEW_DECISIONS = "verification.decisions.decide.review_decisions"
    RECORD_OUTCOMES = "verification.decisions.notices.record_outcomes", 1
    APPLY_POLICY = "verification.decisions.policies.apply_policy"
    SEND_DIGESTS = "verification.digests.messages.send_digests", 10
    SEND_NEWS = "verification.digests.messages.send_news", 1
    COUNT_CHANGED_DAYS = "verification.figures.daily.count_changed_days", 5
    ERASE_OLD_APPLICATIONS = (
        "verification.golive.applications.erase_old_applications",
        DAILY,
    )
    MEND_DUE_TIMES = "verification.jobs.clock_steps.mend_due_times"
    PURGE_FAILURES = "verification.jobs.schedules.purge_failures", DAILY
    SEND_NOTIFICATIONS = "verification.notifications.delivery.send_due_notifications", 1
    PURGE_RECIPIENTS = "verification.notifications.outbox.purge_recipients", 60
    PURGE_OPERATOR_ALERTS = "verification.payments.alerts.purge_operator_alerts", 60
    SEND_DAILY_ALERTS = "verification.payments.alerts.send_daily_alerts", DAILY
    SEND_URGENT_ALERTS = "verification.payments.alerts.send_urgent_alerts", 1
    AUDIT_NIGHTLY = "verification.payments.audit.audit_nightly", DAILY
    CONTINUE_AUDIT = "verification.payments.audit.continue_audit"
    EXPIRE_PAYMENTS = "verification.payments.links.expire_payments", 1
    REMIND_PAYERS = "verification.payments.links.remind_payers", 10
    PURGE_PAYMENT_EVENTS = (
        "verification.payments.provider_events.purge_payment_events",
        60,
    )
    RECONCILE_YESTERDAY = (
        "verification.payments.reconciliation.reconcile_yesterday",
        DAILY,
    )
    REFUND_UNFINISHED_PARTS = "verification.payments.refunds.refund_unfinished_parts", 1
    SEND_REFUNDS = "verification.payments.refunds.send_refunds", 1
    POLL_DUE_CHECKOUTS = "verification.payments.settlement.poll_due_checkouts", 1
    NOTIFY_REVIEWERS = "verification.privacy.corrections.notify_reviewers"
    ERASE_PERSON = "verification.privacy.erasure.erase_person"
    RESUME_ERASURES = "verification.privacy.erasure.resume_erasures", 1
    SWEEP_ERASURES = "verification.privacy.erasure.sweep_erasures", 1
    ANSWER_MY_DATA = "verification.privacy.my_data.answer_my_data"
    WRITE_OBJECTION = "verification.privacy.objections.write_objection"
    FILL_FURTHER_IDS = "verification.privacy.people.fill_further_ids", 5
    REFRESH_STATISTICS = "verification.privacy.personal_data.refresh_statistics"
    REPLAY_UNKNOWN = "verification.privacy.replay.replay_unknown", 60
    ERASE_OLD_DETAILS = "verification.privacy.requests.erase_old_details", DAILY
    REMIND_OF_DEADLINES = "verification.privacy.requests.remind_of_deadlines", 60
    ERASE_EXPIRED_REPORTS = "verification.privacy.retention.erase_expired_reports", 60
    ANSWER_REVIEWS = "verification.privacy.reviews.answer_reviews"
    ERASE_UNDECIDED = "verification.privacy.staff_erasures.erase_undecided", DAILY
    WRITE_WITHDRAWAL = "verification.privacy.withdrawals.write_withdrawal"
    REMIND_AND_EXPIRE_REFERENCES = (
        "verification.references.requests.remind_and_expire_references",
        10,
    )
    CANCEL_OPEN_REPORTS = "verification.reports.ends.cancel_open_reports", 10
    PURGE_IDEMPOTENCY_RECORDS = (
        "verification.reports.idempotency.purge_idempotency_records",
        60,
    )
    PURGE_OLD_MINUTES = "verification.sources.health.purge_old_minutes", 60
    SEND_DELIVERIES = "webhooks.delivery.send_due_deliveries", 1
    PURGE_EVENTS = "webhooks.events.purge_events", 60
    NOTIFY_DISABLED = "webhooks.health.notify_disabled"
    GO_ON_RECOVERING = "webhooks.redelivery.go_on_recovering"
    NOTIFY_FAILING = "webhooks.health.notify_failing"
    PURGE_API_REQUESTS = "workspaces.api_requests.purge_api_requests", 60
    NOTIFY_LOW_BALANCES = "workspaces.ledger.notify_low_balances", 10
    END_EXPIRED_INVITATIONS = "workspaces.members.end_expired_invitations", DAILY
    PURGE_NOTES = "workspaces.models.purge_notes", DAILY
    PURGE_COUNTS = "workspaces.rate_limits.purge_counts", 10
