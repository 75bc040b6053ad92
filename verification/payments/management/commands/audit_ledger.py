from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connection, transaction

from verification.payments.audit import DIFFERENCES

SHOWN = 1000

COUNTS = """
SELECT (SELECT count(*) FROM workspaces_account),
    (SELECT count(*) FROM workspaces_ledgerentry),
    (SELECT count(*) FROM checks_checkresult),
    (SELECT count(*) FROM payments_checkout WHERE paid_at IS NOT NULL)
"""


class Command(BaseCommand):
    help = (
        "Recomputes every balance from its entries, compares the entries with the "
        "checks they are for, and payments with what was paid and given back; prints "
        "the differences and ends with 1 if there are any."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            # It reads whole tables, which takes longer than any request may.
            cursor.execute("SET LOCAL statement_timeout = 0")
            cursor.execute(DIFFERENCES, [SHOWN])
            differences = cursor.fetchall()
            cursor.execute(COUNTS)
            accounts, entries, results, paid = cursor.fetchone()
        for what, pk, fault in differences:
            self.stdout.write(f"{what} {pk} {fault}")
        if differences:
            more = " or more" if len(differences) == SHOWN else ""
            raise CommandError(f"The ledger has {len(differences)}{more} differences.")
        self.stdout.write(
            f"The ledger adds up: {accounts} accounts, {entries} entries, "
            f"{results} check results and {paid} paid checkouts."
        )
