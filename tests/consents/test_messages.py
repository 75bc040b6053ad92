from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.core import mail
from django.utils.timezone import now

from tests.consents.test_decisions import EVIDENCE
from tests.world.clients import (
    HOSTED,
    READERS,
    Api,
    company,
    confirm_sandbox_addresses,
    person,
)
from tests.world.orders import EMPLOYMENT
from verification.consents.links import remind_subjects
from verification.consents.models import Consent
from verification.consents.subject_decisions import decline, grant
from verification.notifications.delivery import send_due_notifications
from verification.notifications.models import Notification
from verification.notifications.templates import write_email
from verification.privacy.withdrawals import withdraw

ADDRESS = "wanjiku@kamau.test"


def create_hosted_consent(api: Api, **more: Any) -> Consent:
    item = {**person(email=ADDRESS, phone="+254712345678"), "consent": HOSTED}
    return Consent.objects.get(report=api.create(item, **more)["id"])


def sent() -> list[Any]:
    """The messages that go out now."""
    mail.outbox.clear()
    send_due_notifications()
    return list(mail.outbox)


def let_half_the_time_pass() -> None:
    at, days = now(), timedelta(days=7)
    Consent.objects.update(link_made_at=at - days, expires_at=at + days)


def url(api: Api, consent: Consent) -> str:
    path = f"/reports/{consent.report_id}/consent/state"
    return api.get(path).json()["consentUrl"]


def test_request_is_in_both_languages(api: Api):
    consent = create_hosted_consent(api)
    (message,) = sent()

    assert "asks for your consent / " in message.subject
    assert "inaomba ridhaa yako" in message.subject
    assert message.body.count(url(api, consent)) == 2


def test_receipt_is_in_the_language_of_the_page(api: Api):
    for language, subject in (("en", "Your consent"), ("sw", "Ridhaa yako")):
        consent = create_hosted_consent(api)
        grant(consent.pk, 1, replace(EVIDENCE, language=language))

        letter = write_email(Notification.objects.latest("pk"))

        assert subject in letter.subject
        assert " / " not in letter.subject


@pytest.mark.parametrize("draft", [False, True])
def test_subject_gets_the_link(api: Api, draft: bool):
    consent = create_hosted_consent(api, draft=draft)
    (message,) = sent()
    assert message.to == [ADDRESS]
    assert url(api, consent) in message.body
    assert "Acacia Lenders" in message.body
    assert sent() == []


def test_each_subject_of_a_batch_gets_a_link(api: Api):
    items = [
        {**person(email=f"p{n}@kamau.test", idNumber=f"1234{n:04}"), "consent": HOSTED}
        for n in range(3)
    ]
    addresses = {item["subject"]["email"] for item in items}
    confirm_sandbox_addresses(api.workspace, *addresses - set(READERS))
    api.create(*items)
    assert len({message.to[0] for message in sent()}) == 3


def test_subject_without_address_or_request_gets_no_message(api: Api):
    api.create({**person(), "consent": HOSTED}, person(email=ADDRESS))
    assert sent() == []


def test_new_link_cancels_the_waiting_message(api: Api):
    consent = create_hosted_consent(api)
    Consent.objects.update(link_made_at=now() - timedelta(minutes=2))
    api.post(f"/reports/{consent.report_id}/consent/resend")
    (message,) = sent()
    assert url(api, consent) in message.body


def test_cancelled_report_sends_no_request(api: Api):
    consent = create_hosted_consent(api)
    api.post(f"/reports/{consent.report_id}/cancel")
    assert sent() == []


def test_silent_subject_is_reminded_once_at_half_time(api: Api):
    consent = create_hosted_consent(api)
    sent()
    Consent.objects.update(
        link_made_at=now() - timedelta(days=6), expires_at=now() + timedelta(days=8)
    )
    remind_subjects()
    assert sent() == []
    let_half_the_time_pass()
    remind_subjects()
    remind_subjects()
    (message,) = sent()
    assert url(api, consent) in message.body


def test_subject_gets_no_reminder_after_a_decision(api: Api):
    grant(create_hosted_consent(api).pk, 1, EVIDENCE)
    sent()
    let_half_the_time_pass()
    remind_subjects()
    assert sent() == []


def test_subject_gets_no_reminder_after_an_objection(api: Api):
    consent = create_hosted_consent(api)
    sent()
    api.post(f"/reports/{consent.report_id}/objection")
    let_half_the_time_pass()
    remind_subjects()
    assert sent() == []


def test_subject_gets_a_receipt_with_the_document(api: Api):
    consent = create_hosted_consent(api)
    sent()
    record = grant(consent.pk, 1, EVIDENCE)
    grant(consent.pk, 1, EVIDENCE)
    (message,) = sent()
    assert record.number in message.body
    assert "Ina maandishi kamili uliyoonyeshwa." in message.body
    ((name, content, kind),) = message.attachments
    assert (name.endswith(".pdf"), kind) == (True, "application/pdf")
    assert content.startswith(b"%PDF")


def test_messages_are_sealed(api: Api):
    create_hosted_consent(api)
    stored = str(list(Notification.objects.values_list()))
    assert ADDRESS not in stored
    assert "/c/" not in stored


def test_corrected_draft_asks_the_right_subject(api: Api):
    consent = create_hosted_consent(api, draft=True)
    old = url(api, consent)
    sent()
    subject = person(email="right@kamau.test")["subject"]
    api.post(f"/reports/{consent.report_id}/draft", {"subject": subject})
    (message,) = sent()
    assert message.to == ["right@kamau.test"]
    assert old not in message.body
    assert url(api, Consent.objects.get()) in message.body


def test_decision_cancels_the_waiting_reminder(api: Api):
    consent = create_hosted_consent(api)
    sent()
    Consent.objects.update(link_made_at=now() - timedelta(days=15))
    remind_subjects()
    decline(consent.pk, 1, EVIDENCE, "")
    assert [message.subject for message in sent() if "remind" in message.subject] == []
    cancelled = Notification.objects.filter(status="CANCELLED")
    assert set(cancelled.values_list("channel", flat=True)) == {"EMAIL", "SMS"}


@pytest.mark.parametrize("mode", ["SELF", "CANDIDATE"])
def test_request_says_what_the_subject_pays(api: Api, mode: str):
    item = {**person(email=ADDRESS), "consent": HOSTED, "paymentMode": mode}
    api.create(item)
    (message,) = sent()

    pays = mode == "CANDIDATE"
    assert ("The checks cost KES 250.00, which you are asked" in message.body) is pays
    assert ("Ukaguzi unagharimu KES 250.00" in message.body) is pays
    assert ("costs you nothing" in message.body) is not pays


def test_request_to_a_company_names_the_kra_pin(api: Api):
    subject = {"registrationNumber": None, "kraPin": "P123456789Z", "email": ADDRESS}
    item = {**company(**subject), "checksRequested": ["KRA_PIN"], "consent": HOSTED}
    api.create(item)
    (message,) = sent()

    assert "information about your company" in message.body
    assert "asks you to confirm who you are" in message.body


def test_request_names_no_question_without_a_challenge(api: Api):
    item = person(idNumber=None, email=ADDRESS, **EMPLOYMENT)
    item |= {"checksRequested": ["EMPLOYER_VERIFICATION"], "consent": HOSTED}
    api.create(item)
    messages = [one for one in sent() if ADDRESS in one.to]

    assert len(messages) == 1
    assert "asks you to confirm who you are" not in messages[0].body


def test_receipt_of_a_late_withdrawal_says_so(api: Api):
    consent = create_hosted_consent(api)
    grant(consent.pk, 1, EVIDENCE)
    api.work()
    withdraw(consent.pk, 1, EVIDENCE, "")
    text = write_email(Notification.objects.latest("pk")).text

    told = "Ukaguzi wote ulikuwa umefanywa kabla"
    assert told in text
    assert "umefutwa" not in text
