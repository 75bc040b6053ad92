from decimal import Decimal

import time_machine
from django.utils.timezone import now

from tests.clients import Api
from tests.payments import PRICE, candidate, end, opened, pay, payment_of
from tests.refunds import GRACE
from verification import links
from verification.notifications.models import BOTH, Notification
from verification.ordering.giving_back import send_refunds
from verification.ordering.looking import PAUSE, look_at_due, look_soon
from verification.ordering.paying import begin, open_checkout
from verification.ordering.refunding import ask_for_refund
from verification.payments.models import Checkout, Refund
from verification.providers.checkout import CheckoutState
from webhooks.models import Event


def test_a_paid_report_runs_and_says_so(api: Api):
    made = api.create(candidate())
    assert made["status"] == "PENDING_PAYMENT"
    assert made["paymentState"]["status"] == "PENDING"
    paid = pay(api, made)
    assert (paid["status"], paid["paymentState"]["status"]) == ("RUNNING", "PAID")
    assert paid["paymentState"]["paidAt"]
    api.work()
    assert api.report(made["id"])["status"] == "READY"
    (event,) = Event.objects.filter(name="payment.paid")
    assert event.payload["payment"]["amount"] == {"amount": 250.0, "currency": "KES"}


def test_a_failed_attempt_leaves_the_payment_to_be_tried_again(api: Api):
    made = api.create(candidate())
    end(opened(made), CheckoutState.FAILED)
    assert api.report(made["id"])["paymentState"]["status"] == "FAILED"
    assert api.report(made["id"])["status"] == "PENDING_PAYMENT"
    assert pay(api, made)["paymentState"]["status"] == "PAID"


def test_what_is_paid_twice_is_given_back_once(api: Api):
    made = api.create(candidate())
    first = opened(made)
    Checkout.objects.update(url="")
    second = opened(made)
    assert first.pk != second.pk
    end(first)
    end(second)
    send_refunds()
    (refund,) = Refund.objects.all()
    assert (refund.checkout, refund.amount, refund.status) == (second, PRICE, "DONE")
    assert api.report(made["id"])["paymentState"]["status"] == "PAID"


def test_another_amount_pays_nothing_and_waits_for_a_person(api: Api):
    made = api.create(candidate())
    checkout = end(opened(made), surplus=True)
    assert (checkout.status, checkout.doubt) == ("PAID", "OTHER_AMOUNT")
    assert checkout.paid_amount == PRICE + Decimal(1)
    assert not checkout.is_counted
    assert api.report(made["id"])["status"] == "PENDING_PAYMENT"


def test_money_for_a_cancelled_report_is_given_back(api: Api):
    made = api.create(candidate())
    checkout = opened(made)
    assert api.post(f"/reports/{made['id']}/cancel").status_code == 200
    end(checkout)
    send_refunds()
    assert Refund.objects.get().status == "DONE"
    assert payment_of(made).status == "CANCELLED"


def test_a_payer_who_waits_has_the_provider_asked_once_in_five_seconds(api: Api):
    checkout = opened(api.create(candidate()))

    assert look_soon(checkout.pk)
    assert not look_soon(checkout.pk)
    look_at_due()
    assert not look_soon(checkout.pk)
    with time_machine.travel(now() + PAUSE):
        assert look_soon(checkout.pk)


def test_what_is_paid_is_not_asked_about_again_by_a_payer_who_waits(api: Api):
    checkout = end(opened(api.create(candidate())))

    with time_machine.travel(now() + PAUSE):
        assert not look_soon(checkout.pk)


def test_a_checkout_beside_another_is_another(api: Api):
    made = api.create(candidate())
    payment, first = payment_of(made), opened(made)

    assert open_checkout(payment.pk, payment.generation) == first
    assert open_checkout(payment.pk, payment.generation, beside=True) != first


def test_messages_after_paying_are_in_the_language_of_the_page(api: Api):
    made = api.create(candidate())
    payment = payment_of(made)
    asked = Notification.objects.get(kind="PAYMENT_REQUEST")
    checkout = open_checkout(payment.pk, payment.generation)
    begin(checkout, "sw")
    end(checkout)
    ask_for_refund(checkout.pk, PRICE, reason="Asked for", by=GRACE)
    send_refunds()

    told = Notification.objects.exclude(pk=asked.pk).order_by("id")
    assert asked.language == BOTH
    assert [(one.kind, one.language) for one in told] == [
        ("PAYMENT_RECEIPT", "sw"),
        ("PAYMENT_REFUNDED", "sw"),
    ]
    link = links.payment_url(payment.pk, payment.generation)
    assert {one.context["link"] for one in told} == {link}
