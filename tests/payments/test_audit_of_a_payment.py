"""The audit finds what is wrong with a single payment."""

from datetime import timedelta

import pytest
from django.utils.timezone import now

from tests.fakes.paystack import paystack as paystack
from tests.payments.test_audit import _small_slices as _small_slices
from tests.payments.test_audit import _the_ledger_adds_up as _the_ledger_adds_up
from tests.payments.test_audit import differences
from tests.workspaces.test_commands import run
from tests.workspaces.test_ledger_audit import execute
from tests.world.clients import Api
from tests.world.payments import candidate_item, end_checkout, open_page
from tests.world.refunds import (
    create_paid_checkout,
    send_waiting_refunds,
    settle_payment,
)
from tests.world.refunds import paystack_api as paystack_api
from verification.checks.models import CheckResult
from verification.payments.models import Checkout, Payment
from verification.payments.refunds import refund_unfinished_parts, resolve_review_flags
from verification.reports.models import Report

pytestmark = pytest.mark.django_db


def test_audit_finds_report_that_was_paid_too_little(api: Api):
    made = api.create(candidate_item())
    Payment.objects.update(amount=1)
    end_checkout(open_page(made))

    assert api.report(made["id"])["status"] == "RUNNING"
    assert differences() == ["payment asks for 1.00 and its checks cost 250.00"]


def test_audit_finds_report_that_waits_for_a_paid_payment(api: Api):
    made = api.create(candidate_item())
    end_checkout(open_page(made))
    Report.objects.update(status="PENDING_PAYMENT")

    assert differences() == ["report still waits for its payment, which is PAID"]


def test_audit_finds_uncounted_money_without_flag_or_reason(api: Api):
    checkout = end_checkout(open_page(api.create(candidate_item())), currency="USD")
    assert checkout.review_flags == ["OTHER_CURRENCY"]
    kept = checkout.paid_amount

    assert run("audit_ledger")
    Checkout.objects.update(review_flags=[])
    assert differences() == [
        f"checkout keeps {kept} that counts for nothing, without a reason"
    ]

    Checkout.objects.update(review_flags=["OTHER_CURRENCY"])
    with pytest.raises(ValueError, match="Say what was found"):
        resolve_review_flags(checkout.pk, ["OTHER_CURRENCY"], " ")
    kept = "The payer wants it kept for the next report"
    assert resolve_review_flags(checkout.pk, ["OTHER_CURRENCY"], kept)
    assert run("audit_ledger")


def test_audit_finds_surplus_whose_refund_failed(paystack_api, paystack):
    made = paystack_api.create(candidate_item())
    late = open_page(made)
    paystack_api.post(f"/reports/{made['id']}/cancel")
    paystack.refund_fails = True
    settle_payment(late, paystack)
    send_waiting_refunds()
    paystack.settle_refunds()
    send_waiting_refunds()
    late.refresh_from_db()
    assert late.review_flags == ["REFUND_FAILED"]

    Checkout.objects.update(review_flags=[])

    assert differences() == [
        "checkout keeps 250.00 that counts for nothing, without a reason"
    ]


def test_audit_finds_part_of_an_ended_payment(api: Api):
    made = api.create(candidate_item())
    end_checkout(open_page(made), pays=100)
    assert run("audit_ledger")

    execute("UPDATE payments_payment SET status = 'CANCELLED'")

    assert differences() == ["checkout is a part that no payment waits for"]


def test_audit_finds_parts_that_do_not_make_the_payment(api: Api):
    made = api.create(candidate_item())
    end_checkout(open_page(made), pays=100)
    end_checkout(open_page(made))
    assert run("audit_ledger")

    execute(
        "UPDATE payments_checkout SET counted_amount = 99, paid_amount = 99 "
        "WHERE counted_amount = 100"
    )

    assert differences() == ["payment was paid by another amount or currency"]


def test_audit_finds_money_kept_for_unfinished_checks(api: Api):
    checkout = create_paid_checkout(api)
    api.post(f"/reports/{checkout.report_id}/cancel")
    run("audit_ledger")

    kept = "checkout keeps 250.00 for checks that were not done, without a reason"
    Checkout.objects.update(accounted_at=now())
    assert differences() == [kept]

    # No job has accounted for the checkout for days.
    Checkout.objects.update(accounted_at=None)
    Report.objects.update(completed_at=now() - timedelta(days=2))
    assert differences() == [kept]
    refund_unfinished_parts()
    run("audit_ledger")


def test_audit_finds_refund_of_completed_checks(api: Api):
    checkout = create_paid_checkout(api)
    api.post(f"/reports/{checkout.report_id}/cancel")
    refund_unfinished_parts()
    scores = CheckResult.objects.filter(name="CRB_SCORE")
    scores.update(status="COMPLETED")

    assert differences() == ["refund gives back what was done"]
