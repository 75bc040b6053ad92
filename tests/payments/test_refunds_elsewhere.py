"""Money that somebody gives back at the provider's own dashboard is in its books."""

import io
from datetime import timedelta
from decimal import Decimal
from uuid import uuid4

import pytest
import time_machine
from django.core.management import CommandError, call_command
from django.utils.timezone import now

from tests.fakes.checkouts import CheckoutServer
from tests.world.clients import Api
from tests.world.payments import candidate, look, opened
from tests.world.payments import taker as taker
from tests.world.refunds import ask, send
from verification.payments.models import Checkout, Refund
from verification.payments.reconciliation import reconcile_yesterday
from verification.payments.registry import provider_named
from verification.providers.payment_provider import RefundRequest

pytestmark = pytest.mark.django_db


@pytest.fixture
def checkout(taker: CheckoutServer, live_api: Api) -> Checkout:
    checkout = opened(live_api.create(candidate()))
    taker.pay(checkout.reference)
    look(checkout)
    return checkout


def given_back_there(checkout: Checkout, amount: int = 100) -> str:
    """By somebody at the dashboard; the refund's name."""
    money = (Decimal(amount), "KES")
    names = (str(uuid4()), checkout.reference, checkout.transaction)
    return (
        provider_named(checkout.provider).refund(RefundRequest(*names, *money)).refund
    )


def differences(checkout: Checkout, *arguments: str) -> list[str]:
    out, day = io.StringIO(), f"{now():%Y-%m-%d}"
    options = ("--from", day, "--provider", checkout.provider, *arguments)
    with pytest.raises(CommandError, match=r"The books have \d+ differences"):
        call_command("reconcile_payments", *options, stdout=out)
    return out.getvalue().splitlines()


def review_flags(checkout: Checkout) -> list[str]:
    return Checkout.objects.get(pk=checkout.pk).review_flags


def test_refund_elsewhere_is_listed_and_flagged_once(checkout: Checkout):
    refund = given_back_there(checkout)
    line = (
        f"{checkout.provider} {checkout.pk} 100.00 KES was given back there"
        f" by refund {refund}, not by us"
    )

    assert differences(checkout, "--dry-run") == [line]
    assert review_flags(checkout) == []
    assert differences(checkout) == [line]
    assert review_flags(checkout) == ["REFUNDED_ELSEWHERE"]
    Checkout.objects.update(review_flags=[])
    assert differences(checkout) == [line]
    assert review_flags(checkout) == []
    # More of it is news.
    given_back_there(checkout, 50)
    assert len(differences(checkout)) == 2
    assert review_flags(checkout) == ["REFUNDED_ELSEWHERE"]


def test_daily_job_finds_a_refund_elsewhere(checkout: Checkout):
    given_back_there(checkout)

    with time_machine.travel(now() + timedelta(days=1)):
        reconcile_yesterday()

    assert review_flags(checkout) == ["REFUNDED_ELSEWHERE"]


@pytest.mark.parametrize("answer", ["came", "was lost"])
def test_our_own_refunds_are_not_refunds_elsewhere(
    checkout: Checkout, taker: CheckoutServer, answer: str
):
    ask(checkout, 100)
    taker.faults.half = answer == "was lost"
    send()
    taker.faults.half = False
    known = bool(Refund.objects.get().provider_refund)
    assert known is (answer == "came")

    day = f"{now():%Y-%m-%d}"
    call_command("reconcile_payments", "--from", day, "--provider", checkout.provider)

    assert review_flags(checkout) == []


def test_refund_without_checkout_is_listed(checkout: Checkout):
    refund = given_back_there(checkout)
    Checkout.objects.update(transaction="another")

    told = f"{checkout.provider} {refund} 100.00 KES was given back there"

    assert f"{told}, of nothing of ours" in differences(checkout, "--dry-run")


def test_unanswered_refund_is_compared_again_tomorrow(
    checkout: Checkout, taker: CheckoutServer
):
    given_back_there(checkout)
    taker.faults.path = (
        f"verify/{checkout.pk}" if checkout.provider == "paystack" else "sessions"
    )
    taker.faults.status = 503

    with time_machine.travel(now() + timedelta(days=1), tick=False):
        reconcile_yesterday()
        assert review_flags(checkout) == []
    taker.faults.status = None
    with time_machine.travel(now() + timedelta(days=2), tick=False):
        reconcile_yesterday()

    assert review_flags(checkout) == ["REFUNDED_ELSEWHERE"]
