import time
from collections import Counter
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from verification.audit_trail.anchors import accept, read_lines
from verification.audit_trail.check import NotExplained, check_everything, explain
from verification.privacy.journal import JournalUnavailable


class Command(BaseCommand):
    help = (
        "verify: compares each audit event with its seal, and the seals with the "
        "signed anchors outside the database; records the outcome, prints the faults, "
        "and ends with 1 if there are any. accept: declares after a restore that the "
        "events since the backup are lost, and trusts the keys of the anchors that "
        "are there, as after a new SIGNING_KEY. explain: records that you know the "
        "cause of a fault, which counts no more then."
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
        accepting = actions.add_parser("accept")
        explaining = actions.add_parser("explain")
        explaining.add_argument(
            "fault", nargs="+", metavar="FAULT", help="a line, as verify prints it"
        )
        for checking in (verifying, explaining):
            checking.add_argument(
                "--anchors",
                metavar="FILE",
                help="compare JSON lines of a log store, too",
            )
        for declaring in (accepting, explaining):
            declaring.add_argument("--reason", required=True, metavar="TEXT")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["action"] == "verify":
            self._verify(options)
            return
        if not options["reason"].strip():
            raise CommandError("The reason is empty.")
        try:
            if options["action"] == "accept":
                number, keys = accept(options["reason"])
                self._list(keys)
                self.stdout.write(f"The audit trail continues after event {number}.")
            else:
                lines = self._read_lines(options["anchors"])
                explain(options["fault"], options["reason"], lines)
                self.stdout.write(f"Explained faults: {len(options['fault'])}")
        except NotExplained as e:
            raise CommandError(str(e)) from None
        except JournalUnavailable as e:
            raise CommandError(f"The folder of anchors is away or full: {e}.") from None

    def _verify(self, options: dict[str, Any]) -> None:
        started = time.monotonic()
        lines = self._read_lines(options["anchors"])
        count, faults, explained, keys = check_everything(options["key"], lines)
        self._list(keys)
        for fault, (at, reason) in explained.items():
            self.stdout.write(f"Explained on {at[:10]} ({reason}): {fault}")
        for fault in faults:
            self.stdout.write(fault)
        if faults:
            raise CommandError(f"The audit trail has {len(faults)} faults.")
        seconds = time.monotonic() - started
        known = f", but for {len(explained)} explained faults" if explained else ""
        self.stdout.write(
            f"The audit trail is whole{known}: {count} events, {seconds:.1f} seconds."
        )

    def _read_lines(self, path: str | None) -> list[dict[str, Any]]:
        if path is None:
            return []
        try:
            lines = read_lines(path)
        except OSError as e:
            raise CommandError(f"The file cannot be read: {e.strerror}.") from None
        if not lines:
            raise CommandError("The file has no anchors.")
        return lines

    def _list(self, keys: Counter[str]) -> None:
        for key, number in keys.items():
            self.stdout.write(f"Anchors signed by the key {key}: {number}")
