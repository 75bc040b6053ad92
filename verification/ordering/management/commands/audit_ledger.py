from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connection, transaction

SHOWN = 1000

# One statement, so that everything is seen as it was at one moment while work goes
# on. Each part answers (what, id, fault).
DIFFERENCES = """
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

LIMIT %s
"""
COUNTS = """
SELECT (SELECT count(*) FROM workspaces_account),
    (SELECT count(*) FROM workspaces_ledgerentry),
    (SELECT count(*) FROM checks_checkresult)
"""


class Command(BaseCommand):
    help = (
        "Recomputes every balance from its entries and compares the entries with the "
        "checks they are for; prints the differences and ends with 1 if there are any."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            # It reads whole tables, which takes longer than any request may.
            cursor.execute("SET LOCAL statement_timeout = 0")
            cursor.execute(DIFFERENCES, [SHOWN])
            differences = cursor.fetchall()
            cursor.execute(COUNTS)
            accounts, entries, results = cursor.fetchone()
        for what, pk, fault in differences:
            self.stdout.write(f"{what} {pk} {fault}")
        if differences:
            more = " or more" if len(differences) == SHOWN else ""
            raise CommandError(f"The ledger has {len(differences)}{more} differences.")
        self.stdout.write(
            f"The ledger adds up: {accounts} accounts, {entries} entries and "
            f"{results} check results."
        )
