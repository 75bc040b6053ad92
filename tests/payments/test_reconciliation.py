import io
import logging
from datetime import timedelta
from decimal import Decimal

import pytest
import time_machine
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db.migrations.recorder import MigrationRecorder
from django.utils.timezone import now

from tests.fakes.paystack import FakePaystack
from tests.fakes.paystack import paystack as paystack
from tests.fakes.stripe import stripe_api as stripe_api
from tests.world.clients import Api
from tests.world.payments import candidate_item, open_page, poll_checkouts
from tests.world.refunds import (
    create_paid_checkout,
    create_refund,
    send_waiting_refunds,
)
from tests.world.refunds import paystack_api as paystack_api
from verification.db.startup import DatabaseRefused
from verification.payments import reconciliation
from verification.payments.alerts import clear_review_flag
from verification.payments.models import (
    Checkout,
    OperatorAlert,
    ReconciliationProgress,
    Refund,
    ReviewFlag,
    SandboxCheckout,
)
from verification.payments.reconciliation import reconcile_yesterday

pytestmark = pytest.mark.django_db


def today() -> str:
    return f"{now():%Y-%m-%d}"


def reconcile(*arguments: str) -> str:
    """Run the command and return its output; it fails if the books differ."""
    out = io.StringIO()
    call_command("reconcile_payments", "--from", today(), *arguments, stdout=out)
    return out.getvalue()


def differences(*arguments: str) -> list[str]:
    out = io.StringIO()
    with pytest.raises(CommandError, match=r"The books have \d+ differences"):
        call_command("reconcile_payments", "--from", today(), *arguments, stdout=out)
    return out.getvalue().splitlines()


def review_flags() -> list[str]:
    checkouts = Checkout.objects.exclude(review_flags=[])
    return [flag for checkout in checkouts for flag in checkout.review_flags]


def test_command_reports_books_that_agree(api: Api, paystack_api, paystack):
    create_paid_checkout(api)
    create_refund(create_paid_checkout(paystack_api, paystack))
    send_waiting_refunds()
    paystack.settle_refunds()
    send_waiting_refunds()
    create_paid_checkout(paystack_api, paystack)
    open_page(paystack_api.create(candidate_item()))

    assert reconcile() == "The books of sandbox, paystack agree.\n"


def test_database_without_tables_is_no_fault_of_the_books(db):
    MigrationRecorder.Migration.objects.filter(app="payments").delete()

    with pytest.raises(DatabaseRefused, match="run: verification migrate"):
        reconcile()


def test_payment_missing_here_is_polled(paystack_api, paystack):
    checkout = open_page(paystack_api.create(candidate_item()))
    Checkout.objects.update(next_poll_at=None)
    paystack.pay(checkout.reference)

    assert differences("--dry-run") == [
        f"paystack {checkout.pk} is paid there and OPEN here"
    ]
    assert Checkout.objects.get().next_poll_at is None
    assert len(differences()) == 1
    assert Checkout.objects.get().next_poll_at is not None
    poll_checkouts(checkout)
    assert reconcile()
    assert review_flags() == []


def test_payment_at_the_end_of_its_link_is_found(paystack_api, paystack):
    checkout = open_page(paystack_api.create(candidate_item()))
    began = now() - timedelta(days=16)
    Checkout.objects.update(created_at=began, status="EXPIRED", next_poll_at=None)
    paystack.transactions[checkout.reference].created_at = began
    paystack.pay(checkout.reference)

    assert differences() == [f"paystack {checkout.pk} is paid there and EXPIRED here"]

    poll_checkouts(checkout)
    assert checkout.is_counted


def test_payment_that_a_restore_has_lost_is_reported_by_its_number(
    paystack_api, paystack
):
    checkout = create_paid_checkout(paystack_api, paystack)
    transaction = paystack.transactions.pop(checkout.reference)
    transaction.reference = "01a229ed-1659-736c-8fbf-8cb9cf6aefed"
    paystack.transactions[transaction.reference] = transaction

    told = differences("--dry-run", "--provider", "paystack")

    assert told == [
        f"paystack {transaction.id} 250.00 KES was paid there, for P-8CB9-CF6A-EFED"
        f" ({transaction.reference}), which is not known here",
        f"paystack {checkout.pk} is paid here and UNKNOWN there",
    ]


@pytest.mark.parametrize("refund", [False, True])
def test_payment_missing_there_raises_a_flag(paystack_api, paystack, settings, refund):
    settings.REFUND_NEEDS_SECOND_ABOVE = 0
    checkout = create_paid_checkout(paystack_api, paystack)
    paystack.fail(checkout.reference)
    if refund:
        # It waits for a second person, so nothing was given back yet.
        create_refund(checkout)

    assert differences() == [f"paystack {checkout.pk} is paid here and FAILED there"]

    assert review_flags() == ["BOOKS_DIFFER"]


def test_other_amount_currency_or_transaction_raises_a_flag(paystack_api, paystack):
    checkout = create_paid_checkout(paystack_api, paystack)
    there = paystack.transactions[checkout.reference]
    for name, value, fault in [
        ("amount", 24900, "249.00 KES was paid there, 250.00 KES here"),
        ("currency", "USD", "250.00 USD was paid there, 250.00 KES here"),
        ("id", 7, "is transaction 7 there"),
    ]:
        right = getattr(there, name)
        setattr(there, name, value)

        assert differences() == [f"paystack {checkout.pk} {fault}"]

        assert review_flags() == ["BOOKS_DIFFER"], name
        setattr(there, name, right)
        Checkout.objects.update(review_flags=[])


def test_days_since_a_backup_are_compared_up_to_today(paystack_api, paystack):
    checkout = open_page(paystack_api.create(candidate_item()))
    paystack.pay(checkout.reference)
    refunded = create_paid_checkout(paystack_api, paystack)
    refund = create_refund(refunded, 100)
    send_waiting_refunds()
    paystack.settle_refunds()
    send_waiting_refunds()
    paystack.refunds[0].status = "failed"
    # This is among the days, and among those that are compared 7 days later.
    Refund.objects.update(ended_at=now() - timedelta(days=8))
    out, backup = io.StringIO(), now() - timedelta(days=9)

    with pytest.raises(CommandError, match="The books have 2 differences"):
        call_command("reconcile_payments", "--from", f"{backup:%Y-%m-%d}", stdout=out)

    assert out.getvalue().splitlines() == [
        f"paystack {checkout.pk} is paid there and OPEN here",
        f"paystack {refunded.pk} refund {refund.pk} is DONE here and FAILED there",
    ]


def test_payment_listed_on_the_day_before_agrees(paystack_api, paystack):
    checkout = create_paid_checkout(paystack_api, paystack)
    transaction = paystack.transactions[checkout.reference]
    transaction.paid_at -= timedelta(days=1)

    assert reconcile("--provider", "paystack")


def test_refund_that_failed_there_later_raises_a_flag(
    paystack_api, paystack: FakePaystack
):
    checkout = create_paid_checkout(paystack_api, paystack)
    refund = create_refund(checkout, 100)
    send_waiting_refunds()
    paystack.settle_refunds()
    send_waiting_refunds()
    paystack.refunds[0].status = "failed"
    for age in (0, 7, 30):
        Checkout.objects.update(review_flags=[])

        with time_machine.travel(now() + timedelta(days=age)):
            found = differences()

        fault = f"refund {refund.pk} is DONE here and FAILED there"
        assert found == [f"paystack {checkout.pk} {fault}"]
        assert review_flags() == ["BOOKS_DIFFER"], age


def test_refund_failed_here_and_done_there_raises_a_flag(paystack_api, paystack):
    checkout = create_paid_checkout(paystack_api, paystack)
    create_refund(checkout, 100)
    paystack.refund_fails = True
    send_waiting_refunds()
    paystack.settle_refunds()
    send_waiting_refunds()
    paystack.refunds[0].status = "processed"

    (told,) = differences()

    assert told.endswith("is FAILED here and DONE there")
    assert review_flags() == ["REFUND_FAILED", "BOOKS_DIFFER"]


def test_sandbox_books_are_compared(api: Api):
    checkout = create_paid_checkout(api)
    counted = {"is_counted": True, "counted_amount": checkout.counted_amount}
    Checkout.objects.update(
        paid_amount=Decimal(249), is_counted=False, counted_amount=0
    )

    told = differences("--dry-run")
    Checkout.objects.update(paid_amount=checkout.amount, **counted)

    assert told == [f"sandbox {checkout.pk} 250.00 KES was paid there, 249.00 KES here"]


def test_stripe_books_are_compared(live_api: Api, stripe_api, settings):
    settings.PAYMENT_PROVIDER = "stripe"
    options = {
        "secret_key": stripe_api.key,
        "webhook_secrets": (stripe_api.secret,),
        "url": stripe_api.url,
        "opened": [stripe_api.host],
        "checkout_origin": stripe_api.url,
    }
    path = "verification.providers.stripe_checkout.StripeCheckout"
    settings.PAYMENT_PROVIDERS = {"stripe": (path, options)}
    known = open_page(live_api.create(candidate_item()))
    lost = open_page(live_api.create(candidate_item()))
    for checkout in (known, lost):
        stripe_api.pay(checkout.reference)
    poll_checkouts(known)

    assert differences() == [f"stripe {lost.pk} is paid there and OPEN here"]


def test_command_reports_unread_books(paystack_api, paystack):
    paystack.faults.status = 503

    with pytest.raises(CommandError, match="books of paystack were not read: Paystack"):
        reconcile()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--to", "2026-01-01"], "is after 2026-01-01, the last day"),
        (["--to", "yesterday"], "'yesterday' is not a day"),
        (["--to", "9999-12-31"], "'9999-12-31' is not a day"),
        (["--provider", "mpesa"], "'mpesa' is none of sandbox"),
    ],
)
def test_command_refuses_wrong_arguments(db, arguments, told):
    with pytest.raises(CommandError, match=told):
        reconcile(*arguments)


def test_job_logs_differences_and_skips_unreadable_books(
    api: Api, paystack_api, paystack, caplog
):
    checkout = create_paid_checkout(api)
    Checkout.objects.update(paid_at=now() - timedelta(days=1))
    SandboxCheckout.objects.update(state="FAILED", paid_amount=None, paid_at=None)
    paystack.faults.status = 503

    with caplog.at_level(logging.ERROR):
        reconcile_yesterday()

    errors = [record for record in caplog.records if record.levelname == "ERROR"]
    assert [record.getMessage() for record in errors] == [
        f"books differ: sandbox {checkout.pk} is paid here and FAILED there",
        "the books of paystack were not read: SOURCE_UNAVAILABLE",
    ]
    assert review_flags() == ["BOOKS_DIFFER"]


def test_unread_day_is_compared_later(paystack_api, paystack):
    checkout = open_page(paystack_api.create(candidate_item()))
    Checkout.objects.update(next_poll_at=None)
    paystack.pay(checkout.reference)
    paystack.faults.status = 503
    with time_machine.travel(now() + timedelta(days=1)):
        reconcile_yesterday()
    assert Checkout.objects.get().next_poll_at is None

    paystack.faults.status = None
    for days in (2, 3):
        with time_machine.travel(now() + timedelta(days=days)):
            reconcile_yesterday()

    assert Checkout.objects.get().next_poll_at is not None
    compared = ReconciliationProgress.objects.get(provider="paystack")
    assert compared.day == (now() + timedelta(days=2)).date()


def test_unanswered_payment_delays_no_other(paystack_api, paystack):
    first, second = (
        create_paid_checkout(paystack_api, paystack),
        create_paid_checkout(paystack_api, paystack),
    )
    for one in (first, second):
        paystack.transactions[one.reference].paid_at -= timedelta(days=1)
    paystack.transactions[second.reference].status = "failed"
    paystack.faults.path = f"/verify/{first.reference}"
    paystack.faults.status = 503

    assert differences("--provider", "paystack") == [
        f"paystack {first.pk} is paid here: SOURCE_UNAVAILABLE",
        f"paystack {second.pk} is paid here and FAILED there",
    ]

    assert review_flags() == ["BOOKS_DIFFER"]


def test_lasting_lack_of_an_answer_holds_up_no_later_day(paystack_api, paystack):
    checkout = create_paid_checkout(paystack_api, paystack)
    paystack.transactions[checkout.reference].paid_at -= timedelta(days=1)
    paystack.faults.path, paystack.faults.status = "/verify/", 503
    compared, today = ReconciliationProgress.objects, now().date()
    for days in (1, 2):
        with time_machine.travel(now() + timedelta(days=days)):
            reconcile_yesterday()
        told = OperatorAlert.objects.filter(kind="UNREAD")
        # The next day's job asks once more.
        assert told.count() == days - 1

    message = f"paystack {checkout.pk} is paid here: SOURCE_UNAVAILABLE"
    assert told.get().message == message
    assert compared.get(provider="paystack").day == today + timedelta(days=1)


def make_day_unreadable(paystack, monkeypatch):
    """Let the provider's list of today be unreadable, and return the day."""
    adapter, first = paystack.adapter(), now().date()
    read = adapter.payments_between

    def read_later_days(start, end):
        yield from {}["unreadable"] if start.date() == first else read(start, end)

    monkeypatch.setattr(adapter, "payments_between", read_later_days)
    monkeypatch.setattr(reconciliation, "providers", lambda: [adapter])
    return first


def test_unreadable_day_holds_up_no_later_day(paystack_api, paystack, monkeypatch):
    checkout = open_page(paystack_api.create(candidate_item()))
    Checkout.objects.update(next_poll_at=None)
    paystack.pay(checkout.reference)
    paystack.transactions[checkout.reference].paid_at += timedelta(days=1)
    first = make_day_unreadable(paystack, monkeypatch)
    for days in (1, 2):
        with time_machine.travel(now() + timedelta(days=days)):
            reconcile_yesterday()

    assert Checkout.objects.get().next_poll_at is not None
    assert ReconciliationProgress.objects.get().day < first


def test_cleared_flag_stays_cleared_when_a_day_is_compared_again(
    paystack_api, paystack, monkeypatch
):
    checkout = create_paid_checkout(paystack_api, paystack)
    paystack.fail(checkout.reference)
    Checkout.objects.update(paid_at=now() + timedelta(days=1))
    make_day_unreadable(paystack, monkeypatch)
    found = []
    for days in (1, 2, 3):
        with time_machine.travel(now() + timedelta(days=days)):
            reconcile_yesterday()
        found.append(review_flags())
        clear_review_flag(checkout.pk, ReviewFlag.BOOKS_DIFFER)

    assert found == [[], ["BOOKS_DIFFER"], []]
    assert OperatorAlert.objects.filter(kind="REVIEW").count() == 1


def test_unreadable_row_delays_no_other_provider(
    paystack_api, paystack, monkeypatch, caplog
):
    def unreadable(*arguments):
        yield {}["Wanjiku Canary"]

    monkeypatch.setattr(reconciliation, "providers", lambda: [broken, sound])
    broken, sound = paystack.adapter(), paystack.adapter()
    monkeypatch.setattr(broken, "payments_between", unreadable)
    checkout = create_paid_checkout(paystack_api, paystack)
    Checkout.objects.update(paid_at=now() - timedelta(days=1))
    paystack.fail(checkout.reference)

    reconcile_yesterday()

    assert "the books of paystack were not read: KeyError" in caplog.text
    assert "Canary" not in caplog.text
    assert review_flags() == ["BOOKS_DIFFER"]
