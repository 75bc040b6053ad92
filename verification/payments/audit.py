"""The audit of the ledger: money against the things that it pays for.

One SQL statement compares them. Each of its parts selects (kind of row, id, fault) for
every row that breaks a rule. `manage.py audit_ledger` prints them; every night a job
alerts the operators. Both record how many there are, for `/metrics`.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.db import connection, transaction

from verification.jobs.queue import job
from verification.payments.alerts import record_alert
from verification.payments.models import LedgerAudit, OperatorAlertKind
from verification.values.clock import now

LEDGER = """
SELECT 'account', a.id, format(
    'has balance %%s but its entries make %%s', a.balance, coalesce(e.total, 0)
) AS fault
FROM workspaces_account a
LEFT JOIN (
    SELECT account_id, sum(amount) AS total
    FROM workspaces_ledgerentry GROUP BY account_id
) e ON e.account_id = a.id
WHERE a.balance <> coalesce(e.total, 0)

UNION ALL
SELECT 'account', a.id, format(
    'says that %%s was taken back and its checkouts make %%s', a.taken_back,
    coalesce(t.total, 0)
)
FROM workspaces_account a
LEFT JOIN (
    SELECT c.account_id, sum(c.disputed + coalesce(r.total, 0)) AS total
    FROM payments_checkout c
    LEFT JOIN (
        SELECT checkout_id, sum(amount) AS total
        FROM payments_refund WHERE cause = 'ELSEWHERE' GROUP BY checkout_id
    ) r ON r.checkout_id = c.id
    WHERE c.account_id IS NOT NULL AND c.is_counted GROUP BY c.account_id
) t ON t.account_id = a.id
WHERE a.taken_back <> coalesce(t.total, 0)

UNION ALL
SELECT 'result', r.id, format('was not charged for attempt %%s', n.attempt)
FROM checks_checkresult r
JOIN reports_report p ON p.id = r.report_id
CROSS JOIN LATERAL generate_series(1, r.attempt) AS n(attempt)
LEFT JOIN workspaces_ledgerentry c
    ON c.result_id = r.id AND c.attempt = n.attempt AND c.kind = 'CHARGE'
WHERE p.payment_mode = 'SELF' AND p.launched_at IS NOT NULL AND r.price > 0
    AND c.id IS NULL

UNION ALL
SELECT 'entry', id, fault FROM (
    SELECT c.id, CASE
        WHEN r.id IS NULL
            THEN 'charges a result that does not exist'
        WHEN p.id IS DISTINCT FROM c.report_id
            OR (p.workspace_id, p.environment) <> (a.workspace_id, a.environment)
            THEN 'charges another account or report than its result is of'
        WHEN p.payment_mode <> 'SELF' OR p.launched_at IS NULL
            THEN 'charges a report that its workspace does not pay for'
        WHEN c.attempt NOT BETWEEN 1 AND r.attempt
            THEN 'charges an attempt that was not made'
        WHEN c.amount <> -r.price
            THEN format('charges %%s for a result at %%s', c.amount, r.price)
        WHEN c.attempt = r.attempt AND r.status NOT IN ('FAILED', 'CANCELLED')
            THEN CASE WHEN v.id IS NOT NULL
                THEN format('is reversed though its result is %%s', r.status) END
        WHEN v.id IS NULL
            THEN 'is not reversed though its check was not done'
        WHEN v.amount <> -c.amount OR v.account_id <> c.account_id
            THEN 'is reversed by another amount or to another account'
    END AS fault
    FROM workspaces_ledgerentry c
    JOIN workspaces_account a ON a.id = c.account_id
    LEFT JOIN checks_checkresult r ON r.id = c.result_id
    LEFT JOIN reports_report p ON p.id = r.report_id
    LEFT JOIN workspaces_ledgerentry v
        ON v.result_id = c.result_id AND v.attempt = c.attempt AND v.kind = 'REVERSAL'
    WHERE c.kind = 'CHARGE'
) charges
WHERE fault IS NOT NULL

UNION ALL
SELECT 'entry', v.id, 'reverses what was not charged'
FROM workspaces_ledgerentry v
LEFT JOIN workspaces_ledgerentry c
    ON c.result_id = v.result_id AND c.attempt = v.attempt AND c.kind = 'CHARGE'
WHERE v.kind = 'REVERSAL' AND c.id IS NULL
"""

# Top-ups of workspaces through a payment provider, with their refunds and disputes.
TOP_UPS = """
SELECT 'checkout', c.id, CASE
    WHEN c.is_counted THEN 'was paid and did not top up its account by its amount'
    ELSE 'topped up an account though it does not count'
END
FROM payments_checkout c
LEFT JOIN workspaces_ledgerentry e ON e.checkout_id = c.id AND e.kind = 'TOP_UP'
WHERE c.is_counted AND c.account_id IS NOT NULL
        AND (
            e.id IS NULL OR e.account_id <> c.account_id
            OR e.amount <> c.counted_amount
        )
    OR e.id IS NOT NULL AND NOT (c.is_counted AND c.account_id IS NOT NULL)

UNION ALL
SELECT 'entry', e.id, 'is of a checkout or refund that does not exist'
FROM workspaces_ledgerentry e
LEFT JOIN payments_checkout c ON c.id = e.checkout_id
LEFT JOIN payments_refund r
    ON r.checkout_id = e.checkout_id AND e.note = 'refund ' || r.id
LEFT JOIN payments_dispute d
    ON d.checkout_id = e.checkout_id AND e.note = 'dispute ' || d.id
WHERE e.checkout_id IS NOT NULL
    AND (c.id IS NULL OR e.kind = 'ADJUSTMENT' AND r.id IS NULL AND d.id IS NULL)

UNION ALL
SELECT 'dispute', d.id, format(
    'holds %%s of a top-up and moved its account by %%s', d.held_amount,
    coalesce(e.moved, 0)
)
FROM payments_dispute d
JOIN payments_checkout c ON c.id = d.checkout_id
LEFT JOIN (
    SELECT checkout_id, note, sum(amount) AS moved FROM workspaces_ledgerentry
    WHERE kind = 'ADJUSTMENT' AND checkout_id IS NOT NULL GROUP BY 1, 2
) e ON e.checkout_id = d.checkout_id AND e.note = 'dispute ' || d.id
WHERE coalesce(e.moved, 0) <> CASE
    WHEN c.account_id IS NOT NULL AND c.is_counted THEN -d.held_amount ELSE 0
END

UNION ALL
SELECT 'refund', r.id, format(
    'is %%s of %%s and moved its account by %%s', r.status, r.amount,
    coalesce(e.moved, 0)
)
FROM payments_refund r
JOIN payments_checkout c ON c.id = r.checkout_id
LEFT JOIN (
    SELECT account_id, checkout_id, note, sum(amount) AS moved
    FROM workspaces_ledgerentry
    WHERE kind = 'ADJUSTMENT' AND checkout_id IS NOT NULL GROUP BY 1, 2, 3
) e ON e.checkout_id = r.checkout_id AND e.note = 'refund ' || r.id
WHERE coalesce(e.moved, 0) <> CASE
        WHEN c.account_id IS NOT NULL AND c.is_counted
            AND r.status NOT IN ('REJECTED', 'FAILED') THEN -r.amount
        ELSE 0
    END
    OR e.account_id <> c.account_id
"""

# Entries that staff book by hand.
BY_HAND = """
SELECT 'staff entry', s.id, CASE
    WHEN e.id IS NULL THEN 'is BOOKED and has no entry in the ledger'
    WHEN s.status <> 'BOOKED' THEN format('is %%s and has an entry', s.status)
    ELSE 'was booked otherwise than it was asked for'
END
FROM workspaces_staffentry s
LEFT JOIN workspaces_ledgerentry e ON e.staff_entry_id = s.id
WHERE (s.status = 'BOOKED') <> (e.id IS NOT NULL)
    OR (e.account_id, e.kind, e.amount) <> (s.account_id, s.kind, s.amount)
"""

# Payments of reports by payers, with their refunds and disputes.
PAYMENTS = """
SELECT 'checkout', id, fault FROM (
    SELECT c.id, CASE
        WHEN c.refunded <> coalesce(r.asked, 0) THEN format(
            'has given back %%s but its refunds make %%s', c.refunded,
            coalesce(r.asked, 0)
        )
        WHEN c.disputed <> coalesce(d.held_amount, 0) THEN format(
            'says that %%s is disputed but its disputes make %%s', c.disputed,
            coalesce(d.held_amount, 0)
        )
        WHEN d.lost > 0 AND c.review_flags = '{}' AND c.reason_to_keep = ''
                AND c.report_id IS NOT NULL
            THEN format('has lost %%s by a dispute, without a reason', d.lost)
        WHEN c.refunded > coalesce(c.paid_amount, 0)
            THEN 'has given back more than was paid'
        WHEN c.environment <> coalesce(p.environment, a.environment)
            THEN 'is of another environment than what it pays'
        WHEN c.is_part AND NOT c.is_counted
            THEN CASE WHEN coalesce(m.status, '') NOT IN ('PENDING', 'FAILED')
                THEN 'is a part that no payment waits for' END
        WHEN NOT c.is_counted AND c.review_flags = '{}' AND c.reason_to_keep = ''
                AND c.paid_amount > c.refunded + c.disputed
            THEN format(
                'keeps %%s that counts for nothing, without a reason',
                c.paid_amount - c.refunded - c.disputed
            )
        WHEN c.is_counted AND c.review_flags = '{}' AND c.reason_to_keep = ''
                AND c.paid_amount - c.refunded - c.disputed > c.counted_amount
            THEN format(
                'keeps %%s on top of what counts, without a reason',
                c.paid_amount - c.refunded - c.disputed - c.counted_amount
            )
        WHEN NOT c.is_counted OR c.report_id IS NULL THEN NULL
        WHEN m.id IS NULL AND c.refunded <> c.paid_amount
                AND c.review_flags = '{}' AND c.reason_to_keep = ''
            THEN 'has paid what is not there, and was not given back'
        WHEN m.status NOT IN ('PAID', 'REFUNDED')
            THEN format('has paid a payment that is %%s', m.status)
    END AS fault
    FROM payments_checkout c
    LEFT JOIN (
        SELECT checkout_id,
            sum(amount) FILTER (WHERE status NOT IN ('REJECTED', 'FAILED')) AS asked
        FROM payments_refund GROUP BY checkout_id
    ) r ON r.checkout_id = c.id
    LEFT JOIN (
        SELECT checkout_id, sum(held_amount) AS held_amount,
            sum(held_amount) FILTER (WHERE status = 'LOST') AS lost
        FROM payments_dispute GROUP BY checkout_id
    ) d ON d.checkout_id = c.id
    LEFT JOIN payments_payment m ON m.id = c.payment_id
    LEFT JOIN reports_report p ON p.id = c.report_id
    LEFT JOIN workspaces_account a ON a.id = c.account_id
) checkouts
WHERE fault IS NOT NULL

UNION ALL
SELECT 'checkout', c.id, format(
    'keeps %%s for checks that were not done, without a reason', r.undone - k.gone
)
FROM payments_checkout c
JOIN payments_payment m ON m.id = c.payment_id
JOIN reports_report p ON p.id = c.report_id
CROSS JOIN LATERAL (
    SELECT sum(price) FILTER (WHERE status IN ('FAILED', 'CANCELLED')) AS undone,
        count(*) FILTER (WHERE status IN ('PENDING', 'RUNNING')) AS at_work
    FROM checks_checkresult WHERE report_id = p.id
) r
CROSS JOIN LATERAL (
    SELECT sum(greatest(refunded - (paid_amount - counted_amount), 0)) AS gone,
        bool_or(review_flags <> '{}' OR reason_to_keep <> '' OR refunded_elsewhere > 0)
            AS is_explained
    FROM payments_checkout WHERE payment_id = m.id AND is_counted
) k
WHERE c.is_counted AND p.completed_at IS NOT NULL AND r.at_work = 0
    AND (c.accounted_at IS NOT NULL OR p.completed_at < now() - interval '1 day')
    AND r.undone > k.gone AND NOT k.is_explained

UNION ALL
SELECT 'refund', f.id, 'gives back what was done'
FROM payments_refund f
JOIN payments_checkout c ON c.id = f.checkout_id
JOIN payments_payment m ON m.id = c.payment_id
JOIN reports_report p ON p.id = c.report_id
CROSS JOIN LATERAL (
    SELECT coalesce(sum(price) FILTER (WHERE status <> 'COMPLETED'), 0) AS undone
    FROM checks_checkresult WHERE report_id = p.id
) r
WHERE f.cause = 'NOT_DONE' AND f.status <> 'FAILED' AND f.amount > r.undone

UNION ALL
SELECT 'payment', m.id, format(
    'asks for %%s and its checks cost %%s', m.amount, r.price
)
FROM payments_payment m
JOIN (
    SELECT report_id, sum(price) AS price FROM checks_checkresult GROUP BY report_id
) r ON r.report_id = m.report_id
WHERE m.amount <> r.price

UNION ALL
SELECT 'report', p.id, format('still waits for its payment, which is %%s', m.status)
FROM reports_report p
JOIN payments_payment m ON m.report_id = p.id
WHERE p.status = 'PENDING_PAYMENT'
    AND m.status IN ('PAID', 'REFUNDED', 'NOT_REQUIRED')

UNION ALL
SELECT 'payment', id, fault FROM (
    SELECT m.id, CASE
        WHEN c.number IS NULL THEN format('is %%s and no checkout paid it', m.status)
        WHEN c.settled > 1 THEN 'was settled by more than one checkout'
        WHEN (c.counted, c.currency) <> (m.amount, m.currency)
            THEN 'was paid by another amount or currency'
        WHEN m.status = 'PAID' AND r.done = c.paid
            THEN 'is PAID though all of it was given back'
        WHEN m.status = 'REFUNDED' AND coalesce(r.done, 0) <> c.paid
            THEN 'is REFUNDED though not all of it was given back'
    END AS fault
    FROM payments_payment m
    LEFT JOIN (
        SELECT payment_id, count(*) AS number, min(currency) AS currency,
            count(*) FILTER (WHERE NOT is_part) AS settled,
            sum(counted_amount) AS counted, sum(paid_amount) AS paid
        FROM payments_checkout WHERE is_counted GROUP BY payment_id
    ) c ON c.payment_id = m.id
    LEFT JOIN (
        SELECT payment_id, sum(r.amount) AS done
        FROM payments_refund r JOIN payments_checkout c ON c.id = r.checkout_id
        WHERE r.status = 'DONE' AND c.is_counted GROUP BY payment_id
    ) r ON r.payment_id = m.id
    WHERE m.status IN ('PAID', 'REFUNDED')
) payments
WHERE fault IS NOT NULL

UNION ALL
SELECT 'report', p.id, format(
    'has run for %%s and its payment is %%s', r.price, coalesce(m.status, 'not there')
)
FROM reports_report p
JOIN (
    SELECT report_id, sum(price) AS price FROM checks_checkresult GROUP BY report_id
) r ON r.report_id = p.id
LEFT JOIN payments_payment m ON m.report_id = p.id
WHERE p.payment_mode <> 'SELF' AND p.launched_at IS NOT NULL AND r.price > 0
    AND coalesce(m.status, '') NOT IN ('PAID', 'REFUNDED')
    AND EXISTS (
        SELECT FROM reports_statuschange s
        WHERE s.report_id = p.id AND s.target = 'RUNNING'
    )
"""

# One statement reads one snapshot, so that work under way raises no false difference.
DIFFERENCES = " UNION ALL ".join([LEDGER, TOP_UPS, BY_HAND, PAYMENTS]) + " LIMIT %s"
MAX_SHOWN = 1000

COUNTS = """
SELECT (SELECT count(*) FROM workspaces_account),
    (SELECT count(*) FROM workspaces_ledgerentry),
    (SELECT count(*) FROM checks_checkresult),
    (SELECT count(*) FROM payments_checkout WHERE paid_at IS NOT NULL)
"""


@dataclass(frozen=True, slots=True)
class Audit:
    """The first MAX_SHOWN differences, and how many rows were compared."""

    differences: list[tuple[str, UUID, str]]
    accounts: int
    entries: int
    results: int
    paid_checkouts: int

    @property
    def shown(self) -> str:
        """Return the number of differences, with “or more” if not all are shown."""
        more = " or more" if len(self.differences) == MAX_SHOWN else ""
        return f"{len(self.differences)}{more}"


@transaction.atomic
def audit() -> Audit:
    """Recompute every balance, and compare payments with checkouts and refunds."""
    with connection.cursor() as cursor:
        # It reads whole tables, which takes longer than any request may.
        cursor.execute("SET LOCAL statement_timeout = 0")
        cursor.execute(DIFFERENCES, [MAX_SHOWN])
        differences = cursor.fetchall()
        cursor.execute(COUNTS)
        return Audit(differences, *cursor.fetchone())


def audit_and_record() -> Audit:
    """Audit the ledger and record the outcome, which ends or raises alerts."""
    found = audit()
    LedgerAudit.objects.create(differences=len(found.differences))
    return found


@job
def audit_nightly() -> None:
    """Audit the ledger, record the outcome, and alert the operators of differences."""
    found = audit_and_record()
    if found.differences:
        kind, pk, fault = found.differences[0]
        message = f"Differences: {found.shown}. The first: {kind} {pk} {fault}"
        record_alert(OperatorAlertKind.LEDGER, f"{now():%Y-%m-%d}", message=message)
