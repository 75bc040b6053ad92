import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from workspaces import ledger
from workspaces.management import arguments
from workspaces.models import Environment


class Command(BaseCommand):
    help = "Adds money to a workspace's account, as a ledger entry; prints the balance."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("workspace", metavar="WORKSPACE_ID")
        parser.add_argument("--environment", choices=Environment.values, required=True)
        parser.add_argument("--amount", required=True)
        parser.add_argument("--note", default="")

    def handle(self, *args: Any, **options: Any) -> None:
        workspace = arguments.parse_workspace(options["workspace"])
        amount = arguments.parse_amount(options["amount"])
        if len(options["note"]) > 200:
            raise CommandError("A note has at most 200 characters.")
        ledger.top_up(
            workspace,
            options["environment"],
            amount,
            actor="operator",
            note=options["note"],
        )
        account = ledger.account_of(workspace, options["environment"])
        answer = {
            "workspaceId": str(workspace.pk),
            "environment": account.environment,
            "amount": float(amount),
            "balance": float(account.balance),
        }
        self.stdout.write(json.dumps(answer))
