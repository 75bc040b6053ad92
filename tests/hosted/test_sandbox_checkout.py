"""The page that stands in for a payment provider in the sandbox."""

from uuid import uuid4

import pytest
from django.test import Client

from tests.world.clients import Api
from tests.world.payer import Payer, payer, work
from tests.world.payments import candidate, opened
from tests.world.subject import words
from verification.payments.models import (
    Checkout,
    Payment,
    PaymentEvent,
    SandboxCheckout,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def visitor(api: Api) -> Payer:
    return payer(api)


def test_it_cannot_be_mistaken_for_a_real_one(visitor: Payer):
    page = words(visitor.browser.get(visitor.pay()).content.decode())

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


@pytest.mark.parametrize(
    ("choice", "status", "payment", "events"),
    [
        ("pay", "PAID", "PAID", 1),
        ("fail", "FAILED", "FAILED", 1),
        ("cancel", "CANCELLED", "PENDING", 1),
        ("twice", "PAID", "PAID", 2),
        ("more", "PAID", "PAID", 1),
        ("less", "PAID", "PENDING", 1),
    ],
)
def test_it_plays_every_ending_and_tells_of_it(
    visitor: Payer, choice, status, payment, events
):
    visitor.choose(choice)
    work()

    assert {one.status for one in Checkout.objects.all()} == {status}
    assert Payment.objects.get().status == payment
    assert PaymentEvent.objects.count() == events


def test_an_event_that_is_lost_brings_no_look(visitor: Payer):
    visitor.choose("lost")
    work()

    assert not PaymentEvent.objects.exists()
    assert Checkout.objects.get().status == "OPEN"


def test_it_leads_back_once_it_is_paid_and_cannot_be_paid_again(visitor: Payer):
    at = visitor.pay()
    back = visitor.choose("pay", at)
    visitor.choose("more", at)
    visitor.choose("twice", at)

    page = visitor.browser.get(at).content.decode()
    assert "This checkout is paid already." in page
    assert back in page
    assert SandboxCheckout.objects.get().paid_amount == 250


def test_what_failed_or_was_left_can_be_paid_there_still(visitor: Payer):
    at = visitor.pay()
    for choice, said in [("fail", "The last try failed"), ("cancel", "You left")]:
        visitor.choose(choice, at)
        assert said in visitor.browser.get(at).content.decode()

    visitor.choose("pay", at)
    work()
    assert Payment.objects.get().status == "PAID"


@pytest.mark.parametrize("choice", ["", "PAY", "x"])
def test_a_choice_that_is_none_is_asked_again(visitor: Payer, choice):
    at = visitor.pay()

    assert visitor.browser.post(at, {"choice": choice}).status_code == 200
    assert SandboxCheckout.objects.get().state == "OPEN"


def test_what_is_not_known_there_is_not_found(api: Api):
    checkout = opened(api.create(candidate()))
    SandboxCheckout.objects.all().delete()

    for reference in (uuid4(), checkout.pk):
        path = f"/sandbox/checkout/{reference}"
        assert Client().get(path).status_code == 404
        assert Client().post(path, {"choice": "pay"}).status_code == 404


def test_a_form_of_another_site_is_refused(visitor: Payer):
    at = visitor.pay()

    stranger = Client(enforce_csrf_checks=True)
    assert stranger.post(at, {"choice": "pay"}).status_code == 403
