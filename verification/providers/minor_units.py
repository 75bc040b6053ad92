"""Amounts as payment providers write them: whole cents.

Currencies without cents, or with a thousand of them, are refused: providers differ in
how they write those, and a wrong guess is wrong by a factor of a hundred.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from verification.providers.base import Refused, Unavailable
from verification.providers.http_api import UNAVAILABLE

# ISO 4217: those without a minor unit, then those with one of a thousandth or rarer.
# Stripe writes some of the former with two decimals all the same, Paystack others.
NAMES = """
    BIF CLP DJF GNF ISK JPY KMF KRW MGA MRU PYG RWF UGX UYI VND VUV XAF XOF XPF
    BHD CLF IQD JOD KWD LYD OMR TND UYW
"""
WITHOUT_CENTS = frozenset(NAMES.split())


def to_cents(amount: Decimal, currency: str) -> int:
    """Raises Refused where it cannot be said exactly."""
    if currency in WITHOUT_CENTS:
        raise Refused("CURRENCY_NOT_SUPPORTED", f"{currency} is not supported.")
    cents = amount * 100
    if not amount.is_finite() or cents <= 0 or cents != cents.to_integral_value():
        raise Refused("AMOUNT_NOT_SUPPORTED", "The amount must be in whole cents.")
    return int(cents)


def from_cents(cents: Any) -> Decimal:
    """Of an answer's number, which some providers write as text in places."""
    if isinstance(cents, str) and cents.isascii() and cents.isdigit():
        cents = int(cents)
    if not isinstance(cents, int) or isinstance(cents, bool):
        raise Unavailable(UNAVAILABLE, "The provider's amount is not in whole cents.")
    return Decimal(cents).scaleb(-2)
