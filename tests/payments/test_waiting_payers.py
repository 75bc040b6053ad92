"""Somebody has come back from the provider and waits to be told."""

from typing import Any

import pytest
import time_machine
from django.utils.timezone import now

from tests.world.clients import Api
from tests.world.payer import payer
from tests.world.payments import candidate, end, look, opened
from verification.jobs.models import Job
from verification.payments import polling
from verification.payments.models import Checkout
from verification.payments.polling import (
    MIN_POLL_INTERVAL,
    poll_due_checkouts,
    poll_soon,
)
from verification.payments.refunds import POLL_JOB
from verification.payments.sandbox import end_sandbox_checkout
from verification.payments.settlement import settle
from verification.providers.payment_provider import CheckoutState


def looks(checkout: Checkout) -> int:
    """Run due polls; return whether they included this checkout."""
    before = checkout.polled_at
    poll_due_checkouts()
    checkout.refresh_from_db()
    return int(checkout.polled_at != before)


def test_waiting_payer_causes_one_poll_in_five_seconds(api: Api):
    checkout = opened(api.create(candidate()))
    with time_machine.travel(now(), tick=False) as clock:
        for _ in range(3):
            assert poll_soon(checkout.pk)
        assert looks(checkout) == 1
        # It was answered within the last seconds.
        assert not poll_soon(checkout.pk)
        assert looks(checkout) == 0
        clock.shift(MIN_POLL_INTERVAL)
        assert poll_soon(checkout.pk)
        assert looks(checkout) == 1


def test_paid_checkout_is_not_polled_for_a_waiting_payer(api: Api):
    checkout = end(opened(api.create(candidate())))

    with time_machine.travel(now() + MIN_POLL_INTERVAL):
        assert not poll_soon(checkout.pk)


def test_return_during_a_poll_causes_another_poll(api: Api, monkeypatch: Any):
    checkout = opened(api.create(candidate()))
    came_back = []

    def answered_before_the_payer_paid(*arguments: Any) -> bool:
        done = settle(*arguments)
        if not came_back:
            end_sandbox_checkout(checkout.reference, CheckoutState.PAID)
            came_back.extend(poll_soon(checkout.pk) for _ in range(2))
        return done

    monkeypatch.setattr(polling, "settle", answered_before_the_payer_paid)
    with time_machine.travel(now(), tick=False) as clock:
        look(checkout)
        assert came_back == [True, True]
        assert (checkout.status, looks(checkout)) == ("OPEN", 0)
        assert checkout.polled_at is not None
        due = checkout.polled_at + MIN_POLL_INTERVAL
        assert Job.objects.filter(function=POLL_JOB, due_at__lte=due).exists()
        clock.shift(MIN_POLL_INTERVAL)
        assert looks(checkout) == 1

    assert checkout.is_counted


@pytest.mark.parametrize("lost", [True, False])
@pytest.mark.parametrize("back", ["before", "meanwhile"])
def test_page_waits_for_a_poll_under_way(
    api: Api, monkeypatch: Any, back: str, lost: bool
):
    visitor = payer(api)
    home, read = visitor.choose("lost" if lost else "pay"), []
    if back == "before":
        visitor.come_back(home)

    def read_meanwhile(*arguments: Any) -> bool:
        read.append(visitor.reload() if back == "before" else visitor.come_back(home))
        return settle(*arguments)

    monkeypatch.setattr(polling, "settle", read_meanwhile)
    look(visitor.checkout)

    assert ["We are asking" in page for page in read] == [True]
    assert "You paid" in visitor.reload()
