from typing import Any

from django_q.management.commands import qcluster

from verification.jobs.cluster import harden, preload


class Command(qcluster.Command):
    help = "Runs one job cluster; `jobs` runs it under a supervisor."
    # They would load the whole API into every process.
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        harden()
        preload()
        super().handle(*args, **options)
