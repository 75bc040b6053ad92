from argparse import ArgumentTypeError
from datetime import UTC, date, timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils.timezone import now

from verification.payments.reconciliation import day_bounds, reconcile
from verification.payments.registry import providers
from verification.providers.base import ProviderError


class Command(BaseCommand):
    help = (
        "Compares the payment providers' books with ours, both ways; prints a line for "
        "each difference and ends with 1 if there are any. What is paid there and not "
        "here is looked at again; any other difference is put in doubt."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        yesterday = now().astimezone(UTC).date() - timedelta(days=1)
        parser.add_argument(
            "--from",
            type=_day,
            default=yesterday,
            help="first day, in UTC (yesterday)",
        )
        parser.add_argument("--to", type=_day, help="last day (the same as the first)")
        parser.add_argument("--provider", help="only this one (all configured)")
        parser.add_argument(
            "--dry-run", action="store_true", help="only look; change nothing"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        first: date = options["from"]
        last: date = options["to"] or first
        if last < first:
            raise CommandError("--to is before --from.")
        known = {provider.name: provider for provider in providers()}
        name = options["provider"]
        if name and name not in known:
            raise CommandError(f"{name!r} is none of {', '.join(known)}.")
        asked = [known[name]] if name else list(known.values())
        faults: list[str] = []
        count = 0
        for provider in asked:
            found = reconcile(
                provider, *day_bounds(first, last), mend=not options["dry_run"]
            )
            try:
                for difference in found:
                    self.stdout.write(str(difference))
                    count += 1
            except ProviderError as e:
                # The others are read all the same.
                told = f"The books of {provider.name} were not read: {e.message}"
                faults.append(told)
            except Exception as e:
                why = type(e).__name__
                faults.append(f"The books of {provider.name} were not read: {why}.")
        if count:
            faults.append(f"The books have {count} differences.")
        if faults:
            raise CommandError(" ".join(faults))
        names = ", ".join(provider.name for provider in asked)
        self.stdout.write(f"The books of {names} agree.")


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a day such as 2026-11-20") from None
