"""Polls of checkouts: on schedule, after events, and for waiting payers."""

from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest
import time_machine
from django.db import connection
from django.utils.timezone import now

from tests.fakes.paystack import FakePaystack
from tests.fakes.paystack import paystack as paystack
from tests.world.clients import Api
from tests.world.logs import LogLines
from tests.world.payer import create_payer
from tests.world.payments import (
    candidate_item,
    end_checkout,
    open_page,
    poll_checkouts,
    send_event,
)
from tests.world.refunds import paystack_api as paystack_api
from verification.jobs.models import Job
from verification.jobs.names import JobName
from verification.payments import settlement
from verification.payments.checkouts import (
    CheckoutNotOpened,
    open_at_provider,
    open_checkout,
)
from verification.payments.models import Checkout, Payment, SandboxCheckout
from verification.payments.registry import provider_named
from verification.payments.sandbox_provider import end_sandbox_checkout
from verification.payments.settlement import (
    MIN_POLL_INTERVAL,
    poll_due_checkouts,
    poll_now,
    poll_soon,
    settle,
)
from verification.providers.payment_provider import CheckoutState, RefundRequest


def at(checkout: Checkout, **later: float) -> Any:
    return time_machine.travel(checkout.created_at + timedelta(**later), tick=False)


def test_checkout_is_polled_on_schedule(paystack: FakePaystack, paystack_api: Api):
    checkout = open_page(paystack_api.create(candidate_item()))
    looked = []

    # A poll that is due too soon or too late happens in the minute beside.
    for due in (1, 5, 15, 30, 60, 90, 120, 180, 240):
        for minute in (due - 1, due, due + 1):
            before = len(paystack.requests)
            with at(checkout, minutes=minute):
                poll_due_checkouts()
            if len(paystack.requests) > before:
                looked.append(minute)

    assert looked == [1, 5, 15, 60, 120, 180, 240]


def test_polls_of_an_unpaid_checkout_end(api: Api):
    checkout = open_page(api.create(candidate_item()))

    for days in (4, 16.9):
        with at(checkout, days=days):
            poll_checkouts(checkout)
        assert checkout.status == "OPEN"
        assert checkout.next_poll_at == checkout.created_at + timedelta(
            days=days, hours=6
        )
    with at(checkout, days=17.1):
        poll_checkouts(checkout)

    assert (checkout.status, checkout.next_poll_at) == ("EXPIRED", None)


def test_polls_end_sooner_when_the_provider_expires_the_page(api: Api):
    checkout = open_page(api.create(candidate_item()))
    end_sandbox_checkout(checkout.reference, CheckoutState.EXPIRED)

    with at(checkout, hours=73):
        poll_checkouts(checkout)

    assert (checkout.status, checkout.next_poll_at) == ("EXPIRED", None)


def test_event_finds_a_payment_after_the_link_has_expired(
    paystack: FakePaystack, paystack_api: Api
):
    made = paystack_api.create(candidate_item())
    checkout = open_page(made)
    with at(checkout, days=18):
        poll_checkouts(checkout)
        paystack.pay(checkout.reference)
        send_event(paystack)
        poll_due_checkouts()

    assert paystack_api.report(made["id"])["paymentState"]["status"] == "PAID"


# Not available, and refused
@pytest.mark.parametrize("faults", [{"status": 500}, {"status": 401}], ids=str)
def test_poll_is_repeated_when_the_provider_fails(
    paystack: FakePaystack, paystack_api: Api, faults: dict[str, Any]
):
    made = paystack_api.create(candidate_item())
    checkout = open_page(made)
    paystack.pay(checkout.reference)
    for name, value in faults.items():
        setattr(paystack.faults, name, value)

    poll_checkouts(checkout)
    assert (checkout.status, checkout.unanswered) == ("OPEN", 1)
    assert checkout.next_poll_at < now() + timedelta(minutes=3)
    poll_checkouts(checkout)
    assert checkout.unanswered == 2

    for name in faults:
        setattr(paystack.faults, name, None)
    with at(checkout, minutes=10):
        poll_due_checkouts()
    checkout.refresh_from_db()
    assert (checkout.status, checkout.unanswered) == ("PAID", 0)


def test_poll_is_repeated_hourly_while_the_provider_is_gone(
    paystack: FakePaystack, paystack_api: Api, settings: Any
):
    checkout = open_page(paystack_api.create(candidate_item()))
    known, settings.PAYMENT_PROVIDERS = settings.PAYMENT_PROVIDERS, {}
    Checkout.objects.update(unanswered=20)
    with at(checkout, hours=200):
        poll_checkouts(checkout)
    assert checkout.next_poll_at == checkout.created_at + timedelta(hours=201)

    settings.PAYMENT_PROVIDERS = known
    paystack.pay(checkout.reference)
    with at(checkout, hours=201):
        poll_due_checkouts()

    checkout.refresh_from_db()
    assert checkout.is_counted


def test_unreadable_answer_delays_no_other_checkout(
    paystack: FakePaystack, paystack_api: Api, monkeypatch: Any, log_lines: LogLines
):
    made = paystack_api.create(candidate_item(), candidate_item())
    odd, even = map(open_page, made)
    adapter, name = type(provider_named(odd.provider)), "Wanjiku Canary"
    look_up = adapter.look

    def unreadable(self: Any, reference: str, session: str) -> Any:
        if reference == odd.reference:
            raise KeyError(name)
        return look_up(self, reference, session)

    monkeypatch.setattr(adapter, "look", unreadable)
    paystack.pay(even.reference)
    poll_checkouts(odd, even)

    assert (odd.status, odd.unanswered) == ("OPEN", 1)
    assert even.is_counted
    assert "Canary" not in str(log_lines())


@pytest.mark.parametrize("paid", [True, False])
def test_event_during_a_poll_starts_another_poll(
    api: Api, monkeypatch: Any, paid: bool
):
    checkout = open_page(api.create(candidate_item()))
    if paid:
        SandboxCheckout.objects.update(
            state="PAID", paid_amount=checkout.amount, paid_at=now()
        )
    settled = []

    def settle_late(*arguments: Any) -> bool:
        if not settled:
            poll_now(checkout.pk)
        settled.append(arguments)
        return settle(*arguments)

    monkeypatch.setattr(settlement, "settle", settle_late)
    poll_checkouts(checkout)

    assert len(settled) == 2
    assert checkout.is_counted is paid
    assert (checkout.next_poll_at is None) is paid


def test_poll_is_repeated_when_its_worker_dies(api: Api, monkeypatch: Any):
    checkout = open_page(api.create(candidate_item()))
    monkeypatch.setattr(settlement, "settle", lambda *a: 1 / 0)
    end_checkout(checkout)
    assert (checkout.status, checkout.is_counted) == ("OPEN", False)
    monkeypatch.undo()

    poll_due_checkouts()
    checkout.refresh_from_db()
    assert checkout.status == "OPEN"
    with time_machine.travel(now() + settlement.LEASE, tick=False):
        poll_due_checkouts()
    checkout.refresh_from_db()
    assert checkout.is_counted


def test_job_waits_for_the_next_poll(api: Api):
    checkout = open_page(api.create(candidate_item()))
    Job.objects.all().delete()

    poll_due_checkouts()

    assert (
        Job.objects.get(function=JobName.POLL_DUE_CHECKOUTS).due_at
        == checkout.next_poll_at
    )


def test_poll_finds_a_checkout_whose_answer_was_lost(
    paystack: FakePaystack, paystack_api: Api
):
    made = paystack_api.create(candidate_item())
    payment = Payment.objects.get(report_id=made["id"])
    checkout = open_checkout(payment.pk, payment.generation)
    paystack.faults.half = True
    with pytest.raises(CheckoutNotOpened):
        open_at_provider(checkout, "en")
    paystack.faults.half = False
    paystack.pay(checkout.reference)

    poll_checkouts(checkout)

    assert checkout.is_counted


def test_sandbox_calls_no_live_provider(
    paystack: FakePaystack, paystack_api: Api, api: Api
):
    made = api.create(candidate_item())
    end_checkout(open_page(made))

    assert api.report(made["id"])["paymentState"]["status"] == "PAID"
    assert paystack.requests == []


def test_provider_is_called_outside_transactions(
    paystack: FakePaystack, paystack_api: Api, monkeypatch: Any
):
    checkout = open_page(paystack_api.create(candidate_item()))
    adapter, depth = type(provider_named(checkout.provider)), []
    look_up = adapter.look

    def watched(self: Any, *arguments: str) -> Any:
        depth.append(connection.in_atomic_block)
        return look_up(self, *arguments)

    monkeypatch.setattr(adapter, "look", watched)
    poll_checkouts(checkout)

    # The thread of the call has opened no database connection.
    assert depth == [False]


def test_refund_elsewhere_raises_a_flag_once(paystack: FakePaystack, paystack_api: Api):
    checkout = open_page(paystack_api.create(candidate_item()))
    paystack.pay(checkout.reference)
    poll_checkouts(checkout)
    asked = RefundRequest(
        str(uuid4()), checkout.reference, checkout.transaction, Decimal(100), "KES"
    )
    provider_named(checkout.provider).refund(asked)
    send_event(paystack)
    poll_checkouts(checkout)
    assert (checkout.review_flags, checkout.refunded) == (["REFUNDED_ELSEWHERE"], 0)

    Checkout.objects.update(review_flags=[])
    poll_checkouts(checkout)

    assert checkout.review_flags == []


def looks(checkout: Checkout) -> int:
    """Run due polls; return whether they included this checkout."""
    before = checkout.polled_at
    poll_due_checkouts()
    checkout.refresh_from_db()
    return int(checkout.polled_at != before)


def test_waiting_payer_causes_one_poll_in_five_seconds(api: Api):
    checkout = open_page(api.create(candidate_item()))
    with time_machine.travel(now(), tick=False) as clock:
        for _ in range(3):
            assert poll_soon(checkout.pk)
        assert looks(checkout) == 1
        # The last poll ended within the interval.
        assert not poll_soon(checkout.pk)
        assert looks(checkout) == 0
        clock.shift(MIN_POLL_INTERVAL)
        assert poll_soon(checkout.pk)
        assert looks(checkout) == 1


def test_paid_checkout_is_not_polled_for_a_waiting_payer(api: Api):
    checkout = end_checkout(open_page(api.create(candidate_item())))

    with time_machine.travel(now() + MIN_POLL_INTERVAL):
        assert not poll_soon(checkout.pk)


def test_return_during_a_poll_causes_another_poll(api: Api, monkeypatch: Any):
    checkout = open_page(api.create(candidate_item()))
    came_back = []

    def answered_before_the_payer_paid(*arguments: Any) -> bool:
        done = settle(*arguments)
        if not came_back:
            end_sandbox_checkout(checkout.reference, CheckoutState.PAID)
            came_back.extend(poll_soon(checkout.pk) for _ in range(2))
        return done

    monkeypatch.setattr(settlement, "settle", answered_before_the_payer_paid)
    with time_machine.travel(now(), tick=False) as clock:
        poll_checkouts(checkout)
        assert came_back == [True, True]
        assert (checkout.status, looks(checkout)) == ("OPEN", 0)
        assert checkout.polled_at is not None
        due = checkout.polled_at + MIN_POLL_INTERVAL
        assert Job.objects.filter(
            function=JobName.POLL_DUE_CHECKOUTS, due_at__lte=due
        ).exists()
        clock.shift(MIN_POLL_INTERVAL)
        assert looks(checkout) == 1

    assert checkout.is_counted


@pytest.mark.parametrize(("back", "lost"), [("before", True), ("meanwhile", False)])
def test_page_waits_for_a_poll_under_way(
    api: Api, monkeypatch: Any, back: str, lost: bool
):
    visitor = create_payer(api)
    home, read = visitor.choose("lost" if lost else "pay"), []
    if back == "before":
        visitor.come_back(home)

    def read_meanwhile(*arguments: Any) -> bool:
        read.append(visitor.reload() if back == "before" else visitor.come_back(home))
        return settle(*arguments)

    monkeypatch.setattr(settlement, "settle", read_meanwhile)
    poll_checkouts(visitor.checkout)

    assert ["We are asking" in page for page in read] == [True]
    assert "You paid" in visitor.reload()
