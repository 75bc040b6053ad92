from typing import Any

from django.core.management.base import BaseCommand

from verification.jobs import schedules


class Command(BaseCommand):
    help = "Declares what runs by the clock; may run at every start."

    def handle(self, *args: Any, **options: Any) -> None:
        schedules.sync_schedules()
