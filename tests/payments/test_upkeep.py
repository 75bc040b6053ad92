"""The purge of provider events, and the checks of the configuration."""

from datetime import timedelta

import pytest
from django.core.checks import run_checks
from django.utils.timezone import now

from tests.world.payments import EMAIL
from verification.payments.models import PaymentEvent
from verification.payments.provider_events import purge_payment_events
from verification.payments.registry import check_configuration

LIVE_KEY = "sk_live_of_no_worth"


@pytest.mark.django_db
def test_purge_deletes_event_bodies_after_90_days():
    for age in (89, 91):
        PaymentEvent.objects.create(
            provider="paystack",
            event_id=age,
            type="charge.success",
            body_sha256=b"0" * 32,
            body={"email": EMAIL},
            received_at=now() - timedelta(days=age),
        )

    purge_payment_events()

    bodies = {event.event_id: event.body for event in PaymentEvent.objects.all()}
    assert bodies == {"89": {"email": EMAIL}, "91": None}


@pytest.fixture
def configured(settings):
    settings.OPERATOR_ALERTS = ["ops@operator.test"]

    def configure(name: str, **providers: dict) -> list[str]:
        settings.PAYMENT_PROVIDER = name
        table = {name: ("", options) for name, options in providers.items()}
        settings.PAYMENT_PROVIDERS = table
        return [str(found.id) for found in check_configuration()]

    return configure


PAYSTACK = {"secret_key": LIVE_KEY, "fallback_email": "pay.example.org"}
STRIPE = {"secret_key": LIVE_KEY, "webhook_secrets": ("whsec_x",)}


def test_check_accepts_full_and_empty_configuration(configured):
    assert configured("") == []
    assert configured("paystack", paystack=PAYSTACK, stripe=STRIPE) == []


@pytest.mark.parametrize("name", ["paystack", "stripe", "mpesa"])
def test_check_reports_a_provider_without_keys(configured, name):
    assert configured(name) == ["payments.E001"]


def test_check_warns_of_stripe_without_webhook_secrets(configured):
    stripe = {**STRIPE, "webhook_secrets": ()}
    assert configured("stripe", stripe=stripe) == ["payments.W002"]


def test_check_refuses_other_secrets_than_those_of_webhooks(configured):
    stripe = {**STRIPE, "webhook_secrets": ("whsec_x", LIVE_KEY)}
    assert configured("stripe", stripe=stripe) == ["payments.E004"]


@pytest.mark.parametrize("name", ["paystack", "stripe"])
def test_check_requires_https_except_in_development(configured, name):
    known = {"paystack": PAYSTACK, "stripe": STRIPE}[name]
    other = {**known, "url": "http://127.0.0.1:9000"}
    assert configured(name, **{name: other}) == ["payments.E003"]
    for host in ("127.0.0.1", "127.0.0.1:9000"):
        ours = {**other, "opened": [host], "secret_key": "sk_test_of_no_worth"}
        assert configured(name, **{name: ours}) == []


def test_check_refuses_a_test_key_in_production(configured, settings):
    paystack = {**PAYSTACK, "secret_key": "sk_test_of_no_worth"}
    assert configured("paystack", paystack=paystack) == ["payments.E002"]
    settings.DEBUG = True
    assert configured("paystack", paystack=paystack) == []


def test_check_warns_of_paystack_without_fallback_email(configured):
    paystack = {**PAYSTACK, "fallback_email": ""}
    assert configured("paystack", paystack=paystack) == ["payments.W003"]


def test_check_warns_of_payments_without_operator_alerts(configured, settings):
    settings.OPERATOR_ALERTS = []

    assert configured("paystack", paystack=PAYSTACK) == ["payments.W004"]
    assert "payments.W004" in {found.id for found in run_checks()}
    assert configured("") == []
