import csv
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from verification.documents.statements import csv_rows, statement_pdf
from workspaces import ledger
from workspaces.management import arguments
from workspaces.models import Environment
from workspaces.statements import Month, Statement, open_statement


class Command(BaseCommand):
    help = (
        "Writes the statement of a month in Nairobi: CSV to standard output, or a file."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("workspace", metavar="WORKSPACE_ID")
        parser.add_argument("--environment", choices=Environment.values, required=True)
        parser.add_argument("--month", required=True, metavar="2026-11")
        kind = parser.add_mutually_exclusive_group()
        kind.add_argument("--csv", metavar="FILE", type=Path)
        kind.add_argument("--pdf", metavar="FILE", type=Path)

    def handle(self, *args: Any, **options: Any) -> None:
        workspace = arguments.parse_workspace(options["workspace"])
        try:
            month = Month.parse(options["month"])
        except ValueError as e:
            raise CommandError(str(e)) from None
        account = ledger.account_of(workspace, options["environment"])
        with open_statement(account.pk, month) as statement:
            try:
                self._write(statement, options)
            except OSError as e:
                raise CommandError(f"The statement cannot be written: {e}.") from None

    def _write(self, statement: Statement, options: dict[str, Any]) -> None:
        if options["pdf"]:
            options["pdf"].write_bytes(statement_pdf(statement))
        elif options["csv"]:
            with options["csv"].open("w", encoding="utf-8-sig", newline="") as file:
                csv.writer(file).writerows(csv_rows(statement))
        else:
            csv.writer(self.stdout).writerows(csv_rows(statement))
