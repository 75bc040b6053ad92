"""What `manage.py check`, and with it every start, says of the payment providers.

The one place that chooses which payment provider is asked.

The sandbox has the built-in one and no other; production never gets it. Which provider
production uses is configuration, and a checkout is asked about at the one it was opened
at, as long as that one's keys are configured.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning
from django.utils.module_loading import import_string

from verification.payments.sandbox import SandboxProvider
from verification.providers.base import Refused
from verification.providers.payment_provider import (
    BadSignature,
    CheckoutProvider,
    PaymentMethod,
)
from workspaces.models import Environment

PAGE = "docs/payments.md says how to configure them."


def check_configuration(**options: Any) -> list[CheckMessage]:
    """Registered by the app."""
    return [*_check_selected_provider(), *_check_providers()]


def _check_selected_provider() -> list[CheckMessage]:
    name = settings.PAYMENT_PROVIDER
    if not name or name in settings.PAYMENT_PROVIDERS:
        return []
    key = f"{name.upper()}_SECRET_KEY"
    told = (
        f"PAYMENT_PROVIDER is {name!r}, and {key} is not set."
        if name in {"paystack", "stripe"}
        else f"PAYMENT_PROVIDER is {name!r}, which is neither paystack nor stripe."
    )
    return [Error(told, hint=PAGE, id="payments.E001")]


def _check_production_options(name: str, options: dict[str, Any]) -> list[CheckMessage]:
    """Unless a server of ours plays the provider, in development."""
    url = urlsplit(options.get("url", "https://"))
    if {url.hostname, url.netloc} & set(options.get("opened", ())):
        return []
    found: list[CheckMessage] = []
    if not settings.DEBUG and "_test_" in options["secret_key"]:
        told = f"{name.upper()}_SECRET_KEY is a test key: nobody is really paid."
        found.append(Error(told, hint=PAGE, id="payments.E002"))
    if url.scheme != "https":
        told = f"{name.upper()}_URL is not https: its key would be told to anybody."
        hint = "Name its host in PAYMENT_DEV_HOSTS if it is yours, in development."
        found.append(Error(told, hint=hint, id="payments.E003"))
    return found


def _check_providers() -> list[CheckMessage]:
    found: list[CheckMessage] = []
    for name, (_, options) in settings.PAYMENT_PROVIDERS.items():
        found += _check_production_options(name, options)
        if name == "stripe" and not options["webhook_secrets"]:
            told = "STRIPE_WEBHOOK_SECRETS is not set: events of Stripe are refused."
            found.append(Warning(told, hint=PAGE, id="payments.W002"))
        if name == "paystack" and not options["fallback_email"]:
            told = "Without PAYSTACK_FALLBACK_EMAIL nobody without e-mail can pay."
            found.append(Warning(told, hint=PAGE, id="payments.W003"))
    if settings.PAYMENT_PROVIDER and not settings.OPERATOR_ALERTS:
        told = "Without OPERATOR_ALERTS nobody is written to when payments need them."
        found.append(Warning(told, hint=PAGE, id="payments.W004"))
    return found


# What a payer knows them by; the sandbox's has no name.
LABELS = {"paystack": "Paystack", "stripe": "Stripe"}
# The header in which each signs its events.
SIGNATURE_HEADERS = {"paystack": "x-paystack-signature", "stripe": "stripe-signature"}

_sandbox = SandboxProvider()
PROVIDER_NAMES = (*SIGNATURE_HEADERS, _sandbox.name)


class NoPaymentProvider(Refused):
    """This installation takes no payments in production."""

    def __init__(self) -> None:
        told = "This installation has no payment provider."
        super().__init__("PAYMENT_PROVIDER_NOT_CONFIGURED", told)


def checkout_provider(environment: str) -> CheckoutProvider:
    """Where checkouts of this environment are opened. Raises NoPaymentProvider."""
    if environment != Environment.PRODUCTION:
        return _sandbox
    if settings.PAYMENT_PROVIDER not in settings.PAYMENT_PROVIDERS:
        raise NoPaymentProvider
    return _live(settings.PAYMENT_PROVIDER)


def accepts_payments(environment: str) -> bool:
    in_production = environment == Environment.PRODUCTION
    return not in_production or settings.PAYMENT_PROVIDER in settings.PAYMENT_PROVIDERS


def minimum_amount(environment: str, currency: str) -> Decimal:
    """The smallest amount that can be paid there."""
    if not accepts_payments(environment):
        return Decimal(0)
    return checkout_provider(environment).minimums.get(currency, Decimal(0))


def can_prompt(environment: str, amount: Decimal, currency: str) -> bool:
    """Whether a prompt on the payer's phone can ask for this amount."""
    if not accepts_payments(environment):
        return False
    return checkout_provider(environment).can_prompt(amount, currency)


def payment_methods(environment: str) -> tuple[PaymentMethod, ...]:
    """How payers can pay; none where nobody takes payments, or only play money."""
    if not accepts_payments(environment):
        return ()
    return checkout_provider(environment).payment_methods


def payment_methods_of(name: str) -> tuple[PaymentMethod, ...]:
    """How payers could pay at this provider; none where it is configured no longer."""
    try:
        return provider_named(name).payment_methods
    except NoPaymentProvider:
        return ()


def provider_named(name: str) -> CheckoutProvider:
    """The provider a checkout was opened at. Raises NoPaymentProvider."""
    if is_built_in(name):
        return _sandbox
    if name not in settings.PAYMENT_PROVIDERS:
        raise NoPaymentProvider
    return _live(name)


def is_built_in(name: str) -> bool:
    """The sandbox's, which is asked by the database's connection alone."""
    return name == _sandbox.name


def providers() -> list[CheckoutProvider]:
    """Every one whose keys are configured, and the sandbox's own."""
    return [_sandbox, *(_live(name) for name in settings.PAYMENT_PROVIDERS)]


def has_signature_header(headers: Mapping[str, str]) -> bool:
    """Whether this claims to be a provider's event, as what strays in here does not."""
    return bool(_claimed_providers(headers))


def _claimed_providers(headers: Mapping[str, str]) -> list[str]:
    names = {name.lower() for name in headers}
    return [name for name, header in SIGNATURE_HEADERS.items() if header in names]


def provider_by_signature(headers: Mapping[str, str]) -> CheckoutProvider:
    """The provider whose event this claims to be, by the header of its signature.

    Raises BadSignature unless that is one alone, and its keys are configured.
    """
    claimed = _claimed_providers(headers)
    if len(claimed) != 1 or claimed[0] not in settings.PAYMENT_PROVIDERS:
        raise BadSignature
    return _live(claimed[0])


@cache
def _live(name: str) -> CheckoutProvider:
    path, options = settings.PAYMENT_PROVIDERS[name]
    return import_string(path)(**options)
