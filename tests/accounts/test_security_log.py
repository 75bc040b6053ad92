"""The security log, as an operator's tools read it."""

import re
from datetime import timedelta

import pytest
import time_machine
from allauth.mfa.totp.internal.auth import TOTP, generate_totp_secret
from django.test import Client
from django.utils.timezone import now

from tests.accounts.visitor import create_user, is_logged_in, log_in
from tests.world.logs import LogLines
from tests.world.logs import log_lines as log_lines
from tests.world.members import PASSWORD
from verification.backoffice import audit
from verification.notifications.models import Notification
from verification.payments.alerts import MANY_ATTEMPTS, send_urgent_alerts
from verification.payments.models import OperatorAlert

pytestmark = pytest.mark.django_db
ADDRESS = "198.51.100.7"


def lines_of(log_lines: LogLines, *names: str) -> list[tuple]:
    """Return the message and the named members of each line of the security log."""
    found = [one for one in log_lines() if one["name"] == audit.log.name]
    return [tuple(one.get(name) for name in ("message", *names)) for one in found]


def test_logins_are_logged_with_address_and_outcome(log_lines: LogLines):
    client = Client(REMOTE_ADDR=ADDRESS)
    user = create_user()

    log_in(client, "grace@people.test", "not the password")
    log_in(client, "grace@people.test")

    assert lines_of(log_lines, "outcome", "address", "user_id") == [
        ("login", "refused", ADDRESS, None),
        ("login", "accepted", ADDRESS, user.pk),
    ]


def test_lock_out_is_logged(log_lines: LogLines):
    client = Client(REMOTE_ADDR=ADDRESS)

    for _ in range(5):
        log_in(client, "nobody@people.test", "not the password")

    told = lines_of(log_lines, "outcome", "address")
    assert ("login", "locked-out", ADDRESS) in told
    assert told.count(("login", "refused", ADDRESS)) == 5


def test_log_lines_do_not_contain_the_typed_account(log_lines: LogLines):
    client = Client()
    for typed in ("grace@people.test", "my-secret@word.test"):
        log_in(client, typed, "not the password")

    accounts = {account for _, account in lines_of(log_lines, "account")}
    assert accounts == {
        audit.account_hash("Grace@people.test "),
        audit.account_hash("my-secret@word.test"),
    }
    assert not re.search("people.test|secret|not the", repr(log_lines()))


def test_wrong_code_is_logged(log_lines: LogLines):
    client, user = Client(REMOTE_ADDR=ADDRESS), create_user()
    TOTP.activate(user, generate_totp_secret())
    log_in(client, "grace@people.test")

    client.post("/accounts/code/", {"code": "000000"})

    assert not is_logged_in(client)
    assert lines_of(log_lines, "outcome", "address", "user_id") == [
        ("code", "refused", ADDRESS, user.pk)
    ]


def test_refused_key_is_logged(log_lines: LogLines):
    key = {"Authorization": "Bearer vrf_test_nobody"}

    Client(REMOTE_ADDR=ADDRESS).get("/api/v1/reports", headers=key)

    assert lines_of(log_lines, "outcome", "address") == [
        ("api-key", "refused", ADDRESS)
    ]


def test_audit_events_are_logged_without_names(log_lines: LogLines):
    user = create_user()
    client = Client(REMOTE_ADDR=ADDRESS)
    log_in(client, "grace@people.test")
    words = "three plain words together"

    client.post(
        "/accounts/password/change/",
        {"oldpassword": PASSWORD, "password1": words, "password2": words},
    )

    assert lines_of(log_lines, "action", "object_id", "address")[-1] == (
        "audit",
        "user.password-changed",
        str(user.pk),
        ADDRESS,
    )
    assert "grace" not in repr(log_lines())


@pytest.fixture
def alerts(settings):
    settings.OPERATOR_ALERTS = ["operator@example.com"]

    def sent() -> list[str]:
        send_urgent_alerts()
        found = Notification.objects.filter(kind="PAYMENT_TROUBLE").order_by("id")
        return [line for letter in found for line in letter.context["lines"]]

    return sent


def test_many_refused_attempts_in_an_hour_alert_once(alerts):
    client = Client()
    with time_machine.travel("2026-11-21T08:15:30Z", tick=False):
        log_in(client, "grace@people.test", "not the password")
        OperatorAlert.objects.update(times=MANY_ATTEMPTS - 2)
        log_in(client, "otieno@people.test", "not the password")
        assert alerts() == []

        log_in(client, "otieno@people.test", "not the password")
        log_in(client, "otieno@people.test", "not the password")
        assert alerts() == alerts()

    assert alerts() == [
        "Access refused: 101 logins were refused in the hour that began at "
        "2026-11-21T08:00 UTC"
    ]


def test_attempts_are_counted_for_each_hour(alerts):
    moments = [now(), now() + timedelta(hours=1)]
    for at in moments:
        with time_machine.travel(at, tick=False):
            log_in(Client(), "grace@people.test", "not the password")

    assert list(OperatorAlert.objects.values_list("times", flat=True)) == [1, 1]
