from smtplib import SMTPException
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.core.management.commands import sendtestemail


class Command(sendtestemail.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        try:
            super().handle(*args, **options)
        except (OSError, SMTPException) as e:
            server = f"{settings.EMAIL_HOST}:{settings.EMAIL_PORT}"
            raise CommandError(f"{server} took no e-mail: {e}.") from None
        self.stdout.write("The mail server took the e-mail.")
