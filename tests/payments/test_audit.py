"""Each rule of the audit finds the rows that break it, by the command and at night."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.db.models import F
from django.test import override_settings
from django.utils.timezone import now

from tests.fakes.paystack import paystack as paystack
from tests.workspaces.test_commands import run
from tests.workspaces.test_ledger_audit import differences as find_by_command
from tests.workspaces.test_ledger_audit import execute
from tests.world.clients import Api, create_lender
from tests.world.payments import candidate_item, end_checkout, open_page
from tests.world.refunds import (
    WANGARI,
    create_paid_checkout,
    create_paid_top_up,
    create_refund,
    send_waiting_refunds,
)
from tests.world.refunds import paystack_api as paystack_api
from verification.jobs.models import Job
from verification.payments import audit
from verification.payments.audit import audit_nightly, continue_audit
from verification.payments.models import (
    AuditWalk,
    Checkout,
    LedgerAudit,
    OperatorAlert,
)
from verification.payments.refunds import (
    reject_refund,
)
from workspaces.models import Account

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _the_ledger_adds_up():
    """Replace the check of the ledger after each test: these tests break it."""


@pytest.fixture(scope="module")
def busy(module_transaction: None) -> Api:
    """Create payments, top-ups and refunds with every status."""
    api = Api(create_lender(), "sandbox")
    with override_settings(REFUND_NEEDS_SECOND_ABOVE=Decimal(300)):
        create_payments(api)
    return api


def create_payments(api: Api) -> None:
    create_paid_checkout(api)
    create_refund(create_paid_checkout(api), 100)
    create_refund(create_paid_checkout(api))
    send_waiting_refunds()
    open_page(api.create(candidate_item()))
    end_checkout(open_page(api.create(candidate_item())), currency="USD")
    made = api.create(candidate_item())
    late = open_page(made)
    api.post(f"/reports/{made['id']}/cancel")
    end_checkout(late)
    create_paid_top_up(api, 1000)
    create_refund(create_paid_top_up(api, 500), 200)
    reject_refund(create_refund(create_paid_top_up(api, 700)).pk, by=WANGARI)
    send_waiting_refunds()


@pytest.fixture(autouse=True)
def _small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    # Still several of them, each of which costs as much as the rest of such a test.
    monkeypatch.setattr(audit, "SLICE_CHANGES", 6)
    # These tests commit nothing late.
    monkeypatch.setattr(audit, "OVERLAP", timedelta(0))


def differences() -> list[str]:
    """Return what the command and the walk through new rows find alike."""
    found = find_by_command()
    assert find_at_night("NIGHT") == found
    AuditWalk.objects.all().delete()
    return found


def find_at_night(walk: str) -> list[str]:
    """Audit at night; this walk compares rows, and the other one has none left."""
    others = AuditWalk.objects.exclude(name=walk)
    at = now()
    others.update(since=at, read_to=at, until=at)
    for name in set(AuditWalk.Name.values) - {walk}:
        if not others.exists():
            AuditWalk.objects.create(name=name, since=at, read_to=at, until=at)
    audit_nightly()
    found = AuditWalk.objects.get(name="NIGHT").differences
    newest = LedgerAudit.objects.latest("made_at")
    assert newest.differences == len(found)
    return sorted(f"{kind} {fault}" for kind, _, fault in found)


def report_checkout(**wanted: object) -> Checkout:
    found = Checkout.objects.filter(report__isnull=False, is_counted=True, **wanted)
    return found.earliest("id")


def test_audit_counts_payments_that_add_up(busy: Api):
    assert run("audit_ledger").endswith("and 8 paid checkouts.\n")


def balance() -> None:
    execute(
        """UPDATE workspaces_account a SET balance = coalesce((
            SELECT sum(amount) FROM workspaces_ledgerentry e WHERE e.account_id = a.id
        ), 0)"""
    )


NOT_TOPPED_UP = "checkout was paid and did not top up its account by its amount"
NOT_THERE = "entry is of a checkout or refund that does not exist"


def test_audit_finds_paid_top_up_without_entry(busy: Api):
    execute(
        "DELETE FROM workspaces_ledgerentry WHERE kind = 'TOP_UP' AND amount = 1000"
    )
    balance()

    assert differences() == [NOT_TOPPED_UP]


def test_audit_finds_top_up_of_another_amount(busy: Api):
    execute("UPDATE workspaces_ledgerentry SET amount = 1001 WHERE amount = 1000")
    balance()

    assert differences() == [NOT_TOPPED_UP]


def test_audit_finds_top_up_that_does_not_count(busy: Api):
    execute(
        "UPDATE payments_checkout SET is_counted = false, counted_amount = 0, "
        "review_flags = '{OTHER_CURRENCY}' WHERE amount = 1000"
    )

    assert differences() == ["checkout topped up an account though it does not count"]


def test_audit_finds_entry_without_checkout(busy: Api):
    execute("DELETE FROM payments_checkout WHERE amount = 1000")

    assert differences() == [NOT_THERE]


def test_audit_finds_adjustment_without_refund(busy: Api):
    execute("UPDATE workspaces_ledgerentry SET note = 'refund' WHERE amount = -200")

    assert differences() == [
        NOT_THERE,
        "refund is DONE of 200.00 and moved its account by 0",
    ]


def test_audit_finds_refund_that_did_not_leave_the_balance(busy: Api):
    execute("DELETE FROM workspaces_ledgerentry WHERE amount = -200")
    balance()

    assert differences() == ["refund is DONE of 200.00 and moved its account by 0"]


def test_audit_finds_rejected_refund_that_left_the_balance(busy: Api):
    execute(
        "DELETE FROM workspaces_ledgerentry WHERE kind = 'ADJUSTMENT' AND amount = 700"
    )
    balance()

    assert differences() == [
        "refund is REJECTED of 700.00 and moved its account by -700.00"
    ]


def test_audit_finds_refunds_that_differ_from_their_checkout(busy: Api):
    execute("UPDATE payments_checkout SET refunded = 99 WHERE refunded = 100")

    assert differences() == [
        "checkout has given back 99.00 but its refunds make 100.00"
    ]


def test_audit_finds_refunds_above_the_paid_amount(busy: Api):
    execute("SET CONSTRAINTS ALL IMMEDIATE")
    execute("ALTER TABLE payments_checkout DROP CONSTRAINT paid_amount_covers_refunds")
    execute("UPDATE payments_checkout SET refunded = 251 WHERE refunded = 100")
    execute("UPDATE payments_refund SET amount = 251 WHERE amount = 100")

    assert "checkout has given back more than was paid" in differences()


def test_audit_finds_checkout_of_another_environment(busy: Api):
    checkout = report_checkout()
    execute(
        "UPDATE payments_checkout SET environment = 'production', provider = 'stripe' "
        "WHERE id = %s",
        checkout.pk,
    )

    assert differences() == ["checkout is of another environment than what it pays"]


def test_audit_finds_paid_payment_without_checkout(busy: Api):
    execute(
        "UPDATE payments_checkout SET is_counted = false, counted_amount = 0 "
        "WHERE id = %s",
        report_checkout().pk,
    )

    assert differences() == [
        "checkout keeps 250.00 that counts for nothing, without a reason",
        "payment is PAID and no checkout paid it",
    ]


def test_audit_finds_payment_of_another_amount(busy: Api):
    execute(
        "UPDATE payments_payment SET amount = 249 WHERE id = %s",
        report_checkout().payment_id,
    )

    assert differences() == [
        "payment asks for 249.00 and its checks cost 250.00",
        "payment was paid by another amount or currency",
    ]


def test_audit_finds_payment_paid_twice(busy: Api):
    execute("DROP INDEX a_payment_is_paid_once")
    first, second = (
        Checkout.objects.filter(
            report__isnull=False, is_counted=True, refunded=0
        ).first(),
        report_checkout(refunded=100),
    )
    execute(
        "UPDATE payments_checkout SET payment_id = %s WHERE id = %s",
        *(first.payment_id, second.pk),
    )

    assert differences() == [
        "payment is PAID and no checkout paid it",
        "payment was settled by more than one checkout",
    ]


def test_audit_finds_refunded_payment_without_refund(busy: Api):
    execute(
        "UPDATE payments_payment SET status = 'REFUNDED' WHERE id = %s",
        report_checkout(refunded=100).payment_id,
    )

    assert differences() == ["payment is REFUNDED though not all of it was given back"]


def test_audit_finds_fully_refunded_payment_that_is_paid(busy: Api):
    execute("UPDATE payments_payment SET status = 'PAID' WHERE status = 'REFUNDED'")

    assert differences() == ["payment is PAID though all of it was given back"]


def test_audit_finds_counted_money_of_an_unpaid_payment(busy: Api):
    execute(
        "UPDATE payments_payment SET status = 'PENDING', paid_at = NULL WHERE id = %s",
        report_checkout().payment_id,
    )

    assert differences() == [
        "checkout has paid a payment that is PENDING",
        "report has run for 250.00 and its payment is PENDING",
    ]


def test_audit_finds_counted_money_of_a_deleted_payment(busy: Api):
    execute(
        "DELETE FROM payments_payment WHERE id = %s",
        report_checkout(refunded=100).payment_id,
    )

    assert differences() == [
        "checkout has paid what is not there, and was not given back",
        "report has run for 250.00 and its payment is not there",
    ]


def test_audit_finds_report_that_ran_unpaid(busy: Api):
    execute(
        "UPDATE payments_checkout SET is_counted = false, counted_amount = 0 "
        "WHERE refunded = 100"
    )
    execute(
        "UPDATE payments_payment SET status = 'EXPIRED', paid_at = NULL WHERE id = %s",
        Checkout.objects.get(refunded=100).payment_id,
    )

    assert differences() == [
        "checkout keeps 150.00 that counts for nothing, without a reason",
        "report has run for 250.00 and its payment is EXPIRED",
    ]


def test_audit_finds_surplus_without_reason(busy: Api):
    execute(
        "UPDATE payments_checkout SET paid_amount = 260 WHERE id = %s",
        report_checkout(refunded=0).pk,
    )

    assert differences() == [
        "checkout keeps 10.00 on top of what counts, without a reason"
    ]


def test_nightly_audit_records_that_the_ledger_adds_up(busy: Api):
    audit_nightly()

    assert LedgerAudit.objects.get().differences == 0
    assert not OperatorAlert.objects.filter(kind="LEDGER").exists()


def test_audit_by_hand_is_recorded_so_that_alerts_end(busy: Api):
    Account.objects.filter(pk=busy.account.pk).update(balance=F("balance") + 1)
    audit_nightly()
    Account.objects.filter(pk=busy.account.pk).update(balance=F("balance") - 1)

    run("audit_ledger")

    newest = LedgerAudit.objects.order_by("-made_at").first()
    assert newest is not None
    assert newest.differences == 0
    assert OperatorAlert.objects.filter(kind="LEDGER").count() == 1


def test_nightly_audit_alerts_the_operators_of_a_difference(busy: Api):
    Account.objects.filter(pk=busy.account.pk).update(balance=F("balance") + 1)

    audit_nightly()

    assert LedgerAudit.objects.get().differences == 1
    (alert,) = OperatorAlert.objects.filter(kind="LEDGER")
    assert alert.message.startswith("Differences: 1.")
    assert str(busy.account.pk) in alert.message


def test_nightly_audit_goes_on_where_a_job_ended(busy: Api, monkeypatch):
    monkeypatch.setattr(audit, "JOB_SECONDS", -1)
    monkeypatch.setattr(audit, "SLICE_CHANGES", 3)
    execute("UPDATE payments_checkout SET refunded = 99 WHERE refunded = 100")

    audit_nightly()
    # A second one does not begin while one is under way.
    audit_nightly()
    slices = 2
    while Job.objects.filter(function__endswith="continue_audit").delete()[0]:
        assert not LedgerAudit.objects.exists()
        continue_audit()
        slices += 1

    assert slices > 5
    assert LedgerAudit.objects.get().differences == 1


def test_night_compares_old_rows_that_have_changed(busy: Api):
    assert find_at_night("NIGHT") == []
    old = report_checkout(refunded=0)

    create_refund(old, 50)
    Checkout.objects.filter(pk=old.pk).update(refunded=49)

    assert find_at_night("NIGHT") == [
        "checkout has given back 49.00 but its refunds make 50.00"
    ]


def test_old_row_that_was_changed_without_a_trace_is_found_by_the_round(busy: Api):
    assert find_at_night("NIGHT") == []
    execute("UPDATE payments_checkout SET refunded = 99 WHERE refunded = 100")

    assert find_at_night("NIGHT") == []
    assert find_at_night("ROUND") == [
        "checkout has given back 99.00 but its refunds make 100.00"
    ]


def test_difference_is_counted_each_night_until_it_is_mended(busy: Api):
    execute("UPDATE payments_checkout SET refunded = 99 WHERE refunded = 100")
    found = find_at_night("ROUND")

    assert len(found) == 1
    assert find_at_night("NIGHT") == found
    execute("UPDATE payments_checkout SET refunded = 100 WHERE refunded = 99")
    assert find_at_night("NIGHT") == []


def test_balance_is_compared_with_totals_of_earlier_nights(busy: Api):
    account = busy.account.pk
    audit_nightly()
    # The entries that the totals have are gone, and not the balance that they made.
    execute("DELETE FROM workspaces_ledgerentry WHERE kind = 'CHARGE'")
    Account.objects.filter(pk=account).update(balance=F("balance") + 1)

    assert any(f.startswith("account has balance") for f in find_at_night("NIGHT"))


def test_entry_of_a_slow_clock_makes_no_difference(busy: Api):
    audit_nightly()
    create_paid_top_up(busy, 900)
    # As from a machine whose clock is a day slow
    execute(
        "UPDATE workspaces_ledgerentry SET id = ("
        "SELECT overlay(min(id::text) placing '00' from 1 for 2)::uuid"
        " FROM workspaces_ledgerentry) WHERE amount = 900"
    )

    assert find_at_night("NIGHT") == []
    assert find_at_night("NIGHT") == []


def test_audit_says_since_when_all_rows_were_compared(busy: Api):
    began = now()
    audit_nightly()
    first = LedgerAudit.objects.latest("made_at")
    find_at_night("NIGHT")

    second = LedgerAudit.objects.latest("made_at")
    assert first.since == audit.BEGINNING
    assert second.since > began
    assert second.all_since >= first.all_since >= began


def test_round_goes_on_over_several_nights(busy: Api, monkeypatch):
    began = now()
    monkeypatch.setattr(audit, "ROUND_TIME", timedelta(0))
    audit_nightly()
    assert LedgerAudit.objects.latest("made_at").all_since is None

    monkeypatch.undo()
    create_paid_top_up(busy, 900)
    audit_nightly()

    latest = LedgerAudit.objects.latest("made_at")
    assert (latest.differences, LedgerAudit.objects.count()) == (0, 2)
    assert began < latest.all_since < latest.since + timedelta(minutes=16)


def test_round_ends_where_it_began_though_each_night_has_new_rows(
    busy: Api, monkeypatch
):
    with monkeypatch.context() as short:
        short.setattr(audit, "ROUND_TIME", timedelta(0))
        audit_nightly()
        create_paid_top_up(busy, 900)
        audit_nightly()
    round_ = AuditWalk.objects.get(name="ROUND")
    # The second night has summed up what the round does not read.
    assert [total.total for total in round_.totals.all()] == [900]
    assert round_.until == round_.since
    audit_nightly()

    assert LedgerAudit.objects.latest("made_at").all_since == round_.since
    assert AuditWalk.objects.get(name="ROUND").until is None


def test_rows_made_after_the_clock_went_back_in_a_night_are_compared(busy: Api):
    audit_nightly()
    # The night began before that.
    ahead = now() + timedelta(hours=2)
    AuditWalk.objects.filter(name="NIGHT").update(since=F("read_to"), until=ahead)
    audit_nightly()
    old = create_paid_checkout(busy)
    Checkout.objects.filter(pk=old.pk).update(refunded=1)

    assert find_at_night("NIGHT") == [
        "checkout has given back 1.00 but its refunds make 0"
    ]
