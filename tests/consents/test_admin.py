from datetime import timedelta

import pytest
from django.conf import settings
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.utils.timezone import now

from tests.consents.test_decisions import EVIDENCE
from tests.documents.test_consent_receipts import pdf_text
from tests.world.clients import HOSTED, Api, person
from tests.world.staff import (
    change_url,
    list_url,
    log_in,
    read_page,
    reveal,
    take_messages,
)
from tests.world.subject import Visitor, visible_text
from verification.consents.models import Consent, ConsentRecord
from verification.consents.subject_decisions import (
    CONFIRMED_BY_STAFF,
    Evidence,
    grant,
)
from verification.documents.receipts import consent_receipt_pdf
from verification.links import consent_url
from verification.notifications.models import Notification
from verification.notifications.templates import write_email
from verification.privacy.withdrawals import withdraw
from verification.reports.models import StatusChange

pytestmark = pytest.mark.django_db


@pytest.fixture
def consent(api: Api) -> Consent:
    asked = person(dateOfBirth="1990-03-27", email="w@kamau.test")
    report = api.create({**asked, "consent": HOSTED})
    return Consent.objects.get(report=report["id"])


@pytest.fixture
def superuser(admin_user: User) -> Client:
    return browser(admin_user)


def browser(user: User) -> Client:
    client = Client()
    log_in(client, user)
    return client


def staff(*permissions: str) -> Client:
    user = User.objects.create_user("wangari", is_staff=True)
    found = Permission.objects.filter(codename__in=permissions)
    user.user_permissions.set(found)
    return browser(user)


def act(client: Client, action: str, consent: Consent, **more: str):
    data = {"action": action, "_selected_action": [str(consent.pk)], **more}
    data["_confirmed"] = "yes"
    return client.post(list_url(Consent), data)


def withdraw_as_staff(consent: Consent) -> None:
    """Grant, and withdraw by the verb of the admin page."""
    grant(consent.pk, 1, EVIDENCE)
    by_staff = Evidence(confirmed_by=CONFIRMED_BY_STAFF, staff="admin")
    withdraw(consent.pk, 1, by_staff, "Letter of 20 November")


def test_staff_see_an_unchanged_record_with_its_evidence(
    consent: Consent, superuser: Client
):
    record = grant(consent.pk, 1, EVIDENCE)
    assert record.number in read_page(superuser, list_url(ConsentRecord))
    reveal(superuser, record)
    page = read_page(superuser, change_url(record))
    assert "Opera Mini" in page
    assert record.notice_sha256.hex() in page
    assert 'title="True"' in page


def test_evidence_is_masked_until_it_is_revealed(consent: Consent):
    record = grant(consent.pk, 1, EVIDENCE)
    page = read_page(staff("view_consentrecord"), change_url(record))
    assert record.number in page
    assert "Opera Mini" not in page


def test_staff_send_a_new_link(consent: Consent, superuser: Client):
    Consent.objects.update(link_made_at=now() - timedelta(minutes=2))
    act(superuser, "resend", consent)
    assert Consent.objects.get().generation == 2


def test_staff_read_why_no_link_is_sent(consent: Consent, superuser: Client):
    (message,) = take_messages(act(superuser, "resend", consent))
    assert "within the last minute" in message
    assert Consent.objects.get().generation == 1


def test_staff_withdraw_only_with_a_reason(consent: Consent, superuser: Client):
    grant(consent.pk, 1, EVIDENCE)
    asked = act(superuser, "withdraw", consent).content.decode()
    assert "This cannot be undone" in asked
    assert Consent.objects.get().status == "GRANTED"
    act(superuser, "withdraw", consent, reason="Letter of 20 November")
    assert Consent.objects.get().status == "WITHDRAWN"
    record = ConsentRecord.objects.get(decision="WITHDRAWN")
    assert record.evidence["reason"] == "Letter of 20 November"
    assert record.evidence["confirmedBy"] == "STAFF"
    assert (record.evidence["staff"], record.evidence["typedName"]) == ("admin", "")


def test_staff_read_what_stops_the_use_of_an_attested_consent(
    api: Api, superuser: Client
):
    api.create(person())

    (message,) = take_messages(
        act(superuser, "withdraw", Consent.objects.get(), reason="They called")
    )

    assert "Enter an objection on the page of the report" in message
    assert Consent.objects.get().status == "ATTESTED"


def test_receipt_says_that_staff_withdrew(consent: Consent):
    withdraw_as_staff(consent)
    record = ConsentRecord.objects.get(decision="WITHDRAWN")

    receipt = pdf_text(consent_receipt_pdf(record))

    assert "Your consent was withdrawn for you, as you asked." in receipt
    assert f"staff of {settings.OPERATOR_NAME}" in receipt
    assert "Reason that staff recorded" in receipt
    for untrue in (
        "You withdrew",
        "Name you typed",
        "Reason you gave",
        "admin",
        "How we confirmed",
        "Internet address",
        "STAFF",
    ):
        assert untrue not in receipt
    ConsentRecord.objects.update(evidence=None)
    assert "withdrawn for you" in pdf_text(
        consent_receipt_pdf(ConsentRecord.objects.get(pk=record.pk))
    )


def test_mail_page_and_timeline_say_that_staff_withdrew(consent: Consent):
    withdraw_as_staff(consent)

    mail = write_email(Notification.objects.latest("pk"))

    told = f"{settings.OPERATOR_NAME} withdrew your consent to Acacia Lenders for you"
    assert told in mail.text
    assert "you withdrew" not in mail.text.lower()
    assert "umeondoa ridhaa yako" not in mail.text.lower()
    assert StatusChange.objects.last().actor == "staff admin"
    visitor = Visitor(consent_url(consent.pk, 1))
    visitor.prove()
    page = visible_text(visitor.text())
    assert f"{settings.OPERATOR_NAME} withdrew it for you, as you asked." in page
    assert "You withdrew" not in page


def test_reader_cannot_act(consent: Consent):
    grant(consent.pk, 1, EVIDENCE)
    reader = staff("view_consent")
    for action in ("resend", "withdraw"):
        act(reader, action, consent, reason="Because")
    found = Consent.objects.get()
    assert (found.status, found.generation) == ("GRANTED", 1)
