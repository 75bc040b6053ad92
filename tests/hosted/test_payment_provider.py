"""The payment page with a provider that has its own checkout pages."""

import re
from urllib.parse import urlsplit

import pytest
import requests
from django.test import Client

from tests.fakes.paystack import FakePaystack
from tests.fakes.paystack import paystack as paystack
from tests.world.clients import Api
from tests.world.payer import Payer, create_payer, poll_providers
from tests.world.refunds import paystack_api as paystack_api
from tests.world.subject import visible_text
from verification.payments.models import Checkout
from verification.payments.settlement import poll_now

pytestmark = pytest.mark.django_db


def form_action(answer) -> str:
    found = re.search(r"form-action ([^;]*)", answer["Content-Security-Policy"])
    assert found
    return found[1]


@pytest.fixture
def visitor(paystack_api: Api) -> Payer:
    return create_payer(paystack_api)


def test_only_the_page_with_the_button_may_lead_to_the_provider(
    visitor: Payer, paystack: FakePaystack
):
    shown = visitor.get()
    assert form_action(shown) == f"'self' {paystack.url}"
    for other in (Client().get(visitor.page), visitor.browser.get("/c/x")):
        assert form_action(other) == "'self'"
    text = visible_text(shown.content.decode())
    assert "You pay on the page of Paystack" in text
    # Addresses of the operator and of the client end in `.test`.
    words = text.lower().replace(".test", "")
    assert "test" not in words


def test_paid_checkout_counts_after_any_return(visitor: Payer, paystack: FakePaystack):
    at = visitor.post("pay")["Location"]
    assert at.startswith(paystack.url)
    paid = requests.post(at, {"choice": "pay"}, allow_redirects=False, timeout=10)
    back = urlsplit(paid.headers["Location"])
    assert back.path == f"{visitor.page}back/{visitor.checkout.pk}"

    visitor.come_back(f"{back.path}?{back.query}")
    poll_providers()

    page = visitor.reload()
    assert "You paid KES 250.00" in page
    assert "(Paystack)" in page


def test_forged_return_pays_nothing(visitor: Payer, paystack: FakePaystack):
    visitor.post("pay")
    checkout = visitor.checkout

    forged = f"back/{checkout.pk}?trxref={checkout.pk}&status=success&paid=1"
    visitor.come_back(visitor.page + forged)
    poll_providers()

    assert "Not paid yet" in visitor.reload()
    assert visitor.payment.status == "PENDING"


@pytest.mark.parametrize("fault", [{"status": 500}, {"half": True}])
def test_provider_outage_takes_nothing_and_allows_a_retry(
    visitor: Payer, paystack: FakePaystack, fault
):
    vars(paystack.faults).update(fault)

    page = visitor.browser.post(visitor.page + "pay", follow=True)

    assert page.status_code == 200
    assert b"could not be opened. Nothing was taken" in page.content
    assert b"<title>Error: " in page.content
    assert b'tabindex="-1" autofocus' in page.content
    assert "Pay KES 250.00" in visible_text(page.content.decode())
    vars(paystack.faults).update(status=None, half=False)
    assert visitor.post("pay")["Location"].startswith(paystack.url)


def test_silent_provider_is_polled_again(visitor: Payer, paystack: FakePaystack):
    visitor.post("pay")
    checkout = visitor.checkout
    paystack.faults.status = 500

    visitor.come_back(f"{visitor.page}back/{checkout.pk}")
    poll_providers()

    assert "does not answer at the moment. We go on asking" in visitor.reload()
    assert visitor.payment.status == "PENDING"
    paystack.faults.status = None
    paystack.pay(checkout.reference)
    poll_now(checkout.pk)
    poll_providers()
    assert visitor.payment.status == "PAID"


def test_sandbox_opens_no_production_checkout(visitor: Payer, paystack: FakePaystack):
    visitor.post("pay")
    path = f"/sandbox/checkout/{visitor.checkout.pk}"

    for answer in (Client().get(path), Client().post(path, {"choice": "pay"})):
        assert answer.status_code == 404
    poll_providers()
    assert Checkout.objects.get().status == "OPEN"
