"""The sandbox's checkout page, which plays a payment provider."""

from uuid import uuid4

import pytest
from django.test import Client

from tests.world.clients import Api
from tests.world.payer import Payer, create_payer, poll_providers
from tests.world.payments import candidate_item, open_page
from tests.world.subject import visible_text
from verification.payments.models import (
    Checkout,
    Payment,
    PaymentEvent,
    SandboxCheckout,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def visitor(api: Api) -> Payer:
    return create_payer(api)


def test_sandbox_checkout_is_marked_as_a_test(visitor: Payer):
    page = visible_text(visitor.browser.get(visitor.pay()).content.decode())

    for said in (
        "TEST: play money",
        "Nobody is charged",
        "Test checkout of KES 250.00",
        "Verification report for Acacia Lenders",
        "Pay twice",
        "Pay too much",
        "Pay too little",
        "Pay, but lose the event",
    ):
        assert said in page
    for known in ("Wanjiku", "12345678"):
        assert known not in page


def test_lost_event_causes_no_poll(visitor: Payer):
    visitor.choose("lost")
    poll_providers()

    assert not PaymentEvent.objects.exists()
    assert Checkout.objects.get().status == "OPEN"


def test_paid_checkout_leads_back_and_cannot_be_paid_again(visitor: Payer):
    at = visitor.pay()
    back = visitor.choose("pay", at)
    visitor.choose("more", at)
    visitor.choose("twice", at)

    page = visitor.browser.get(at).content.decode()
    assert "This checkout is paid already." in page
    assert back in page
    assert SandboxCheckout.objects.get().paid_amount == 250


def test_buttons_end_the_checkout_and_a_failed_one_can_still_be_paid(visitor: Payer):
    at = visitor.pay()
    for choice, status, said in [
        ("fail", "FAILED", "The last try failed"),
        ("cancel", "CANCELLED", "You left"),
    ]:
        visitor.choose(choice, at)
        assert said in visitor.browser.get(at).content.decode()
        poll_providers()
        assert Checkout.objects.get().status == status

    visitor.choose("pay", at)
    poll_providers()
    assert (Checkout.objects.get().status, Payment.objects.get().status) == (
        "PAID",
        "PAID",
    )
    assert PaymentEvent.objects.count() == 3


def test_unknown_button_shows_the_page_again(visitor: Payer):
    at = visitor.pay()

    for choice in ("", "PAY", "x"):
        assert visitor.browser.post(at, {"choice": choice}).status_code == 200
    assert SandboxCheckout.objects.get().state == "OPEN"


def test_unknown_checkout_is_not_found(api: Api):
    checkout = open_page(api.create(candidate_item()))
    SandboxCheckout.objects.all().delete()

    for reference in (uuid4(), checkout.pk):
        path = f"/sandbox/checkout/{reference}"
        assert Client().get(path).status_code == 404
        assert Client().post(path, {"choice": "pay"}).status_code == 404


def test_form_of_another_site_is_refused(visitor: Payer):
    at = visitor.pay()

    stranger = Client(enforce_csrf_checks=True)
    assert stranger.post(at, {"choice": "pay"}).status_code == 403
