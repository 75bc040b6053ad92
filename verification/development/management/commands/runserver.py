from typing import Any

from django.contrib.staticfiles.management.commands import runserver

from verification.web.server import refuse_public_development


class Command(runserver.Command):
    addr: str

    def run(self, **options: Any) -> None:
        refuse_public_development(self.addr)
        super().run(**options)
