import time
from collections import Counter
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from verification.audit_trail.anchors import accept, read_lines
from verification.audit_trail.check import check_everything


class Command(BaseCommand):
    help = (
        "verify: compares each audit event with its seal, and the seals with the "
        "signed anchors outside the database; records the outcome, prints the faults, "
        "and ends with 1 if there are any. accept: declares after a restore that the "
        "events since the backup are lost, and trusts the keys of the anchors that "
        "are there, as after a new SIGNING_KEY."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        verifying = actions.add_parser("verify")
        verifying.add_argument(
            "--key",
            action="append",
            default=[],
            metavar="ID",
            help="trust no key but those that are given",
        )
        verifying.add_argument(
            "--anchors", metavar="FILE", help="compare JSON lines of a log store, too"
        )
        accepting = actions.add_parser("accept")
        accepting.add_argument("--reason", required=True, metavar="TEXT")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["action"] == "accept":
            number, keys = accept(options["reason"])
            self._list(keys)
            self.stdout.write(f"The audit trail continues after event {number}.")
            return
        started = time.monotonic()
        try:
            lines = read_lines(options["anchors"]) if options["anchors"] else []
        except OSError as e:
            raise CommandError(f"The file cannot be read: {e.strerror}.") from None
        if options["anchors"] and not lines:
            raise CommandError("The file has no anchors.")
        count, faults, keys = check_everything(options["key"], lines)
        self._list(keys)
        for fault in faults:
            self.stdout.write(fault)
        if faults:
            raise CommandError(f"The audit trail has {len(faults)} faults.")
        seconds = time.monotonic() - started
        self.stdout.write(
            f"The audit trail is whole: {count} events, {seconds:.1f} seconds."
        )

    def _list(self, keys: Counter[str]) -> None:
        for key, number in keys.items():
            self.stdout.write(f"Anchors signed by the key {key}: {number}")
