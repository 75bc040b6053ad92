"""The service refunds the price of checks that were not done."""

from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from django.core import mail
from django.db.models import F
from django.utils.timezone import now

from tests.fakes.paystack import FakePaystack
from tests.fakes.paystack import paystack as paystack
from tests.world.clients import HOSTED, Api, create_lender, person
from tests.world.orders import CLEAR_PIN, REFUSED, SLOW
from tests.world.payer import create_payer
from tests.world.payments import candidate_item, open_page, poll_checkouts
from tests.world.refunds import (
    GRACE,
    WANGARI,
    create_paid_checkout,
    create_refund,
    send_waiting_refunds,
    settle_payment,
)
from tests.world.refunds import paystack_api as paystack_api
from verification.checks.models import CheckResult
from verification.consents.models import Consent
from verification.notifications.delivery import send_due_notifications
from verification.payments.alerts import clear_review_flag, raise_review_flag
from verification.payments.models import (
    Checkout,
    OperatorAlert,
    Payment,
    Refund,
    ReviewFlag,
)
from verification.payments.refunds import (
    NotRefundable,
    refund_unfinished_parts,
    reject_refund,
    request_refund,
    resolve_review_flags,
    unfinished_part,
)
from verification.payments.sandbox_provider import end_sandbox_checkout
from verification.privacy.models import Origin
from verification.privacy.objections import object_to_use
from verification.providers.payment_provider import CheckoutState
from verification.reports.models import Report

pytestmark = pytest.mark.django_db
# IDENTITY (50) and CRB_SCORE (150) fail, and KRA_PIN (50) succeeds.
HALF = {"idNumber": REFUSED, "kraPin": CLEAR_PIN}


def ended(api: Api, **subject: Any) -> Checkout:
    """Create a paid checkout, and end its report."""
    checkout = create_paid_checkout(
        api, subject=person(email="w@x.test", **subject)["subject"]
    )
    api.work()
    return checkout


@pytest.fixture(scope="module")
def api(module_transaction: None) -> Api:
    return Api(create_lender(), "sandbox")


@pytest.fixture(scope="module")
def ended_half(api: Api) -> Checkout:
    return ended(api, **HALF)


@pytest.fixture
def half(ended_half: Checkout) -> Checkout:
    """Return the paid checkout of an ended report whose checks have failed in part."""
    return Checkout.objects.get(pk=ended_half.pk)


def later(checkout: Checkout, minutes: int = 11) -> list[tuple[str, Decimal, str]]:
    """Run the job this much later.

    Returns (cause, amount, status) of the refunds of this report's payers.
    """
    ended = Report.objects.filter(completed_at__isnull=False)
    ended.update(completed_at=F("completed_at") - timedelta(minutes=minutes))
    refund_unfinished_parts()
    found = Refund.objects.filter(checkout__report=checkout.report_id).order_by("id")
    return list(found.values_list("cause", "amount", "status"))


def test_unfinished_part_is_refunded_without_a_second_person(
    half: Checkout, settings: Any
):
    settings.REFUND_NEEDS_SECOND_ABOVE = Decimal(0)
    assert later(half, 9) == []

    assert later(half) == [("NOT_DONE", 200, "APPROVED")]

    send_waiting_refunds()
    half.refresh_from_db()
    assert (half.refunded, half.report.payment.status) == (200, "PAID")
    assert later(half) == [("NOT_DONE", 200, "DONE")]


def test_refund_notice_names_checks_and_method(
    paystack_api: Api, paystack: FakePaystack
):
    checkout = create_paid_checkout(paystack_api, paystack)
    paystack_api.work()
    later(checkout)
    send_due_notifications()
    send_waiting_refunds()
    paystack.settle_refunds()
    send_waiting_refunds()
    send_due_notifications()

    letters = [one for one in mail.outbox if "given back" in one.subject]
    (letter,) = (one for one in letters if "KES 250.00" in one.subject)
    assert "- KRA PIN" in letter.body
    assert "- CRB score" in letter.body
    assert "to the M-Pesa number or the card that you paid with" in letter.body


def test_cancelled_report_is_refunded_at_once(api: Api):
    checkout = create_paid_checkout(api)
    api.post(f"/reports/{checkout.report_id}/cancel")

    assert later(checkout, 0) == [("NOT_DONE", 250, "APPROVED")]

    send_waiting_refunds()
    assert Payment.objects.get(report=checkout.report_id).status == "REFUNDED"


def test_refund_waits_for_a_running_check(api: Api):
    checkout = create_paid_checkout(
        api, subject=person(idNumber=SLOW, email="w@x.test")["subject"]
    )
    api.work()
    results = CheckResult.objects.filter(report=checkout.report_id)
    slow = results.get(name="IDENTITY")
    assert slow.status == "RUNNING"
    CheckResult.objects.filter(pk=slow.pk).update(claims=1)
    api.post(f"/reports/{checkout.report_id}/cancel")
    assert later(checkout) == []

    CheckResult.objects.filter(pk=slow.pk).update(
        status="COMPLETED", next_attempt_at=None, completed_at=now()
    )

    done = sum(result.price for result in results.filter(status="COMPLETED"))
    assert later(checkout) == [("NOT_DONE", 250 - done, "APPROVED")]


def test_completed_report_refunds_nothing(api: Api):
    checkout = ended(api)

    assert later(checkout) == []
    checkout.refresh_from_db()
    assert checkout.accounted_at


def test_retry_within_the_grace_keeps_the_money(api: Api, half: Checkout):
    retry = f"/reports/{half.report_id}/retry"
    assert api.post(retry).status_code == 200

    assert later(half) == []

    api.work()
    assert later(half, 9) == []
    assert later(half) == [("NOT_DONE", 200, "APPROVED")]
    assert api.refused(retry)["status"] == 409


def test_retry_after_the_grace_does_not_stop_the_refund(
    api: Api, half: Checkout, settings: Any
):
    retry = f"/reports/{half.report_id}/retry"
    assert api.post(retry).status_code == 200
    api.work()
    assert api.post(retry).status_code == 200
    api.work()

    # The time counts from the first end of the report, not from the retry's.
    settings.REFUND_UNDONE_AFTER_MINUTES = 0
    refused = api.refused(retry)
    assert refused["status"] == 409
    assert "minutes after they first failed" in refused["detail"]
    assert later(half) == [("NOT_DONE", 200, "APPROVED")]


def test_draft_is_refunded_when_its_subject_declines(api: Api):
    item = candidate_item(consent=HOSTED, draft=True)
    checkout = settle_payment(open_page(api.create(item)), None)
    assert later(checkout) == []

    Consent.objects.update(status="DECLINED")

    assert later(checkout, 0) == [("NOT_DONE", 250, "APPROVED")]
    send_waiting_refunds()
    report = f"/reports/{checkout.report_id}"
    assert api.refused(f"{report}/launch")["reasons"] == [
        "CONSENT_OUTSTANDING",
        "PAYMENT_OUTSTANDING",
    ]
    assert api.post(f"{report}/draft", {"consent": HOSTED}).status_code == 200
    assert api.report(str(checkout.report_id))["paymentState"]["status"] == "PENDING"
    assert later(checkout, 0) == [("NOT_DONE", 250, "DONE")]


def test_draft_is_refunded_when_its_subject_objects(api: Api):
    made = api.create(candidate_item(draft=True))
    checkout = settle_payment(open_page(made), None)
    assert later(checkout) == []

    object_to_use(UUID(made["id"]), Origin.SUBJECT, requested_by="subject")

    assert later(checkout, 0) == [("NOT_DONE", 250, "APPROVED")]


def test_draft_takes_no_payment_when_its_subject_declines(api: Api):
    visitor = create_payer(api, consent=HOSTED, draft=True)
    Consent.objects.update(status="DECLINED")

    assert "You need not pay any more" in visitor.reads()


def test_part_is_refunded_when_the_subject_declines(api: Api):
    checkout = open_page(api.create(candidate_item(consent=HOSTED, draft=True)))
    end_sandbox_checkout(checkout.reference, CheckoutState.PAID, pays=Decimal(100))
    poll_checkouts(checkout)
    assert checkout.is_part
    Consent.objects.update(status="DECLINED")

    assert later(checkout, 0) == [("SHORT", 100, "APPROVED")]


def test_service_does_not_repeat_a_refund_by_staff(half: Checkout):
    create_refund(half, 120)

    assert later(half) == [("STAFF", 120, "APPROVED"), ("NOT_DONE", 80, "APPROVED")]
    with pytest.raises(NotRefundable):
        request_refund(half.pk, Decimal(80), reason="Not done", by=GRACE, is_part=True)


def test_unfinished_part_is_refunded_after_a_rejected_refund(
    half: Checkout, settings: Any
):
    settings.REFUND_NEEDS_SECOND_ABOVE = Decimal(0)
    refund = create_refund(half, 250)
    assert later(half) == [("STAFF", 250, "REQUESTED")]

    reject_refund(refund.pk, by=WANGARI)

    assert later(half)[1:] == [("NOT_DONE", 200, "APPROVED")]


# Parts that are left to staff


def test_unfinished_part_of_a_flagged_payment_is_left_to_staff(half: Checkout):
    raise_review_flag(half.pk, ReviewFlag.DISPUTED)

    assert later(half) == []
    told = OperatorAlert.objects.filter(message__contains="staff decide")
    assert told.get().message == "KES 200.00 of it was not done: staff decide"
    assert unfinished_part(half) == 200

    clear_review_flag(half.pk, ReviewFlag.DISPUTED)
    assert later(half) == [("NOT_DONE", 200, "APPROVED")]


def test_staff_give_a_reason_to_keep_the_unfinished_part(half: Checkout):
    raise_review_flag(half.pk, ReviewFlag.DISPUTED)
    later(half)

    resolve_review_flags(half.pk, ["DISPUTED"], "The bank took it all")

    assert later(half) == []
    half.refresh_from_db()
    assert half.reason_to_keep == "The bank took it all"


def test_flag_cleared_before_the_end_does_not_stop_the_refund(api: Api):
    checkout = create_paid_checkout(
        api, subject=person(email="w@x.test", **HALF)["subject"], reuse=False
    )
    raise_review_flag(checkout.pk, ReviewFlag.BOOKS_DIFFER)
    resolve_review_flags(checkout.pk, ["BOOKS_DIFFER"], "It was another day")
    api.work()

    assert later(checkout) == [("NOT_DONE", 200, "APPROVED")]


def test_unfinished_part_is_left_to_staff_after_a_failed_refund(
    paystack_api: Api, paystack: FakePaystack
):
    checkout = create_paid_checkout(paystack_api, paystack)
    paystack_api.work()
    later(checkout)
    paystack.refund_fails = True
    send_waiting_refunds()
    paystack.settle_refunds()
    send_waiting_refunds()

    assert later(checkout) == [("NOT_DONE", 250, "FAILED")]
    checkout.refresh_from_db()
    assert checkout.review_flags == ["REFUND_FAILED"]
