"""The tables with personal data of a report, and the one function that erases it.

TABLES names each table with personal data about the people of a report: its subject,
payer and referee. Retention, the erasure of a person, the certificate and the record of
processing use this list. A test fails if a column of the database is neither here nor
in the list of columns without such data.

The skeleton of an erased report stays: ids, checks, states, times and prices.
"""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, cast
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Model

from monitoring.models import Alert, Baseline, Rule
from verification.batches.models import Batch
from verification.checks.models import CheckResult
from verification.consents.models import Consent, ConsentRecord
from verification.db.base import run_sql
from verification.db.encryption import sealed_fields
from verification.decisions.findings import results_with_same_finding
from verification.decisions.models import Case, CaseNote, Decision, NoticeFact
from verification.decisions.policies import schedule_policy
from verification.files.storage import delete_file
from verification.jobs.queue import job
from verification.notifications.mailbox import delete_emails
from verification.notifications.models import Notification
from verification.payments.models import Checkout, Payment, PaymentEvent, Refund
from verification.payments.payer_messages import Receipt, erase_receipt
from verification.privacy.models import Correction, CorrectionDocument, SubjectRequest
from verification.references.models import Reference
from verification.reports.models import IdempotencyRecord, Report, SearchEntry
from verification.sources.models import Call
from webhooks.models import Attempt, Event

logger = logging.getLogger(__name__)
OF_REPORT = "t.report_id = ANY(%(reports)s)"
# Events that tell of the erasure itself stay, and are delivered.
PERSONAL = f"t.name <> ALL ('{{{','.join(Event.IMPERSONAL_NAMES)}}}')"
OF_RESULT = """t.result_id IN (
    SELECT id FROM checks_checkresult WHERE report_id = ANY(%(reports)s)
)"""
OF_CHECKOUT = """t.checkout_id IN (
    SELECT id FROM payments_checkout WHERE report_id = ANY(%(reports)s)
)"""
OF_EVENT = """t.delivery_id IN (
    SELECT id FROM webhooks_event WHERE report_id = ANY(%(reports)s)
)"""
OF_CORRECTION = """t.correction_id IN (
    SELECT id FROM privacy_correction WHERE report_id = ANY(%(reports)s)
)"""
OF_NOTICE = """t.notice_id IN (
    SELECT id FROM decisions_adversenotice WHERE report_id = ANY(%(reports)s)
)"""
# A sweep withdraws late requests at the time of the sweep.
ANSWERED_BEFORE = """(t.answered_at = %(at)s OR t.answered_at <= (
    SELECT COALESCE(erased_at, %(at)s) FROM reports_report WHERE id = t.report_id
))"""
# A receipt stays true, so it keeps the client, the checks and the prices of its time.
ERASED_RECEIPT = """(
    SELECT left_over.receipt
    FROM unnest(%(checkouts)s::uuid[], %(receipts)s::bytea[]) left_over (id, receipt)
    WHERE left_over.id = t.id
)"""
# An active rule needs the last finding for its next run, which replaces it.
OF_PAUSED_RULE = f"""{OF_RESULT} AND t.rule_id IN (
    SELECT run.rule_id FROM monitoring_run run
    JOIN monitoring_rule rule ON rule.id = run.rule_id AND rule.status = 'PAUSED'
    WHERE run.report_id = ANY(%(reports)s)
)"""  # noqa: S608


@dataclass(frozen=True, slots=True)
class PersonalTable:
    """A table with personal data: its rows of reports, and its columns to erase."""

    model: type[Model]
    # For the certificate and the record of processing
    what: str
    # An SQL condition on the rows `t`; %(reports)s are the ids of the reports
    rows: str
    # Column that is not sealed -> the SQL value that replaces it
    also: Mapping[str, str] = field(default_factory=dict)
    is_deleted: bool = False

    @property
    def name(self) -> str:
        return self.model._meta.db_table

    @property
    def erased(self) -> dict[str, str]:
        """Column -> the SQL value that replaces it; empty if the rows are deleted."""
        if self.is_deleted:
            return {}
        sealed = (f for f in sealed_fields() if f.model is self.model)
        return {str(f.column): "NULL" for f in sealed} | dict(self.also)

    @property
    def statement(self) -> str:
        if not self.erased:
            return f"DELETE FROM {self.name} t WHERE {self.rows}"  # noqa: S608
        values = ", ".join(f"{column} = {v}" for column, v in self.erased.items())
        # Rows that are erased already stay untouched: they are not counted, and cost
        # no write.
        changed = " OR ".join(
            f"t.{column} IS DISTINCT FROM {value}"
            for column, value in self.erased.items()
        )
        return (
            f"UPDATE {self.name} t SET {values} "  # noqa: S608
            f"WHERE {self.rows} AND ({changed})"
        )


TABLES = [
    PersonalTable(Attempt, "answers of receivers", OF_EVENT),
    PersonalTable(Event, "contents of events", f"{OF_REPORT} AND {PERSONAL}"),
    PersonalTable(Notification, "messages", OF_REPORT, {"provider_reference": "''"}),
    PersonalTable(Alert, "monitoring alerts", OF_REPORT, is_deleted=True),
    PersonalTable(Baseline, "last findings of paused rules", OF_PAUSED_RULE),
    PersonalTable(Call, "answers of sources", OF_RESULT),
    PersonalTable(Reference, "answers of referees", OF_REPORT),
    PersonalTable(PaymentEvent, "events of payment providers", OF_CHECKOUT),
    PersonalTable(Refund, "remarks on refunds", OF_CHECKOUT, {"message": "''"}),
    PersonalTable(
        Checkout,
        "payers on receipts, and their telephones",
        OF_REPORT,
        {"message": "''", "receipt": ERASED_RECEIPT},
    ),
    PersonalTable(Payment, "payers", OF_REPORT),
    PersonalTable(ConsentRecord, "evidence of consent", OF_REPORT),
    PersonalTable(Consent, "attestations of consent", OF_REPORT, {"is_erased": "true"}),
    PersonalTable(
        CorrectionDocument, "documents of corrections", OF_CORRECTION, is_deleted=True
    ),
    PersonalTable(Correction, "statements in corrections", OF_REPORT),
    PersonalTable(
        Decision, "reasons and notes of decisions", OF_REPORT, {"codes": "NULL"}
    ),
    PersonalTable(CaseNote, "notes on decisions", OF_REPORT),
    PersonalTable(
        Case,
        "cases of the queue",
        OF_REPORT,
        {
            "risk_level": "'UNKNOWN'",
            "assignee_id": "NULL",
            "closed_at": "COALESCE(t.closed_at, %(at)s)",
        },
    ),
    PersonalTable(NoticeFact, "addresses in proofs of service", OF_NOTICE),
    # Staff have to answer an open letter, and need its name and address. What they
    # answer after the erasure stays for `requests.DETAILS_RETENTION`.
    PersonalTable(
        SubjectRequest, "details of requests", f"{OF_REPORT} AND {ANSWERED_BEFORE}"
    ),
    PersonalTable(
        CheckResult,
        "findings",
        OF_REPORT,
        {
            "disputed_at": "NULL",
            "question": "NULL",
            "score": "NULL",
            "risk_level": "'UNKNOWN'",
            "failure_message": "''",
        },
    ),
    PersonalTable(IdempotencyRecord, "answers to requests", OF_REPORT),
    PersonalTable(SearchEntry, "search terms", OF_REPORT, is_deleted=True),
    # A name may be that of any person in the file.
    PersonalTable(
        Batch, "names of files with orders", "t.report_ids && %(reports)s::uuid[]"
    ),
    PersonalTable(
        Report,
        "reports",
        "t.id = ANY(%(reports)s)",
        {
            # Nobody can compare it with the id of a person any more.
            "subject_id": "t.id",
            "subject_name": "''",
            "search_name": "''",
            "purpose": "''",
            "reference": "NULL",
            "risk_score": "NULL",
            "risk_level": "'UNKNOWN'",
            "failure_message": "''",
            "erased_at": "COALESCE(t.erased_at, %(at)s)",
            # Clients that read changed reports find the erasure.
            "updated_at": "GREATEST(t.updated_at, COALESCE(t.erased_at, %(at)s))",
        },
    ),
]

# In the order in which senders and the removal of a receiver lock them
LOCK_DELIVERIES = """
SELECT FROM webhooks_delivery
WHERE event_id IN (SELECT id FROM webhooks_event WHERE report_id = ANY(%s))
    AND next_attempt_at IS NOT NULL
ORDER BY event_id FOR NO KEY UPDATE
"""
# A higher fence makes the write of a sender that is under way fail, so that it cannot
# bring an answer back.
STOP_DELIVERIES = f"""
UPDATE webhooks_delivery t
SET status = 'FAILED', next_attempt_at = NULL, leased_until = NULL, fence = fence + 1
WHERE t.event_id IN (SELECT id FROM webhooks_event WHERE report_id = ANY(%(reports)s))
    AND t.next_attempt_at IS NOT NULL AND {PERSONAL}
"""  # noqa: S608
# Events that no receiver was to get, once they are empty
DELETE_EVENTS = f"""
DELETE FROM webhooks_event t WHERE {OF_REPORT} AND {PERSONAL}
    AND NOT EXISTS (SELECT FROM webhooks_delivery d WHERE d.event_id = t.id)
"""  # noqa: S608
# A cancelled message may have a sender under way, too.
STOP_MESSAGES = """
UPDATE notifications_notification t
SET status = 'CANCELLED', next_attempt_at = NULL, leased_until = NULL, fence = fence + 1
WHERE t.report_id = ANY(%(reports)s)
    AND (t.next_attempt_at IS NOT NULL OR t.status = 'CANCELLED')
"""
MESSAGES = (
    "SELECT id FROM notifications_notification WHERE report_id = ANY(%(reports)s)"
)
# The re-run of a correction may be under way. It has no money to give back.
STOP_RERUNS = """
UPDATE checks_checkresult t
SET status = 'CANCELLED', next_attempt_at = NULL, waits_for = '', completed_at = %(at)s,
    fence = fence + 1
WHERE t.report_id = ANY(%(reports)s) AND t.revision > 0
    AND t.status IN ('PENDING', 'RUNNING')
"""
# The disputed findings are gone, so there is nothing left to decide.
CLOSE_CORRECTIONS = """
WITH closed AS (
    UPDATE privacy_correction t
    SET status = 'WITHDRAWN', decided_by = 'erasure', decided_at = %(at)s
    WHERE t.report_id = ANY(%(reports)s) AND t.status IN ('OPEN', 'IN_REVIEW')
    RETURNING t.request_id
)
UPDATE privacy_subjectrequest t
SET answered_at = %(at)s, outcome = 'WITHDRAWN', reason = 'The data was erased.'
FROM closed WHERE t.id = closed.request_id AND t.answered_at IS NULL
"""
# A second member cannot judge a proposal after the report is erased.
END_PROPOSALS = """
UPDATE decisions_decision t
SET state = 'REFUSED', second_by = 'erasure', second_at = %(at)s
WHERE t.report_id = ANY(%(reports)s) AND t.state = 'PENDING'
"""
# Nor can the subject answer to a decline that waits.
END_DECLINES = """
UPDATE decisions_decision t
SET state = 'WITHDRAWN', withdrawn_by = 'erasure', withdrawn_at = %(at)s
WHERE t.report_id = ANY(%(reports)s) AND t.state = 'WAITING'
"""
END_NOTICES = """
UPDATE decisions_adversenotice t
SET state = 'ENDED', is_settled = true, stopped_at = NULL
WHERE t.report_id = ANY(%(reports)s) AND (t.state <> 'ENDED' OR NOT t.is_settled)
"""
# Nobody can answer a request for a review, or for further reports, whose page is gone.
CLOSE_REQUESTS = """
UPDATE privacy_subjectrequest t
SET answered_at = %(at)s, outcome = 'WITHDRAWN', reason = 'The data was erased.'
WHERE t.report_id = ANY(%(reports)s) AND t.answered_at IS NULL
    AND (t.kind = 'REVIEW' OR t.proved_address IS NOT NULL)
"""
# Figures go on counting levels and alerts, which the erasure deletes. The rows are in
# one order, so that two erasures do not wait for each other in a circle.
KEEP_COUNTS = """
INSERT INTO privacy_erasedcount AS t
    (workspace_id, environment, day, package, what, count)
SELECT workspace_id, environment, (at AT TIME ZONE 'Africa/Nairobi')::date, package,
    what, count(*)
FROM (
    SELECT workspace_id, environment, created_at AS at, package, risk_level AS what
    FROM reports_report WHERE id = ANY(%(reports)s) AND risk_level <> 'UNKNOWN'
    UNION ALL
    SELECT a.workspace_id, a.environment, a.created_at, r.package, 'ALERT'
    FROM monitoring_alert a JOIN reports_report r ON r.id = a.report_id
    WHERE a.report_id = ANY(%(reports)s) OR a.id = ANY(%(alerts)s)
) erased
GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5
ON CONFLICT (workspace_id, environment, day, package, what)
DO UPDATE SET count = t.count + excluded.count
"""
# What ends, and is counted, before the tables are erased
BEFORE = [
    *(STOP_DELIVERIES, STOP_MESSAGES, STOP_RERUNS, CLOSE_CORRECTIONS, CLOSE_REQUESTS),
    *(END_PROPOSALS, END_DECLINES, END_NOTICES, KEEP_COUNTS),
]
FILES = f"SELECT file FROM privacy_correctiondocument t WHERE {OF_CORRECTION}"  # noqa: S608


def lock_deliveries(report_ids: Sequence[UUID]) -> None:
    """Lock the waiting deliveries of these reports. They come before accounts."""
    run_sql(LOCK_DELIVERIES, [list(report_ids)])


def stop_deliveries(report_ids: Sequence[UUID]) -> None:
    """Fail the waiting deliveries of these reports that hold personal data."""
    lock_deliveries(report_ids)
    run_sql(STOP_DELIVERIES, {"reports": list(report_ids)})


@transaction.atomic
def erase_reports(report_ids: Sequence[UUID], at: datetime) -> Counter[str]:
    """Erase the personal data of these reports; return the rows erased in each table.

    The caller has locked the reports, and they have ended. Erasing again changes
    nothing. Files are deleted once the transaction has committed.
    """
    values: dict[str, Any] = {"reports": list(report_ids), "alerts": [], "at": at}
    counts: Counter[str] = Counter()
    values["checkouts"], values["receipts"] = _erase_receipts(report_ids)
    lock_deliveries(report_ids)
    files = [name for (name,) in run_sql(FILES, values)]
    messages = [message_id for (message_id,) in run_sql(MESSAGES, values)]
    disputed = CheckResult.objects.filter(disputed_at__isnull=False)
    for result in disputed.filter(report__in=report_ids):
        # Reports that stay wait no longer for a correction that ends here.
        others = results_with_same_finding(result).exclude(report__in=report_ids)
        for same in others:
            schedule_policy(same.report)
    with connection.cursor() as cursor:
        for statement in BEFORE:
            cursor.execute(statement, values)
        for table in TABLES:
            cursor.execute(table.statement, values)
            counts[table.name] += cursor.rowcount
        cursor.execute(DELETE_EVENTS, values)
    for name in files:
        transaction.on_commit(partial(delete_file, name))
    transaction.on_commit(lambda: delete_emails(messages))
    return +counts


def _erase_receipts(report_ids: Sequence[UUID]) -> tuple[list[UUID], list[Any]]:
    """Return the ids of paid checkouts, and what is left of their sealed receipts."""
    field = Checkout._meta.get_field("receipt")
    paid = Checkout.objects.filter(report__in=report_ids, receipt__isnull=False)
    left_over = {}
    for checkout in paid.only("receipt"):
        # The same value if nothing is left to erase, so that the row stays untouched
        left_over[checkout.pk] = field.pre_save(checkout, add=False)
        receipt = erase_receipt(cast(Receipt, checkout.receipt))
        if receipt != checkout.receipt:
            left_over[checkout.pk] = field.seal(receipt, checkout.pk)
    return [*left_over], [*left_over.values()]


@job
def refresh_statistics() -> None:
    """Let PostgreSQL sample the tables again: its statistics quote erased values.

    Schedule it after an erasure. It logs the tables that its role may not analyze.
    """
    warnings: list[Any] = []
    skipped = []
    with connection.cursor() as cursor:
        # PostgreSQL warns, and raises nothing, where it skips a table.
        connection.connection.add_notice_handler(warnings.append)
        try:
            for name in [Rule._meta.db_table, *(table.name for table in TABLES)]:
                warnings.clear()
                cursor.execute(f"ANALYZE {name}")
                skipped += [name] if warnings else []
        finally:
            connection.connection.remove_notice_handler(warnings.append)
    if skipped:
        logger.warning(
            "the role may not analyze %s, whose statistics quote erased values: "
            "run grant_rights again, or analyze them as their owner",
            ", ".join(skipped),
        )
