"""The commands of `docs/operations.md` that help staff to log in again."""

import re

import pytest
from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client

from tests.accounts.visitor import create_user, is_logged_in, log_in
from tests.world import staff

PAGE = (settings.BASE_DIR / "docs" / "operations.md").read_text()
SHELL = re.compile(r'^python manage\.py shell -c "\n(.*?)"$', re.MULTILINE | re.DOTALL)
REPLACE_ADDRESS, REMOVE_FACTOR = SHELL.findall(PAGE)


@pytest.fixture
def grace(db: None) -> User:
    return create_user(is_staff=True)


def run(code: str) -> None:
    for example in ("old@example.com", "grace@example.com"):
        code = code.replace(example, "grace@people.test")
    call_command("shell", command=code, verbosity=0)


def test_address_command_replaces_the_address_and_ends_sessions(grace: User) -> None:
    client = Client()
    log_in(client, grace.email)
    assert grace.sessions.exists()

    run(REPLACE_ADDRESS)

    grace.refresh_from_db()
    entry = EmailAddress.objects.get(user=grace)
    assert grace.email == entry.email == "new@example.com"
    assert not entry.verified
    assert not is_logged_in(client)


def test_factor_command_removes_the_second_factor(grace: User) -> None:
    staff.give_factor(grace)

    run(REMOVE_FACTOR)

    assert not Authenticator.objects.filter(user=grace).exists()
