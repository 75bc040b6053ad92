from typing import Any

from django.core.management.base import BaseCommand

from verification.development.demo import fill, require_embedded_server


class Command(BaseCommand):
    help = "Fills the demo workspace with reports, once, while the service runs."

    def handle(self, *args: Any, **options: Any) -> None:
        require_embedded_server()
        fill()
