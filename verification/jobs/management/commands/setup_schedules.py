from typing import Any

from django.core.management.base import BaseCommand
from django.db import transaction
from django_q.models import Schedule

from verification.jobs.schedules import SCHEDULES


class Command(BaseCommand):
    help = "Stores the schedules of jobs; may run at every start."

    @transaction.atomic
    def handle(self, *args: Any, **options: Any) -> None:
        Schedule.objects.exclude(func__in=SCHEDULES).delete()
        for function, minutes in SCHEDULES.items():
            # The next time of a stored schedule stays.
            Schedule.objects.update_or_create(
                func=function,
                defaults={
                    "name": function.rpartition(".")[2].replace("_", " ").capitalize(),
                    "schedule_type": Schedule.MINUTES,
                    "minutes": minutes,
                    "repeats": -1,
                },
            )
