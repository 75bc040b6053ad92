"""Payers on their pages, stage by stage."""

import re
from decimal import Decimal
from typing import Any

import pytest
import time_machine
from django.db import connection
from django.utils.timezone import now

from tests.fakes.paystack import FakePaystack
from tests.fakes.paystack import paystack as paystack
from tests.world.clients import Api
from tests.world.orders import PAYER
from tests.world.payer import Payer, create_payer, is_due, poll_providers
from tests.world.payments import poll_checkouts
from tests.world.refunds import GRACE, WANGARI
from tests.world.refunds import paystack_api as paystack_api
from tests.world.refunds import send_waiting_refunds as send_now
from tests.world.subject import visible_text
from verification.hosted import payment as payment_pages
from verification.hosted.payment import stage_of
from verification.payments.alerts import raise_review_flag
from verification.payments.checkouts import PaymentClosed, open_checkout
from verification.payments.disputes import record_disputes
from verification.payments.models import (
    Checkout,
    PaymentEvent,
    Refund,
    ReviewFlag,
    SandboxCheckout,
)
from verification.payments.refunds import (
    approve_refund,
    request_refund,
    resolve_review_flags,
    send_refunds,
)
from verification.payments.sandbox_provider import end_sandbox_checkout
from verification.payments.settlement import MIN_POLL_INTERVAL
from verification.providers.payment_provider import (
    CheckoutState,
    DisputeSnapshot,
    DisputeState,
)
from verification.reports.models import Report

pytestmark = pytest.mark.django_db

THIRD_PARTY = {"paymentMode": "THIRD_PARTY", "payer": PAYER}


def test_page_shows_client_checks_amount_and_expiry_and_no_personal_data(
    api: Api, settings
):
    settings.OPERATOR_NAME = "Hakiki Ltd"
    visitor = create_payer(api, reference="LN-2041")
    html = visitor.text()
    page = visible_text(html)

    # The amount does not break across lines.
    assert "Pay KES\N{NO-BREAK SPACE}250.00</h1>" in html
    for said in (
        "Pay KES 250.00",
        "Acacia Lenders asks you to pay",
        "Loan application",
        "LN-2041",
        "You pay to Hakiki Ltd",
        "National identity KES 50.00",
        "CRB score KES 150.00",
        "Total KES 250.00",
        "This link works until",
        "We never ask for your M-Pesa PIN",
        "This is a test",
    ):
        assert said in page
    for known in ("Wanjiku", "Kamau", "W••••", "12345678", "wanjiku@"):
        assert known not in html


def test_nominated_payer_is_shown_a_masked_name(api: Api):
    page = create_payer(api, **THIRD_PARTY).reads()

    assert "About W•••• K••••" in page
    assert "about somebody else" in page
    for known in ("Wanjiku", "Kamau", "12345678", "Kilele"):
        assert known not in page


def test_payment_advances_the_report_and_gives_a_receipt(api: Api):
    visitor = create_payer(api)

    back = visitor.choose("pay")
    asking = visitor.come_back(back)
    assert "We are asking whether you have paid" in asking
    poll_providers()

    html = visitor.browser.get(visitor.path).content.decode()
    page = visible_text(html)
    checkout = visitor.checkout
    assert "You paid KES 250.00" in page
    assert checkout.number in page
    assert "The checks have begun" in page
    assert "Total KES 250.00" in page
    assert "<svg" in html
    assert api.report(visitor.report_id)["status"] == "RUNNING"
    pdf = visitor.get("receipt.pdf")
    assert pdf["Content-Type"] == "application/pdf"
    assert pdf["Cache-Control"] == "no-store"
    assert pdf.content.startswith(b"%PDF")


def test_page_shows_a_payment_settled_during_the_request(api: Api):
    visitor = create_payer(api)
    visitor.come_back(visitor.choose("pay"))
    left = ["once"]

    def paid_before_its_checkouts_are_read(run, sql, *rest):
        if 'FROM "payments_checkout"' in sql and left:
            left.clear()
            poll_providers()
        return run(sql, *rest)

    with connection.execute_wrapper(paid_before_its_checkouts_are_read):
        assert "You paid KES 250.00" in visitor.reload()
    assert not left


def test_paid_draft_waits_for_its_launch(api: Api):
    visitor = create_payer(api, draft=True)
    visitor.choose("pay")
    poll_providers()

    assert "The checks begin when Acacia Lenders says so" in visitor.reads()
    assert api.report(visitor.report_id)["status"] == "DRAFT"
    # The payer does not read whether the subject refused or objected.
    Report.objects.update(restricted_at=now())
    assert "you get your money back. If you have questions" in visitor.reads()


STATES_OF_CHECKS = [
    ("PENDING_CONSENT", False, "have not begun yet"),
    ("PARTIAL", False, "The checks have begun"),
    ("PARTIAL", True, "Some of the checks could be made"),
    ("READY", True, "The checks are done"),
    ("FAILED", True, "The checks could not be made"),
    ("CANCELLED", True, "The report was cancelled"),
]


def test_page_shows_the_status_of_the_checks(api: Api):
    visitor = create_payer(api)
    visitor.choose("pay")
    poll_providers()
    for status, ends, said in STATES_OF_CHECKS:
        Report.objects.filter(pk=visitor.report_id).update(
            status=status, completed_at=now() if ends else None
        )

        page = visitor.reads()

        assert said in page, said
        assert ("have begun" in page) == (said == "The checks have begun"), said


def test_suspended_workspace_takes_no_payment(api: Api):
    visitor = create_payer(api)
    api.workspace.suspend("fraud")

    page = visitor.text()
    refused = visitor.post("pay")

    assert "This cannot be paid at the moment" in page
    assert "<form method" not in page
    assert (refused.status_code, refused["Location"]) == (303, visitor.page)
    assert not Checkout.objects.exists()
    payment = visitor.payment
    with pytest.raises(PaymentClosed, match="SUSPENDED"):
        open_checkout(payment.pk, payment.generation)
    api.workspace.resume()
    assert "Pay KES 250.00" in visitor.reads()


def test_late_payment_of_a_suspended_workspace_counts(api: Api):
    visitor = create_payer(api)
    at = visitor.pay()
    api.workspace.suspend("fraud")
    assert "Check whether it is paid" in visitor.reads()

    asking = visitor.come_back(visitor.choose("pay", at))
    poll_providers()

    assert "We are asking whether you have paid" in asking
    page = visitor.reload()
    assert "You paid KES 250.00" in page
    assert "The checks are paused at the moment" in page
    assert visitor.checkout.is_counted


def test_page_of_a_payer_who_comes_back_shows_each_poll(api: Api):
    visitor = create_payer(api)
    visitor.pay()
    back = f"{visitor.page}back/{visitor.checkout.pk}"

    assert "We are asking" in visitor.come_back(back)
    shall_reload = visitor.script(visitor.path)
    assert not shall_reload()
    poll_providers()

    with time_machine.travel(now() + 2 * MIN_POLL_INTERVAL):
        assert shall_reload()
        # With a poll due, the page would say again that the provider is being asked.
        assert not is_due(visitor.checkout)
        page = visitor.reload()
        assert "Not paid yet." in page
        assert "Pay KES 250.00" in page
        assert visitor.payment.status == "PENDING"
        # This page waits, and has the provider asked again.
        shall_reload = visitor.script(visitor.path)
        assert not shall_reload()
        assert is_due(visitor.checkout)
        end_sandbox_checkout(visitor.checkout.reference, CheckoutState.PAID)
        poll_providers()
        assert shall_reload()
        assert "You paid KES 250.00" in visitor.reload()


def test_failed_or_cancelled_payment_can_be_repeated(api: Api):
    visitor = create_payer(api)
    visitor.choose("fail")
    poll_providers()

    html = visitor.text()
    # A heading in an alert is read as no heading.
    assert not re.search(r'role="alert">\s*<h1>', html)
    page = visible_text(html)
    assert "The payment failed" in page
    assert "Nothing was taken" in page
    assert "Pay KES 250.00 by M-Pesa" in page
    # Payers who leave the provider can still pay, too.
    assert visitor.choose("cancel") == visitor.page
    poll_providers()
    page = visitor.reads()
    assert "You left without paying" in page
    assert "Pay KES 250.00" in page
    visitor.choose("pay")
    poll_providers()
    assert visitor.payment.status == "PAID"


def test_payer_who_comes_back_from_another_card_is_not_asked_to_pay_again(api: Api):
    visitor = create_payer(api)
    page = visitor.pay()
    end_sandbox_checkout(visitor.checkout.reference, CheckoutState.FAILED)
    poll_checkouts(visitor.checkout)
    assert visitor.checkout.status == "FAILED"

    with time_machine.travel(now() + 2 * MIN_POLL_INTERVAL):
        assert "We are asking" in visitor.come_back(visitor.choose("lost", page))
        poll_providers()
        assert visitor.payment.status == "PAID"


def test_reopened_link_offers_to_check_the_payment(api: Api):
    visitor = create_payer(api)
    visitor.choose("lost")
    visitor = Payer(visitor.report_id)
    visitor.open()

    page = visitor.text()
    assert "do not pay again" in page
    assert "We are asking" in visitor.come_back(
        f"{visitor.page}back/{visitor.checkout.pk}"
    )
    poll_providers()
    assert "You paid" in visitor.reload()


def test_page_shows_the_refund_of_a_double_payment(api: Api):
    visitor = create_payer(api)
    visitor.choose("twice")
    poll_providers()

    assert Checkout.objects.filter(status="PAID").count() == 2
    assert PaymentEvent.objects.count() == 2
    assert "on its way back to you" in visitor.reads()
    send_refunds()
    assert "KES 250.00 was given back on" in visitor.reads()
    assert visitor.payment.status == "PAID"
    assert Refund.objects.get().amount == Decimal(250)


def test_page_shows_the_refund_of_a_surplus(api: Api):
    visitor = create_payer(api)
    visitor.choose("more")
    poll_providers()

    page = visitor.reads()
    assert "You paid KES 250.00" in page
    assert "You paid KES 1.00 more than was asked for" in page
    assert "KES 1.00 is on its way back to you" in page
    send_refunds()
    page = visitor.reads()
    assert "KES 1.00 was given back on" in page
    assert "Amount KES 250.00" in page
    assert "Paid too much KES 1.00" in page
    assert visitor.payment.status == "PAID"
    assert visitor.get("receipt.pdf").content.startswith(b"%PDF")


def test_payer_pays_the_rest_of_a_part(api: Api):
    visitor = create_payer(api)
    visitor.choose("less")
    poll_providers()
    page = visitor.reads()
    assert "KES 125.00 is missing" in page
    assert "KES 125.00 of KES 250.00 has come in" in page
    assert "Pay KES 125.00" in page

    visitor.choose("pay")
    poll_providers()

    page = visitor.reads()
    assert "You paid KES 250.00" in page
    for checkout in Checkout.objects.all():
        assert f"Number {checkout.number} Amount KES 125.00" in page
    assert api.report(visitor.report_id)["status"] == "RUNNING"
    assert visitor.get("receipt.pdf").content.startswith(b"%PDF")


def test_payer_gets_a_part_back(api: Api):
    visitor = create_payer(api)
    visitor.choose("less")
    poll_providers()
    visitor.get("give-back")
    assert not Refund.objects.exists()

    visitor.post("give-back")
    visitor.post("give-back")

    assert Refund.objects.get().amount == 125
    page = visitor.reads()
    assert "Pay KES 250.00" in page
    assert "KES 125.00 is on its way back to you" in page
    assert "KES 125.00 came in, which is less than was asked for" in page
    assert "not needed" not in page
    send_refunds()
    assert "KES 125.00 was given back on" in visitor.reads()
    assert visitor.payment.status == "PENDING"


def test_part_goes_back_while_the_workspace_is_suspended(api: Api):
    visitor = create_payer(api)
    visitor.choose("less")
    poll_providers()
    api.workspace.suspend("fraud")

    page = visitor.reads()
    assert "This cannot be paid at the moment" in page
    assert "KES 125.00 of KES 250.00 has come in." in page
    assert "Give me KES 125.00 back" in page

    visitor.post("give-back")

    assert Refund.objects.get().amount == 125
    page = visitor.reads()
    assert "KES 125.00 is on its way back to you" in page
    assert "Give me" not in page


def test_page_shows_a_payment_that_came_during_the_request(
    api: Api, monkeypatch: pytest.MonkeyPatch
):
    visitor = create_payer(api)
    visitor.choose("pay")
    SandboxCheckout.objects.update(currency="USD")

    def stage_of_a_moment_later(*arguments: Any, **options: Any) -> Any:
        poll_providers()
        return stage_of(*arguments, **options)

    monkeypatch.setattr(payment_pages, "stage_of", stage_of_a_moment_later)

    page = visitor.reads()
    assert "A person looks at your payment" in page
    assert "USD 250.00 came in" in page


def test_payment_is_closed_while_staff_review_a_currency(api: Api):
    visitor = create_payer(api)
    visitor.choose("pay")
    SandboxCheckout.objects.update(currency="USD")
    poll_providers()

    html = visitor.text()
    page = visible_text(html)
    assert "A person looks at your payment" in page
    assert "USD 250.00 came in" in page
    assert "<form" not in html
    assert visitor.post("pay")["Location"] == visitor.page
    assert Checkout.objects.count() == 1
    request_refund(visitor.checkout.pk, Decimal(250), reason="USD", by=GRACE)
    send_refunds()
    assert "Pay KES 250.00" in visitor.reads()


# Money that pays for nothing


def disputed(checkout: Checkout, state: DisputeState) -> None:
    amount = checkout.paid_amount or Decimal(0)
    currency = checkout.paid_currency
    seen = DisputeSnapshot("1", checkout.transaction, state, amount, currency)
    record_disputes(checkout.pk, [seen])


def kept(checkout: Checkout) -> None:
    resolve_review_flags(checkout.pk, checkout.review_flags, "Looks like fraud")


def in_dollars(api: Api) -> Payer:
    """Create a payer whose payment came in USD."""
    visitor = create_payer(api)
    visitor.choose("pay")
    SandboxCheckout.objects.update(currency="USD")
    poll_providers()
    return visitor


def explanation(visitor: Payer) -> str:
    """Return the page about the money, which promises none of it."""
    page = visitor.reads()
    assert "USD 250.00 came in, which is not the currency that was asked for" in page
    assert "automatically" not in page
    return page


def test_page_explains_extra_payments(api: Api):
    visitor = in_dollars(api)
    told = "A person looks at USD 250.00 and decides whether you get it back"
    assert told in explanation(visitor)

    disputed(visitor.checkout, DisputeState.OPEN)
    told = "USD 250.00 is disputed at your bank. We hold it until"
    assert told in explanation(visitor)

    disputed(visitor.checkout, DisputeState.LOST)
    assert "Your bank has taken USD 250.00 back for you" in explanation(visitor)


def test_page_explains_extra_payments_that_staff_gave_back_or_kept(api: Api):
    visitor = in_dollars(api)
    request_refund(visitor.checkout.pk, Decimal(100), reason="Asked for", by=GRACE)
    told = "USD 100.00 is on its way back to you. A person looks at USD 150.00"
    assert told in explanation(visitor)

    Refund.objects.all().delete()
    Checkout.objects.update(refunded=0)
    kept(visitor.checkout)
    page = explanation(visitor)
    told = "USD 250.00 is not given back: a person has looked at it. To ask why, ask"
    assert told in page
    assert f"name the number {visitor.checkout.number}" in page


def test_page_says_that_a_part_of_the_payment_is_disputed(api: Api):
    visitor = create_payer(api)
    visitor.choose("less")
    poll_providers()
    first = visitor.checkout
    visitor.choose("pay")
    poll_providers()
    api.post(f"/reports/{visitor.report_id}/cancel")
    assert "your bank" not in visitor.reads().lower()

    for state, told in [
        (
            DisputeState.OPEN,
            "KES 125.00 is disputed at your bank. We hold it until",
        ),
        (DisputeState.LOST, "Your bank has taken KES 125.00 back for you"),
    ]:
        disputed(first, state)

        page = visitor.reads()
        assert "You paid KES 250.00" in page
        assert told in page


def test_page_promises_no_refund_before_its_approval(api: Api, settings: Any):
    settings.REFUND_NEEDS_SECOND_ABOVE = Decimal(0)
    visitor = create_payer(api)
    visitor.choose("pay")
    SandboxCheckout.objects.update(currency="USD")
    poll_providers()
    refund = request_refund(visitor.checkout.pk, Decimal(250), reason="x", by=GRACE)
    assert "A person looks at USD 250.00 and decides" in visitor.reads()

    approve_refund(refund.pk, by=WANGARI)

    page = visitor.reads()
    assert "USD 250.00 is on its way back to you" in page
    assert "decides" not in page


def test_page_promises_no_refund_of_a_kept_surplus(
    paystack_api: Api, paystack: FakePaystack
):
    visitor = create_payer(paystack_api)
    visitor.post("pay")
    paystack.pays, paystack.refund_fails = 30_000, True
    paystack.pay(visitor.checkout.reference)
    poll_checkouts(visitor.checkout)
    page = visitor.reads()
    assert "You paid KES 50.00 more than was asked for. KES 50.00 is on its way" in page
    send_now()
    paystack.settle_refunds()
    send_now()
    page = visitor.reads()
    assert "A person looks at KES 50.00 and decides" in page
    assert "on its way back" not in page

    resolve_review_flags(visitor.checkout.pk, ["REFUND_FAILED"], "Looks like fraud")

    page = visitor.reads()
    assert "is not given back" in page
    assert "on its way back" not in page


def test_ended_page_promises_no_refund(api: Api):
    visitor = create_payer(api)
    visitor.choose("pay")
    SandboxCheckout.objects.update(currency="USD")
    poll_providers()
    api.post(f"/reports/{visitor.report_id}/cancel")
    kept(visitor.checkout)

    page = visitor.reads()

    assert "You need not pay any more" in page
    assert "USD 250.00 is not given back" in page
    assert "you get your money back" not in page


def test_paid_page_promises_no_refund_that_staff_decide(api: Api):
    visitor = create_payer(api)
    visitor.choose("pay")
    poll_providers()
    api.post(f"/reports/{visitor.report_id}/cancel")
    promised, left = "you get back what you paid", "A person decides what of your money"
    page = visitor.reads()
    assert (promised in page, left in page) == (True, False)

    raise_review_flag(visitor.checkout.pk, ReviewFlag.FRAUD_WARNING)

    page = visitor.reads()
    assert (promised in page, left in page) == (False, True)


def test_refund_is_shown_whole_or_in_part(api: Api):
    visitor = create_payer(api)
    visitor.choose("pay")
    poll_providers()
    for amount, heading in [(50, "You paid KES 250.00"), (200, "was given back")]:
        request_refund(
            visitor.checkout.pk, Decimal(amount), reason="Asked for", by=GRACE
        )
        send_refunds()
        page = visitor.reads()
        assert heading in page
        assert f"KES {amount}.00 was given back on" in page

    assert "Your money was given back" in page
    assert visitor.get("receipt.pdf").status_code == 200
