"""The choice of the provider: built-in in the sandbox, configured in production."""

from typing import Any

import pytest

from tests.fakes.checkouts import CheckoutServer
from tests.fakes.paystack import paystack as paystack
from tests.world.clients import Api, error_codes, person
from tests.world.orders import PAYER, count_rows
from tests.world.payments import candidate_item, open_page, payment_of
from tests.world.refunds import paystack_api as paystack_api
from verification.payments.checkouts import CheckoutNotOpened, open_top_up
from verification.payments.models import Checkout
from verification.payments.registry import (
    NoPaymentProvider,
    accepts_payments,
    checkout_provider,
    provider_named,
    providers,
)
from workspaces.models import Account

MODES = [
    {"paymentMode": "CANDIDATE"},
    {"paymentMode": "THIRD_PARTY", "payer": PAYER},
]


def test_sandbox_has_only_the_built_in_provider(taker: CheckoutServer):
    assert checkout_provider("sandbox").name == "sandbox"
    assert accepts_payments("sandbox")


def test_production_has_the_configured_provider(taker: CheckoutServer, settings: Any):
    assert checkout_provider("production").name == settings.PAYMENT_PROVIDER
    assert accepts_payments("production")
    assert provider_named(settings.PAYMENT_PROVIDER) in providers()


@pytest.mark.parametrize("name", ["", "sandbox", "paystack", "of nobody"])
def test_production_refuses_play_money_and_missing_keys(settings: Any, name: str):
    settings.PAYMENT_PROVIDER, settings.PAYMENT_PROVIDERS = name, {}

    with pytest.raises(NoPaymentProvider):
        checkout_provider("production")
    assert not accepts_payments("production")
    assert [provider.name for provider in providers()] == ["sandbox"]


def test_production_checkout_opens_at_the_live_provider(
    taker: CheckoutServer, live_api: Api
):
    checkout = open_page(live_api.create(candidate_item()))

    assert checkout.url.startswith(taker.url)
    assert checkout.environment == "production"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("draft", [True, False])
def test_report_with_payer_is_refused_without_provider(
    live_api: Api, mode: dict[str, Any], draft: bool
):
    item, before = {**person(), **mode}, count_rows()

    for path in ("/reports", "/reports/quote"):
        problem = live_api.refused(path, {"reports": [item], "draft": draft})
        assert error_codes(problem) == {"#/reports/0/paymentMode": "not-allowed-here"}
    assert count_rows() == before


@pytest.mark.parametrize("mode", MODES)
def test_edit_to_a_payer_is_refused_without_provider(
    live_api: Api, mode: dict[str, Any]
):
    made = live_api.create(person(), draft=True)

    problem = live_api.refused(f"/reports/{made['id']}/draft", mode)

    assert error_codes(problem) == {"#/paymentMode": "not-allowed-here"}
    assert live_api.report(made["id"])["paymentMode"] == "SELF"


def test_edit_to_payment_by_the_workspace_is_accepted_without_provider(
    paystack_api: Api, settings: Any
):
    made = paystack_api.create(candidate_item(), draft=True)
    settings.PAYMENT_PROVIDER = ""
    path = f"/reports/{made['id']}/draft"

    problem = paystack_api.refused(path, {"purpose": "Another loan"})
    assert error_codes(problem) == {"#/paymentMode": "not-allowed-here"}
    answer = paystack_api.post(path, {"paymentMode": "SELF"})
    assert answer.json()["paymentState"]["status"] == "NOT_REQUIRED"


def test_checkout_is_not_opened_without_provider(paystack_api: Api, settings: Any):
    made = paystack_api.create(candidate_item())
    settings.PAYMENT_PROVIDER = ""

    with pytest.raises(CheckoutNotOpened):
        open_page(made)
    with pytest.raises(CheckoutNotOpened):
        open_top_up(Account.objects.get(environment="production"), 500, "owner")

    assert not Checkout.objects.exists()
    assert payment_of(made).status == "PENDING"


def test_checkout_is_not_opened_without_its_providers_keys(
    paystack_api: Api, settings: Any
):
    made = paystack_api.create(candidate_item())
    open_page(made)
    Checkout.objects.update(url="")
    settings.PAYMENT_PROVIDERS = {settings.PAYMENT_PROVIDER: ("none.such", {})}
    settings.PAYMENT_PROVIDER = "none"

    with pytest.raises(CheckoutNotOpened):
        open_page(made)
