from typing import Any

import pytest
from django.core import mail

from tests.fakes.africastalking import KEY, USERNAME, SmsGateway
from tests.notifications.messages import (
    LINK,
    NUMBER,
    email_message,
    enqueue,
    sms_message,
)
from tests.world.clock import let_time_pass
from tests.world.logs import LogLines
from verification.notifications.delivery import claim, send_due_notifications
from verification.notifications.models import (
    Channel,
    Notification,
    NotificationError,
    Outcome,
)
from verification.notifications.outbox import notify
from verification.notifications.sms import IN_DOUBT, gateway_url, send_sms

pytestmark = pytest.mark.django_db


def test_sms_is_sent_and_has_the_gateways_reference(sms_gateway: SmsGateway):
    row = enqueue(sms_message())
    send_due_notifications()

    ((number, text),) = sms_gateway.sent
    row.refresh_from_db()
    assert number == NUMBER
    assert LINK in text
    assert (row.status, row.provider_reference) == ("SENT", "ATXid_1")


def test_gateway_gets_account_number_text_and_sender(
    sms_gateway: SmsGateway, settings: Any
):
    settings.SMS_FROM = "ACACIA"
    enqueue(sms_message())
    send_due_notifications()

    (form,), (headers,) = sms_gateway.requests, sms_gateway.headers
    assert LINK in form.pop("message")
    assert form == {
        "username": USERNAME,
        "to": NUMBER,
        "bulkSMSMode": "1",
        "from": "ACACIA",
    }
    assert headers["apiKey"] == KEY
    assert headers["Accept"] == "application/json"
    assert headers["Content-Type"] == "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    ("username", "url", "expected"),
    [
        ("acacia", "", "https://api.africastalking.com"),
        ("sandbox", "", "https://api.sandbox.africastalking.com"),
        ("sandbox", "https://sms.acacia.test/", "https://sms.acacia.test"),
    ],
)
def test_account_and_setting_choose_the_gateway(
    settings: Any, username: str, url: str, expected: str
):
    settings.AFRICASTALKING_USERNAME, settings.SMS_URL = username, url

    assert gateway_url() == expected


def test_sms_is_not_stored_without_a_gateway():
    notify(sms_message())
    assert not Notification.objects.exists()


def test_sms_and_an_email_of_one_cause_are_both_sent(sms_gateway: SmsGateway):
    notify(
        sms_message(),
        sms_message(channel=Channel.EMAIL, recipient="a@b.test"),
        sms_message(),
    )
    send_due_notifications()

    assert len(sms_gateway.sent) == 1
    assert Notification.objects.filter(status="SENT").count() == 2


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ([403, 404, 406, 409], Outcome(NotificationError.REFUSED, permanent=True)),
        ([401, 405, 407, 500, 501, 502], Outcome(NotificationError.NOT_TAKEN)),
    ],
    ids=["for good", "for now"],
)
def test_code_of_the_gateway_refuses_a_number(
    sms_gateway: SmsGateway, codes: list[int], expected: Outcome
):
    for sms_gateway.codes[NUMBER] in codes:
        assert send_sms(NUMBER, "Hello") == expected, sms_gateway.codes


def test_refusal_of_the_moment_is_retried(sms_gateway: SmsGateway):
    sms_gateway.codes[NUMBER] = 500
    row = enqueue(sms_message())
    send_due_notifications()
    row.refresh_from_db()
    assert (row.status, row.error) == ("PENDING", "NOT_TAKEN")

    sms_gateway.codes.clear()
    let_time_pass()
    send_due_notifications()

    row.refresh_from_db()
    assert row.status == "SENT"


UNREADABLE = [
    (201, "not JSON"),
    (201, "[" * 5000),
    (201, " " * 100_000),
    (201, {}),
    (201, {"SMSMessageData": {"Recipients": None}}),
    (201, {"SMSMessageData": {"Recipients": [{"statusCode": "?"}]}}),
]


def test_unreadable_answer_leaves_a_doubt(sms_gateway: SmsGateway):
    for sms_gateway.broken in UNREADABLE:
        assert send_sms(NUMBER, "Hello") == IN_DOUBT, sms_gateway.broken
    sms_gateway.broken = (500, "Internal error")
    assert send_sms(NUMBER, "Hello") == Outcome(NotificationError.NOT_TAKEN)


def test_sms_in_doubt_is_sent_only_once_more(sms_gateway: SmsGateway):
    sms_gateway.is_silent = True
    row = enqueue(sms_message())
    for status in ("PENDING", "FAILED", "FAILED"):
        send_due_notifications()
        row.refresh_from_db()
        assert (row.status, row.error) == (status, "INTERRUPTED")
        let_time_pass()

    assert len(sms_gateway.sent) == 2


def test_sms_in_doubt_is_sent_once_more_after_other_failures(sms_gateway: SmsGateway):
    unclear, refused = (201, "not JSON"), (503, "Busy")
    row = enqueue(sms_message())
    outcomes = []
    for sms_gateway.broken in (refused, unclear, refused, unclear):
        send_due_notifications()
        row.refresh_from_db()
        outcomes.append((row.status, row.error))
        let_time_pass()

    not_taken, in_doubt = ("PENDING", "NOT_TAKEN"), ("PENDING", "INTERRUPTED")
    assert outcomes == [not_taken, in_doubt, not_taken, ("FAILED", "INTERRUPTED")]


@pytest.mark.parametrize(
    ("answers", "deaths"),
    [([], 2), ([(503, "Busy")], 2), ([(201, "not JSON")], 1)],
    ids=["at first", "after a failure", "after a doubt"],
)
def test_sms_that_kills_its_senders_is_in_doubt(
    sms_gateway: SmsGateway, answers: list[tuple[int, str]], deaths: int
):
    row = enqueue(sms_message())
    for sms_gateway.broken in answers:
        send_due_notifications()
        let_time_pass()
    sms_gateway.broken = None
    for _ in range(deaths):
        assert claim()
        let_time_pass()
    sms_gateway.requests.clear()
    send_due_notifications()

    row.refresh_from_db()
    assert (row.status, row.error) == ("FAILED", "INTERRUPTED")
    assert sms_gateway.requests == []


def test_sms_in_doubt_holds_off_other_sms_and_no_email(sms_gateway: SmsGateway):
    sms_gateway.is_silent = True
    doubted = enqueue(sms_message())
    waiting = enqueue(sms_message("consent:2:1"))
    enqueue(email_message("consent:3:1"))
    send_due_notifications()
    # Another that comes meanwhile waits, too.
    late = enqueue(sms_message("consent:4:1"))
    send_due_notifications()

    assert len(sms_gateway.requests) == len(mail.outbox) == 1
    for row in (waiting, late):
        row.refresh_from_db()
        assert (row.status, row.error, row.attempts) == ("PENDING", "UNREACHABLE", 0)

    sms_gateway.is_silent = False
    let_time_pass()
    send_due_notifications()

    for row in (doubted, waiting, late):
        row.refresh_from_db()
        assert (row.status, row.error) == ("SENT", "")


def test_wrong_key_or_sender_is_retried(sms_gateway: SmsGateway, settings: Any):
    settings.SMS_FROM = "UNKNOWN"
    assert send_sms(NUMBER, "Hello") == Outcome(NotificationError.NOT_TAKEN)
    settings.AFRICASTALKING_API_KEY = "another"
    assert send_sms(NUMBER, "Hello") == Outcome(NotificationError.NOT_TAKEN)


def test_redirect_of_the_gateway_is_not_followed(sms_gateway: SmsGateway):
    with SmsGateway() as other:
        sms_gateway.leads_to = f"{other.url}/version1/messaging"

        assert send_sms(NUMBER, "Hello") == Outcome(NotificationError.NOT_TAKEN)
        assert other.requests == []


def test_gateway_is_called_without_the_proxy_of_the_environment(
    sms_gateway: SmsGateway, monkeypatch: pytest.MonkeyPatch
):
    with SmsGateway() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        enqueue(sms_message())
        send_due_notifications()

    assert len(sms_gateway.sent) == 1
    assert proxy.requests == []


def test_sms_is_retried_when_the_gateway_is_down(
    sms_gateway: SmsGateway, settings: Any
):
    settings.SMS_URL = "http://127.0.0.1:1"
    row = enqueue(sms_message())
    for _ in range(2):
        send_due_notifications()
        row.refresh_from_db()
        assert (row.status, row.error, row.attempts) == ("PENDING", "UNREACHABLE", 0)
        let_time_pass()

    settings.SMS_URL = sms_gateway.url
    send_due_notifications()

    row.refresh_from_db()
    assert (row.status, row.attempts) == ("SENT", 1)


def test_malformed_number_fails_at_once(sms_gateway: SmsGateway):
    row = enqueue(sms_message(recipient="0711000111"))
    send_due_notifications()

    row.refresh_from_db()
    assert (row.status, row.error) == ("FAILED", "REFUSED")
    assert sms_gateway.requests == []


def test_no_number_is_logged(sms_gateway: SmsGateway, log_lines: LogLines):
    sms_gateway.codes[NUMBER] = 406
    enqueue(sms_message())
    send_due_notifications()

    assert "406" in str(log_lines())
    assert NUMBER[1:] not in str(log_lines())
    assert "Acacia" not in str(log_lines())
