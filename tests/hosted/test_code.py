"""The code that the page of a consent has sent to its subject."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
import time_machine
from django.contrib.auth.models import User
from django.test import Client

from tests.documents.test_consent_receipts import pdf_text
from tests.world.clients import Api
from tests.world.subject import Visitor, newest_code, visible_text
from verification.consents.links import (
    CODE_LIFETIME,
    MAX_WRONG_CODES,
    TRIES,
    CodeNotSent,
    answer_code,
    send_code,
)
from verification.consents.models import Consent, ConsentRecord
from verification.documents.receipts import _consent_receipt
from verification.notifications.delivery import record
from verification.notifications.models import (
    Block,
    Channel,
    Kind,
    Notification,
    NotificationError,
    Outcome,
)
from verification.notifications.outbox import OutgoingMessage, is_sendable
from verification.notifications.recipients import block
from verification.notifications.templates import write_email
from verification.reports.hosted_links import RESEND_INTERVAL
from workspaces.create import create_workspace
from workspaces.models import Member

pytestmark = pytest.mark.django_db

EMAIL, PHONE = "wanjiku@kamau.test", "+254712345678"
ASKED = "Enter the code that we sent you"
DECISION = "Your decision"


@pytest.fixture
def visitor(live_ask: Any) -> Visitor:
    return live_ask(subject={"email": EMAIL})


def pass_challenge(visitor: Visitor) -> None:
    visitor.open()
    visitor.confirm()


def confirmed(visitor: Visitor) -> Any:
    """Return the page after the challenge."""
    pass_challenge(visitor)
    return visitor.get()


def codes() -> list[Notification]:
    return list(Notification.objects.filter(kind=Kind.CONSENT_CODE).order_by("id"))


def wanted_code(workspace_id: UUID) -> OutgoingMessage:
    return OutgoingMessage(
        Kind.CONSENT_CODE, Channel.EMAIL, "c", EMAIL, {}, workspace_id=workspace_id
    )


def reads(visitor: Visitor, answer: Any = None) -> str:
    """Follow a redirect, or load the page; return its text."""
    page = visitor.browser.get(answer["Location"]) if answer else visitor.get()
    return visible_text(page.content.decode())


def prove(visitor: Visitor) -> str:
    return reads(visitor, visitor.post("code", answer=newest_code()))


def evidence(visitor: Visitor) -> dict[str, Any]:
    record = ConsentRecord.objects.get(report_id=visitor.report_id)
    assert record.evidence
    return record.evidence


def test_subject_types_the_code_that_was_sent_to_them(visitor: Visitor):
    page = confirmed(visitor).content.decode()
    assert ASKED in page
    assert "w••••@kamau.test" in page
    assert "Step 2 of 3" in page
    assert DECISION not in page
    (message,) = codes()
    assert (message.recipient, message.channel) == (EMAIL, "EMAIL")
    # Staff find it by the report.
    assert str(message.report_id) == visitor.report_id
    Notification.objects.filter(kind=Kind.CONSENT_REQUEST).update(
        status="SENT", sent_at=message.created_at, next_attempt_at=None
    )
    # The client knows the birthday, and not the code.
    visitor.post("grant", name="Wanjiku Kamau", agreed="on", shown="")
    visitor.consent.refresh_from_db()
    assert visitor.consent.status == "PENDING"

    assert DECISION in prove(visitor)

    visitor.grant()
    visitor.consent.refresh_from_db()
    assert visitor.consent.status == "GRANTED"
    kept = evidence(visitor)
    assert (kept["codeSentTo"], kept["codeAddress"]) == ("EMAIL", "w••••@kamau.test")
    assert kept["linkSentTo"] == ["EMAIL"]


def test_code_goes_to_the_phone_with_a_gateway(live_ask: Any, settings: Any):
    settings.AFRICASTALKING_USERNAME, settings.AFRICASTALKING_API_KEY = "acacia", "key"
    visitor = live_ask(subject={"email": EMAIL, "phone": PHONE})

    page = confirmed(visitor).content.decode()

    assert [one.recipient for one in codes()] == [PHONE]
    assert "Send another code to <bdi>w••••@kamau.test</bdi>" in page


def test_report_without_an_address_asks_for_no_code(live_ask: Any):
    visitor = live_ask()

    page = confirmed(visitor).content.decode()

    assert DECISION in page
    assert "Step 2 of 2" in page
    visitor.grant()
    kept = evidence(visitor)
    assert (kept["codeSentTo"], kept["linkSentTo"]) == ("", [])
    record = ConsentRecord.objects.get(report_id=visitor.report_id)
    assert _consent_receipt(record)["linkGiven"] == "handed"


def test_sandbox_asks_only_reachable_subjects(ask: Any, api: Api):
    stranger = ask(subject={"email": "stranger@kamau.test"})
    assert DECISION in confirmed(stranger).content.decode()

    user = User.objects.create(username="t", email="tester@acacia.test")
    Member.objects.create(workspace=api.workspace, user=user, role="VIEWER")
    mine = ask(subject={"email": "tester@acacia.test"})

    assert ASKED in confirmed(mine).content.decode()


def test_wrong_code_says_so_and_ends_after_five(visitor: Visitor):
    pass_challenge(visitor)
    wrong = f"{(int(newest_code()) + 1) % 10**6:06}"
    for _ in range(TRIES - 2):
        visitor.post("code", answer=wrong)

    page = reads(visitor, visitor.post("code", answer=wrong))
    assert "That is not the code that we sent last" in page
    page = reads(visitor, visitor.post("code", answer=wrong))

    assert "That code does not work any more" in page
    assert DECISION not in prove(visitor)


def test_right_answer_to_the_challenge_gives_no_new_tries(visitor: Visitor):
    pass_challenge(visitor)
    Consent.objects.update(wrong_codes=TRIES - 1)
    pass_challenge(visitor)

    visitor.post("code", answer="wrong")

    assert DECISION not in prove(visitor)


def test_code_works_for_fifteen_minutes(visitor: Visitor):
    pass_challenge(visitor)
    sent = codes()[-1].created_at

    with time_machine.travel(sent + CODE_LIFETIME + timedelta(seconds=1)):
        assert "That code does not work any more" in prove(visitor)

        # A returning subject gets another code.
        pass_challenge(visitor)
        assert len(codes()) == 2
        assert DECISION in prove(visitor)


def test_code_works_once(visitor: Visitor):
    pass_challenge(visitor)
    prove(visitor)

    other = Visitor(visitor.link)
    pass_challenge(other)

    assert other.get().content.decode().count(ASKED)
    visitor.consent.refresh_from_db()
    assert DECISION not in reads(other, other.post("code", answer=newest_code() + "0"))


def test_new_code_goes_to_the_same_channel_and_ends_the_one_before(visitor: Visitor):
    pass_challenge(visitor)
    first = newest_code()
    too_soon = reads(visitor, visitor.post("send-code", channel="EMAIL"))
    assert "A code was sent less than a minute ago" in too_soon
    assert len(codes()) == 1

    with time_machine.travel(
        codes()[-1].created_at + RESEND_INTERVAL + timedelta(seconds=1)
    ):
        for channel in ("SMS", "", "PIGEON", "EMAIL"):
            visitor.post("send-code", channel=channel)
        assert [one.recipient for one in codes()] == [EMAIL] * 2
        assert newest_code() != first
        assert DECISION not in reads(visitor, visitor.post("code", answer=first))
        assert DECISION in prove(visitor)


def test_fifteen_wrong_codes_lock_the_link_for_good(visitor: Visitor):
    pass_challenge(visitor)
    Consent.objects.update(wrong_codes=MAX_WRONG_CODES - 2)
    visitor.post("code", answer="wrong")
    assert not Notification.objects.filter(kind=Kind.CONSENT_LOCKED).exists()

    # Another code does not begin the count again.
    with time_machine.travel(codes()[-1].created_at + 2 * RESEND_INTERVAL):
        visitor.post("send-code", channel="EMAIL")
        visitor.post("code", answer="wrong")

    assert MAX_WRONG_CODES == 15
    assert len(codes()) == 2
    assert "does not work any more" in reads(visitor)
    assert Notification.objects.filter(kind=Kind.CONSENT_LOCKED).exists()
    assert DECISION not in prove(visitor)


def test_wrong_codes_do_not_lock_an_answered_consent(
    visitor: Visitor,
):
    pass_challenge(visitor)
    consent = visitor.consent
    Consent.objects.filter(pk=consent.pk).update(
        status="GRANTED", wrong_codes=MAX_WRONG_CODES - 1
    )

    assert answer_code(consent.pk, consent.generation, "wrong") == ""

    consent.refresh_from_db()
    assert not consent.is_locked_for_good


def test_simultaneous_codes_count_before_they_go_out(live_ask: Any, settings: Any):
    settings.MESSAGES_PER_RECIPIENT_PER_DAY = 2
    first, second, third = (live_ask(subject={"email": EMAIL}) for _ in range(3))
    for visitor in (first, second):
        send_code(visitor.consent.pk, 1, "EMAIL", "en")

    page = confirmed(third).content.decode()

    assert len(codes()) == 2
    assert "Send a code" in page


def test_workspace_has_a_daily_limit_of_codes(live_ask: Any, settings: Any):
    settings.MESSAGES_PER_WORKSPACE_PER_DAY = 1
    first, second = (
        live_ask(subject={"email": f"p{n}@kamau.test"}).consent for n in range(2)
    )
    send_code(first.pk, 1, "EMAIL", "en")

    with pytest.raises(CodeNotSent):
        send_code(second.pk, 1, "EMAIL", "en")


def test_workspace_does_not_use_the_limit_of_another(live_ask: Any, settings: Any):
    settings.MESSAGES_PER_RECIPIENT_PER_DAY = 1
    send_code(live_ask(subject={"email": EMAIL}).consent.pk, 1, "EMAIL", "en")
    other = create_workspace(name="Baobab", owner_email="o@baobab.test")
    reader = wanted_code(other.pk)

    assert is_sendable(reader)


def test_second_click_keeps_the_confirmation(visitor: Visitor):
    visitor.open()
    first = visitor.browser.cookies.copy()
    visitor.confirm()
    visitor.browser.cookies = first

    assert ASKED in reads(visitor, visitor.confirm())


def test_subject_without_a_code_can_decline(visitor: Visitor):
    pass_challenge(visitor)
    assert "I do not agree" in visitor.get().content.decode()

    visitor.post("decline")

    visitor.consent.refresh_from_db()
    assert visitor.consent.status == "DECLINED"
    kept = evidence(visitor)
    assert (kept["codeSentTo"], kept["text"]) == ("", "")
    # No receipt claims a text that the subject has not seen.
    (mail,) = Notification.objects.filter(kind=Kind.CONSENT_RECEIPT)
    assert "the exact text" not in write_email(mail).text
    assert "SHA-256" not in reads(visitor)
    receipt = pdf_text(visitor.get("receipt.pdf").content)
    assert "SHA-256" not in receipt
    assert "of the text" not in receipt
    assert "The exact text" not in receipt


def test_minor_can_decline_without_a_code(ask_minor: Any):
    visitor = ask_minor(subject={"email": EMAIL, "dateOfBirth": "1990-03-27"})
    visitor.open()
    visitor.post("confirm", day="27", month="3", year="2013")

    assert "You are under 18" in visitor.get().content.decode()
    assert not codes()


def test_late_code_is_not_sent(visitor: Visitor):
    pass_challenge(visitor)
    (message,) = codes()
    message.attempts, message.fence = 3, 1
    message.leased_until = message.next_attempt_at
    message.save()

    record(message, Outcome(NotificationError.NOT_TAKEN))

    message.refresh_from_db()
    assert message.status == "FAILED"


def test_decision_cancels_a_waiting_code(visitor: Visitor):
    pass_challenge(visitor)
    visitor.post("not-me")

    assert [one.status for one in codes()] == ["CANCELLED"]


def test_withheld_code_cannot_be_guessed(visitor: Visitor):
    workspace = visitor.consent.report.workspace_id
    block(workspace, [(Channel.EMAIL, EMAIL)], Block.Reason.UNWANTED)

    visitor.open()
    answer = visitor.confirm()

    assert "We could not send a code" in reads(visitor, answer)
    assert not codes()
    visitor.consent.refresh_from_db()
    assert visitor.consent.code_sent_at is None


def test_edit_to_another_address_asks_again(live_ask: Any, paying_api: Api):
    visitor = live_ask(subject={"email": EMAIL}, draft=True)
    pass_challenge(visitor)
    assert DECISION in prove(visitor)
    report = visitor.consent.report
    report.subject = {**report.subject, "email": "other@kamau.test"}
    report.save()

    assert ASKED in reads(visitor)


def test_record_names_signs_of_the_client(live_ask: Any, paying_api: Api):
    """The browser and the client of the test have the same address."""
    user = User.objects.create(username="m", email="m@acacia.test")
    Member.objects.create(workspace=paying_api.workspace, user=user, role="OWNER")
    visitor = live_ask(subject={"email": "m+mine@acacia.test"})
    assert paying_api.get("/reports").status_code == 200
    visitor.browser.force_login(user)
    pass_challenge(visitor)
    prove(visitor)

    visitor.grant()

    assert evidence(visitor)["ofClient"] == ["ADDRESS", "BROWSER", "CONTACT"]


def test_record_of_a_stranger_names_nothing_of_the_client(
    live_ask: Any, paying_api: Api
):
    assert paying_api.get("/reports").status_code == 200
    visitor = live_ask(subject={"email": "stranger@kamau.test"})
    visitor.browser = Client(REMOTE_ADDR="102.68.1.1")
    pass_challenge(visitor)
    prove(visitor)

    visitor.grant()

    assert evidence(visitor)["ofClient"] == []
