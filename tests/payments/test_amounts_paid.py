"""Payments of another amount: a surplus goes back, and a part waits for the rest."""

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.utils.timezone import now

from tests.documents.test_consent_receipts import pdf_text
from tests.fakes.checkouts import CheckoutServer
from tests.fakes.paystack import FakePaystack
from tests.fakes.paystack import paystack as paystack
from tests.fakes.stripe import FakeStripe
from tests.world.clients import HOSTED, Api, person
from tests.world.orders import PAYER
from tests.world.payments import (
    PRICE,
    candidate_item,
    end_checkout,
    open_page,
    payment_of,
    poll_checkouts,
    run_provider,
    send_event,
)
from tests.world.payments import taker as taker
from tests.world.refunds import GRACE, WANGARI, create_refund
from tests.world.refunds import paystack_api as paystack_api
from verification.consents.models import Consent
from verification.documents.receipts import payment_receipt_pdf
from verification.notifications.models import Notification
from verification.notifications.templates import write_email
from verification.payments.links import expire_payments, payment_links, remind_payers
from verification.payments.models import Checkout, Payment, Refund
from verification.payments.refunds import (
    NotRefundable,
    abandon_payment,
    record_refund_elsewhere,
    reject_refund,
    send_refunds,
    unfinished_part,
)
from verification.payments.registry import provider_named
from verification.payments.settlement import poll_due_checkouts, settle
from verification.providers.payment_provider import CheckoutSnapshot, CheckoutState
from verification.reports.models import Report


def came(made: dict[str, Any], amount: int) -> Checkout:
    """Pay this much of the amount that is missing now."""
    return end_checkout(open_page(made), pays=amount)


def messages(kind: str) -> list[dict[str, Any]]:
    found = Notification.objects.filter(kind=kind, channel="EMAIL").order_by("id")
    return [one.context for one in found]


def given_back() -> dict[str, Decimal]:
    """Send the refunds, and return {cause: amount} of the done ones."""
    send_refunds()
    refunds = Refund.objects.filter(status="DONE").order_by("id")
    return {refund.cause: refund.amount for refund in refunds}


def test_surplus_is_refunded_once(paystack: FakePaystack, paystack_api: Api):
    made = paystack_api.create(candidate_item())
    checkout = open_page(made)
    paystack.pays = 25_100
    paystack.pay(checkout.reference)
    for _ in range(2):
        send_event(paystack)
        poll_checkouts(checkout)

    assert paystack_api.report(made["id"])["status"] == "RUNNING"
    assert (checkout.paid_amount, checkout.counted_amount) == (251, 250)
    assert checkout.kept_amount == 250
    send_refunds()
    paystack.settle_refunds()
    Refund.objects.filter(next_try_at__isnull=False).update(next_try_at=now())
    assert given_back() == {"OVERPAID": 1}
    (told,) = messages("PAYMENT_REFUNDED")
    assert (told["amount"], told["number"]) == ("1.00", checkout.number)
    (receipt,) = messages("PAYMENT_RECEIPT")
    assert receipt["amount"] == "250.00"
    assert paystack_api.report(made["id"])["paymentState"]["status"] == "PAID"


def test_surplus_that_went_back_before_the_first_poll_is_not_refunded_again(
    live_api: Api, taker: Any
):
    checkout = open_page(live_api.create(candidate_item()))
    taker.pays = 30_000
    taker.pay(checkout.reference)
    taker.give_back(checkout.reference, 5_000)

    poll_checkouts(checkout)

    assert (checkout.counted_amount, checkout.refunded_elsewhere) == (PRICE, 50)
    assert checkout.review_flags == ["REFUNDED_ELSEWHERE"]
    assert not Refund.objects.exists()


def test_receipt_email_names_the_refunded_surplus(api: Api):
    for pays in (250, 251):
        end_checkout(open_page(api.create(candidate_item(reuse=False))), pays=pays)

    mails = Notification.objects.filter(kind="PAYMENT_RECEIPT").order_by("id")

    for language, told in [
        ("en", "was KES 1.00 more than"),
        ("sw", "Ulilipa KES 1.00 zaidi ya kiasi"),
    ]:
        mails.update(language=language)
        letters = [write_email(mail, attach=False).text for mail in mails]
        assert [told in letter for letter in letters] == [False, True]


def test_refunded_surplus_blocks_neither_launch_nor_cancel(api: Api):
    made = api.create(candidate_item(), draft=True)
    checkout = came(made, 251)
    assert given_back() == {"OVERPAID": 1}

    refused = api.post(f"/reports/{made['id']}/draft", {"checksRequested": ["KRA_PIN"]})
    assert refused.status_code == 409
    assert api.post(f"/reports/{made['id']}/launch").status_code == 200
    api.post(f"/reports/{made['id']}/cancel")
    checkout.refresh_from_db()
    assert unfinished_part(checkout) == PRICE
    create_refund(checkout)
    send_refunds()
    assert payment_of(made).status == "REFUNDED"


def test_part_that_went_back_elsewhere_waits_for_no_rest(
    paystack: FakePaystack, paystack_api: Api
):
    made = paystack_api.create(candidate_item())
    part = open_page(made)
    paystack.pays = 10_000
    paystack.pay(part.reference)
    poll_checkouts(part)
    paystack.give_back(part.reference, 4_000)

    poll_checkouts(part)

    assert (part.is_part, part.review_flags) == (False, ["REFUNDED_ELSEWHERE"])
    assert open_page(made).amount == PRICE

    (found,) = provider_named(part.provider).refunds_of(part.transaction)
    record_refund_elsewhere(part.pk, found, reason="Their wish", by=GRACE)

    part.refresh_from_db()
    assert (part.refundable, part.review_flags) == (60, ["PAYS_NOTHING"])


def test_part_pays_nothing_until_the_rest_arrives(
    paystack: FakePaystack, paystack_api: Api
):
    made = paystack_api.create(candidate_item())
    first = open_page(made)
    paystack.pays = 10_000
    paystack.pay(first.reference)
    poll_checkouts(first)

    assert (first.is_part, first.is_counted, first.review_flags) == (True, False, [])
    assert paystack_api.report(made["id"])["status"] == "PENDING_PAYMENT"
    (told,) = messages("PAYMENT_SHORT")
    assert (told["paid"], told["amount"]) == ("100.00", "150.00")
    assert not Refund.objects.exists()

    paystack.pays = None
    rest = open_page(made)
    assert (rest.amount, rest.pk) == (150, open_page(made).pk)
    paystack.pay(rest.reference)
    poll_checkouts(rest, first)

    assert paystack_api.report(made["id"])["status"] == "RUNNING"
    assert (first.is_counted, first.counted_amount) == (True, 100)
    assert (rest.is_counted, rest.counted_amount, rest.is_part) == (True, 150, False)
    (receipt,) = messages("PAYMENT_RECEIPT")
    assert (receipt["number"], receipt["amount"]) == (rest.number, "250.00")
    assert given_back() == {}


@pytest.mark.parametrize("end", ["paid", "abandoned", "another part"])
def test_unsent_message_that_a_part_is_missing_ends_with_its_amount(api: Api, end: str):
    made = api.create(candidate_item())
    part = came(made, 100)
    unsent = Notification.objects.filter(status="PENDING")
    assert set(unsent.values_list("kind", flat=True)) == {"PAYMENT_SHORT"}

    if end == "abandoned":
        abandon_payment(payment_of(made).pk)
    else:
        came(made, 150 if end == "paid" else 50)

    unsent = unsent.filter(kind="PAYMENT_SHORT")
    assert not unsent.filter(cause=f"short:{part.pk}").exists()
    assert unsent.exists() == (end == "another part")


def test_part_is_refunded_when_the_rest_is_below_the_minimum(
    taker: CheckoutServer, live_api: Api
):
    made = live_api.create(candidate_item())
    checkout = open_page(made)
    taker.pays = int(PRICE * 100) - 100
    taker.pay(checkout.reference)
    poll_checkouts(checkout)

    assert not Checkout.objects.get(pk=checkout.pk).is_part
    refund = Refund.objects.get()
    assert (refund.cause, refund.amount) == ("SHORT", PRICE - 1)
    assert payment_of(made).is_outstanding
    assert messages("PAYMENT_SHORT") == []


def test_parts_add_up_and_the_surplus_is_refunded(api: Api):
    made = api.create(candidate_item())
    came(made, 100)
    came(made, 30)
    assert payment_of(made).status == "PENDING"
    last = came(made, 125)

    assert payment_of(made).status == "PAID"
    assert last.amount == 120
    counted = Checkout.objects.order_by("id").values_list("counted_amount", flat=True)
    assert list(counted) == [100, 30, 120]
    assert given_back() == {"OVERPAID": 5}
    receipt = pdf_text(payment_receipt_pdf(last, "en"))
    assert f"{last.number}: KES 120.00" in receipt


def test_whole_amount_pays_alone_and_the_part_is_refunded(api: Api):
    made = api.create(candidate_item())
    whole = open_page(made)
    Checkout.objects.update(url="")
    part = came(made, 100)

    end_checkout(whole)

    assert (whole.is_counted, whole.counted_amount) == (True, PRICE)
    part.refresh_from_db()
    assert (part.is_counted, part.is_part) == (False, False)
    assert given_back() == {"SHORT": 100}
    assert payment_of(made).status == "PAID"


def test_older_checkout_above_the_rest_refunds_the_surplus(
    api: Api,
):
    made = api.create(candidate_item())
    whole = open_page(made)
    Checkout.objects.update(url="")
    came(made, 200)

    end_checkout(whole, pays=80)

    assert whole.counted_amount == 50
    assert given_back() == {"OVERPAID": 30}


def test_abandoned_part_is_refunded_once_and_the_payer_can_pay_again(api: Api):
    made = api.create(candidate_item())
    first = came(made, 100)
    came(made, 30)
    payment = payment_of(made)

    abandon_payment(payment.pk)
    abandon_payment(payment.pk)

    send_refunds()
    refunds = Refund.objects.order_by("amount").values_list("amount", "cause", "status")
    assert list(refunds) == [(30, "SHORT", "DONE"), (100, "SHORT", "DONE")]
    assert sorted(one["amount"] for one in messages("PAYMENT_REFUNDED")) == [
        "100.00",
        "30.00",
    ]
    whole = open_page(made)
    assert whole.amount == PRICE
    end_checkout(whole)
    first.refresh_from_db()
    assert (payment_of(made).status, first.is_counted) == ("PAID", False)


def test_part_is_refunded_when_the_link_expires(api: Api):
    made = api.create(candidate_item())
    came(made, 100)
    past = now() - timedelta(hours=2)
    Payment.objects.update(expires_at=past)
    expire_payments()

    assert payment_of(made).status == "EXPIRED"
    assert given_back() == {"SHORT": 100}
    assert api.report(made["id"])["status"] == "FAILED"


def test_part_is_refunded_when_the_link_of_a_draft_has_expired(api: Api):
    made = api.create(candidate_item(), draft=True)
    checkout = open_page(made)
    Payment.objects.update(status="EXPIRED", expires_at=now() - timedelta(minutes=1))

    end_checkout(checkout, pays=100)

    assert given_back() == {"SHORT": 100}
    assert payment_of(made).status == "EXPIRED"


def test_part_is_refunded_when_the_report_is_cancelled(api: Api):
    made = api.create(candidate_item())
    came(made, 100)

    api.post(f"/reports/{made['id']}/cancel")

    assert given_back() == {"SHORT": 100}


@pytest.mark.parametrize(
    "edit",
    [
        {"checksRequested": ["IDENTITY"], "paymentMode": "CANDIDATE"},
        {"subject": person(fullName="Otieno Ouma", idNumber="87654321")["subject"]},
    ],
)
def test_part_is_refunded_to_its_payer_when_a_draft_is_edited(
    api: Api, edit: dict[str, Any]
):
    made = api.create(
        candidate_item(paymentMode="THIRD_PARTY", payer=PAYER),
        draft=True,
    )
    came(made, 100)
    assert api.post(f"/reports/{made['id']}/draft", edit).status_code == 200

    assert given_back() == {"SHORT": 100}
    told = Notification.objects.get(kind="PAYMENT_REFUNDED", channel="EMAIL")
    assert told.recipient == PAYER["email"]


def test_reminders_and_new_links_ask_for_the_rest(api: Api):
    made = api.create(candidate_item())
    came(made, 100)
    moment = now()
    Payment.objects.update(
        link_made_at=moment - timedelta(days=8), expires_at=moment + timedelta(days=6)
    )

    remind_payers()
    payment_links.renew(payment_of(made).pk)

    assert messages("PAYMENT_REMINDER")[-1]["amount"] == "150.00"
    assert messages("PAYMENT_REQUEST")[-1]["amount"] == "150.00"
    assert open_page(made).amount == 150


def test_staff_refund_a_part_only_whole(api: Api, settings: Any):
    settings.REFUND_NEEDS_SECOND_ABOVE = Decimal(10)
    part = came(api.create(candidate_item()), 100)
    with pytest.raises(NotRefundable, match="give all of it back"):
        create_refund(part, 40)

    refund = create_refund(part, by=GRACE)

    part.refresh_from_db()
    assert not part.is_part
    reject_refund(refund.pk, by=WANGARI)
    part.refresh_from_db()
    # The part no longer waits for the rest, so staff must decide.
    assert part.review_flags == ["PAYS_NOTHING"]


def test_parts_are_refunded_one_by_one(api: Api):
    made = api.create(candidate_item())
    first, rest = came(made, 200), came(made, 50)
    api.post(f"/reports/{made['id']}/cancel")
    first.refresh_from_db()
    assert (unfinished_part(first), unfinished_part(rest)) == (200, 50)

    create_refund(first)
    send_refunds()
    rest.refresh_from_db()
    assert (payment_of(made).status, unfinished_part(rest)) == ("PAID", 50)
    create_refund(rest)
    send_refunds()
    assert payment_of(made).status == "REFUNDED"


def test_paid_amount_of_zero_raises_a_flag(api: Api):
    checkout = open_page(api.create(candidate_item()))

    settle(checkout.pk, CheckoutSnapshot(CheckoutState.PAID, Decimal(0), "KES", "T1"))

    checkout.refresh_from_db()
    assert checkout.review_flags == ["OTHER_CURRENCY"]


def test_database_refuses_counted_amounts_that_do_not_add_up(api: Api):
    end_checkout(open_page(api.create(candidate_item())))
    part = {"is_counted": False, "counted_amount": 0, "is_part": True, "refunded": 1}
    for broken, rule in [
        ({"counted_amount": 251}, "counted_amount_was_paid"),
        ({"counted_amount": 0}, "counted_amount_was_paid"),
        ({"is_counted": False}, "counted_amount_was_paid"),
        (part, "waiting_part_is_not_refunded"),
    ]:
        with pytest.raises(IntegrityError, match=rule), transaction.atomic():
            Checkout.objects.update(**broken)


@pytest.mark.parametrize(("how", "is_declined"), [("cancel", False), ("edit", True)])
def test_unfinished_checkout_expires_at_the_provider_when_its_payment_ends(
    stripe_taker: FakeStripe, live_api: Api, how: str, *, is_declined: bool
):
    made = live_api.create(candidate_item(), draft=True)
    first, second = open_page(made), None
    if is_declined:
        stripe_taker.fail(first.reference)
        poll_checkouts(first)
        assert first.status == "FAILED"
    Checkout.objects.update(url="")
    second = open_page(made)
    # The payer pays the second one before the service expires it.
    stripe_taker.pay(second.reference)
    path, body = f"/reports/{made['id']}/cancel", None
    if how == "edit":
        path = f"/reports/{made['id']}/draft"
        body = {"checksRequested": ["CRB_SCORE"]}
    assert live_api.post(path, body).status_code == 200

    poll_due_checkouts()

    sessions = {
        one["client_reference_id"]: one["status"]
        for one in stripe_taker.sessions.values()
    }
    assert sessions == {first.reference: "expired", second.reference: "complete"}
    first.refresh_from_db()
    assert first.status == "EXPIRED"
    assert given_back() == {"NOT_ASKED": PRICE}


@pytest.mark.parametrize("how", ["declines", "objects"])
def test_checkout_of_a_draft_expires_at_the_provider_when_its_subject_refuses(
    stripe_taker: FakeStripe, live_api: Api, how: str
):
    made = live_api.create(candidate_item(consent=HOSTED), draft=True)
    checkout = open_page(made)
    poll_checkouts(checkout)
    assert checkout.status == "OPEN"
    if how == "declines":
        Consent.objects.update(status="DECLINED")
    else:
        Report.objects.update(restricted_at=now())

    poll_checkouts(checkout)

    assert checkout.status == "EXPIRED"


@pytest.fixture
def stripe_taker(settings: Any) -> Iterator[FakeStripe]:
    yield from run_provider(FakeStripe(), settings)


def test_checkout_is_reversed_when_all_went_back_before_the_first_poll(
    live_api: Api, taker: Any
):
    """The adapters' books do not list it either."""
    made = live_api.create(candidate_item())
    checkout = open_page(made)
    taker.pay(checkout.reference)
    taker.give_back(checkout.reference, 25_000)
    if isinstance(taker, FakePaystack):
        taker.transactions[checkout.reference].status = "reversed"

    poll_checkouts(checkout)

    assert (checkout.status, checkout.review_flags) == ("REVERSED", [])
    assert payment_of(made).status == "FAILED"
    books = provider_named(checkout.provider).payments_between(
        checkout.created_at, now() + timedelta(minutes=1)
    )
    assert list(books) == []
