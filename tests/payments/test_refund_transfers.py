from datetime import timedelta
from threading import Thread
from time import sleep

import pytest
import time_machine
from django.db import connection
from django.utils.timezone import now

from tests.fakes.paystack import FakePaystack
from tests.fakes.paystack import paystack as paystack
from tests.world.clients import Api
from tests.world.payments import PRICE
from tests.world.refunds import ask, paid, paystack_settings, posted, send, topped_up
from tests.world.refunds import paystack_api as paystack_api
from tests.world.threads import at_once
from verification.payments import refund_transfers, registry
from verification.payments.models import Checkout, Payment, Refund
from verification.payments.refund_transfers import _record, send_refunds
from verification.payments.refunds import lock_refund
from verification.providers.base import Refused
from verification.providers.payment_provider import RefundSnapshot, RefundState

pytestmark = pytest.mark.django_db


def test_a_refund_is_done_when_the_provider_says_so(paystack_api, paystack):
    refund = ask(paid(paystack_api, paystack))
    send()
    refund.refresh_from_db()
    assert (refund.status, refund.message) == ("APPROVED", "pending")
    assert Payment.objects.get().status == "PAID"

    paystack.settle_refunds()
    send()

    refund.refresh_from_db()
    assert refund.status == "DONE"
    assert Payment.objects.get().status == "REFUNDED"


def test_a_refund_that_fails_in_the_end_can_be_asked_for_again(paystack_api, paystack):
    checkout = paid(paystack_api, paystack)
    refund = ask(checkout)
    paystack.refund_fails = True
    send()
    paystack.settle_refunds()
    send()

    refund.refresh_from_db()
    checkout.refresh_from_db()
    assert refund.status == "FAILED"
    assert (checkout.refunded, checkout.review_flags) == (0, ["REFUND_FAILED"])
    assert Payment.objects.get().status == "PAID"
    paystack.refund_fails = False
    ask(checkout)
    send()
    paystack.settle_refunds()
    send()
    checkout.refresh_from_db()
    assert (checkout.refunded, checkout.review_flags) == (PRICE, [])


@pytest.mark.parametrize("status", [None, 500])
def test_a_refund_without_an_end_is_told_of_once(
    paystack_api, paystack, caplog, status
):
    checkout = paid(paystack_api, paystack)
    refund = ask(checkout)
    paystack.faults.path, paystack.faults.status = "/refund", status
    for day in range(7):
        with time_machine.travel(refund.created_at + timedelta(days=day, hours=1)):
            send()
        checkout.refresh_from_db()
        assert checkout.review_flags == (["REFUND_STUCK"] if day == 3 else [])
        Checkout.objects.update(review_flags=[])

    told = [r for r in caplog.records if "has been pending for days" in r.getMessage()]
    assert len(told) == 1
    refund.refresh_from_db()
    assert refund.next_try_at is not None
    assert f"{refund.pk}" in told[0].getMessage()


def test_a_refund_that_ends_after_all_is_in_doubt_no_longer(paystack_api, paystack):
    checkout = paid(paystack_api, paystack)
    refund = ask(checkout, 100)
    send()
    with time_machine.travel(refund.created_at + timedelta(days=4)):
        send()
        paystack.settle_refunds()
        send()

    checkout.refresh_from_db()
    assert (checkout.refunded, checkout.review_flags) == (100, [])


def test_a_failed_refund_of_a_top_up_restores_the_balance(paystack_api, paystack):
    ask(topped_up(paystack_api, 1000, paystack))
    paystack.refund_fails = True
    send()
    assert paystack_api.account.balance == 0
    paystack.settle_refunds()
    send()

    assert paystack_api.account.balance == 1000


def test_an_answer_that_was_lost_does_not_pay_twice(paystack_api, paystack):
    refund = ask(paid(paystack_api, paystack), 100)
    paystack.faults.half = True
    send()
    refund.refresh_from_db()
    assert (refund.status, refund.provider_refund) == ("APPROVED", "")

    paystack.faults.half = False
    send()

    assert len(paystack.refunds) == 1
    refund.refresh_from_db()
    assert refund.provider_refund == str(paystack.refunds[0].id)


def test_a_worker_that_dies_before_it_stores_the_answer_pays_once(
    paystack_api, paystack, monkeypatch
):
    refund = ask(paid(paystack_api, paystack), 100)
    with monkeypatch.context() as dying:
        dying.setattr(refund_transfers, "lock_refund", die)
        with pytest.raises(KeyboardInterrupt):
            send()

    send()

    assert len(paystack.refunds) == 1
    refund.refresh_from_db()
    assert refund.provider_refund


@pytest.mark.parametrize("status", [500, 401, 429])
def test_a_refund_is_not_given_up_while_its_outcome_is_unknown(
    paystack_api, paystack, status
):
    refund = ask(paid(paystack_api, paystack), 100)
    paystack.faults.half = True
    send()
    paystack.faults.half, paystack.faults.status = False, status
    for _ in range(3):
        send()
    refund.refresh_from_db()
    assert refund.status == "APPROVED"

    paystack.faults.status = None
    send()

    assert len(paystack.refunds) == 1


def test_a_refund_waits_for_keys_that_were_taken_away(paystack_api, paystack, settings):
    refund = ask(paid(paystack_api, paystack))
    settings.PAYMENT_PROVIDERS = {}
    registry._live.cache_clear()
    send()
    refund.refresh_from_db()
    assert refund.status == "APPROVED"

    settings.PAYMENT_PROVIDERS = paystack_settings(paystack)
    send()

    assert len(paystack.refunds) == 1


def test_a_refund_that_the_provider_has_lost_is_not_paid_again(paystack_api, paystack):
    refund = ask(paid(paystack_api, paystack), 100)
    send()
    paystack.refunds.clear()
    send()

    refund.refresh_from_db()
    assert (refund.status, posted(paystack)) == ("APPROVED", 1)


@pytest.mark.django_db(transaction=True)
def test_any_number_of_workers_pay_once(paystack_api, paystack):
    ask(paid(paystack_api, paystack), 100)

    assert at_once(4, lambda _: send_refunds()) == [None] * 4

    assert len(paystack.refunds) == 1


@pytest.mark.django_db(transaction=True)
def test_a_worker_that_outlives_its_claim_is_not_joined_by_another(
    paystack_api: Api, paystack: FakePaystack
):
    ask(paid(paystack_api, paystack), 100)
    paystack.faults.slow = 2
    slow = Thread(target=lambda: (send_refunds(), connection.close()))
    slow.start()
    while not posted(paystack):
        sleep(0.01)

    before = len(paystack.requests)
    send()

    assert len(paystack.requests) == before
    paystack.faults.slow = 0
    slow.join()
    send()
    assert posted(paystack) == 1


def test_a_worker_that_wakes_after_its_claim_has_lapsed_asks_for_nothing(
    paystack_api, paystack
):
    ask(paid(paystack_api, paystack), 100)
    sleeper = refund_transfers._claim()
    send()

    before = len(paystack.requests)
    refund_transfers._send(sleeper)

    assert len(paystack.requests) == before
    assert len(paystack.refunds) == 1


def test_a_late_refusal_ends_nothing_and_a_late_success_counts(api: Api):
    refund = ask(paid(api))
    Refund.objects.update(tries=2)

    _record(lock_refund(refund.pk), 1, Refused("SOURCE_REFUSED", "No."))
    assert Refund.objects.get().status == "APPROVED"
    _record(lock_refund(refund.pk), 1, RefundSnapshot(RefundState.DONE, "R1"))
    assert Refund.objects.get().status == "DONE"


def test_money_that_went_back_after_all_is_told_to_a_person(api: Api):
    checkout = paid(api)
    refund = ask(checkout)
    _record(lock_refund(refund.pk), 0, Refused("SOURCE_REFUSED", "No."))
    type(checkout).objects.update(review_flags=[])

    _record(lock_refund(refund.pk), 0, RefundSnapshot(RefundState.DONE, "R1"))

    checkout.refresh_from_db()
    assert checkout.review_flags == ["REFUND_FAILED"]


def test_one_that_cannot_be_sent_holds_up_no_other(api: Api, monkeypatch):
    first, second = ask(paid(api), 10), ask(paid(api), 10)
    hold = refund_transfers.lock_refund

    def broken(pk):
        if pk == first.pk:
            raise ValueError
        return hold(pk)

    monkeypatch.setattr(refund_transfers, "lock_refund", broken)
    send()

    second.refresh_from_db()
    assert second.status == "DONE"
    assert Refund.objects.get(pk=first.pk).next_try_at > now()


def die(pk):
    raise KeyboardInterrupt
