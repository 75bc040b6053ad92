"""Paid drafts: their subject and payer, edits, receipts and refund notices."""

from typing import Any

import pytest
from django.core import mail
from django.db import connection
from django.utils.timezone import now

from tests.documents.test_payment_receipts import pdf_text
from tests.world.clients import Api, create_lender, person
from tests.world.payer import Payer
from tests.world.payments import (
    EMAIL,
    PRICE,
    candidate_item,
    end_checkout,
    open_page,
    pay_report,
    payment_of,
)
from tests.world.refunds import create_refund, send_waiting_refunds
from verification.backoffice.approvals import StaffActor
from verification.documents.receipts import payment_receipt_pdf
from verification.notifications.delivery import send_due_notifications
from verification.notifications.models import Notification
from verification.payments.audit import audit_everything
from verification.payments.models import Checkout
from verification.payments.refunds import reject_refund
from verification.privacy.personal_data import erase_reports
from workspaces.models import Workspace

pytestmark = pytest.mark.django_db

OTHER = person(fullName="Otieno Ouma", idNumber="87654321", email="ouma@example.test")
PAYER = {"name": "Amina", "email": "amina@payer.test"}


@pytest.fixture(scope="module")
def api(module_transaction: None) -> Api:
    return Api(create_lender(), "sandbox")


@pytest.fixture(scope="module")
def paid(api: Api) -> dict[str, Any]:
    made = api.create(candidate_item(reference="LN-1"), draft=True)
    pay_report(api, made)
    return made


@pytest.fixture(scope="module")
def paid_by_amina(api: Api) -> dict[str, Any]:
    item = {**person(), "paymentMode": "THIRD_PARTY", "payer": PAYER}
    made = api.create(item, draft=True)
    pay_report(api, made)
    return made


def checkout_of(made: dict[str, Any]) -> Checkout:
    return Checkout.objects.filter(report_id=made["id"]).earliest("id")


def draft(made: dict[str, Any]) -> str:
    return f"/reports/{made['id']}/draft"


def not_adding_up() -> list[Any]:
    return list(audit_everything().differences)


def told_of_refunds() -> set[str]:
    found = Notification.objects.filter(kind="PAYMENT_REFUNDED")
    return {notification.recipient for notification in found}


def test_paid_draft_refuses_another_subject(api: Api, paid, paid_by_amina):
    for made in (paid, paid_by_amina):
        problem = api.refused(draft(made), {"subject": OTHER["subject"]})

        assert problem["code"] == "report-not-editable"
        assert "names another one" in problem["detail"]
        assert api.report(made["id"])["subject"]["idNumber"] == "12345678"


def test_paid_draft_accepts_corrected_details_of_its_subject(api: Api, paid):
    same = person(fullName="Wanjiku W. Kamau", email="new@example.test")["subject"]

    edited = api.post(draft(paid), {"subject": same})

    assert edited.status_code == 200, edited.content
    assert edited.json()["paymentState"]["status"] == "PAID"


def test_paid_draft_refuses_another_payer(api: Api, paid_by_amina):
    other = {"name": "Baraka", "email": "b@payer.test"}

    problem = api.refused(draft(paid_by_amina), {"payer": other})
    same = api.post(draft(paid_by_amina), {"payer": PAYER, "purpose": "Other"})

    assert problem["code"] == "report-not-editable"
    assert same.status_code == 200, same.content
    assert payment_of(paid_by_amina).payer["name"] == "Amina"


def test_receipt_stays_as_it_was_paid(api: Api, paid_by_amina):
    payer = Payer(paid_by_amina["id"])
    payer.open()
    before = payer.reads()
    edit = {"purpose": "Something else"}
    assert api.post(draft(paid_by_amina), edit).status_code == 200
    Workspace.objects.update(name="Renamed")

    assert payer.reads() == before
    text = pdf_text(payment_receipt_pdf(checkout_of(paid_by_amina), "en"))
    assert "Loan application" in text
    assert "Acacia Lenders" in text
    assert "Something else" not in text
    send_due_notifications()
    (receipt,) = (
        one
        for one in mail.outbox
        if "receipt" in one.subject.lower() and one.to == ["amina@payer.test"]
    )
    assert "Loan application" in pdf_text(receipt.attachments[0][1])


def test_receipt_of_an_erased_report_keeps_client_and_checks(api: Api, paid_by_amina):
    report_id = paid_by_amina["id"]
    assert api.post(f"/reports/{report_id}/cancel").status_code == 200
    before = checkout_of(paid_by_amina)
    assert erase_reports([report_id], now())["payments_checkout"] == 1
    Workspace.objects.update(name="Renamed")

    checkout = checkout_of(paid_by_amina)
    assert checkout.receipt == {
        **before.receipt,
        "payer": {},
        "purpose": "",
        "reference": "",
        "about": "",
    }
    text = pdf_text(payment_receipt_pdf(checkout, "en"))
    assert "Acacia Lenders" in text
    assert "Loan application" not in text
    assert erase_reports([report_id], now())["payments_checkout"] == 0


def test_receipt_is_sealed_in_the_database(api: Api, paid):
    with connection.cursor() as cursor:
        pk = checkout_of(paid).pk
        cursor.execute("SELECT receipt FROM payments_checkout WHERE id = %s", [pk])
        ((sealed,),) = cursor.fetchall()

    assert EMAIL.encode() not in bytes(sealed)
    assert checkout_of(paid).receipt["payer"]["email"] == EMAIL


def test_refund_notifies_the_person_who_paid(api: Api, paid):
    same = person(email="new@example.test")["subject"]
    assert api.post(draft(paid), {"subject": same}).status_code == 200
    create_refund(checkout_of(paid))

    send_waiting_refunds()

    assert told_of_refunds() == {EMAIL}


def test_partly_refunded_draft_refuses_launch(api: Api, paid):
    launch = f"/reports/{paid['id']}/launch"
    create_refund(checkout_of(paid), 249)
    problem = api.refused(launch)
    assert problem["reasons"] == ["PAYMENT_OUTSTANDING"]
    assert "whose payer got money back, gets one by an edit" in problem["detail"]
    send_waiting_refunds()
    assert api.refused(launch)["reasons"] == ["PAYMENT_OUTSTANDING"]

    edit = {"subject": OTHER["subject"]}
    asked = api.post(draft(paid), edit).json()["paymentState"]

    assert (asked["status"], asked["amount"]["amount"]) == ("PENDING", PRICE)
    send_waiting_refunds()
    first = checkout_of(paid)
    assert (first.refunded, first.review_flags) == (PRICE, [])
    assert told_of_refunds() == {EMAIL}
    assert not_adding_up() == []
    end_checkout(open_page(paid))
    assert api.post(launch).json()["status"] == "RUNNING"
    assert not_adding_up() == []


def test_edit_requests_payment_only_after_the_refund_is_decided(
    api: Api, paid, settings
):
    settings.REFUND_NEEDS_SECOND_ABOVE = 100
    launch = f"/reports/{paid['id']}/launch"
    refund = create_refund(checkout_of(paid), 200)
    assert refund.status == "REQUESTED"

    edited = api.post(draft(paid), {"purpose": "Other"})

    assert edited.json()["paymentState"]["status"] == "PAID"
    assert api.refused(launch)["reasons"] == ["PAYMENT_OUTSTANDING"]
    reject_refund(refund.pk, by=StaffActor(2, "staff wangari"))
    assert api.post(launch).json()["status"] == "RUNNING"
