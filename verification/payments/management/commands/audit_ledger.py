from typing import Any

from django.core.management.base import BaseCommand, CommandError

from verification.payments.audit import audit_everything, shown_number


class Command(BaseCommand):
    help = (
        "Recomputes every balance from its entries, compares the entries with their "
        "checks, and payments with checkouts and refunds. Records the outcome, prints "
        "the differences, and ends with 1 if there are any."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        found = audit_everything()
        for kind, pk, fault in found.differences:
            self.stdout.write(f"{kind} {pk} {fault}")
        if found.differences:
            number = shown_number(found.differences)
            raise CommandError(f"The ledger has {number} differences.")
        self.stdout.write(
            f"The ledger adds up: {found.accounts} accounts, {found.entries} entries, "
            f"{found.results} check results and {found.paid_checkouts} paid checkouts."
        )
