import json
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from workspaces.create import create_workspace
from workspaces.management import arguments
from workspaces.members import assign_owner
from workspaces.models import Account, Workspace


class Command(BaseCommand):
    help = 'Creates a workspace; prints {"workspaceId"}.'

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--owner", required=True, metavar="EMAIL")
        parser.add_argument(
            "--billing", choices=["prepaid", "postpaid"], default="prepaid"
        )
        parser.add_argument(
            "--account", choices=["business", "individual"], default="business"
        )

        parser.add_argument(
            "--contact",
            default="",
            help="e-mail address or phone number that people are shown (the owner's)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        owner_email = arguments.parse_email(options["owner"])
        workspace = create_workspace(
            name=arguments.parse_name(options["name"], longest=200),
            owner_email=owner_email,
            kind=Workspace.Kind(options["account"].upper()),
            billing=Account.Billing(options["billing"].upper()),
            contact=arguments.parse_name(
                options["contact"] or owner_email, longest=254
            ),
        )
        if not assign_owner(workspace, owner_email):
            self.stderr.write(
                f"{owner_email} has no account, and is sent an invitation."
            )
        self.stdout.write(json.dumps({"workspaceId": str(workspace.pk)}))
