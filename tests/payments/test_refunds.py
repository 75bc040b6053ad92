"""Refunds by staff and by the service, and refunds at the provider's dashboard."""

import io
from datetime import timedelta
from decimal import Decimal
from uuid import uuid4

import pytest
import time_machine
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction
from django.utils.timezone import now

from tests.fakes.checkouts import CheckoutServer
from tests.fakes.paystack import FakePaystack
from tests.fakes.paystack import paystack as paystack
from tests.world.clients import Api, person
from tests.world.payments import (
    EMAIL,
    PRICE,
    candidate_item,
    end_checkout,
    open_page,
    payment_of,
    poll_checkouts,
)
from tests.world.payments import taker as taker
from tests.world.refunds import (
    GRACE,
    WANGARI,
    create_paid_checkout,
    create_paid_top_up,
    create_refund,
    send_waiting_refunds,
)
from tests.world.refunds import paystack_api as paystack_api
from tests.world.threads import run_at_once
from verification.backoffice.approvals import StaffActor
from verification.notifications.models import Notification
from verification.payments.models import Checkout, Refund
from verification.payments.reconciliation import reconcile_yesterday
from verification.payments.refunds import (
    NotRefundable,
    approve_refund,
    reject_refund,
    request_refund,
    unfinished_part,
)
from verification.payments.registry import provider_named
from verification.payments.settlement import poll_due_checkouts
from verification.providers.payment_provider import RefundRequest
from workspaces.ledger import Kind, Movement, record_movements
from workspaces.models import Account, LedgerEntry

pytestmark = pytest.mark.django_db

# The source refuses this subject.
FAILS = person(idNumber="90000008", email=EMAIL)["subject"]


def state(api: Api, checkout: Checkout) -> str:
    return api.report(str(checkout.report_id))["paymentState"]["status"]


def test_payment_stays_paid_until_all_money_went_back(api: Api):
    checkout = create_paid_checkout(api)

    create_refund(checkout, 100)
    send_waiting_refunds()

    assert state(api, checkout) == "PAID"
    refund = create_refund(checkout)
    assert state(api, checkout) == "PAID"
    send_waiting_refunds()
    assert state(api, checkout) == "REFUNDED"
    refund.refresh_from_db()
    assert (refund.status, refund.amount) == ("DONE", PRICE - 100)
    told = Notification.objects.filter(kind="PAYMENT_REFUNDED").order_by("id")
    assert [one.context["amount"] for one in told] == ["100.00", "150.00"]


def test_refund_refuses_a_wrong_amount(api: Api):
    checkout = create_paid_checkout(api)
    for amount in ["0", "-1", "250.01", "0.001", "100.005", "NaN"]:
        with pytest.raises(NotRefundable, match=r"KES 250\.00 can still"):
            create_refund(checkout, amount)

        assert not Refund.objects.exists(), amount


def test_refund_needs_a_reason_and_a_payment(api: Api):
    unpaid = open_page(api.create(candidate_item()))
    with pytest.raises(NotRefundable, match="Nothing was paid"):
        request_refund(unpaid.pk, PRICE, reason="They asked", by=GRACE)
    with pytest.raises(NotRefundable, match="Say why"):
        request_refund(create_paid_checkout(api).pk, PRICE, reason=" ", by=GRACE)


@pytest.mark.django_db(transaction=True)
def test_one_of_two_simultaneous_refunds_is_refused(api: Api):
    checkout = create_paid_checkout(api)

    answers = run_at_once(
        2, lambda n: create_refund(checkout, PRICE, (GRACE, WANGARI)[n])
    )

    assert sorted(type(one).__name__ for one in answers) == ["NotRefundable", "Refund"]
    checkout.refresh_from_db()
    assert checkout.refunded == PRICE


def test_refund_refuses_an_outdated_page(api: Api):
    checkout = create_paid_checkout(api)
    create_refund(checkout, 100, expected=PRICE)

    with pytest.raises(NotRefundable, match="Somebody else"):
        create_refund(checkout, 100, expected=PRICE)


def test_large_refund_waits_for_a_second_person(api: Api, settings):
    settings.REFUND_NEEDS_SECOND_ABOVE = Decimal(200)
    checkout = create_paid_checkout(api)
    refund = create_refund(checkout)
    send_waiting_refunds()
    assert Refund.objects.get().status == "REQUESTED"

    with pytest.raises(NotRefundable, match="Another person"):
        approve_refund(refund.pk, by=GRACE)
    approve_refund(refund.pk, by=WANGARI)
    send_waiting_refunds()

    assert Refund.objects.get().status == "DONE"
    with pytest.raises(NotRefundable, match="It is DONE already"):
        reject_refund(refund.pk, by=WANGARI)


def test_requester_with_a_new_name_cannot_approve(api: Api, settings):
    settings.REFUND_NEEDS_SECOND_ABOVE = Decimal(0)
    refund = create_refund(create_paid_checkout(api))

    with pytest.raises(NotRefundable, match="Another person"):
        approve_refund(refund.pk, by=StaffActor(GRACE.user, "staff Grace W."))
    with pytest.raises(NotRefundable, match="Another person"):
        approve_refund(refund.pk, by=StaffActor(None, "service"))


@pytest.mark.parametrize("who", [GRACE.user, None])
def test_database_refuses_a_large_refund_by_one_person(api: Api, settings, who):
    settings.REFUND_NEEDS_SECOND_ABOVE = Decimal(0)
    refund = create_refund(create_paid_checkout(api))

    with (
        pytest.raises(IntegrityError, match="decided_by_another"),
        transaction.atomic(),
    ):
        Refund.objects.filter(pk=refund.pk).update(
            status="APPROVED", next_try_at=refund.created_at, decided_by_user=who
        )


def test_small_refunds_wait_when_their_sum_is_large(api: Api, settings):
    settings.REFUND_NEEDS_SECOND_ABOVE = Decimal(150)
    checkout = create_paid_checkout(api)

    refunds = [
        create_refund(checkout, 100),
        create_refund(checkout, 50),
        create_refund(checkout, 50),
    ]

    waits = [refund.status == "REQUESTED" for refund in refunds]
    assert waits == [False, False, True]


def test_second_payment_is_refunded_and_the_first_stays(api: Api):
    made = api.create(candidate_item())
    first = open_page(made)
    Checkout.objects.update(url="")
    second = end_checkout(open_page(made))
    end_checkout(first)
    send_waiting_refunds()

    (refund,) = Refund.objects.all()
    assert (refund.checkout, refund.amount, refund.status) == (first, PRICE, "DONE")
    with pytest.raises(NotRefundable, match=r"KES 0\.00 can still"):
        create_refund(first, 1)
    assert state(api, second) == "PAID"
    create_refund(second)
    send_waiting_refunds()
    assert state(api, second) == "REFUNDED"


def test_refunded_surplus_does_not_block_a_retry(api: Api):
    made = api.create(candidate_item(subject=FAILS))
    first = open_page(made)
    Checkout.objects.update(url="")
    second = open_page(made)
    end_checkout(first)
    end_checkout(second)
    send_waiting_refunds()
    api.work()

    assert api.post(f"/reports/{made['id']}/retry").status_code == 200


def test_refunded_report_refuses_retry(api: Api):
    checkout = create_paid_checkout(api, subject=FAILS)
    api.work()
    create_refund(checkout, 1)

    problem = api.refused(f"/reports/{checkout.report_id}/retry")

    assert problem["code"] == "report-not-retryable"
    assert "given back" in problem["detail"]


def test_staff_refund_the_unfinished_part_once(api: Api):
    checkout = create_paid_checkout(api, subject=FAILS | {"kraPin": "A900000000Z"})
    assert unfinished_part(checkout) == 0
    api.work()
    assert api.report(str(checkout.report_id))["status"] == "PARTIAL"

    asked = {"reason": "Not done", "by": GRACE, "is_part": True}
    refund = request_refund(checkout.pk, Decimal(200), **asked)

    assert refund.amount == 200
    with pytest.raises(NotRefundable, match="has changed"):
        request_refund(checkout.pk, Decimal(200), **asked)


def test_refunded_top_up_leaves_the_balance(api: Api):
    checkout = create_paid_top_up(api, 1000)

    create_refund(checkout, 400)
    send_waiting_refunds()

    api.account.refresh_from_db()
    assert api.account.balance == 600
    entry = LedgerEntry.objects.get(kind="ADJUSTMENT")
    assert (entry.amount, entry.checkout_id) == (-400, checkout.pk)


@pytest.mark.parametrize(
    "limit",
    [{"credit_limit": 5000}, {"billing": "POSTPAID"}],
    ids=str,
)
def test_spent_top_up_refuses_refund(paystack_api, paystack, limit):
    checkout = create_paid_top_up(paystack_api, 1000, paystack)
    account = Account.objects.filter(pk=paystack_api.account.pk)
    account.update(**limit)
    spend(paystack_api, 1)

    with pytest.raises(NotRefundable, match="has spent"):
        create_refund(checkout)

    checkout.refresh_from_db()
    assert (checkout.refunded, paystack_api.account.balance) == (0, 999)
    create_refund(checkout, 999)
    assert paystack_api.account.balance == 0


def test_rejected_refund_of_a_top_up_restores_the_balance(api: Api, settings):
    settings.REFUND_NEEDS_SECOND_ABOVE = Decimal(0)
    checkout = create_paid_top_up(api, 1000)

    reject_refund(create_refund(checkout).pk, by=WANGARI)

    assert api.account.balance == 1000


def test_refund_of_an_earlier_payer_does_not_notify_the_new_one(api: Api):
    made = api.create(candidate_item(draft=True))
    checkout = open_page(made)
    payer = {"name": "Amina", "email": "amina@payer.test"}
    edit = {"paymentMode": "THIRD_PARTY", "payer": payer}
    assert api.post(f"/reports/{made['id']}/draft", edit).status_code == 200

    end_checkout(checkout)
    send_waiting_refunds()

    assert Refund.objects.get().status == "DONE"
    assert payment_of(made).status == "PENDING"
    assert not Notification.objects.filter(kind="PAYMENT_REFUNDED").exists()


def spend(api: Api, amount: int) -> None:
    record_movements(
        Movement(api.account.pk, Kind.ADJUSTMENT, Decimal(-amount), "tests")
    )


@pytest.fixture
def checkout(paystack: FakePaystack, paystack_api: Api) -> Checkout:
    return create_paid_checkout(paystack_api, paystack)


def given_back_there(checkout: Checkout, amount: int = 100) -> str:
    """Refund at the provider's dashboard; return the provider's id of the refund."""
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

    assert differences(checkout) == [line]
    assert review_flags(checkout) == ["REFUNDED_ELSEWHERE"]
    Checkout.objects.update(review_flags=[])
    assert differences(checkout) == [line]
    assert review_flags(checkout) == []
    # A further refund raises the flag again.
    given_back_there(checkout, 50)
    assert len(differences(checkout)) == 2
    assert review_flags(checkout) == ["REFUNDED_ELSEWHERE"]


def test_draft_is_not_launched_when_its_money_went_back_elsewhere(
    paystack_api: Api, paystack: FakePaystack
):
    checkout = create_paid_checkout(paystack_api, paystack, draft=True)
    given_back_there(checkout)
    poll_checkouts(checkout)

    problem = paystack_api.refused(f"/reports/{checkout.report_id}/launch")

    assert problem["reasons"] == ["PAYMENT_OUTSTANDING"]


def test_requested_refund_is_not_approved_after_one_elsewhere(
    checkout: Checkout, settings
):
    settings.REFUND_NEEDS_SECOND_ABOVE = Decimal(0)
    refund = create_refund(checkout, 100)
    given_back_there(checkout)
    poll_checkouts(checkout)
    assert review_flags(checkout) == ["REFUNDED_ELSEWHERE"]

    with pytest.raises(NotRefundable, match="refunded at the provider"):
        approve_refund(refund.pk, by=WANGARI)


def test_our_own_refund_is_none_elsewhere_when_its_answer_was_lost(
    live_api: Api, taker: CheckoutServer
):
    checkout = open_page(live_api.create(candidate_item()))
    taker.pay(checkout.reference)
    poll_checkouts(checkout)
    create_refund(checkout, 100)
    taker.faults.half = True
    send_waiting_refunds()
    taker.faults.half = False
    assert not Refund.objects.get().provider_refund

    day = f"{now():%Y-%m-%d}"
    call_command("reconcile_payments", "--from", day, "--provider", checkout.provider)

    assert review_flags(checkout) == []


def test_rejected_refund_is_flagged_when_it_was_sent_before_a_restore(
    checkout: Checkout, settings
):
    settings.REFUND_NEEDS_SECOND_ABOVE = Decimal(0)
    refund = create_refund(checkout, 100)
    before = transaction.savepoint()
    approve_refund(refund.pk, by=WANGARI)
    send_waiting_refunds()
    transaction.savepoint_rollback(before)

    reject_refund(refund.pk, by=WANGARI)
    poll_due_checkouts()

    assert review_flags(checkout) == ["REFUNDED_ELSEWHERE"]
    (line,) = differences(checkout)
    assert line.endswith("not by us")


def test_refund_without_checkout_is_listed(checkout: Checkout):
    refund = given_back_there(checkout)
    Checkout.objects.update(transaction="another")

    told = f"{checkout.provider} {refund} 100.00 KES was given back there"

    assert f"{told}, of a payment that is not known here" in differences(
        checkout, "--dry-run"
    )


def test_unanswered_refund_is_compared_again_tomorrow(
    checkout: Checkout, paystack: FakePaystack
):
    given_back_there(checkout)
    paystack.faults.path, paystack.faults.status = f"verify/{checkout.pk}", 503

    with time_machine.travel(now() + timedelta(days=1), tick=False):
        reconcile_yesterday()
        assert review_flags(checkout) == []
    paystack.faults.status = None
    with time_machine.travel(now() + timedelta(days=2), tick=False):
        reconcile_yesterday()

    assert review_flags(checkout) == ["REFUNDED_ELSEWHERE"]
