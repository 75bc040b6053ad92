import pytest
from django.core import mail

from tests.documents.test_consent_receipts import pdf_text
from tests.world.clients import Api
from tests.world.payments import candidate_item, end_checkout, open_page, pay_report
from tests.world.refunds import create_paid_top_up, create_refund, send_waiting_refunds
from verification.documents.receipts import payment_receipt_pdf
from verification.notifications.delivery import send_due_notifications
from verification.payments.checkouts import open_at_provider, open_checkout
from verification.payments.models import Checkout, Payment

pytestmark = pytest.mark.django_db

TURNED = "Acme\u202e\n\n\u2066PAY ME\u2028"


def create_paid_checkout(api: Api, **item) -> Checkout:
    pay_report(api, api.create(candidate_item(**item)))
    return Checkout.objects.get()


def test_receipt_shows_number_amount_and_purpose(api: Api, settings):
    settings.OPERATOR_NAME = "Hakiki Ltd"
    checkout = create_paid_checkout(api, reference="LN-2041")

    text = pdf_text(payment_receipt_pdf(checkout, "en"))

    for said in (
        "Payment receipt",
        checkout.number,
        checkout.report.number,
        "KES 250.00",
        "Hakiki Ltd",
        "Acacia Lenders",
        "Loan application",
        "LN-2041",
        "National identity",
        "150.00",
        "Play money of the sandbox",
    ):
        assert said in text
    for personal in ("Wanjiku", "12345678", str(checkout.report_id)):
        assert personal not in text


def test_receipt_in_kiswahili(api: Api):
    text = pdf_text(payment_receipt_pdf(create_paid_checkout(api), "sw"))

    for said in ("Risiti ya malipo", "Kitambulisho cha taifa", "Jumla"):
        assert said in text


def test_equal_payments_give_equal_accessible_bytes(api: Api):
    checkout = create_paid_checkout(api)
    first = payment_receipt_pdf(checkout, "en")

    assert first == payment_receipt_pdf(checkout, "en")
    assert b"pdfuaid" in first


def test_names_do_not_change_the_text_direction(api: Api):
    api.workspace.name = TURNED
    api.workspace.save()

    text = pdf_text(
        payment_receipt_pdf(
            create_paid_checkout(api, purpose=TURNED, reference="a"), "en"
        )
    )

    assert text.count("Acme PAY ME") == 2


def test_unpaid_checkout_has_no_receipt(api: Api):
    with pytest.raises(ValueError, match="nothing was paid"):
        payment_receipt_pdf(open_page(api.create(candidate_item())), "en")


def test_receipt_is_emailed_in_the_language_of_the_page(api: Api):
    made = api.create(candidate_item())
    payment = Payment.objects.get(report_id=made["id"])
    checkout = open_checkout(payment.pk, payment.generation)
    open_at_provider(checkout, "sw")
    end_checkout(checkout)
    send_due_notifications()

    (letter,) = [one for one in mail.outbox if one.attachments]
    ((name, content, media_type),) = letter.attachments
    assert letter.subject == f"[SANDBOX] Umelipa KES 250.00: risiti {checkout.number}"
    assert (name, media_type) == (f"{checkout.number}.pdf", "application/pdf")
    assert "Risiti ya malipo" in pdf_text(content)
    asked = [one.subject for one in mail.outbox if not one.attachments]
    assert asked == []


def test_top_up_has_a_receipt(api: Api):
    checkout = create_paid_top_up(api, 1000)
    for language, said in (
        ("en", ("Workspace", "Top-up of the balance")),
        ("sw", ("Nafasi ya kazi", "Kuongeza salio")),
    ):
        text = pdf_text(payment_receipt_pdf(checkout, language))

        for part in (*said, "Acacia Lenders", "KES 1,000.00", checkout.number):
            assert part in text


def test_workspace_gets_top_up_receipt_and_refund_notice(api: Api):
    checkout = create_paid_top_up(api, 1000)
    send_due_notifications()

    (receipt,) = mail.outbox
    assert receipt.to == ["owner@acacia.test"]
    assert "Top-up of KES 1,000.00: receipt" in receipt.subject
    ((name, content, _),) = receipt.attachments
    assert name == f"{checkout.number}.pdf"
    assert content.startswith(b"%PDF")

    create_refund(checkout, 400)
    send_waiting_refunds()
    send_due_notifications()

    _, notice = mail.outbox
    assert notice.to == ["owner@acacia.test"]
    assert "KES 400.00 of a top-up was given back" in notice.subject
