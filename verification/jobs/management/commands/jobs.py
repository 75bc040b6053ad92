import os
import sys
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from django.db import OperationalError, connection

from verification.postgresql import unreachable


class Command(BaseCommand):
    help = "Runs a job cluster and keeps it working; SIGTERM and Ctrl-C stop it."
    # They would load the whole API.
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            connection.ensure_connection()
        except OperationalError as e:
            # A cluster goes on trying to reach a server that is away.
            if not unreachable.is_away(e):
                raise
            self.stderr.write(unreachable.sentence(e))
        connection.close()
        # In place of this process, which has loaded every app.
        os.chdir(settings.BASE_DIR)
        command = [sys.executable, "-m", "verification.jobs.supervisor"]
        os.execv(command[0], command)  # noqa: S606
