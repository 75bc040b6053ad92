from argparse import ArgumentTypeError
from datetime import UTC, date, timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from verification.db.startup import require_schema
from verification.payments.reconciliation import day_bounds, reconcile
from verification.payments.registry import providers
from verification.providers.base import ProviderError
from verification.values.clock import now


class Command(BaseCommand):
    help = (
        "Compares the payment providers' books with ours, both ways. Prints a line for "
        "each difference, and ends with 1 if there are any. Polls payments that only "
        "the provider knows, and raises a review flag for any other difference."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--from", type=_day, help="first day, in UTC (yesterday)")
        parser.add_argument(
            "--to", type=_day, help="last day (today; without --from, yesterday)"
        )
        parser.add_argument("--provider", help="only this provider (all configured)")
        parser.add_argument("--dry-run", action="store_true", help="change nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        today = now().astimezone(UTC).date()
        yesterday = today - timedelta(days=1)
        first: date = options["from"] or yesterday
        # After a restore, the books since the day of the backup are wanted.
        last: date = options["to"] or (today if options["from"] else yesterday)
        if last < first:
            raise CommandError(f"{first} is after {last}, the last day.")
        known = {provider.name: provider for provider in providers()}
        name = options["provider"]
        if name and name not in known:
            raise CommandError(f"{name!r} is none of {', '.join(known)}.")
        chosen = [known[name]] if name else list(known.values())
        # What the database lacks is no fault of a provider's books.
        require_schema()
        faults: list[str] = []
        count = 0
        for provider in chosen:
            found = reconcile(
                provider, *day_bounds(first, last), mend=not options["dry_run"]
            )
            try:
                for difference in found:
                    self.stdout.write(str(difference))
                    count += 1
            except Exception as e:
                # The command goes on with the books of the others.
                why = e.message if isinstance(e, ProviderError) else type(e).__name__
                faults.append(f"The books of {provider.name} were not read: {why}")
        if count:
            faults.append(f"The books have {count} differences.")
        if faults:
            raise CommandError(" ".join(faults))
        names = ", ".join(provider.name for provider in chosen)
        self.stdout.write(f"The books of {names} agree.")


def _day(text: str) -> date:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        day = date.min
    # No provider has books of years far from ours.
    if not 2000 <= day.year <= 2999:
        raise ArgumentTypeError(f"{text!r} is not a day such as 2026-11-20")
    return day
