import io
import tracemalloc
from datetime import UTC, datetime
from decimal import Decimal
from threading import Thread
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.workspaces.months import DECEMBER, NOVEMBER, OCTOBER, at, many, move, table
from tests.workspaces.months import _in_december as _in_december
from tests.workspaces.months import account as account
from tests.workspaces.months import three_months as three_months
from tests.world.clients import Api, company
from tests.world.orders import two_checks
from verification.documents.statements import csv_file, csv_rows
from workspaces import ledger
from workspaces.models import Account
from workspaces.statements import Month, Statement, months, open_statement

pytestmark = pytest.mark.django_db(transaction=True)


def test_closing_balance_opens_the_next_statement(three_months: Account):
    with open_statement(three_months.pk, NOVEMBER) as november:
        lines = list(november.lines())
    with open_statement(three_months.pk, OCTOBER) as october:
        pass
    with open_statement(three_months.pk, DECEMBER) as december:
        pass

    assert (october.opening, october.closing) == (0, 1000)
    assert (november.opening, november.closing) == (1000, 690)
    assert (december.opening, december.closing) == (690, 1190)
    assert [line.balance for line in lines] == [700, Decimal("649.50"), 700, 690]
    assert {t.kind: (t.entries, t.amount) for t in november.totals} == {
        "CHARGE": (2, Decimal("-350.50")),
        "REVERSAL": (1, Decimal("50.50")),
        "TOP_UP": (0, 0),
        "ADJUSTMENT": (1, -10),
    }


def test_statement_of_the_current_month_is_partial(three_months: Account):
    with open_statement(three_months.pk, DECEMBER) as december:
        assert december.is_partial
        assert december.until == at(12, 1)
    with open_statement(three_months.pk, NOVEMBER) as november:
        assert not november.is_partial
        assert november.until == at(12, 1)


def test_month_without_entries_has_a_balance(three_months: Account):
    with open_statement(three_months.pk, Month(2026, 9)) as before:
        assert (before.opening, before.closing, before.count) == (0, 0, 0)
        assert list(before.lines()) == []


def test_months_are_only_those_with_entries(three_months: Account):
    move(three_months, ("TOP_UP", "1", datetime(2024, 2, 29, 20, 59, tzinfo=UTC)))
    other = ledger.account_of(three_months.workspace, "sandbox")

    assert months(three_months.pk) == [DECEMBER, NOVEMBER, OCTOBER, Month(2024, 2)]
    assert months(other.pk) == []


def test_month_ends_at_midnight_in_nairobi(account: Account):
    before = datetime(2026, 10, 31, 20, 59, 59, tzinfo=UTC)
    after = datetime(2026, 10, 31, 22, 30, tzinfo=UTC)
    move(account, ("TOP_UP", "1000", before), ("CHARGE", "-50", after))

    assert months(account.pk) == [NOVEMBER, OCTOBER]
    _, october, closing = table(account, OCTOBER)
    assert (october["amount"], closing["balance"]) == ("1000.00", "1000.00")
    _, november, _ = table(account, NOVEMBER)
    assert november["time"] == "2026-11-01T01:30:00.000000+03:00"
    assert november["amount"] == "-50.00"


def test_entries_of_another_account_are_left_out(three_months: Account):
    other = ledger.account_of(three_months.workspace, "sandbox")
    move(other, ("CHARGE", "-7", at(11, 7)))

    assert len(table(three_months, NOVEMBER)) == 6
    assert [row["balance"] for row in table(other, NOVEMBER)] == [
        "0.00",
        "-7.00",
        "-7.00",
    ]


def test_csv_begins_and_ends_with_the_balance(three_months: Account):
    first, *entries, last = table(three_months, NOVEMBER)

    assert (first["kind"], first["balance"]) == ("OPENING_BALANCE", "1000.00")
    assert (last["kind"], last["balance"]) == ("CLOSING_BALANCE", "690.00")
    assert first["time"] == "2026-11-01T00:00:00.000000+03:00"
    assert last["time"] == "2026-12-01T00:00:00.000000+03:00"
    assert [e["amount"] for e in entries] == ["-300.00", "-50.50", "50.50", "-10.00"]
    assert [e["balance"] for e in entries] == ["700.00", "649.50", "700.00", "690.00"]
    assert {e["currency"] for e in entries} == {"KES"}
    assert table(three_months, DECEMBER)[-1]["kind"] == "BALANCE_SO_FAR"


def test_line_names_report_check_and_actor(api: Api):
    made = api.create(two_checks())
    _, *entries, _ = table(api.account, DECEMBER)

    assert [e["check"] for e in entries] == ["IDENTITY", "KRA_PIN"]
    assert {e["report"] for e in entries} == {made["id"]}
    assert {e["actor"] for e in entries} == {f"key {api.key}"}


def test_line_names_no_member_of_the_staff(api: Api):
    ledger.top_up(
        api.workspace, "sandbox", Decimal(5), actor="staff grace", note="Gift"
    )
    _, entry, _ = table(api.account, DECEMBER)

    assert (entry["actor"], entry["note"]) == ("staff", "Gift")


def test_note_is_never_a_formula_in_a_spreadsheet(account: Account):
    notes = [f'{first}HYPERLINK("http://x.test","a, b")' for first in "=+-@\t\r\n"]
    for note in notes:
        move(account, ("TOP_UP", "5", at(11, 2)), note=note)
    move(account, ("ADJUSTMENT", "-5", at(11, 3)))

    _, *entries, second, _ = table(account, NOVEMBER)

    assert [entry["note"] for entry in entries] == [f"'{note}" for note in notes]
    assert second["amount"] == "-5.00"


def test_plain_note_is_unchanged_in_the_csv(account: Account):
    note = 'Wanjikũ said "ok",\r\nthen paid'
    move(account, ("TOP_UP", "5", at(11, 2)), note=note)

    assert table(account, NOVEMBER)[1]["note"] == note


def test_open_statement_excludes_later_charges(account: Account):
    move(account, ("TOP_UP", "100", at(12, 2)))

    with open_statement(account.pk, DECEMBER) as statement:
        _elsewhere(lambda: move(account, ("CHARGE", "-40", at(12, 3))))
        lines = list(statement.lines())

    assert statement.closing == lines[-1].balance == 100
    assert len(lines) == 1
    with open_statement(account.pk, DECEMBER) as statement:
        assert statement.closing == 60


def _elsewhere(do: Any) -> None:
    def run() -> None:
        do()
        connection.close()

    thread = Thread(target=run)
    thread.start()
    thread.join()


def test_month_is_read_in_constant_queries(account: Account):
    def cost() -> int:
        with CaptureQueriesContext(connection) as seen:
            table(account, NOVEMBER)
        return len(seen)

    many(account, 10)
    few = cost()
    many(account, 1_100)

    assert cost() == few <= 7


@pytest.mark.slow
def test_long_month_is_not_held_in_memory(account: Account):
    many(account, 40_000)
    with open_statement(account.pk, NOVEMBER) as statement:
        tracemalloc.start()
        with csv_file(csv_rows(statement)) as file:
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            size = file.seek(0, io.SEEK_END)

    assert size > 4_000_000
    assert peak < 12_000_000


def test_opening_and_entries_make_the_balance_of_real_reports(api: Api):
    made = api.create(two_checks(), two_checks(), company())
    assert api.post(f"/reports/{made[0]['id']}/cancel").status_code == 200

    with open_statement(api.account.pk, DECEMBER) as so_far:
        lines = list(so_far.lines())

    assert isinstance(so_far, Statement)
    assert so_far.closing == lines[-1].balance == api.account.balance
    assert so_far.count == len(lines) == 7
