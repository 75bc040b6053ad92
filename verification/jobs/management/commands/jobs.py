from typing import Any

from django.core.management.base import BaseCommand

from verification.jobs.supervisor import Supervisor


class Command(BaseCommand):
    help = "Runs a job cluster and keeps it working; SIGTERM and Ctrl-C stop it."
    # They would load the whole API.
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        Supervisor().run()
