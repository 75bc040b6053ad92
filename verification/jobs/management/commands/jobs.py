import os
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from django.db import OperationalError, connection

from verification.db import startup
from verification.jobs.cluster import Cluster


class Command(BaseCommand):
    help = "Runs a job cluster; SIGTERM and Ctrl-C stop it."
    # They would load the whole API.
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            startup.require_schema()
            startup.refuse_transaction_pooler(settings.DATABASE_DIRECT_URL)
        except OperationalError as e:
            # Workers go on trying to reach a server that is away.
            if not startup.is_unreachable(e):
                raise
            self.stderr.write(startup.explain_error(e))
        connection.close()
        Cluster(os.environ.get("JOB_CLUSTER", "")).run()
