"""Settlement: the effects of a provider's answer on payment, ledger and refunds."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.utils.timezone import now

from tests.fakes.checkouts import CheckoutServer
from tests.fakes.paystack import FakePaystack
from tests.fakes.paystack import paystack as paystack
from tests.world.clients import Api
from tests.world.orders import two_checks
from tests.world.payments import (
    PRICE,
    candidate_item,
    end_checkout,
    open_page,
    pay_report,
    payment_of,
    poll_checkouts,
    send_event,
)
from tests.world.refunds import create_paid_checkout
from tests.world.refunds import paystack_api as paystack_api
from verification.checks.models import CheckResult
from verification.payments import settlement
from verification.payments.checkouts import PaymentClosed, open_at_provider, open_top_up
from verification.payments.models import Checkout, Payment, Refund, SandboxCheckout
from verification.payments.refunds import send_refunds
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


def test_currency_of_each_provider_is_read(taker: CheckoutServer, live_api: Api):
    checkout = open_page(live_api.create(candidate_item()))
    # Each provider writes the currency in its own way.
    taker.currency = "usd" if checkout.session else "USD"
    taker.pay(checkout.reference)
    send_event(taker)
    poll_checkouts(checkout)

    assert (checkout.review_flags, checkout.is_counted) == (["OTHER_CURRENCY"], False)
    assert checkout.paid_currency == "USD"


def test_money_in_another_currency_pays_nothing(api: Api):
    made = api.create(candidate_item())
    checkout = end_checkout(open_page(made), pays=251, currency="USD")

    assert (checkout.status, checkout.review_flags) == ("PAID", ["OTHER_CURRENCY"])
    assert not checkout.is_counted
    with pytest.raises(PaymentClosed, match="EXAMINED"):
        open_page(made)
    assert api.report(made["id"])["status"] == "PENDING_PAYMENT"
    assert paid_events() == 0


def test_amount_of_an_event_is_ignored(paystack: FakePaystack, paystack_api: Api):
    made = paystack_api.create(candidate_item())
    checkout = open_page(made)
    paystack.pay(checkout.reference)
    (event,) = paystack.events
    about = event["data"].get("object", event["data"])
    about |= {"amount": 1, "amount_total": 1, "currency": "USD", "status": "failed"}

    send_event(paystack, event)
    poll_checkouts(checkout)

    assert paystack_api.report(made["id"])["paymentState"]["status"] == "PAID"


def test_event_alone_pays_nothing(paystack: FakePaystack, paystack_api: Api):
    first, second = paystack_api.create(candidate_item(), candidate_item())
    paid, unpaid = open_page(first), open_page(second)
    paystack.pay(paid.reference)
    (event,) = paystack.events
    about = event["data"].get("object", event["data"])
    about |= {"reference": unpaid.reference, "client_reference_id": unpaid.reference}

    send_event(paystack, event)
    poll_checkouts(paid, unpaid)

    assert paystack_api.report(first["id"])["paymentState"]["status"] == "PAID"
    assert paystack_api.report(second["id"])["paymentState"]["status"] == "PENDING"


def test_events_in_any_order_end_the_same(paystack: FakePaystack, paystack_api: Api):
    made = paystack_api.create(candidate_item())
    checkout = open_page(made)
    paystack.fail(checkout.reference)
    paystack.pay(checkout.reference)
    for event in [*paystack.events[::-1], *paystack.events]:
        send_event(paystack, event)
        poll_checkouts(checkout)

    assert paystack_api.report(made["id"])["paymentState"]["status"] == "PAID"
    assert (checkout.is_counted, checkout.review_flags) == (True, [])
    assert paid_events() == 1


def test_only_a_denial_after_the_payment_raises_a_flag(api: Api):
    checkout = create_paid_checkout(api)
    for seconds, flags in [(-1, []), (1, ["CONTRADICTED"])]:
        asked_at = checkout.paid_at + timedelta(seconds=seconds)
        for state in ("FAILED", "CANCELLED", "EXPIRED", "OPEN"):
            Checkout.objects.update(review_flags=[])

            settle(checkout.pk, CheckoutSnapshot(CheckoutState(state)), asked_at)

            checkout.refresh_from_db()
            assert (checkout.status, checkout.review_flags) == ("PAID", flags), state
    assert Payment.objects.get().status == "PAID"


def test_unknown_checkout_stays_as_it_is(api: Api):
    made = api.create(candidate_item())
    checkout = open_page(made)
    SandboxCheckout.objects.all().delete()

    poll_checkouts(checkout)

    assert (checkout.status, checkout.review_flags) == ("OPEN", [])
    assert payment_of(made).status == "PENDING"


def test_strange_provider_text_does_not_stop_settlement(api: Api):
    for words in ("a\x00b", "\ud800", "x" * 1000):
        checkout = open_page(api.create(candidate_item()))
        seen = CheckoutSnapshot(CheckoutState.PAID, PRICE, "KES", "T1", words)

        assert settle(checkout.pk, seen, now())


def test_crash_during_settlement_leaves_no_change(api: Api, monkeypatch: Any):
    made = api.create(candidate_item())
    checkout = open_page(made)
    # This is the last step of the settlement.
    monkeypatch.setattr(settlement, "payment_receipt", lambda *a: 1 / 0)
    end_checkout(checkout)

    assert checkout.status == "OPEN"
    assert payment_of(made).status == "PENDING"
    assert api.report(made["id"])["status"] == "PENDING_PAYMENT"
    assert not CheckResult.objects.filter(next_attempt_at__isnull=False).exists()
    assert paid_events() == 0

    monkeypatch.undo()
    poll_checkouts(checkout)
    poll_checkouts(checkout)
    assert api.report(made["id"])["status"] == "RUNNING"
    assert paid_events() == 1
    assert StatusChange.objects.filter(trigger="paid").count() == 1


def test_money_for_an_edited_draft_is_refunded(api: Api):
    made = api.create(candidate_item(), draft=True)
    checkout = open_page(made)
    edit = {"checksRequested": ["IDENTITY"]}
    assert api.post(f"/reports/{made['id']}/draft", edit).status_code == 200

    end_checkout(checkout)

    assert is_given_back(checkout)
    state = api.report(made["id"])["paymentState"]
    assert (state["status"], state["amount"]["amount"]) == ("PENDING", 50.0)
    assert state["paymentUrl"] != made["paymentState"]["paymentUrl"]
    assert pay_report(api, made)["paymentState"]["status"] == "PAID"
    assert paid_events() == 1


def test_money_for_a_report_without_subject_is_refunded(api: Api):
    made = api.create(candidate_item())
    checkout = open_page(made)
    Report.objects.filter(pk=made["id"]).update(subject=None)

    end_checkout(checkout)

    assert is_given_back(checkout)
    assert api.report(made["id"])["status"] == "PENDING_PAYMENT"


def test_draft_is_paid_when_its_link_expires_during_payment(api: Api):
    made = api.create(candidate_item(), draft=True)
    checkout = open_page(made)
    past = now() - timedelta(minutes=1)
    Payment.objects.update(status="EXPIRED", expires_at=past)

    end_checkout(checkout)

    assert api.report(made["id"])["paymentState"]["status"] == "PAID"
    assert api.post(f"/reports/{made['id']}/launch").status_code == 200


def test_payment_fails_with_its_newest_checkout_until_it_is_paid(api: Api):
    made = api.create(candidate_item())
    first = open_page(made)
    Checkout.objects.update(created_at=now() - timedelta(minutes=30))
    second = open_page(made)

    end_checkout(first, CheckoutState.FAILED)
    assert payment_of(made).status == "PENDING"
    end_checkout(second, CheckoutState.FAILED)
    assert payment_of(made).status == "FAILED"
    assert api.report(made["id"])["status"] == "PENDING_PAYMENT"
    # A checkout that has ended is paid all the same when its money arrives.
    end_checkout(second)
    assert payment_of(made).status == "PAID"


def test_top_up_reaches_the_balance_once(api: Api):
    before = api.account.balance
    checkout = top_up(api, Decimal(2_500))

    for _ in range(3):
        end_checkout(checkout)

    assert api.account.balance == before + 2_500
    entry = api.account.entries.get(kind="TOP_UP")
    assert (entry.checkout_id, entry.amount) == (checkout.pk, 2_500)


def top_up(api: Api, amount: Decimal) -> Checkout:
    checkout = open_top_up(api.account, amount, "owner@acacia.test")
    open_at_provider(checkout, "en")
    return checkout


def test_top_up_adds_the_amount_that_arrived(api: Api):
    for pays in (1, 499, 501, 20_000):
        before = api.account.balance
        checkout = end_checkout(top_up(api, Decimal(500)), pays=pays)

        assert (checkout.review_flags, checkout.counted_amount) == ([], pays)
        assert api.account.balance == before + pays


def test_money_in_another_currency_tops_up_nothing(api: Api):
    before = api.account.balance
    checkout = end_checkout(top_up(api, Decimal(500)), currency="USD")

    assert checkout.review_flags == ["OTHER_CURRENCY"]
    assert api.account.balance == before


def test_workspace_is_not_charged_for_a_payers_report(api: Api):
    pay_report(
        api, api.create({**two_checks(email="w@example.test"), **candidate_item()})
    )
    api.work()

    assert not api.account.entries.exists()
