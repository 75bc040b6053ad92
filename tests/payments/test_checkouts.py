from datetime import timedelta
from typing import Any

import pytest
from django.utils.timezone import now

from tests.consents.test_decisions import EVIDENCE
from tests.fakes.paystack import FakePaystack
from tests.fakes.paystack import paystack as paystack
from tests.world.clients import HOSTED, Api, person
from tests.world.payments import (
    PRICE,
    candidate_item,
    end_checkout,
    open_page,
    pay_report,
    payment_of,
)
from tests.world.refunds import GRACE
from tests.world.refunds import paystack_api as paystack_api
from verification import links
from verification.backoffice.approvals import StaffActor
from verification.consents.models import Consent
from verification.consents.subject_decisions import grant
from verification.notifications.models import BILINGUAL, Notification
from verification.payments.checkouts import (
    REUSE_WINDOW,
    CheckoutNotOpened,
    PaymentClosed,
    open_at_provider,
    open_checkout,
)
from verification.payments.models import Checkout, Refund
from verification.payments.refunds import request_refund, send_refunds
from verification.reports.models import Report
from webhooks.models import Event


def test_paid_report_runs(api: Api):
    made = api.create(candidate_item())
    assert made["status"] == "PENDING_PAYMENT"
    assert made["paymentState"]["status"] == "PENDING"
    paid = pay_report(api, made)
    assert (paid["status"], paid["paymentState"]["status"]) == ("RUNNING", "PAID")
    assert paid["paymentState"]["paidAt"]
    api.work()
    assert api.report(made["id"])["status"] == "READY"
    (event,) = Event.objects.filter(name="payment.paid")
    assert event.payload["payment"]["amount"] == {"amount": 250.0, "currency": "KES"}


def test_money_for_a_cancelled_report_is_refunded(api: Api):
    made = api.create(candidate_item())
    checkout = open_page(made)
    assert api.post(f"/reports/{made['id']}/cancel").status_code == 200
    end_checkout(checkout)
    send_refunds()
    assert Refund.objects.get().status == "DONE"
    assert payment_of(made).status == "CANCELLED"


def test_checkout_beside_another_is_new(api: Api):
    made = api.create(candidate_item())
    payment, first = payment_of(made), open_page(made)

    assert open_checkout(payment.pk, payment.generation) == first
    assert open_checkout(payment.pk, payment.generation, beside=True) != first


def test_messages_use_the_language_of_the_payment_page(api: Api):
    made = api.create(candidate_item())
    payment = payment_of(made)
    asked = Notification.objects.get(kind="PAYMENT_REQUEST")
    checkout = open_checkout(payment.pk, payment.generation)
    open_at_provider(checkout, "sw")
    end_checkout(checkout)
    request_refund(checkout.pk, PRICE, reason="Asked for", by=GRACE)
    send_refunds()

    told = Notification.objects.exclude(pk=asked.pk).order_by("id")
    assert asked.language == BILINGUAL
    assert [(one.kind, one.language) for one in told] == [
        ("PAYMENT_RECEIPT", "sw"),
        ("PAYMENT_REFUNDED", "sw"),
    ]
    link = links.payment_url(payment.pk, payment.generation)
    assert {one.context["link"] for one in told} == {link}


def test_payer_gets_the_request_when_the_subject_has_consented(api: Api):
    made = api.create(candidate_item(consent=HOSTED))
    state = made["paymentState"]
    assert (made["status"], state["status"]) == ("PENDING_CONSENT", "PENDING")
    assert (state["paymentUrl"], state["expiresAt"]) == (None, None)
    with pytest.raises(PaymentClosed, match="WAITS_FOR_CONSENT"):
        open_page(made)

    consent = Consent.objects.get(report=made["id"])
    grant(consent.pk, consent.generation, EVIDENCE)

    asked = api.report(made["id"])
    assert asked["status"] == "PENDING_PAYMENT"
    assert asked["paymentState"]["paymentUrl"]


def test_draft_requests_consent_and_payment_together(api: Api):
    made = api.create(candidate_item(consent=HOSTED), draft=True)
    assert made["consentState"]["consentUrl"]
    assert made["paymentState"]["paymentUrl"]
    launch = f"/reports/{made['id']}/launch"
    both = ["CONSENT_OUTSTANDING", "PAYMENT_OUTSTANDING"]
    assert api.refused(launch)["reasons"] == both

    paid = pay_report(api, made)
    assert (paid["status"], paid["paymentState"]["status"]) == ("DRAFT", "PAID")
    (event,) = Event.objects.filter(name="payment.paid")
    assert event.payload["report"]["status"] == "DRAFT"
    assert api.refused(launch)["reasons"] == both[:1]
    consent = Consent.objects.get(report=made["id"])
    grant(consent.pk, consent.generation, EVIDENCE)

    assert api.post(launch).json()["status"] == "RUNNING"


def test_paid_draft_refuses_an_edit_of_its_price(api: Api):
    made = api.create(candidate_item(), draft=True)
    pay_report(api, made)
    path = f"/reports/{made['id']}/draft"

    for edit in ({"checksRequested": ["IDENTITY"]}, {"paymentMode": "SELF"}):
        assert api.refused(path, edit)["code"] == "report-not-editable"
    assert api.post(path, {"purpose": "Another loan"}).status_code == 200
    assert api.report(made["id"])["paymentState"]["status"] == "PAID"


def test_refunded_draft_waits_until_an_edit_requests_payment(api: Api):
    made = api.create(candidate_item(), draft=True)
    checkout = end_checkout(open_page(made))
    ada = StaffActor(1, "ada")
    request_refund(checkout.pk, checkout.amount, reason="Asked for", by=ada)
    send_refunds()

    refunded = api.report(made["id"])["paymentState"]
    assert (refunded["status"], refunded["paymentUrl"]) == ("REFUNDED", None)
    assert refunded["paidAt"]
    edit = {"purpose": "Another loan"}
    edited = api.post(f"/reports/{made['id']}/draft", edit).json()
    assert edited["paymentState"]["status"] == "PENDING"


def test_returning_payer_gets_the_open_checkout(api: Api):
    made = api.create(candidate_item())

    assert open_page(made) == open_page(made)
    Checkout.objects.update(created_at=now() - REUSE_WINDOW)
    assert open_page(made).created_at > now() - timedelta(minutes=1)
    assert Checkout.objects.count() == 2


def test_replaced_link_of_an_edited_draft_opens_no_checkout(api: Api):
    made = api.create(candidate_item(), draft=True)
    payment = payment_of(made)
    edit = {"checksRequested": ["IDENTITY"]}
    assert api.post(f"/reports/{made['id']}/draft", edit).status_code == 200

    with pytest.raises(PaymentClosed, match="REPLACED"):
        open_checkout(payment.pk, payment.generation)


def test_report_without_subject_opens_no_checkout(api: Api):
    made = api.create(candidate_item())
    Report.objects.update(subject=None)

    with pytest.raises(PaymentClosed, match="REPORT_ENDED"):
        open_page(made)


@pytest.mark.parametrize("faults", [{"status": 500}, {"half": True}])
def test_checkout_is_opened_again_when_the_provider_fails(
    paystack: FakePaystack, paystack_api: Api, faults: dict[str, Any]
):
    made = paystack_api.create(candidate_item())
    for name, value in faults.items():
        setattr(paystack.faults, name, value)
    with pytest.raises(CheckoutNotOpened):
        open_page(made)
    for name in faults:
        setattr(paystack.faults, name, None)

    assert open_page(made).url


def test_client_gets_the_link_when_the_payer_has_no_address(api: Api):
    made = api.create({**person(), "paymentMode": "CANDIDATE"})

    assert made["paymentState"]["paymentUrl"]
    assert not Notification.objects.exists()
