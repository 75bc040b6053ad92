"""Accounts with entries in three months, read in December."""

import csv
import io
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from verification.db.ids import uuid7
from verification.documents.statements import csv_file, csv_rows, statement_pdf
from verification.values.local_time import NAIROBI
from workspaces import ledger
from workspaces.create import create_workspace
from workspaces.ledger import Kind, Movement
from workspaces.models import Account
from workspaces.statements import Month, open_statement

OCTOBER, NOVEMBER = Month(2026, 10), Month(2026, 11)
DECEMBER = Month(2026, 12)


@pytest.fixture(autouse=True)
def _in_december(time_machine) -> None:
    time_machine.move_to(datetime(2026, 12, 10, 12, tzinfo=UTC))


@pytest.fixture
def account() -> Account:
    workspace = create_workspace(name="Acacia Lenders", owner_email="a@acacia.test")
    return ledger.account_of(workspace, "production")


def move(account: Account, *movements: tuple[str, str, datetime], note="") -> None:
    """Write movements: kind, amount and time of each."""
    for kind, amount, at in movements:
        named = {} if "_" in kind or kind == "ADJUSTMENT" else {"attempt": 1}
        one = Movement(
            account.pk,
            Kind(kind),
            Decimal(amount),
            "tests",
            result_id=uuid7() if named else None,
            note=note,
            **named,
        )
        ledger.book([one], at)


def at(month: int, day: int, hour: int = 0, second: int = 0) -> datetime:
    """Return a time of Nairobi in 2026."""
    return datetime(2026, month, day, hour, 0, second, tzinfo=NAIROBI)


def table(account: Account, month: Month) -> list[dict[str, str]]:
    with (
        open_statement(account.pk, month) as statement,
        csv_file(csv_rows(statement)) as file,
    ):
        text = file.read().decode("utf-8-sig")
    assert text.endswith("\r\n")
    return list(csv.DictReader(io.StringIO(text, newline="")))


@pytest.fixture
def three_months(account: Account) -> Account:
    move(
        account,
        ("TOP_UP", "1000", at(10, 31, 23)),
        ("CHARGE", "-300", at(11, 1)),
        ("CHARGE", "-50.50", at(11, 5)),
        ("REVERSAL", "50.50", at(11, 5, second=9)),
        ("ADJUSTMENT", "-10", at(11, 30, 23)),
        ("TOP_UP", "500", at(12, 1)),
    )
    return account


def many(account: Account, count: int) -> None:
    charges = [
        Movement(account.pk, Kind.ADJUSTMENT, Decimal(1), "tests") for _ in range(count)
    ]
    ledger.book(charges, at(11, 3))


def pdf_of(account: Account, month: Month = NOVEMBER) -> bytes:
    with open_statement(account.pk, month) as statement:
        return statement_pdf(statement)
