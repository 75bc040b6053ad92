"""What a provider's answer means for the report, and for the money."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.utils.timezone import now

from tests.fakes.checkouts import CheckoutServer
from tests.world.clients import HOSTED, Api
from tests.world.orders import two_checks
from tests.world.payments import (
    PRICE,
    candidate,
    end,
    look,
    opened,
    pay,
    payment_of,
    send,
)
from verification.checks.models import CheckResult
from verification.payments import settlement
from verification.payments.checkouts import open_at_provider, open_top_up
from verification.payments.models import Checkout, Payment, Refund, SandboxCheckout
from verification.payments.refund_transfers import send_refunds
from verification.payments.settlement import settle
from verification.providers.payment_provider import CheckoutSnapshot, CheckoutState
from verification.reports.models import Report, StatusChange
from webhooks.models import Event


def is_given_back(checkout: Checkout) -> bool:
    send_refunds()
    checkout.refresh_from_db()
    refunds = Refund.objects.filter(checkout=checkout, status="DONE")
    assert checkout.refunded == sum(refund.amount for refund in refunds)
    return checkout.refunded == checkout.paid_amount and not checkout.is_counted


def paid_events() -> int:
    return Event.objects.filter(name="payment.paid").count()


@pytest.mark.parametrize("pays", [None, 1, 24_999, 25_001])
def test_another_currency_pays_nothing(
    taker: CheckoutServer, live_api: Api, pays: int | None
):
    made = live_api.create(candidate())
    checkout = opened(made)
    # As each of them writes it.
    taker.pays, taker.currency = pays, "usd" if checkout.session else "USD"
    taker.pay(checkout.reference)
    send(taker)
    look(checkout)

    assert (checkout.review_flags, checkout.is_counted) == (["OTHER_CURRENCY"], False)
    assert checkout.paid_currency == "USD"
    assert live_api.report(made["id"])["status"] == "PENDING_PAYMENT"
    assert paid_events() == 0


def test_what_an_event_says_of_money_is_not_believed(
    taker: CheckoutServer, live_api: Api
):
    made = live_api.create(candidate())
    checkout = opened(made)
    taker.pay(checkout.reference)
    (event,) = taker.events
    about = event["data"].get("object", event["data"])
    about |= {"amount": 1, "amount_total": 1, "currency": "USD", "status": "failed"}

    send(taker, event)
    look(checkout)

    assert live_api.report(made["id"])["paymentState"]["status"] == "PAID"


def test_an_event_that_says_paid_pays_nothing_by_itself(
    taker: CheckoutServer, live_api: Api
):
    first, second = live_api.create(candidate(), candidate())
    paid, unpaid = opened(first), opened(second)
    taker.pay(paid.reference)
    (event,) = taker.events
    about = event["data"].get("object", event["data"])
    about |= {"reference": unpaid.reference, "client_reference_id": unpaid.reference}

    send(taker, event)
    look(paid, unpaid)

    assert live_api.report(first["id"])["paymentState"]["status"] == "PAID"
    assert live_api.report(second["id"])["paymentState"]["status"] == "PENDING"


def test_events_in_the_wrong_order_end_the_same(taker: CheckoutServer, live_api: Api):
    made = live_api.create(candidate())
    checkout = opened(made)
    taker.fail(checkout.reference)
    taker.pay(checkout.reference)
    for event in [*taker.events[::-1], *taker.events]:
        send(taker, event)
        look(checkout)

    assert live_api.report(made["id"])["paymentState"]["status"] == "PAID"
    assert (checkout.is_counted, checkout.review_flags) == (True, [])
    assert paid_events() == 1


@pytest.mark.parametrize(
    "state", [CheckoutState.FAILED, CheckoutState.CANCELLED, CheckoutState.EXPIRED]
)
def test_what_is_paid_after_all_is_paid(api: Api, state: CheckoutState):
    made = api.create(candidate())
    checkout = end(opened(made), state)
    assert checkout.status == state

    end(checkout)

    assert checkout.is_counted
    assert api.report(made["id"])["status"] == "RUNNING"


@pytest.mark.parametrize("state", ["FAILED", "CANCELLED", "EXPIRED", "OPEN"])
def test_a_provider_that_takes_it_back_is_left_to_a_person(api: Api, state: str):
    made = api.create(candidate())
    checkout = end(opened(made))
    SandboxCheckout.objects.update(state=state)

    look(checkout)

    assert (checkout.status, checkout.review_flags) == ("PAID", ["CONTRADICTED"])
    assert api.report(made["id"])["paymentState"]["status"] == "PAID"


def test_an_answer_that_is_older_than_the_payment_contradicts_nothing(api: Api):
    asked_at = now()
    checkout = end(opened(api.create(candidate())))

    settle(checkout.pk, CheckoutSnapshot(CheckoutState.FAILED), asked_at)

    checkout.refresh_from_db()
    assert (checkout.status, checkout.review_flags) == ("PAID", [])


def test_a_provider_that_does_not_know_it_says_nothing(api: Api):
    made = api.create(candidate())
    checkout = opened(made)
    SandboxCheckout.objects.all().delete()

    look(checkout)

    assert (checkout.status, checkout.review_flags) == ("OPEN", [])
    assert payment_of(made).status == "PENDING"


@pytest.mark.parametrize("words", ["a\x00b", "\ud800", "x" * 1000])
def test_no_words_of_a_provider_keep_money_from_being_counted(api: Api, words: str):
    checkout = opened(api.create(candidate()))
    seen = CheckoutSnapshot(CheckoutState.PAID, PRICE, "KES", "T1", words)

    assert settle(checkout.pk, seen, now())


@pytest.mark.parametrize(
    "crash", ["payment_receipt", "insert", "cancel_payment_requests"]
)
def test_a_crash_on_the_way_leaves_nothing_half_done(
    api: Api, monkeypatch: Any, crash: str
):
    made = api.create(candidate())
    checkout = opened(made)
    monkeypatch.setattr(settlement, crash, lambda *a: 1 / 0)
    end(checkout)

    assert checkout.status == "OPEN"
    assert payment_of(made).status == "PENDING"
    assert api.report(made["id"])["status"] == "PENDING_PAYMENT"
    assert not CheckResult.objects.filter(next_attempt_at__isnull=False).exists()
    assert paid_events() == 0

    monkeypatch.undo()
    look(checkout)
    look(checkout)
    assert api.report(made["id"])["status"] == "RUNNING"
    assert paid_events() == 1
    assert StatusChange.objects.filter(trigger="paid").count() == 1


def test_money_for_an_edited_draft_is_given_back_and_the_new_sum_asked(api: Api):
    made = api.create(candidate(), draft=True)
    checkout = opened(made)
    edit = {"checksRequested": ["IDENTITY"]}
    assert api.post(f"/reports/{made['id']}/draft", edit).status_code == 200

    end(checkout)

    assert is_given_back(checkout)
    state = api.report(made["id"])["paymentState"]
    assert (state["status"], state["amount"]["amount"]) == ("PENDING", 50.0)
    assert state["paymentUrl"] != made["paymentState"]["paymentUrl"]
    assert pay(api, made)["paymentState"]["status"] == "PAID"
    assert paid_events() == 1


def test_money_for_a_report_without_its_subject_is_given_back(api: Api):
    made = api.create(candidate())
    checkout = opened(made)
    Report.objects.filter(pk=made["id"]).update(subject=None)

    end(checkout)

    assert is_given_back(checkout)
    assert api.report(made["id"])["status"] == "PENDING_PAYMENT"


def test_a_draft_whose_link_expired_while_its_payer_paid_is_paid(api: Api):
    made = api.create(candidate(), draft=True)
    checkout = opened(made)
    past = now() - timedelta(minutes=1)
    Payment.objects.update(status="EXPIRED", expires_at=past)

    end(checkout)

    assert api.report(made["id"])["paymentState"]["status"] == "PAID"
    assert api.post(f"/reports/{made['id']}/launch").status_code == 200


def test_a_draft_is_paid_without_being_launched(api: Api):
    made = api.create(candidate(consent=HOSTED), draft=True)

    paid = pay(api, made)

    assert (paid["status"], paid["paymentState"]["status"]) == ("DRAFT", "PAID")
    assert paid["consentState"]["status"] == "PENDING"
    (event,) = Event.objects.filter(name="payment.paid")
    assert event.payload["report"]["status"] == "DRAFT"
    problem = api.refused(f"/reports/{made['id']}/launch")
    assert problem["reasons"] == ["CONSENT_OUTSTANDING"]


def test_a_newer_attempt_is_not_failed_by_an_older_one(api: Api):
    made = api.create(candidate())
    first = opened(made)
    Checkout.objects.update(created_at=now() - timedelta(minutes=30))
    second = opened(made)

    end(first, CheckoutState.FAILED)
    assert payment_of(made).status == "PENDING"
    end(second, CheckoutState.FAILED)
    assert payment_of(made).status == "FAILED"


def test_a_top_up_reaches_the_balance_once(api: Api):
    before = api.account.balance
    checkout = top_up(api, Decimal(2_500))

    for _ in range(3):
        end(checkout)

    assert api.account.balance == before + 2_500
    entry = api.account.entries.get(kind="TOP_UP")
    assert (entry.checkout_id, entry.amount) == (checkout.pk, 2_500)


def top_up(api: Api, amount: Decimal) -> Checkout:
    checkout = open_top_up(api.account, amount, "owner@acacia.test")
    open_at_provider(checkout, "en")
    return checkout


@pytest.mark.parametrize("pays", [1, 499, 501, 20_000])
def test_a_top_up_adds_what_arrived(api: Api, pays: int):
    before = api.account.balance
    checkout = end(top_up(api, Decimal(500)), pays=pays)

    assert (checkout.review_flags, checkout.counted_amount) == ([], pays)
    assert api.account.balance == before + pays


def test_another_currency_tops_up_nothing(api: Api):
    before = api.account.balance
    checkout = end(top_up(api, Decimal(500)), currency="USD")

    assert checkout.review_flags == ["OTHER_CURRENCY"]
    assert api.account.balance == before


def test_the_workspace_is_charged_nothing_for_what_others_pay(api: Api):
    pay(api, api.create({**two_checks(email="w@example.test"), **candidate()}))
    api.work()

    assert not api.account.entries.exists()
