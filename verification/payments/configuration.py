"""What `manage.py check`, and with it every start, says of the payment providers."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning

PAGE = "docs/payments.md says how to configure them."


def check_configuration(**options: Any) -> list[CheckMessage]:
    """Registered by the app."""
    return [*_missing(), *_doubtful()]


def _missing() -> list[CheckMessage]:
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


def _not_for_production(name: str, options: dict[str, Any]) -> list[CheckMessage]:
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


def _doubtful() -> list[CheckMessage]:
    found: list[CheckMessage] = []
    for name, (_, options) in settings.PAYMENT_PROVIDERS.items():
        found += _not_for_production(name, options)
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
