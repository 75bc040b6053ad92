"""The rules of the audit, in SQL: each selects (kind of row, id, fault).

`TOUCHED` selects the reports, checkouts and entries of a slice of the audit, and
`DIFFERENCES` compares them, in one statement and so in one snapshot: work under way
raises no false difference. `ACCOUNTS` has the rules for few rows: accounts, top-ups and
entries by hand.
"""

# Rows that were created or changed between two times, by the times in their ids, and
# the rows of earlier differences (`known`). Checkouts lead to their reports, and
# reports to their checkouts and entries, so that each rule sees all rows that it needs.
TOUCHED = """
WITH new_entries AS MATERIALIZED (
    SELECT id, report_id, result_id, checkout_id FROM workspaces_ledgerentry
    WHERE id >= %(first)s AND id < %(last)s
    UNION ALL
    SELECT id, report_id, result_id, checkout_id FROM workspaces_ledgerentry
    WHERE id = ANY(%(known)s::uuid[])
), new_checkouts AS MATERIALIZED (
    SELECT id FROM payments_checkout WHERE id >= %(first)s AND id < %(last)s
    UNION
    SELECT id FROM payments_checkout
    WHERE paid_at >= %(start)s AND paid_at < %(stop)s
    UNION
    SELECT checkout_id FROM payments_refund WHERE id >= %(first)s AND id < %(last)s
    UNION
    SELECT checkout_id FROM payments_refund
    WHERE ended_at >= %(start)s AND ended_at < %(stop)s
    UNION
    SELECT checkout_id FROM payments_dispute WHERE id >= %(first)s AND id < %(last)s
    UNION
    SELECT checkout_id FROM new_entries WHERE checkout_id IS NOT NULL
    UNION
    SELECT id FROM payments_checkout WHERE id = ANY(%(known)s::uuid[])
    UNION
    SELECT checkout_id FROM payments_refund WHERE id = ANY(%(known)s::uuid[])
    UNION
    SELECT checkout_id FROM payments_dispute WHERE id = ANY(%(known)s::uuid[])
), touched_reports AS MATERIALIZED (
    SELECT id FROM reports_report WHERE id >= %(first)s AND id < %(last)s
    UNION
    SELECT report_id FROM reports_statuschange WHERE id >= %(first)s AND id < %(last)s
    UNION
    SELECT report_id FROM new_entries WHERE report_id IS NOT NULL
    UNION
    SELECT r.report_id FROM new_entries e
    JOIN checks_checkresult r ON r.id = e.result_id
    UNION
    SELECT c.report_id FROM new_checkouts n JOIN payments_checkout c ON c.id = n.id
    WHERE c.report_id IS NOT NULL
    UNION
    SELECT id FROM reports_report WHERE id = ANY(%(known)s::uuid[])
    UNION
    SELECT report_id FROM checks_checkresult WHERE id = ANY(%(known)s::uuid[])
    UNION
    SELECT report_id FROM payments_payment WHERE id = ANY(%(known)s::uuid[])
), touched_checkouts AS MATERIALIZED (
    SELECT id FROM new_checkouts
    UNION
    SELECT c.id FROM touched_reports t JOIN payments_checkout c ON c.report_id = t.id
)
SELECT ARRAY(SELECT id FROM touched_reports),
    ARRAY(SELECT id FROM touched_checkouts),
    ARRAY(
        SELECT id FROM new_entries
        UNION
        SELECT e.id FROM touched_reports t
        JOIN checks_checkresult r ON r.report_id = t.id
        JOIN workspaces_ledgerentry e ON e.result_id = r.id
        UNION
        SELECT e.id FROM touched_checkouts t
        JOIN workspaces_ledgerentry e ON e.checkout_id = t.id
    )
"""

# Charges of workspaces, and their reversals.
LEDGER = """
SELECT 'result', r.id, format('was not charged for attempt %%s', n.attempt)
FROM touched_reports t
JOIN reports_report p ON p.id = t.id
JOIN checks_checkresult r ON r.report_id = p.id
CROSS JOIN LATERAL (
    SELECT attempt FROM generate_series(1, r.attempt) AS made(attempt)
    WHERE NOT EXISTS (
        SELECT FROM workspaces_ledgerentry c
        WHERE c.result_id = r.id AND c.attempt = made.attempt AND c.kind = 'CHARGE'
    )
) n
WHERE p.payment_mode = 'SELF' AND p.launched_at IS NOT NULL AND r.price > 0

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
    FROM touched_entries t
    JOIN workspaces_ledgerentry c ON c.id = t.id
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
FROM touched_entries t
JOIN workspaces_ledgerentry v ON v.id = t.id
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
FROM touched_checkouts t
JOIN payments_checkout c ON c.id = t.id
LEFT JOIN workspaces_ledgerentry e ON e.checkout_id = c.id AND e.kind = 'TOP_UP'
WHERE c.is_counted AND c.account_id IS NOT NULL
        AND (
            e.id IS NULL OR e.account_id <> c.account_id
            OR e.amount <> c.counted_amount
        )
    OR e.id IS NOT NULL AND NOT (c.is_counted AND c.account_id IS NOT NULL)

UNION ALL
SELECT 'entry', e.id, 'is of a checkout or refund that does not exist'
FROM touched_entries t
JOIN workspaces_ledgerentry e ON e.id = t.id
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
FROM touched_checkouts t
JOIN payments_checkout c ON c.id = t.id
JOIN payments_dispute d ON d.checkout_id = c.id
LEFT JOIN LATERAL (
    SELECT sum(amount) AS moved FROM workspaces_ledgerentry
    WHERE kind = 'ADJUSTMENT' AND checkout_id = c.id AND note = 'dispute ' || d.id
) e ON true
WHERE coalesce(e.moved, 0) <> CASE
    WHEN c.account_id IS NOT NULL AND c.is_counted THEN -d.held_amount ELSE 0
END

UNION ALL
SELECT 'refund', r.id, format(
    'is %%s of %%s and moved its account by %%s', r.status, r.amount,
    coalesce(e.moved, 0)
)
FROM touched_checkouts t
JOIN payments_checkout c ON c.id = t.id
JOIN payments_refund r ON r.checkout_id = c.id
LEFT JOIN LATERAL (
    SELECT account_id, sum(amount) AS moved FROM workspaces_ledgerentry
    WHERE kind = 'ADJUSTMENT' AND checkout_id = c.id AND note = 'refund ' || r.id
    GROUP BY account_id
) e ON true
WHERE coalesce(e.moved, 0) <> CASE
        WHEN c.account_id IS NOT NULL AND c.is_counted
            AND r.status NOT IN ('REJECTED', 'FAILED') THEN -r.amount
        ELSE 0
    END
    OR e.account_id <> c.account_id
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
    FROM touched_checkouts t
    JOIN payments_checkout c ON c.id = t.id
    LEFT JOIN LATERAL (
        SELECT sum(amount) FILTER (WHERE status NOT IN ('REJECTED', 'FAILED')) AS asked
        FROM payments_refund WHERE checkout_id = c.id
    ) r ON true
    LEFT JOIN LATERAL (
        SELECT sum(held_amount) AS held_amount,
            sum(held_amount) FILTER (WHERE status = 'LOST') AS lost
        FROM payments_dispute WHERE checkout_id = c.id
    ) d ON true
    LEFT JOIN payments_payment m ON m.id = c.payment_id
    LEFT JOIN reports_report p ON p.id = c.report_id
    LEFT JOIN workspaces_account a ON a.id = c.account_id
) checkouts
WHERE fault IS NOT NULL

UNION ALL
SELECT 'checkout', c.id, format(
    'keeps %%s for checks that were not done, without a reason', r.undone - k.gone
)
FROM touched_checkouts t
JOIN payments_checkout c ON c.id = t.id
JOIN payments_payment m ON m.id = c.payment_id
JOIN reports_report p ON p.id = c.report_id
CROSS JOIN LATERAL (
    SELECT sum(price) FILTER (WHERE status IN ('FAILED', 'CANCELLED')) AS undone,
        count(*) FILTER (WHERE status IN ('PENDING', 'RUNNING')) AS at_work
    FROM checks_checkresult WHERE report_id = p.id
) r
CROSS JOIN LATERAL (
    SELECT sum(greatest(refunded + disputed - (paid_amount - counted_amount), 0))
            AS gone,
        bool_or(review_flags <> '{}' OR reason_to_keep <> '' OR refunded_elsewhere > 0)
            AS is_explained
    FROM payments_checkout WHERE payment_id = m.id AND is_counted
) k
WHERE c.is_counted AND p.completed_at IS NOT NULL AND r.at_work = 0
    AND (c.accounted_at IS NOT NULL OR p.completed_at < now() - interval '1 day')
    AND r.undone > k.gone AND NOT k.is_explained

UNION ALL
SELECT 'refund', f.id, 'gives back what was done'
FROM touched_checkouts t
JOIN payments_refund f ON f.checkout_id = t.id
JOIN payments_checkout c ON c.id = t.id
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
FROM touched_reports t
JOIN payments_payment m ON m.report_id = t.id
CROSS JOIN LATERAL (
    SELECT sum(price) AS price FROM checks_checkresult WHERE report_id = t.id
) r
WHERE m.amount <> r.price

UNION ALL
SELECT 'report', p.id, format('still waits for its payment, which is %%s', m.status)
FROM touched_reports t
JOIN reports_report p ON p.id = t.id
JOIN payments_payment m ON m.report_id = p.id
WHERE p.status = 'PENDING_PAYMENT'
    AND m.status IN ('PAID', 'REFUNDED', 'NOT_REQUIRED')

UNION ALL
SELECT 'payment', id, fault FROM (
    SELECT m.id, CASE
        WHEN c.number = 0 THEN format('is %%s and no checkout paid it', m.status)
        WHEN c.settled > 1 THEN 'was settled by more than one checkout'
        WHEN (c.counted, c.currency) <> (m.amount, m.currency)
            THEN 'was paid by another amount or currency'
        WHEN m.status = 'PAID' AND r.done = c.paid
            THEN 'is PAID though all of it was given back'
        WHEN m.status = 'REFUNDED' AND coalesce(r.done, 0) <> c.paid
            THEN 'is REFUNDED though not all of it was given back'
    END AS fault
    FROM touched_reports t
    JOIN payments_payment m ON m.report_id = t.id
    CROSS JOIN LATERAL (
        SELECT count(*) AS number, min(currency) AS currency,
            count(*) FILTER (WHERE NOT is_part) AS settled,
            sum(counted_amount) AS counted, sum(paid_amount) AS paid
        FROM payments_checkout WHERE is_counted AND payment_id = m.id
    ) c
    CROSS JOIN LATERAL (
        SELECT sum(r.amount) AS done
        FROM payments_checkout c JOIN payments_refund r ON r.checkout_id = c.id
        WHERE r.status = 'DONE' AND c.is_counted AND c.payment_id = m.id
    ) r
    WHERE m.status IN ('PAID', 'REFUNDED')
) payments
WHERE fault IS NOT NULL

UNION ALL
SELECT 'report', p.id, format(
    'has run for %%s and its payment is %%s', r.price, coalesce(m.status, 'not there')
)
FROM touched_reports t
JOIN reports_report p ON p.id = t.id
CROSS JOIN LATERAL (
    SELECT sum(price) AS price FROM checks_checkresult WHERE report_id = p.id
) r
LEFT JOIN payments_payment m ON m.report_id = p.id
WHERE p.payment_mode <> 'SELF' AND p.launched_at IS NOT NULL AND r.price > 0
    AND coalesce(m.status, '') NOT IN ('PAID', 'REFUNDED')
    AND EXISTS (
        SELECT FROM reports_statuschange s
        WHERE s.report_id = p.id AND s.target = 'RUNNING'
    )
"""

# PostgreSQL knows the length of an array, and guesses that of a union.
DIFFERENCES = f"""
WITH touched_reports AS (SELECT unnest(%(reports)s::uuid[]) AS id),
touched_checkouts AS (SELECT unnest(%(checkouts)s::uuid[]) AS id),
touched_entries AS (SELECT unnest(%(entries)s::uuid[]) AS id)
SELECT * FROM ({" UNION ALL ".join([LEDGER, TOP_UPS, PAYMENTS])}) differences
LIMIT %(limit)s
"""  # noqa: S608

# `accounts` is null for all accounts.
BALANCES = """
SELECT 'account', a.id, format(
    'has balance %%s but its entries make %%s', a.balance, coalesce(e.total, 0)
)
FROM workspaces_account a
LEFT JOIN (
    SELECT account_id, sum(amount) AS total FROM workspaces_ledgerentry
    WHERE %(accounts)s::uuid[] IS NULL OR account_id = ANY(%(accounts)s::uuid[])
    GROUP BY account_id
) e ON e.account_id = a.id
WHERE a.balance <> coalesce(e.total, 0)
    AND (%(accounts)s::uuid[] IS NULL OR a.id = ANY(%(accounts)s::uuid[]))
"""

TAKEN_BACK = """
SELECT 'account', a.id, format(
    'says that %%s was taken back and its checkouts make %%s', a.taken_back,
    coalesce(t.total, 0)
)
FROM workspaces_account a
LEFT JOIN (
    SELECT c.account_id, sum(c.disputed + coalesce(r.total, 0)) AS total
    FROM payments_checkout c
    LEFT JOIN LATERAL (
        SELECT sum(amount) AS total
        FROM payments_refund WHERE cause = 'ELSEWHERE' AND checkout_id = c.id
    ) r ON true
    WHERE c.account_id IS NOT NULL AND c.is_counted GROUP BY c.account_id
) t ON t.account_id = a.id
WHERE a.taken_back <> coalesce(t.total, 0)
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

ACCOUNTS = " UNION ALL ".join([BALANCES, TAKEN_BACK, BY_HAND]) + " LIMIT %(limit)s"
