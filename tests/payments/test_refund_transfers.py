from datetime import timedelta
from threading import Event, Thread
from time import sleep

import pytest
import time_machine
from django.db import connection
from django.utils.timezone import now

from tests.fakes.paystack import FakePaystack
from tests.fakes.paystack import paystack as paystack
from tests.world.clients import Api
from tests.world.payments import PRICE
from tests.world.refunds import (
    count_refund_requests,
    create_paid_checkout,
    create_paid_top_up,
    create_refund,
    paystack_settings,
    send_waiting_refunds,
)
from tests.world.refunds import paystack_api as paystack_api
from tests.world.threads import run_at_once
from verification.payments import refunds
from verification.payments.models import Checkout, Payment, Refund
from verification.payments.refunds import _record, lock_refund, send_refunds
from verification.providers.base import Refused
from verification.providers.payment_provider import RefundSnapshot, RefundState

pytestmark = pytest.mark.django_db


def test_failed_refund_can_be_requested_again(paystack_api, paystack):
    checkout = create_paid_checkout(paystack_api, paystack)
    refund = create_refund(checkout)
    paystack.refund_fails = True
    send_waiting_refunds()
    paystack.settle_refunds()
    send_waiting_refunds()

    refund.refresh_from_db()
    checkout.refresh_from_db()
    assert refund.status == "FAILED"
    assert (checkout.refunded, checkout.review_flags) == (0, ["REFUND_FAILED"])
    assert Payment.objects.get().status == "PAID"
    paystack.refund_fails = False
    create_refund(checkout)
    send_waiting_refunds()
    paystack.settle_refunds()
    send_waiting_refunds()
    checkout.refresh_from_db()
    assert (checkout.refunded, checkout.review_flags) == (PRICE, [])


@pytest.mark.parametrize("status", [None, 500])
def test_pending_refund_raises_a_flag_once_after_three_days(
    paystack_api, paystack, caplog, status
):
    checkout = create_paid_checkout(paystack_api, paystack)
    refund = create_refund(checkout)
    paystack.faults.path, paystack.faults.status = "/refund", status
    for day in (2, 3, 4):
        with time_machine.travel(refund.created_at + timedelta(days=day, hours=1)):
            send_waiting_refunds()
        checkout.refresh_from_db()
        assert checkout.review_flags == (["REFUND_STUCK"] if day == 3 else [])
        Checkout.objects.update(review_flags=[])

    told = [r for r in caplog.records if "has been pending for days" in r.getMessage()]
    assert len(told) == 1
    refund.refresh_from_db()
    assert refund.next_try_at is not None
    assert f"{refund.pk}" in told[0].getMessage()


def test_flag_of_a_stuck_refund_is_cleared_when_it_ends(paystack_api, paystack):
    checkout = create_paid_checkout(paystack_api, paystack)
    refund = create_refund(checkout, 100)
    send_waiting_refunds()
    refund.refresh_from_db()
    assert (refund.status, refund.message) == ("APPROVED", "pending")
    with time_machine.travel(refund.created_at + timedelta(days=4)):
        send_waiting_refunds()
        paystack.settle_refunds()
        send_waiting_refunds()

    checkout.refresh_from_db()
    assert (checkout.refunded, checkout.review_flags) == (100, [])


def test_failed_refund_of_a_top_up_restores_the_balance(paystack_api, paystack):
    create_refund(create_paid_top_up(paystack_api, 1000, paystack))
    paystack.refund_fails = True
    send_waiting_refunds()
    assert paystack_api.account.balance == 0
    paystack.settle_refunds()
    send_waiting_refunds()

    assert paystack_api.account.balance == 1000


def test_refund_is_paid_once_when_the_worker_dies_before_recording(
    paystack_api, paystack, monkeypatch
):
    refund = create_refund(create_paid_checkout(paystack_api, paystack), 100)
    with monkeypatch.context() as dying:
        dying.setattr(refunds, "lock_refund", die)
        with pytest.raises(KeyboardInterrupt):
            send_waiting_refunds()

    send_waiting_refunds()

    assert len(paystack.refunds) == 1
    refund.refresh_from_db()
    assert refund.provider_refund


def test_refund_is_retried_while_its_result_is_unknown(paystack_api, paystack):
    refund = create_refund(create_paid_checkout(paystack_api, paystack), 100)
    paystack.faults.half = True
    send_waiting_refunds()
    paystack.faults.half, paystack.faults.status = False, 401
    for _ in range(2):
        send_waiting_refunds()
    refund.refresh_from_db()
    assert (refund.status, refund.provider_refund) == ("APPROVED", "")

    paystack.faults.status = None
    send_waiting_refunds()

    assert len(paystack.refunds) == 1
    refund.refresh_from_db()
    assert refund.provider_refund == str(paystack.refunds[0].id)


def test_refund_waits_while_the_providers_keys_are_missing(
    paystack_api, paystack, settings
):
    refund = create_refund(create_paid_checkout(paystack_api, paystack))
    settings.PAYMENT_PROVIDERS = {}
    send_waiting_refunds()
    refund.refresh_from_db()
    assert refund.status == "APPROVED"

    settings.PAYMENT_PROVIDERS = paystack_settings(paystack)
    send_waiting_refunds()

    assert len(paystack.refunds) == 1


def test_refund_lost_by_the_provider_is_not_paid_again(paystack_api, paystack):
    refund = create_refund(create_paid_checkout(paystack_api, paystack), 100)
    send_waiting_refunds()
    paystack.refunds.clear()
    send_waiting_refunds()

    refund.refresh_from_db()
    assert (refund.status, count_refund_requests(paystack)) == ("APPROVED", 1)


@pytest.mark.django_db(transaction=True)
def test_parallel_workers_pay_once(paystack_api, paystack):
    create_refund(create_paid_checkout(paystack_api, paystack), 100)

    assert run_at_once(4, lambda _: send_refunds()) == [None] * 4

    assert len(paystack.refunds) == 1


@pytest.mark.django_db(transaction=True)
def test_second_worker_waits_while_the_first_outlives_its_lease(
    paystack_api: Api, paystack: FakePaystack
):
    create_refund(create_paid_checkout(paystack_api, paystack), 100)
    faults, answer = paystack.faults, Event()
    faults.method, faults.path, faults.held = "POST", "/refund", answer
    slow = Thread(target=lambda: (send_refunds(), connection.close()))
    slow.start()
    while not count_refund_requests(paystack):
        sleep(0.01)

    before = len(paystack.requests)
    send_waiting_refunds()

    assert len(paystack.requests) == before
    answer.set()
    slow.join()
    send_waiting_refunds()
    assert count_refund_requests(paystack) == 1


def test_worker_that_wakes_after_its_lease_calls_nothing(paystack_api, paystack):
    create_refund(create_paid_checkout(paystack_api, paystack), 100)
    sleeper = refunds._claim()
    send_waiting_refunds()

    before = len(paystack.requests)
    refunds._send(sleeper)

    assert len(paystack.requests) == before
    assert len(paystack.refunds) == 1


def test_late_refusal_is_ignored_and_late_success_counts(api: Api):
    refund = create_refund(create_paid_checkout(api))
    Refund.objects.update(tries=2)

    _record(lock_refund(refund.pk), 1, Refused("SOURCE_REFUSED", "No."))
    assert Refund.objects.get().status == "APPROVED"
    _record(lock_refund(refund.pk), 1, RefundSnapshot(RefundState.DONE, "R1"))
    assert Refund.objects.get().status == "DONE"


def test_failed_refund_that_was_done_raises_a_flag(api: Api):
    checkout = create_paid_checkout(api)
    refund = create_refund(checkout)
    _record(lock_refund(refund.pk), 0, Refused("SOURCE_REFUSED", "No."))
    type(checkout).objects.update(review_flags=[])

    _record(lock_refund(refund.pk), 0, RefundSnapshot(RefundState.DONE, "R1"))

    checkout.refresh_from_db()
    assert checkout.review_flags == ["REFUND_FAILED"]


def test_unsendable_refund_delays_no_other(api: Api, monkeypatch):
    first, second = (
        create_refund(create_paid_checkout(api), 10),
        create_refund(create_paid_checkout(api), 10),
    )
    hold = refunds.lock_refund

    def broken(pk):
        if pk == first.pk:
            raise ValueError
        return hold(pk)

    monkeypatch.setattr(refunds, "lock_refund", broken)
    send_waiting_refunds()

    second.refresh_from_db()
    assert second.status == "DONE"
    assert Refund.objects.get(pk=first.pk).next_try_at > now()


def die(pk):
    raise KeyboardInterrupt
