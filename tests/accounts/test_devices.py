"""Known browsers: guesses do not slow them, and other browsers send a mail."""

from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from allauth.mfa.models import Authenticator
from axes.models import AccessAttempt
from django.conf import settings
from django.test import Client

from tests.accounts.visitor import (
    code_of,
    create_user,
    is_logged_in,
    log_in,
    path_mailed_to,
)
from tests.world.members import PASSWORD
from verification.db.encryption import keyed_hash
from verification.notifications.models import Notification
from verification.notifications.templates import write_email

EMAIL = "grace@people.test"
PHONE = "Mozilla/5.0 (Linux; Android 10) AppleWebKit/537.36 Chrome/143.0 Safari/537.36"
SLOWED = "Many wrong passwords were tried here"
# The first second of a pause of any length.
START = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)


@pytest.fixture
def clock():
    with time_machine.travel(START, tick=False) as moved:
        yield moved


@pytest.fixture
def grace(db, clock):
    return create_user()


@pytest.fixture
def home(grace) -> Client:
    """Log in; return the owner's browser."""
    client = Client(REMOTE_ADDR="198.51.100.7")
    log_in(client, EMAIL)
    client.post("/accounts/logout/")
    assert not is_logged_in(client)
    return client


def guess_from_many_addresses(times: int, email: str = EMAIL) -> list[str]:
    answers = [
        log_in(Client(REMOTE_ADDR=f"203.0.113.{number}"), email, "not the password")
        for number in range(times)
    ]
    return [answer.content.decode() for answer in answers]


def store_guesses(times: int, email: str = EMAIL) -> None:
    """Store wrong passwords of one address, as if they had been typed now."""
    AccessAttempt.objects.create(
        username=keyed_hash("login", email).hex(),
        ip_address="203.0.113.200",
        failures_since_start=times,
    )


def mails_about(what: str) -> list[Notification]:
    sent = Notification.objects.filter(kind="ACCOUNT_CHANGED").order_by("id")
    return [one for one in sent if one.context["what"] == what]


def test_guesses_from_many_addresses_pause_all_but_the_known_browser(home):
    create_user("otieno")
    other = Client(REMOTE_ADDR="192.0.2.2")
    log_in(other, "otieno@people.test")
    other.post("/accounts/logout/")

    store_guesses(8)
    pages = guess_from_many_addresses(4)

    assert [SLOWED in page for page in pages] == [False, False, True, True]
    # During the pause, the right password gets the same answer.
    stranger = Client(REMOTE_ADDR="203.0.113.99")
    assert SLOWED in log_in(stranger, EMAIL).content.decode()
    assert not is_logged_in(stranger)
    # A cookie of another account or a forged one makes no browser known.
    assert SLOWED in log_in(other, EMAIL).content.decode()
    value = home.cookies[settings.DEVICE_COOKIE_NAME].value
    other.cookies[settings.DEVICE_COOKIE_NAME] = value[:-1] + "~"
    assert SLOWED in log_in(other, EMAIL).content.decode()
    log_in(home, EMAIL)
    assert is_logged_in(home)


def test_unknown_browser_gets_its_turn(home, clock):
    store_guesses(10)
    for pause in (2, 4, 8):
        clock.shift(timedelta(seconds=pause - 1))
        assert [SLOWED in page for page in guess_from_many_addresses(1)] == [True]
        clock.shift(timedelta(seconds=1))
        found = [SLOWED in page for page in guess_from_many_addresses(2)]
        assert found == [False, True]
    clock.shift(timedelta(seconds=16))

    elsewhere = Client(REMOTE_ADDR="192.0.2.1")
    log_in(elsewhere, EMAIL)

    assert is_logged_in(elsewhere)


def test_pause_outlives_the_locks_of_addresses(home, clock):
    store_guesses(10)
    clock.shift(settings.AXES_COOLOFF_TIME + timedelta(seconds=1))
    # Each login deletes old attempts, whoever makes it.
    log_in(home, EMAIL)

    found = [SLOWED in page for page in guess_from_many_addresses(2)]
    assert found == [False, True]


def test_pause_ends_an_hour_after_the_guesses(home, clock):
    store_guesses(11)
    clock.shift(timedelta(hours=1, seconds=1))

    assert not any(SLOWED in page for page in guess_from_many_addresses(2))


def test_unknown_account_has_the_same_pause(db, clock):
    email = "nobody@people.test"
    store_guesses(9, email)

    pages = guess_from_many_addresses(2, email)

    assert [SLOWED in page for page in pages] == [False, True]


def test_new_password_by_mail_makes_the_browser_known(grace):
    store_guesses(11)
    client = Client(REMOTE_ADDR="192.0.2.1")
    client.post("/accounts/password/reset/", {"email": EMAIL})
    link = path_mailed_to(EMAIL, "ACCOUNT_RESET")
    form = client.get(link, follow=True).request["PATH_INFO"]
    new = "eight loud elephants"
    client.post(form, {"password1": new, "password2": new})

    log_in(client, EMAIL, new)

    assert is_logged_in(client)


def test_cookie_contains_no_address(home):
    cookie = home.cookies[settings.DEVICE_COOKIE_NAME]

    assert "grace" not in cookie.value
    assert cookie["httponly"]
    assert cookie["samesite"] == "Lax"


def test_login_with_a_new_browser_sends_a_mail(home):
    assert not mails_about("login")

    log_in(home, EMAIL)
    assert not mails_about("login")

    there = Client(REMOTE_ADDR="192.0.2.9", headers={"user-agent": PHONE})
    log_in(there, EMAIL)
    (letter,) = mails_about("login")
    assert letter.recipient == EMAIL
    text = write_email(letter).text
    assert "Chrome, Android, 192.0.2.9, 20 November 2026, 15:00 (Nairobi time)" in text
    there.post("/accounts/logout/")
    log_in(there, EMAIL)
    assert len(mails_about("login")) == 1


@pytest.mark.django_db(transaction=True)
def test_changes_of_factors_and_codes_send_a_mail(clock):
    grace = create_user()
    client = Client()
    client.force_login(grace)
    client.post("/accounts/reauthenticate/", {"password": PASSWORD})
    secret = client.get("/accounts/totp/activate/").context["form"].secret
    done = client.post("/accounts/totp/activate/", {"code": code_of(secret)})
    assert len(mails_about("factor-on")) == 1

    codes = client.get(done["Location"]).context["unused_codes"]
    assert client.get(done["Location"]).context["unused_codes"] == ["****"] * 10
    again = Client()
    log_in(again, EMAIL)
    again.post("/accounts/code/", {"code": codes[0]})
    assert is_logged_in(again)
    assert len(mails_about("code-used")) == 1

    client.post("/accounts/recovery-codes/generate/")
    assert len(mails_about("codes")) == 1
    client.post("/accounts/totp/deactivate/")
    assert not Authenticator.objects.exists()
    assert len(mails_about("factor-off")) == 1
