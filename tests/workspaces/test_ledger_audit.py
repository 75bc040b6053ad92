"""The audit of the ledger by the command finds each difference."""

import io
from decimal import Decimal
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection

from tests.workspaces.test_commands import run
from tests.world.clients import Api, create_lender, person
from verification.checks.models import CheckResult
from workspaces import ledger
from workspaces.ledger import Kind, Movement
from workspaces.models import LedgerEntry

pytestmark = pytest.mark.django_db


def differences() -> list[str]:
    """Return the lines of the audit without identifiers."""
    out = io.StringIO()
    with pytest.raises(CommandError, match=r"The ledger has \d+ differences"):
        call_command("audit_ledger", stdout=out)
    lines = [line.split(" ", 2) for line in out.getvalue().splitlines()]
    return sorted(f"{noun} {fault}" for noun, _, fault in lines)


@pytest.fixture(scope="module")
def busy(module_transaction: None) -> Api:
    """Create reports in each state of money."""
    api = Api(create_lender(), "sandbox")
    api.create(person())
    api.create(person(idNumber="90000008"))
    api.work()
    failed = next(r for r in CheckResult.objects.filter(status="FAILED"))
    api.post(f"/reports/{failed.report_id}/retry")
    waiting = api.create(person(idNumber="22222222"))
    api.create({**person(idNumber="33333333"), "paymentMode": "CANDIDATE"})
    api.create(person(idNumber="44444444"), draft=True)
    cancelled = api.create(person(idNumber="55555555"))
    api.post(f"/reports/{cancelled['id']}/cancel")
    assert waiting["status"] == "RUNNING"
    return api


def test_correct_ledger_is_reported_with_its_counts(busy):
    out = run("audit_ledger")

    entries, results = LedgerEntry.objects.count(), CheckResult.objects.count()
    assert out == (
        f"The ledger adds up: 2 accounts, {entries} entries, {results} check results "
        "and 0 paid checkouts.\n"
    )
    assert LedgerEntry.objects.filter(kind="REVERSAL").exists()
    assert CheckResult.objects.filter(attempt=2).exists()


def test_audit_finds_a_balance_changed_by_hand(busy):
    total = busy.account.balance
    execute("UPDATE workspaces_account SET balance = 7 WHERE billing = 'PLAY'")

    assert differences() == [f"account has balance 7.00 but its entries make {total}"]


def execute(statement: str, *parameters: Any) -> None:
    """Run a statement that the triggers would refuse."""
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute(statement, parameters)
        cursor.execute("SET session_replication_role = origin")


def result(status: str, attempt: int = 1) -> CheckResult:
    """Return a check result with a charge."""
    charged = LedgerEntry.objects.filter(kind="CHARGE").values("result_id")
    found = CheckResult.objects.filter(pk__in=charged, status=status, attempt=attempt)
    return found.order_by("pk")[0]


def delete_entry(result: CheckResult, kind: str, attempt: int = 1) -> None:
    """Delete an entry and its amount of the balance, as if it had never been."""
    execute(
        """
        WITH gone AS (
            DELETE FROM workspaces_ledgerentry
            WHERE result_id = %s AND kind = %s AND attempt = %s
            RETURNING account_id, amount
        )
        UPDATE workspaces_account a SET balance = balance - gone.amount
        FROM gone WHERE a.id = gone.account_id
        """,
        *(result.pk, kind, attempt),
    )


@pytest.mark.parametrize("status", ["COMPLETED", "PENDING"])
def test_audit_finds_a_result_without_a_charge(busy, status):
    delete_entry(result(status), "CHARGE")

    assert differences() == ["result was not charged for attempt 1"]


def test_audit_finds_a_first_attempt_without_a_charge(busy):
    retried = result("PENDING", attempt=2)
    delete_entry(retried, "CHARGE")
    delete_entry(retried, "REVERSAL")

    assert differences() == ["result was not charged for attempt 1"]


def test_audit_finds_a_failed_attempt_without_reversal(busy):
    delete_entry(result("PENDING", attempt=2), "REVERSAL")

    assert differences() == ["entry is not reversed though its check was not done"]


def test_audit_finds_a_cancelled_check_without_reversal(busy):
    delete_entry(result("CANCELLED"), "REVERSAL")

    assert differences() == ["entry is not reversed though its check was not done"]


def move(busy: Api, kind: Kind, amount: Decimal, of: CheckResult, attempt: int) -> None:
    ledger.record_movements(
        Movement(
            busy.account.pk, kind, amount, "tests", of.report_id, of.pk, attempt=attempt
        )
    )


def test_audit_finds_a_completed_check_with_reversal(busy):
    done = result("COMPLETED")
    move(busy, Kind.REVERSAL, done.price, done, 1)

    assert differences() == ["entry is reversed though its result is COMPLETED"]


def test_audit_finds_a_reversal_without_a_charge(busy):
    done = result("COMPLETED")
    move(busy, Kind.REVERSAL, done.price, done, 9)

    assert differences() == ["entry reverses what was not charged"]


def test_audit_finds_a_reversal_of_another_amount(busy):
    cancelled = result("CANCELLED")
    delete_entry(cancelled, "REVERSAL")
    move(busy, Kind.REVERSAL, cancelled.price + 1, cancelled, 1)

    assert differences() == [
        "entry is reversed by another amount or to another account"
    ]


def test_audit_finds_a_charge_of_another_amount(busy):
    done = result("COMPLETED")
    delete_entry(done, "CHARGE")
    move(busy, Kind.CHARGE, -done.price - 1, done, 1)

    assert differences() == [
        f"entry charges {-done.price - 1} for a result at {done.price}"
    ]


def test_audit_finds_a_charge_without_an_attempt(busy):
    done = result("COMPLETED")
    move(busy, Kind.CHARGE, -done.price, done, 2)

    assert differences() == ["entry charges an attempt that was not made"]


@pytest.mark.parametrize("payer", ["CANDIDATE", "SELF"])
def test_audit_finds_a_charge_for_a_report_of_a_payer(busy, payer):
    free = CheckResult.objects.filter(
        report__payment_mode=payer, report__status__in=["DRAFT", "PENDING_PAYMENT"]
    )[0]
    move(busy, Kind.CHARGE, -free.price, free, 1)

    assert differences() == [
        "entry charges a report that its workspace does not pay for"
    ]


def test_audit_finds_a_charge_to_another_account(busy):
    done = result("COMPLETED")
    delete_entry(done, "CHARGE")
    other = busy.workspace.accounts.get(environment="production")
    ledger.top_up(busy.workspace, "production", done.price, actor="tests", note="")
    ledger.record_movements(
        Movement(
            *(other.pk, Kind.CHARGE, -done.price, "tests"),
            *(done.report_id, done.pk, 1),
        )
    )

    assert differences() == [
        "entry charges another account or report than its result is of"
    ]


def test_audit_finds_a_charge_of_a_missing_result(busy):
    execute("DELETE FROM checks_checkresult WHERE id = %s", result("COMPLETED").pk)

    assert differences() == ["entry charges a result that does not exist"]
