import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from verification.backoffice import audit
from workspaces import keys
from workspaces.management import arguments
from workspaces.models import Environment


class Command(BaseCommand):
    help = 'Creates an API key; prints {"keyId", "key"}. The key is shown only now.'

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("workspace", metavar="WORKSPACE_ID")
        parser.add_argument("--environment", choices=Environment.values, required=True)
        parser.add_argument(
            "--scopes",
            metavar="A,B",
            help="all but subjects:erase, decisions:write and audit:read by default",
        )
        parser.add_argument("--name", default="Made by an operator")
        parser.add_argument(
            "--networks",
            metavar="A,B",
            help="where the key works, such as 192.0.2.0/24; everywhere by default",
        )
        parser.add_argument(
            "--force",
            action="store_true",
            help="make a production key though the workspace is not approved",
        )

    @transaction.atomic
    def handle(self, *args: Any, **options: Any) -> None:
        scopes, networks = options["scopes"], options["networks"]
        try:
            key, text = keys.issue(
                arguments.parse_workspace(options["workspace"]),
                environment=options["environment"],
                name=arguments.parse_name(options["name"], longest=100),
                scopes=None if scopes is None else arguments.parse_scopes(scopes),
                networks=[] if networks is None else arguments.parse_networks(networks),
                force=options["force"],
            )
        except keys.NotApproved as e:
            raise CommandError(f"{e} --force makes a production key anyway.") from e
        audit.record("api-key.created", audit.SERVICE, key)
        self.stdout.write(json.dumps({"keyId": str(key.pk), "key": text}))
