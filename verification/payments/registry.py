"""The payment providers of this installation: choose one, and check their settings.

The sandbox uses the built-in provider and no other; production never uses it. New
checkouts of production open at PAYMENT_PROVIDER. An older checkout stays with the
provider that opened it, as long as that provider's keys are configured.
"""

from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning
from django.utils.module_loading import import_string

from verification.payments.sandbox_provider import SandboxProvider
from verification.providers.base import Refused
from verification.providers.payment_provider import (
    BadSignature,
    CheckoutProvider,
    PaymentMethod,
)
from workspaces.models import Environment

HINT = "docs/office/money.md says how to configure them."
# The names that payers know. The sandbox's provider has none.
LABELS = {"paystack": "Paystack", "stripe": "Stripe"}
# The header with the signature of each provider's events.
SIGNATURE_HEADERS = {"paystack": "x-paystack-signature", "stripe": "stripe-signature"}

_sandbox = SandboxProvider()
PROVIDER_NAMES = (*SIGNATURE_HEADERS, _sandbox.name)


class NoPaymentProvider(Refused):
    """This installation takes no payments in production."""

    def __init__(self) -> None:
        message = "This installation has no payment provider."
        super().__init__("PAYMENT_PROVIDER_NOT_CONFIGURED", message)


def checkout_provider(environment: str) -> CheckoutProvider:
    """Return the provider for new checkouts. Raises NoPaymentProvider."""
    if environment != Environment.PRODUCTION:
        return _sandbox
    if settings.PAYMENT_PROVIDER not in settings.PAYMENT_PROVIDERS:
        raise NoPaymentProvider
    return _live(settings.PAYMENT_PROVIDER)


def accepts_payments(environment: str) -> bool:
    in_production = environment == Environment.PRODUCTION
    return not in_production or settings.PAYMENT_PROVIDER in settings.PAYMENT_PROVIDERS


def minimum_amount(environment: str, currency: str) -> Decimal:
    """Return the smallest amount that the provider takes; 0 without a provider."""
    if not accepts_payments(environment):
        return Decimal(0)
    return checkout_provider(environment).minimums.get(currency, Decimal(0))


def can_prompt(environment: str, amount: Decimal, currency: str) -> bool:
    """Return whether the provider can send a prompt for this amount."""
    if not accepts_payments(environment):
        return False
    return checkout_provider(environment).can_prompt(amount, currency)


def payment_methods(environment: str) -> tuple[PaymentMethod, ...]:
    """Return the methods of new checkouts; none in the sandbox."""
    if not accepts_payments(environment):
        return ()
    return checkout_provider(environment).payment_methods


def payment_methods_of(name: str) -> tuple[PaymentMethod, ...]:
    """Return the provider's methods; none if its keys are no longer configured."""
    try:
        return provider_named(name).payment_methods
    except NoPaymentProvider:
        return ()


def provider_named(name: str) -> CheckoutProvider:
    """Return the provider that opened a checkout. Raises NoPaymentProvider."""
    if is_built_in(name):
        return _sandbox
    if name not in settings.PAYMENT_PROVIDERS:
        raise NoPaymentProvider
    return _live(name)


def is_built_in(name: str) -> bool:
    """Return whether this is the sandbox's provider, which uses our database."""
    return name == _sandbox.name


def providers() -> list[CheckoutProvider]:
    """Return the sandbox's provider, and each one whose keys are configured."""
    return [_sandbox, *(_live(name) for name in settings.PAYMENT_PROVIDERS)]


def has_signature_header(headers: Mapping[str, str]) -> bool:
    """Return whether the request claims to be an event of a provider."""
    return bool(_claimed_providers(headers))


def provider_by_signature(headers: Mapping[str, str]) -> CheckoutProvider:
    """Return the provider that the signature's header names.

    Raises BadSignature unless the headers name exactly one configured provider.
    """
    claimed = _claimed_providers(headers)
    if len(claimed) != 1 or claimed[0] not in settings.PAYMENT_PROVIDERS:
        raise BadSignature
    return _live(claimed[0])


def _claimed_providers(headers: Mapping[str, str]) -> list[str]:
    names = {name.lower() for name in headers}
    return [name for name, header in SIGNATURE_HEADERS.items() if header in names]


@cache
def _live(name: str) -> CheckoutProvider:
    path, options = settings.PAYMENT_PROVIDERS[name]
    return import_string(path)(**options)


def check_configuration(**options: Any) -> list[CheckMessage]:
    """Return the messages of `manage.py check`, which every start runs."""
    found: list[CheckMessage] = []
    selected = settings.PAYMENT_PROVIDER
    if selected and selected not in settings.PAYMENT_PROVIDERS:
        why = "which is neither paystack nor stripe"
        if selected in LABELS:
            why = f"and {selected.upper()}_SECRET_KEY is not set"
        message = f"PAYMENT_PROVIDER is {selected!r}, {why}."
        found.append(Error(message, hint=HINT, id="payments.E001"))
    for name, (_, options) in settings.PAYMENT_PROVIDERS.items():
        found += _check_production_options(name, options)
        if name == "stripe" and not options["webhook_secrets"]:
            message = "STRIPE_WEBHOOK_SECRETS is not set: events of Stripe are refused."
            found.append(Warning(message, hint=HINT, id="payments.W002"))
        if not all(
            one.startswith("whsec_") for one in options.get("webhook_secrets", ())
        ):
            message = "STRIPE_WEBHOOK_SECRETS holds something that is not whsec_…."
            found.append(Error(message, hint=HINT, id="payments.E004"))
        if name == "paystack" and not options["fallback_email"]:
            message = "Without PAYSTACK_FALLBACK_EMAIL nobody without e-mail can pay."
            found.append(Warning(message, hint=HINT, id="payments.W003"))
    if selected and not settings.OPERATOR_ALERTS:
        message = (
            "Without OPERATOR_ALERTS nobody is alerted when payments need a person."
        )
        found.append(Warning(message, hint=HINT, id="payments.W004"))
    return found


def _check_production_options(name: str, options: dict[str, Any]) -> list[CheckMessage]:
    """Check the options, unless a development server plays the provider."""
    url = urlsplit(options.get("url", "https://"))
    if {url.hostname, url.netloc} & set(options.get("opened", ())):
        return []
    found: list[CheckMessage] = []
    if not settings.DEBUG and "_test_" in options["secret_key"]:
        message = f"{name.upper()}_SECRET_KEY is a test key: nobody is really paid."
        found.append(Error(message, hint=HINT, id="payments.E002"))
    if url.scheme != "https":
        message = f"{name.upper()}_URL is not https: its key would be told to anybody."
        hint = "Name its host in PAYMENT_DEV_HOSTS if it is yours, in development."
        found.append(Error(message, hint=hint, id="payments.E003"))
    return found
