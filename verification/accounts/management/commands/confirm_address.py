from typing import Any

from allauth.account.models import EmailAddress
from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from verification.backoffice import audit


class Command(BaseCommand):
    help = (
        "Confirms the e-mail address of a superuser, for the first login to a service "
        "that sends no mail yet. Everybody else confirms it by a link in a mail."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("email", metavar="EMAIL")

    @transaction.atomic
    def handle(self, *args: Any, **options: Any) -> None:
        superusers = User.objects.filter(is_superuser=True, is_active=True)
        user = superusers.filter(email__iexact=options["email"]).first()
        if user is None:
            raise CommandError("No superuser has this address; see createsuperuser.")
        EmailAddress.objects.update_or_create(
            user=user,
            email=user.email.lower(),
            defaults={"verified": True, "primary": True},
        )
        audit.record("user.address-confirmed", audit.SERVICE, user)
        self.stdout.write("The address is confirmed.")
