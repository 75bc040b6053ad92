"""The payment providers of this installation, from the environment."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from environs import Env

from verification.settings.secrets import optional_secret

# name -> (dotted path of the adapter, its options)
ProviderTable = dict[str, tuple[str, dict[str, Any]]]
# A payment may still come in for this time after its link has expired: a Paystack page
# that is left open can be paid and never expires.
PAYMENT_GRACE_DAYS = 3


def payment_providers(env: Env, link_days: int) -> ProviderTable:
    """Return the providers whose secrets are set.

    PAYSTACK_URL, STRIPE_URL, their CHECKOUT_URLs and PAYMENT_DEV_HOSTS are for
    development against a server other than the provider's.
    """
    opened: frozenset[str] = frozenset(env.list("PAYMENT_DEV_HOSTS", []))
    table: ProviderTable = {}
    if key := optional_secret("PAYSTACK_SECRET_KEY"):
        old = optional_secret("PAYSTACK_PREVIOUS_SECRET_KEY")
        table["paystack"] = (
            "verification.providers.paystack.Paystack",
            {
                "secret_key": key,
                "previous_secret_keys": (old,) if old else (),
                "url": env.str("PAYSTACK_URL", "https://api.paystack.co"),
                "checkout_origin": env.str(
                    "PAYSTACK_CHECKOUT_URL", "https://checkout.paystack.com"
                ),
                "fallback_email": env.str("PAYSTACK_FALLBACK_EMAIL", ""),
                "opened": opened,
                "paid_within": timedelta(days=link_days + PAYMENT_GRACE_DAYS),
                "minimum": env.decimal("PAYSTACK_MINIMUM", None),
            },
        )
    if key := optional_secret("STRIPE_SECRET_KEY"):
        secrets = optional_secret("STRIPE_WEBHOOK_SECRETS")
        table["stripe"] = (
            "verification.providers.stripe_checkout.StripeCheckout",
            {
                "secret_key": key,
                "webhook_secrets": tuple(secrets.replace(",", " ").split()),
                "url": env.str("STRIPE_URL", "https://api.stripe.com"),
                "checkout_origin": env.str(
                    "STRIPE_CHECKOUT_URL", "https://checkout.stripe.com"
                ),
                "opened": opened,
                "minimum": env.decimal("STRIPE_MINIMUM", None),
            },
        )
    return table
