"""The sandbox's payment provider fulfils the contract of live providers."""

from __future__ import annotations

import pytest

from tests.providers.checkout_contract import CheckoutContract
from verification.payments.sandbox_provider import SandboxProvider, end_sandbox_checkout
from verification.providers.payment_provider import CheckoutState


class _Payer:
    def pay(self, reference: str) -> None:
        end_sandbox_checkout(reference, CheckoutState.PAID)

    def fail(self, reference: str) -> None:
        end_sandbox_checkout(reference, CheckoutState.FAILED)


@pytest.mark.django_db
class TestSandboxProvider(CheckoutContract):
    @pytest.fixture
    def provider(self) -> SandboxProvider:
        return SandboxProvider()

    @pytest.fixture
    def payer(self) -> _Payer:
        return _Payer()
