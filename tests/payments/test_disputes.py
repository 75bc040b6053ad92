"""Disputes and refunds at the provider: ledger entries, held money and polls."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
import time_machine
from django.contrib.admin.models import LogEntry
from django.core.management import call_command
from django.db import IntegrityError, transaction
from django.utils.timezone import now

from tests.fakes.checkouts import CheckoutServer
from tests.fakes.paystack import FakePaystack
from tests.fakes.paystack import paystack as paystack
from tests.workspaces.test_ledger_audit import differences, execute
from tests.world.clients import Api, person
from tests.world.payments import (
    candidate_item,
    open_page,
    payment_of,
    poll_checkouts,
    send_event,
)
from tests.world.refunds import GRACE, WANGARI, create_refund
from tests.world.refunds import paystack_api as paystack_api
from tests.world.refunds import send_waiting_refunds as send_refunds
from tests.world.staff import superuser as superuser
from verification.jobs.models import Job
from verification.jobs.names import JobName
from verification.payments.checkouts import open_at_provider, open_top_up
from verification.payments.disputes import record_disputes
from verification.payments.models import Checkout, Dispute, Refund
from verification.payments.reconciliation import reconcile_yesterday
from verification.payments.refunds import (
    NotRefundable,
    approve_refund,
    record_refund_elsewhere,
    reject_refund,
    resolve_review_flags,
)
from verification.payments.registry import provider_named
from verification.payments.settlement import poll_due_checkouts
from verification.providers.payment_provider import DisputeSnapshot, DisputeState
from workspaces import ledger
from workspaces.models import Account

# The ends of a dispute, in the words of each provider.
WON = {"paystack": {"resolution": "declined"}, "stripe": {"status": "won"}}
LOST = {"paystack": {"resolution": "merchant-accepted"}, "stripe": {"status": "lost"}}
ENDED = {"paystack": "resolve", "stripe": "closed"}


def topped_up(api: Api, taker: CheckoutServer, amount: int = 500) -> Checkout:
    checkout = open_top_up(api.account, Decimal(amount), "owner")
    open_at_provider(checkout, "en")
    taker.pay(checkout.reference)
    poll_checkouts(checkout)
    return checkout


def end(taker: Any, checkout: Checkout, how: dict[str, Any]) -> None:
    """End the dispute at the provider, which sends an event."""
    name = checkout.provider
    taker.dispute(checkout.reference, ENDED[name], **how[name])
    send_event(taker)
    poll_checkouts(checkout)


# The other tests are of Paystack's disputes.
@pytest.mark.parametrize("taker", ["stripe"], indirect=True)
def test_disputed_top_up_leaves_the_balance_until_won(
    taker: CheckoutServer, live_api: Api
):
    before = live_api.account.balance
    checkout = topped_up(live_api, taker)
    taker.dispute(checkout.reference)

    for _ in range(2):
        send_event(taker)
        poll_checkouts(checkout)

    account = live_api.account
    assert (account.balance, account.taken_back) == (before, 500)
    assert (checkout.review_flags, checkout.disputed, checkout.refundable) == (
        ["DISPUTED"],
        500,
        0,
    )
    with pytest.raises(NotRefundable):
        create_refund(checkout, 1)
    end(taker, checkout, WON)
    account = live_api.account
    assert (account.balance, account.taken_back) == (before + 500, 0)
    assert (checkout.review_flags, Dispute.objects.get().status) == ([], "WON")
    moved = account.entries.filter(kind="ADJUSTMENT", checkout_id=checkout.pk)
    assert sorted(entry.amount for entry in moved) == [-500, 500]


def test_lost_dispute_leaves_the_balance(paystack: FakePaystack, paystack_api: Api):
    before = paystack_api.account.balance
    checkout = topped_up(paystack_api, paystack)
    paystack.dispute(checkout.reference)
    send_event(paystack)
    poll_checkouts(checkout)

    for _ in range(2):
        end(paystack, checkout, LOST)

    assert paystack_api.account.balance == before
    assert Dispute.objects.get().status == "LOST"
    assert checkout.review_flags == ["DISPUTE_LOST"]
    assert paystack_api.account.entries.filter(kind="ADJUSTMENT").count() == 1


def test_dispute_of_spent_money_makes_the_balance_negative(
    paystack: FakePaystack, paystack_api: Api
):
    account = paystack_api.account
    Account.objects.filter(pk=account.pk).update(credit_limit=0)
    checkout = topped_up(paystack_api, paystack)
    balance = paystack_api.account.balance
    ledger.record_movements(
        ledger.Movement(
            account.pk, ledger.Kind.ADJUSTMENT, -(balance - 100), "spent on reports"
        )
    )
    paystack.dispute(checkout.reference)
    send_event(paystack)
    poll_checkouts(checkout)

    assert paystack_api.account.balance == -400
    refused = paystack_api.post("/reports", {"reports": [person()]})
    assert refused.status_code == 402
    with pytest.raises(ledger.InsufficientBalance):
        ledger.record_movements(
            ledger.Movement(account.pk, ledger.Kind.ADJUSTMENT, Decimal(-1), "tests")
        )
    with pytest.raises(IntegrityError, match="never_overdrawn"), transaction.atomic():
        Account.objects.filter(pk=account.pk).update(balance=-401)
    assert paystack_api.account.balance == -400
    topped_up(paystack_api, paystack, 1000)
    assert paystack_api.account.balance == 600
    assert paystack_api.post("/reports", {"reports": [person()]}).status_code == 201


def test_lost_dispute_of_a_payment_raises_a_flag(
    paystack: FakePaystack, paystack_api: Api
):
    made = paystack_api.create(candidate_item())
    checkout = open_page(made)
    paystack.pay(checkout.reference)
    poll_checkouts(checkout)
    paystack.dispute(checkout.reference)
    end(paystack, checkout, LOST)

    assert (checkout.review_flags, checkout.disputed) == (["DISPUTE_LOST"], 250)
    assert payment_of(made).status == "PAID"
    found = "The payer told their bank that they did not know us"
    Checkout.objects.update(review_flags=[])
    assert differences() == ["checkout has lost 250.00 by a dispute, without a reason"]
    Checkout.objects.update(review_flags=["DISPUTE_LOST"])
    resolve_review_flags(checkout.pk, ["DISPUTE_LOST"], found)


def test_lost_dispute_that_is_won_later_leaves_no_flag(
    paystack: FakePaystack, paystack_api: Api
):
    checkout = open_page(paystack_api.create(candidate_item()))
    paystack.pay(checkout.reference)
    poll_checkouts(checkout)
    paystack.dispute(checkout.reference)
    end(paystack, checkout, LOST)

    end(paystack, checkout, WON)

    assert (checkout.review_flags, checkout.disputed) == ([], 0)
    assert Dispute.objects.get().status == "WON"


def test_reconciliation_finds_a_dispute_without_event(
    paystack: FakePaystack, paystack_api: Api
):
    checkout = topped_up(paystack_api, paystack)
    paystack.dispute(checkout.reference)

    with time_machine.travel(now() + timedelta(days=1)):
        reconcile_yesterday()
        poll_due_checkouts()
    assert Dispute.objects.get().status == "OPEN"

    # The dispute ends a day later, again without an event.
    paystack.dispute(checkout.reference, "resolve", **LOST["paystack"])
    with time_machine.travel(now() + timedelta(days=2)):
        reconcile_yesterday()
        poll_due_checkouts()
    assert Dispute.objects.get().status == "LOST"


def dispute_during_refund(taker: Any, api: Api, how: dict[str, Any] | None) -> Checkout:
    """Create a disputed top-up of 500 whose refund fails at the provider."""
    checkout = topped_up(api, taker)
    taker.refund_fails = True
    create_refund(checkout)
    send_refunds()
    taker.dispute(checkout.reference)
    send_event(taker)
    poll_checkouts(checkout)
    if how:
        end(taker, checkout, how)
    assert (checkout.refunded, checkout.disputed) == (500, 0)
    taker.settle_refunds()
    return checkout


@pytest.mark.parametrize("how", [None, LOST])
def test_dispute_holds_the_money_of_a_refund_that_fails(
    paystack: FakePaystack, paystack_api: Api, how: dict[str, Any] | None
):
    before = paystack_api.account.balance
    checkout = dispute_during_refund(paystack, paystack_api, how)
    Job.objects.filter(function=JobName.POLL_DUE_CHECKOUTS).delete()

    send_refunds()

    assert Job.objects.filter(
        function=JobName.POLL_DUE_CHECKOUTS, due_at__lte=now()
    ).exists()
    poll_due_checkouts()
    checkout.refresh_from_db()
    assert (checkout.refunded, checkout.disputed, checkout.refundable) == (0, 500, 0)
    assert (paystack_api.account.balance, paystack_api.account.taken_back) == (
        before,
        500,
    )


@pytest.mark.parametrize("how", [None, LOST])
def test_reconciliation_finds_a_dispute_that_holds_too_little(
    paystack: FakePaystack, paystack_api: Api, how: dict[str, Any] | None
):
    checkout = dispute_during_refund(paystack, paystack_api, how)
    send_refunds()
    Checkout.objects.update(next_poll_at=None)

    with time_machine.travel(now() + timedelta(days=9)):
        reconcile_yesterday()
        poll_due_checkouts()

    checkout.refresh_from_db()
    assert (checkout.disputed, checkout.refundable) == (500, 0)


def test_refund_of_money_that_was_disputed_meanwhile_is_not_approved(
    paystack: FakePaystack, paystack_api: Api, settings: Any
):
    settings.REFUND_NEEDS_SECOND_ABOVE = Decimal(0)
    checkout = topped_up(paystack_api, paystack)
    refund = create_refund(checkout)
    paystack.dispute(checkout.reference)
    poll_checkouts(checkout)

    with pytest.raises(NotRefundable, match="disputes"):
        approve_refund(refund.pk, by=WANGARI)

    reject_refund(refund.pk, by=WANGARI)
    poll_checkouts(checkout)
    assert (checkout.refunded, checkout.disputed) == (0, 500)


def test_dispute_is_polled_again_when_the_provider_does_not_list_it(
    paystack: FakePaystack, paystack_api: Api
):
    checkout = topped_up(paystack_api, paystack)
    paystack.dispute(checkout.reference)
    paystack.faults.path, paystack.faults.status = "/dispute", 500
    send_event(paystack)
    poll_checkouts(checkout)
    assert (checkout.disputed, checkout.review_flags) == (0, ["DISPUTED"])

    paystack.faults.status = None
    with time_machine.travel(now() + timedelta(minutes=3)):
        poll_due_checkouts()

    checkout.refresh_from_db()
    assert (checkout.disputed, checkout.next_poll_at) == (500, None)


def test_open_dispute_holds_money_that_a_won_one_frees(
    paystack: FakePaystack, paystack_api: Api
):
    checkout = topped_up(paystack_api, paystack)
    name, amount = checkout.transaction, Decimal(500)
    first = DisputeSnapshot("1", name, DisputeState.OPEN, amount, "KES")
    second = replace(first, dispute="2")
    record_disputes(checkout.pk, [first, second])

    record_disputes(checkout.pk, [second, replace(first, state=DisputeState.WON)])

    disputes = Dispute.objects.order_by("provider_dispute")
    assert [one.held_amount for one in disputes] == [0, 500]


def elsewhere(checkout: Checkout) -> list[Any]:
    provider = provider_named(checkout.provider)
    return list(provider.refunds_of(checkout.transaction))


def test_staff_record_a_refund_elsewhere_once(
    paystack: FakePaystack, paystack_api: Api
):
    before = paystack_api.account.balance
    checkout = topped_up(paystack_api, paystack)
    paystack.give_back(checkout.reference, 20_000)
    poll_checkouts(checkout)
    assert checkout.review_flags == ["REFUNDED_ELSEWHERE"]
    (found,) = elsewhere(checkout)

    record_refund_elsewhere(checkout.pk, found, reason="Their wish", by=GRACE)

    checkout.refresh_from_db()
    assert (checkout.review_flags, checkout.refunded, checkout.refundable) == (
        [],
        200,
        300,
    )
    assert paystack_api.account.balance == before + 300
    refund = Refund.objects.get()
    assert (refund.cause, refund.status, refund.provider_refund) == (
        "ELSEWHERE",
        "DONE",
        found.refund,
    )
    with pytest.raises(NotRefundable, match="recorded already"):
        record_refund_elsewhere(checkout.pk, found, reason="Again", by=GRACE)
    poll_checkouts(checkout)
    assert checkout.review_flags == []


def test_dispute_holds_less_when_a_refund_elsewhere_becomes_known(
    paystack: FakePaystack, paystack_api: Api
):
    before = paystack_api.account.balance
    checkout = topped_up(paystack_api, paystack)
    dispute = DisputeSnapshot(
        "1", checkout.transaction, DisputeState.LOST, Decimal(500), "KES"
    )
    record_disputes(checkout.pk, [dispute])
    paystack.give_back(checkout.reference, 20_000)
    (found,) = elsewhere(checkout)

    record_refund_elsewhere(checkout.pk, found, reason="Their wish", by=GRACE)
    record_disputes(checkout.pk, [dispute])

    checkout.refresh_from_db()
    assert (checkout.refunded, checkout.disputed) == (200, 300)
    assert Dispute.objects.get().held_amount == 300
    assert paystack_api.account.balance == before
    # The command raises an error if the books do not add up.
    call_command("audit_ledger")


def test_refund_elsewhere_of_spent_money_makes_the_balance_negative(
    paystack: FakePaystack, paystack_api: Api
):
    Account.objects.filter(pk=paystack_api.account.pk).update(credit_limit=0)
    checkout = topped_up(paystack_api, paystack)
    left = paystack_api.account.balance
    ledger.record_movements(
        ledger.Movement(paystack_api.account.pk, ledger.Kind.ADJUSTMENT, -left, "spent")
    )
    paystack.give_back(checkout.reference, 50_000)
    (found,) = elsewhere(checkout)

    record_refund_elsewhere(checkout.pk, found, reason="Their wish", by=GRACE)

    assert paystack_api.account.balance == -500


def test_payment_is_refunded_when_all_went_back_elsewhere(
    paystack: FakePaystack, paystack_api: Api
):
    made = paystack_api.create(candidate_item())
    checkout = open_page(made)
    paystack.pay(checkout.reference)
    poll_checkouts(checkout)
    paystack.give_back(checkout.reference, 25_000)
    (found,) = elsewhere(checkout)

    record_refund_elsewhere(checkout.pk, found, reason="Their wish", by=GRACE)

    assert payment_of(made).status == "REFUNDED"


def test_staff_record_the_refund_of_the_providers_api(
    paystack: FakePaystack, paystack_api: Api, superuser: Any
):
    checkout = topped_up(paystack_api, paystack)
    name = str(paystack.give_back(checkout.reference, 20_000).id)
    path = "/admin/payments/checkout/"
    chosen = {"action": "record_elsewhere", "_selected_action": str(checkout.pk)}

    asked = superuser.post(path, chosen).content.decode()
    assert f'value="{name}"' in asked
    assert "200.00" in asked
    assert not Refund.objects.exists()
    superuser.post(path, {**chosen, "refund": "made up", "reason": "x"})
    assert not Refund.objects.exists()
    done = {**chosen, "refund": name, "reason": "Their wish"}
    for _ in range(2):
        superuser.post(path, done)

    assert Refund.objects.get().amount == 200
    (told,) = LogEntry.objects.filter(object_id=str(checkout.pk))
    assert f"recorded refund {name} of 200.00: Their wish" in str(told)


def test_audit_finds_a_hold_that_does_not_add_up(
    paystack: FakePaystack, paystack_api: Api
):
    checkout = topped_up(paystack_api, paystack)
    paystack.dispute(checkout.reference)
    poll_checkouts(checkout)

    for table, column in (("dispute", "held_amount"), ("checkout", "disputed")):
        execute(f"UPDATE payments_{table} SET {column} = 499")  # noqa: S608
        assert differences(), table
        execute(f"UPDATE payments_{table} SET {column} = 500")  # noqa: S608
