"""`manage.py confirm_address`: the first login to a service that sends no mail."""

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client

from tests.accounts.visitor import PASSWORD, log_in
from verification.backoffice.models import AuditEvent
from verification.notifications.models import Notification

pytestmark = pytest.mark.django_db


@pytest.fixture
def grace() -> User:
    return User.objects.create_superuser("grace", "Grace@acacia.test", PASSWORD)


def test_superuser_logs_in_without_a_mail(grace: User, client: Client):
    call_command("confirm_address", "grace@acacia.test")

    log_in(client, "grace@acacia.test")

    assert client.get("/admin/").url.startswith("/accounts/totp/activate/")
    assert not Notification.objects.exists()
    assert AuditEvent.objects.get(action="user.address-confirmed").actor == "service"


def test_address_of_others_stays_unconfirmed(grace: User):
    User.objects.filter(pk=grace.pk).update(is_superuser=False)

    with pytest.raises(CommandError, match="No superuser has this address"):
        call_command("confirm_address", "grace@acacia.test")
