"""What superusers do to the accounts of others."""

import pytest
from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from django.contrib.auth.models import User
from django.test import Client

from tests.accounts.visitor import is_logged_in, known, log_in
from tests.office import act, change, give_factor
from verification.backoffice.models import AuditEvent

NEW = "wambui@people.test"


@pytest.fixture
def grace(db) -> User:
    return known()


def save(superuser: Client, user: User, email: str) -> int:
    posted = {
        "username": user.username,
        "email": email,
        "is_active": "on",
        "date_joined_0": "2026-01-01",
        "date_joined_1": "00:00:00",
    }
    return superuser.post(change(user), posted).status_code


def test_an_address_that_staff_change_has_to_be_confirmed_and_ends_the_old_one(
    grace, superuser
):
    assert save(superuser, grace, NEW.upper()) == 302

    address = EmailAddress.objects.get(user=grace)
    assert (address.email, address.verified) == (NEW, False)
    for email in (grace.email, NEW):
        client = Client()
        log_in(client, email)
        assert not is_logged_in(client)


@pytest.mark.parametrize("email", ["OTIENO@people.test", ""])
def test_staff_give_nobody_the_address_of_somebody_else_or_none(
    grace, superuser, email
):
    known("otieno")

    assert save(superuser, grace, email) == 200
    grace.refresh_from_db()
    assert grace.email == "grace@people.test"


def test_a_lost_second_factor_is_removed_and_that_is_recorded(grace, superuser):
    give_factor(grace)

    act(superuser, "remove_factors", grace)

    assert not Authenticator.objects.filter(user=grace).exists()
    event = AuditEvent.objects.get()
    assert (event.action, event.object_id) == ("user.factor-removed", str(grace.pk))
