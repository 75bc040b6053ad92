import os
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, OperationalError, connection

from verification.backoffice.models import allow_wrong_key
from verification.db import startup
from verification.jobs.cluster import Cluster
from verification.jobs.queue import STUCK_SECONDS, own_heartbeat_age_seconds


class Command(BaseCommand):
    help = "Runs a job cluster; SIGTERM and Ctrl-C stop it."
    # They would load the whole API.
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--alive",
            action="store_true",
            help="run nothing; exit with 1 if work does not flow through this "
            "machine's cluster, though the database answers",
        )

    def handle(self, *args: Any, alive: bool = False, **options: Any) -> None:
        label = os.environ.get("JOB_CLUSTER", "")
        if alive:
            self._require_life(label)
            return
        try:
            startup.require_schema()
            startup.refuse_transaction_pooler(settings.DATABASE_DIRECT_URL)
        except OperationalError as e:
            # Workers go on trying to reach a server that is away.
            if not startup.is_unreachable(e):
                raise
            self.stderr.write(startup.explain_error(e))
        connection.close()
        Cluster(label).run()

    def _require_life(self, label: str) -> None:
        """Exit with 1 if a restart of the cluster helps.

        Kubernetes ends the cluster then, and may leave paid calls in doubt. So what is
        away now and was there when the cluster started is no reason: the database, the
        file of a secret, the command of one that is no key. A running cluster needs
        only the first, and a new one would not start. `main` in
        `verification/manage.py` exits with 1 for settings that the environment itself
        has wrong: no cluster can have started with them.
        """
        try:
            # The settings have no key that a command prints.
            with allow_wrong_key():
                age = own_heartbeat_age_seconds(label)
        except DatabaseError as e:
            # A restart mends no database, and may leave paid calls in doubt.
            self.stdout.write(f"not known without the database ({type(e).__name__})")
            return
        if age is None or age > STUCK_SECONDS:
            since = "has not flowed" if age is None else f"last flowed {age:.0f} s ago"
            raise CommandError(f"Work {since} through this machine's job cluster.")
        self.stdout.write(f"work flowed {age:.0f} s ago")
