"""Payments at the same time as other verbs: the money is right in any order."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import transaction
from django.db.models import F
from django.test import Client
from django.utils.timezone import now

from tests.fakes.checkouts import CheckoutServer
from tests.world.clients import Api
from tests.world.payments import (
    PRICE,
    candidate_item,
    open_page,
    payment_of,
    post_event,
)
from tests.world.refunds import create_paid_checkout
from tests.world.staff import run_action
from tests.world.staff import superuser as superuser
from tests.world.threads import run_at_once, start_and_block, uncommitted
from verification.payments.links import expire_payments, payment_links, remind_payers
from verification.payments.models import (
    Checkout,
    Payment,
    PaymentEvent,
    Refund,
    SandboxCheckout,
)
from verification.payments.refunds import refund_unfinished_parts, send_refunds
from verification.payments.sandbox_provider import end_sandbox_checkout
from verification.payments.settlement import poll_due_checkouts, poll_now
from verification.providers.payment_provider import CheckoutState
from verification.reports.models import Report
from webhooks.models import Event

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

PAID = CheckoutState.PAID


def is_consistent(made: dict[str, Any]) -> None:
    """Assert the rules between a report and its money, in any order of events."""
    report = Report.objects.select_related("payment").get(pk=made["id"])
    payment = report.payment
    checkouts = Checkout.objects.filter(report=report)
    counted = checkouts.filter(is_counted=True).count()
    assert counted == (payment.status == "PAID")
    assert Event.objects.filter(name="payment.paid").count() == counted
    if report.status in {"RUNNING", "PARTIAL", "READY"}:
        assert payment.status == "PAID"
    if payment.status == "PAID" and report.status == "PENDING_PAYMENT":
        raise AssertionError("paid, and not moved on")
    assert not report.results.filter(next_attempt_at__isnull=False).exists() or (
        report.status == "RUNNING"
    )
    # Money that did not pay the report goes back whole, once.
    surplus = checkouts.filter(status="PAID", is_counted=False)
    assert not surplus.exclude(refunded=F("paid_amount")).exists()
    assert Refund.objects.filter(checkout__report=report).count() == surplus.count()


def two_checkouts(made: dict[str, Any]) -> list[Checkout]:
    first = open_page(made)
    Checkout.objects.update(created_at=now() - timedelta(minutes=30))
    return [first, open_page(made)]


def looks(checkouts: list[Checkout]) -> None:
    for checkout in checkouts:
        poll_now(checkout.pk)
    poll_due_checkouts()


def all_at_once(*deeds: Callable[[], Any], times: int = 2) -> None:
    answers = run_at_once(len(deeds) * times, lambda n: deeds[n % len(deeds)]())
    assert [a for a in answers if isinstance(a, Exception)] == []


@pytest.mark.parametrize("attempt", range(3))
def test_one_of_two_simultaneous_payments_counts(api: Api, attempt: int):
    made = api.create(candidate_item())
    checkouts = two_checkouts(made)
    for checkout in checkouts:
        end_sandbox_checkout(checkout.reference, PAID)

    all_at_once(partial(looks, checkouts), times=6)
    settled()

    assert Report.objects.get(pk=made["id"]).status == "RUNNING"
    is_consistent(made)
    send_refunds()
    assert Refund.objects.get().status == "DONE"


def test_staff_who_ask_about_many_checkouts_lock_one_at_a_time(
    api: Api, superuser: Client
):
    checkouts = two_checkouts(api.create(candidate_item()))
    rows = Checkout.objects.select_for_update(nowait=True)
    # The newest stands first in the list.
    last, first = (row.pk for row in checkouts)

    with uncommitted(lambda: rows.get(pk=last)):
        asked = start_and_block(lambda: run_action(superuser, "poll", *checkouts))
        with transaction.atomic():
            free = list(rows.filter(pk=first, next_poll_at__lte=now()))
            assert [row.pk for row in free] == [first]

    assert len(asked.result()) == 2


def settled() -> None:
    """Poll the checkouts that polls of other threads have left."""
    Checkout.objects.update(next_poll_at=now())
    poll_due_checkouts()


@pytest.mark.parametrize("attempt", range(3))
def test_simultaneous_payment_cancel_and_expiry_stay_consistent(api: Api, attempt: int):
    made = api.create(candidate_item())
    checkouts = two_checkouts(made)
    Payment.objects.update(expires_at=now() - timedelta(minutes=1))
    for checkout in checkouts:
        end_sandbox_checkout(checkout.reference, PAID)

    all_at_once(
        partial(looks, checkouts[:1]),
        partial(looks, checkouts[1:]),
        partial(api.post, f"/reports/{made['id']}/cancel"),
        expire_payments,
    )
    settled()

    is_consistent(made)


@pytest.mark.parametrize("attempt", range(3))
def test_simultaneous_payment_edit_and_launch_stay_consistent(api: Api, attempt: int):
    made = api.create(candidate_item(), draft=True)
    checkout = open_page(made)
    end_sandbox_checkout(checkout.reference, PAID)
    path = f"/reports/{made['id']}"

    all_at_once(
        partial(looks, [checkout]),
        partial(api.post, f"{path}/draft", {"checksRequested": ["IDENTITY"]}),
        partial(api.post, f"{path}/launch"),
        remind_payers,
    )
    settled()

    is_consistent(made)


def test_simultaneous_opening_and_new_link_leave_one_valid_link(api: Api):
    made = api.create(candidate_item())
    payment = payment_of(made)
    Payment.objects.update(link_made_at=now() - timedelta(hours=1))

    answers = run_at_once(
        6, lambda n: payment_links.renew(payment.pk) if n % 2 else open_it(made)
    )

    assert payment_of(made).generation == 2
    refused = {type(a).__name__ for a in answers if isinstance(a, Exception)}
    assert refused <= {"ResendTooSoon", "PaymentClosed"}
    end_sandbox_checkout(open_page(made).reference, PAID)
    settled()
    is_consistent(made)


def test_simultaneous_jobs_refund_an_unfinished_part_once(api: Api):
    checkouts = [create_paid_checkout(api, reuse=False) for _ in range(2)]
    for checkout in checkouts:
        api.post(f"/reports/{checkout.report_id}/cancel")

    all_at_once(refund_unfinished_parts, times=4)

    assert Refund.objects.count() == 2
    assert {one.refunded for one in Checkout.objects.all()} == {PRICE}


def open_it(made: dict[str, Any]) -> None:
    open_page(made)


def test_simultaneous_repeats_of_an_event_count_once(
    taker: CheckoutServer, live_api: Api
):
    made = live_api.create(candidate_item())
    taker.pay(open_page(made).reference)
    signed = taker.signed(taker.events[-1])

    answers = run_at_once(8, lambda n: post_event(*signed).status_code)
    run_at_once(4, lambda n: poll_due_checkouts())

    assert answers == [200] * 8
    assert PaymentEvent.objects.count() == 1
    is_consistent(made)
    assert live_api.report(made["id"])["status"] == "RUNNING"


def test_two_clusters_poll_each_checkout_once(taker: CheckoutServer, live_api: Api):
    made = live_api.create(*[candidate_item() for _ in range(20)])
    for one in made:
        open_page(one)
    Checkout.objects.update(next_poll_at=now())
    taker.requests.clear()

    all_at_once(poll_due_checkouts, times=4)

    assert len(taker.requests) == 20
    assert not Checkout.objects.filter(next_poll_at__lte=now()).exists()


@pytest.fixture(autouse=True)
def _books_agree() -> Iterator[None]:
    """After each test, the sandbox has refunded no more than was paid."""
    yield
    for checkout in SandboxCheckout.objects.exclude(paid_amount=None):
        given = sum(float(amount) for amount in checkout.refunds.values())
        assert given <= float(checkout.paid_amount)
