from typing import Any

from django.core.management.base import BaseCommand, CommandError

from verification import embedded
from verification.development.demo import fill


class Command(BaseCommand):
    help = "Fills the demo workspace with reports, once, while the service runs."

    def handle(self, *args: Any, **options: Any) -> None:
        if not embedded.is_used():
            raise CommandError(
                "Unset DATABASE_URL: the demo is made on the embedded server alone."
            )
        fill()
