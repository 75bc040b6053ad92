"""The sandbox's built-in payment provider keeps the contract that live ones keep."""

from __future__ import annotations

import pytest

from tests.providers.checkout_contract import CheckoutContract
from verification.payments.sandbox import SandboxProvider, play
from verification.providers.checkout import CheckoutState


class _Payer:
    def pay(self, reference: str) -> None:
        play(reference, CheckoutState.PAID)

    def fail(self, reference: str) -> None:
        play(reference, CheckoutState.FAILED)


@pytest.mark.django_db
class TestSandboxProvider(CheckoutContract):
    @pytest.fixture
    def provider(self) -> SandboxProvider:
        return SandboxProvider()

    @pytest.fixture
    def payer(self) -> _Payer:
        return _Payer()
