"""Unpaid payments: one reminder, and expiry."""

from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.db.models import QuerySet
from django.utils.timezone import now

from tests.consents.test_decisions import EVIDENCE
from tests.world.clients import HOSTED, Api
from tests.world.payments import (
    EMAIL,
    candidate_item,
    end_checkout,
    open_page,
    pay_report,
    payment_of,
)
from verification.consents.models import Consent
from verification.consents.subject_decisions import grant
from verification.notifications.models import Notification
from verification.payments.checkouts import PaymentClosed
from verification.payments.links import expire_payments, remind_payers
from verification.payments.models import Payment, Refund
from verification.payments.refunds import send_refunds
from verification.privacy.withdrawals import withdraw
from verification.providers.payment_provider import CheckoutState
from webhooks.models import Event

PAST = timedelta(minutes=1)


def over(made: dict[str, Any]) -> None:
    """Let the time to pay end."""
    Payment.objects.filter(report=made["id"]).update(expires_at=now() - PAST)
    expire_payments()


def reminders() -> QuerySet[Notification]:
    return Notification.objects.filter(kind="PAYMENT_REMINDER")


def test_unpaid_report_fails(api: Api):
    made = api.create(candidate_item())
    over(made)
    over(made)

    report = api.report(made["id"])
    assert (report["status"], report["failure"]["code"]) == (
        "FAILED",
        "PAYMENT_EXPIRED",
    )
    assert report["paymentState"]["status"] == "EXPIRED"
    assert report["paymentState"]["paymentUrl"] is None
    assert {r["status"] for r in report["checkResults"]} == {"CANCELLED"}
    (event,) = Event.objects.filter(name="report.failed")
    assert event.payload["failure"]["code"] == "PAYMENT_EXPIRED"
    moves = api.get(f"/reports/{made['id']}/events").json()["events"]
    assert [m["trigger"] for m in moves] == ["created", "payment expired"]


def test_timeline_shows_that_it_was_paid(api: Api):
    made = api.create(candidate_item())
    pay_report(api, made)

    move = api.get(f"/reports/{made['id']}/events").json()["events"][-1]
    assert (move["from"], move["to"]) == ("PENDING_PAYMENT", "RUNNING")
    assert (move["trigger"], move["actor"]) == ("paid", "payer")


def test_paid_and_unexpired_payments_stay(api: Api):
    waits, paid = api.create(candidate_item(), candidate_item())
    pay_report(api, paid)
    expire_payments()
    over(paid)

    assert payment_of(waits).status == "PENDING"
    assert payment_of(paid).status == "PAID"
    assert api.report(paid["id"])["status"] == "RUNNING"


def test_failed_attempt_expires_as_well(api: Api):
    made = api.create(candidate_item())
    open_page(made)
    Payment.objects.update(status="FAILED")
    over(made)

    assert api.report(made["id"])["status"] == "FAILED"


@pytest.mark.parametrize("is_declined", [False, True])
def test_checkout_delays_the_expiry_by_an_hour(api: Api, *, is_declined: bool):
    made = api.create(candidate_item())
    Payment.objects.update(expires_at=now() + timedelta(minutes=2))
    checkout = open_page(made)
    if is_declined:
        end_checkout(checkout, CheckoutState.FAILED)

    with time_machine.travel(checkout.created_at + timedelta(hours=1)):
        expire_payments()
        report = api.report(made["id"])
        assert report["status"] == "PENDING_PAYMENT"
        assert report["paymentState"]["paymentUrl"]
        assert open_page(made) != checkout

    end_checkout(checkout)
    assert api.report(made["id"])["status"] == "RUNNING"


def test_payment_after_expiry_is_refunded(api: Api):
    made = api.create(candidate_item())
    checkout = open_page(made)
    over(made)
    assert api.report(made["id"])["status"] == "FAILED"

    end_checkout(checkout)
    send_refunds()

    assert Refund.objects.get(checkout=checkout).status == "DONE"
    assert api.report(made["id"])["status"] == "FAILED"
    assert not Event.objects.filter(name="payment.paid").exists()


def test_expired_payment_opens_no_checkout(api: Api):
    made = api.create(candidate_item())
    Payment.objects.update(expires_at=now() - PAST)

    # No job has recorded the expiry yet.
    assert api.report(made["id"])["paymentState"]["paymentUrl"] is None
    with pytest.raises(PaymentClosed, match="EXPIRED"):
        open_page(made)


def test_unpaid_draft_stays_and_cannot_be_launched(api: Api):
    made = api.create(candidate_item(), draft=True)
    over(made)

    report = api.report(made["id"])
    assert (report["status"], report["paymentState"]["status"]) == ("DRAFT", "EXPIRED")
    problem = api.refused(f"/reports/{made['id']}/launch")
    assert problem["reasons"] == ["PAYMENT_OUTSTANDING"]
    assert not Event.objects.filter(name="report.failed").exists()


def test_time_to_pay_begins_after_consent(api: Api):
    made = api.create(candidate_item(consent=HOSTED))
    Payment.objects.update(link_made_at=now() - timedelta(days=20))
    over(made)
    remind_payers()
    assert payment_of(made).status == "PENDING"
    assert not Notification.objects.filter(kind__startswith="PAYMENT").exists()

    consent = Consent.objects.get(report=made["id"])
    grant(consent.pk, consent.generation, EVIDENCE)

    report = api.report(made["id"])
    left = payment_of(made).expires_at - now()
    assert (report["status"], report["paymentState"]["status"]) == (
        "PENDING_PAYMENT",
        "PENDING",
    )
    assert timedelta(days=13, hours=23) < left <= timedelta(days=14)
    api.work()
    assert api.report(made["id"])["status"] == "PENDING_PAYMENT"


def test_payer_is_reminded_once_at_half_time(api: Api):
    made = api.create(candidate_item())
    Payment.objects.update(
        link_made_at=now() - timedelta(days=6, hours=23),
        expires_at=now() + timedelta(days=7, hours=1),
    )
    remind_payers()
    assert not reminders().exists()

    Payment.objects.update(link_made_at=now() - timedelta(days=7, hours=2))
    for _ in range(3):
        remind_payers()

    reminder = reminders().get()
    assert reminder.recipient == EMAIL
    assert reminder.context["link"] == made["paymentState"]["paymentUrl"]


def test_ended_paid_and_unrequested_payments_get_no_reminder(api: Api):
    items = [
        candidate_item(),
        candidate_item(),
        candidate_item(),
        candidate_item(consent=HOSTED),
    ]
    expired, paid, cancelled, waits = api.create(*items)
    pay_report(api, paid)
    assert api.post(f"/reports/{cancelled['id']}/cancel").status_code == 200
    Payment.objects.update(link_made_at=now() - timedelta(days=13))
    Payment.objects.filter(report=expired["id"]).update(expires_at=now() - PAST)

    remind_payers()

    assert not reminders().exists()
    assert payment_of(waits).reminded_at is None


@pytest.mark.parametrize("end_it", ["expire", "cancel", "withdraw", "pay"])
def test_closed_payment_cancels_waiting_messages(api: Api, end_it: str):
    made = api.create(candidate_item(consent=HOSTED))
    consent = Consent.objects.get(report=made["id"])
    grant(consent.pk, consent.generation, EVIDENCE)
    asked = Notification.objects.filter(kind="PAYMENT_REQUEST")
    assert asked.get().status == "PENDING"

    if end_it == "expire":
        over(made)
    elif end_it == "cancel":
        api.post(f"/reports/{made['id']}/cancel")
    elif end_it == "withdraw":
        withdraw(consent.pk, consent.generation, EVIDENCE, "")
    else:
        pay_report(api, made)

    assert asked.get().status == "CANCELLED"
    status = {"expire": "EXPIRED", "pay": "PAID"}.get(end_it, "CANCELLED")
    assert api.report(made["id"])["paymentState"]["status"] == status
    assert api.report(made["id"])["paymentState"]["paymentUrl"] is None
