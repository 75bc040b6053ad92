from decimal import Decimal
from functools import partial
from typing import Any

import pytest

from tests.payments.ledger_machine import play
from tests.payments.payment_machine import PaymentMachine
from tests.payments.test_ledger_machine import prepaid_api as prepaid_api
from tests.world.clients import Api

HAPPENED = [
    "order paid by others",
    "edit paid by others",
    "cancel paid by others",
    "retry paid by others",
    "launch paid by others",
    "top up by checkout",
    "open",
    "prompt",
    "pay",
    "pay too much",
    "pay too little",
    "give up",
    "dispute",
    "record elsewhere",
    "event",
    "look",
    "expire",
    "refund",
    "give back undone",
    "decide",
    "send",
    "late look",
    "late refund",
    "crash",
]


@pytest.fixture
def paid_api(prepaid_api: Api, settings: Any) -> Api:
    """Return the prepaid client of an installation whose provider is the shop."""
    settings.PAYMENT_PROVIDER = "shop"
    settings.PAYMENT_PROVIDERS = {"shop": ("tests.payments.shop.shop", {})}
    settings.REFUND_NEEDS_SECOND_ABOVE = Decimal(150)
    return prepaid_api


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_both_books_agree_after_each_operation(paid_api: Api):
    machine = partial(PaymentMachine, paid_api)
    play(machine, operations=500, steps=60, including=HAPPENED)
