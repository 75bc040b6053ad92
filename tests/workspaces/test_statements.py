import csv
import io
import tracemalloc
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from threading import Thread
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import Permission, User
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from pypdf import PdfReader

from tests.clients import Api, company
from tests.office import log_in
from tests.orders import two_checks
from verification.ids import uuid7
from verification.tables import insert
from workspaces import ledger
from workspaces.accounts import create_workspace
from workspaces.ledger import Kind, Movement
from workspaces.models import Account
from workspaces.statement_files import csv_file, statement_pdf
from workspaces.statements import Month, Statement, months, opened

pytestmark = pytest.mark.django_db(transaction=True)

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
    """(kind, amount, when) each."""
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
        ledger.move_balances([one])
        insert(ledger.entries([one], at))


def at(month: int, day: int, hour: int = 0, second: int = 0) -> datetime:
    return datetime(2026, month, day, hour, 0, second, tzinfo=UTC)


def table(account: Account, month: Month) -> list[dict[str, str]]:
    with opened(account.pk, month) as statement, csv_file(statement) as file:
        text = file.read().decode()
    assert text.endswith("\r\n")
    return list(csv.DictReader(io.StringIO(text, newline="")))


def pdf_of(account: Account, month: Month = NOVEMBER) -> bytes:
    with opened(account.pk, month) as statement:
        return statement_pdf(statement)


def text_of(pdf: bytes) -> str:
    pages = PdfReader(io.BytesIO(pdf)).pages
    return "\n".join(page.extract_text() for page in pages)


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


def test_a_statement_goes_from_one_balance_to_the_next(three_months: Account):
    with opened(three_months.pk, NOVEMBER) as november:
        lines = list(november.lines())
    with opened(three_months.pk, OCTOBER) as october:
        pass
    with opened(three_months.pk, DECEMBER) as december:
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


def test_the_running_month_is_so_far(three_months: Account):
    with opened(three_months.pk, DECEMBER) as december:
        assert december.is_so_far
        assert december.until == at(12, 1)
    with opened(three_months.pk, NOVEMBER) as november:
        assert not november.is_so_far
        assert november.until == at(12, 1)


def test_a_month_without_entries_has_a_balance(three_months: Account):
    with opened(three_months.pk, Month(2026, 9)) as before:
        assert (before.opening, before.closing, before.count) == (0, 0, 0)
        assert list(before.lines()) == []


def test_months_are_those_of_utc_and_only_those_with_entries(three_months: Account):
    move(three_months, ("TOP_UP", "1", datetime(2024, 2, 29, 23, 59, tzinfo=UTC)))
    other = ledger.account_of(three_months.workspace, "sandbox")

    assert months(three_months.pk) == [DECEMBER, NOVEMBER, OCTOBER, Month(2024, 2)]
    assert months(other.pk) == []


def test_entries_of_another_account_are_left_out(three_months: Account):
    other = ledger.account_of(three_months.workspace, "sandbox")
    move(other, ("CHARGE", "-7", at(11, 7)))

    assert len(table(three_months, NOVEMBER)) == 6
    assert [row["balance"] for row in table(other, NOVEMBER)] == [
        "0.00",
        "-7.00",
        "-7.00",
    ]


def test_the_csv_begins_and_ends_with_the_balance(three_months: Account):
    first, *entries, last = table(three_months, NOVEMBER)

    assert (first["kind"], first["balance"]) == ("OPENING_BALANCE", "1000.00")
    assert (last["kind"], last["balance"]) == ("CLOSING_BALANCE", "690.00")
    assert first["time"] == "2026-11-01T00:00:00.000000Z"
    assert last["time"] == "2026-12-01T00:00:00.000000Z"
    assert [e["amount"] for e in entries] == ["-300.00", "-50.50", "50.50", "-10.00"]
    assert [e["balance"] for e in entries] == ["700.00", "649.50", "700.00", "690.00"]
    assert {e["currency"] for e in entries} == {"KES"}
    assert table(three_months, DECEMBER)[-1]["kind"] == "BALANCE_SO_FAR"


def test_a_line_names_report_check_and_who_it_was(api: Api):
    made = api.create(two_checks())
    _, *entries, _ = table(api.account, DECEMBER)

    assert [e["check"] for e in entries] == ["IDENTITY", "KRA_PIN"]
    assert {e["report"] for e in entries} == {made["id"]}
    assert {e["actor"] for e in entries} == {f"key {api.key}"}


@pytest.mark.parametrize("first", ["=", "+", "-", "@", "\t", "\r", "\n"])
def test_a_note_is_no_formula_in_a_spreadsheet(account: Account, first: str):
    note = f'{first}HYPERLINK("http://x.test","a, b")'
    move(
        account, ("TOP_UP", "5", at(11, 2)), ("ADJUSTMENT", "-5", at(11, 3)), note=note
    )

    _, first_entry, second, _ = table(account, NOVEMBER)

    assert first_entry["note"] == f"'{note}"
    assert second["amount"] == "-5.00"


def test_a_note_stays_as_it_is(account: Account):
    note = 'Wanjikũ said "ok",\r\nthen paid'
    move(account, ("TOP_UP", "5", at(11, 2)), note=note)

    assert table(account, NOVEMBER)[1]["note"] == note


def test_what_is_charged_while_a_statement_is_read_is_not_in_it(account: Account):
    move(account, ("TOP_UP", "100", at(12, 2)))

    with opened(account.pk, DECEMBER) as statement:
        _elsewhere(lambda: move(account, ("CHARGE", "-40", at(12, 3))))
        lines = list(statement.lines())

    assert statement.closing == lines[-1].balance == 100
    assert len(lines) == 1
    with opened(account.pk, DECEMBER) as statement:
        assert statement.closing == 60


def _elsewhere(do: Any) -> None:
    def run() -> None:
        do()
        connection.close()

    thread = Thread(target=run)
    thread.start()
    thread.join()


def test_a_month_is_read_in_as_many_statements_whatever_its_length(account: Account):
    def cost() -> int:
        with CaptureQueriesContext(connection) as seen:
            table(account, NOVEMBER)
        return len(seen)

    _many(account, 10)
    few = cost()
    _many(account, 3_000)

    assert cost() == few <= 7


def _many(account: Account, count: int) -> None:
    charges = [
        Movement(account.pk, Kind.ADJUSTMENT, Decimal(1), "tests") for _ in range(count)
    ]
    ledger.move_balances(charges)
    insert(ledger.entries(charges, at(11, 3)))


def test_a_long_month_is_not_held_in_memory(account: Account):
    _many(account, 40_000)
    with opened(account.pk, NOVEMBER) as statement:
        tracemalloc.start()
        with csv_file(statement) as file:
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            size = file.seek(0, io.SEEK_END)

    assert size > 4_000_000
    assert peak < 12_000_000


def test_the_pdf_shows_totals_before_entries(three_months: Account):
    text = text_of(pdf_of(three_months))

    for part in ["Statement of November 2026", "Acacia Lenders", "production"]:
        assert part in text
    assert str(three_months.workspace_id) in text
    shown = ["1,000.00", "-350.50", "50.50", "690.00", "-300.00", "649.50"]
    positions = [text.index(amount) for amount in shown[:4]]
    assert positions == sorted(positions)
    assert text.index("Closing balance") < text.index("2026-11-01 00:00:00")
    assert all(amount in text for amount in shown)
    assert "play money" not in text


def test_the_pdf_of_the_running_month_says_so(three_months: Account):
    text = text_of(pdf_of(three_months, DECEMBER))

    assert "Balance so far" in text
    assert "Until 2026-12-01 00:00:00" in text
    assert "Closing balance" not in text


def test_the_pdf_of_the_sandbox_says_that_the_money_is_play(three_months: Account):
    play = ledger.account_of(three_months.workspace, "sandbox")

    assert "sandbox (play money)" in text_of(pdf_of(play))


def test_the_same_month_gives_the_same_pdf(three_months: Account, time_machine):
    made = pdf_of(three_months), pdf_of(three_months, DECEMBER)
    time_machine.shift(timedelta(hours=3))

    assert (pdf_of(three_months), pdf_of(three_months, DECEMBER)) == made


def test_the_pdf_is_tagged_for_screen_readers(three_months: Account):
    reader = PdfReader(io.BytesIO(pdf_of(three_months)))

    assert reader.root_object["/MarkInfo"]["/Marked"]
    assert b"pdfuaid:part" in reader.root_object["/Metadata"].get_object().get_data()
    assert reader.metadata.title == "Statement of November 2026"


@pytest.mark.parametrize(
    "note", ['#eval("1")', "*x* $y$ <label>", "= A heading", "中文"]
)
def test_notes_in_a_pdf_are_text(account: Account, note: str):
    move(account, ("TOP_UP", "5", at(11, 2)), note=note)

    shown = text_of(pdf_of(account))
    assert "5.00" in shown
    assert note in shown or note == "中文"


def test_the_pdf_of_a_very_long_month_points_to_the_csv(account: Account):
    _many(account, 2_000)
    assert len(PdfReader(io.BytesIO(pdf_of(account))).pages) > 20
    _many(account, 1)

    text = text_of(pdf_of(account))

    assert "There are 2001 entries. They are in the CSV file" in text
    assert "2,001.00" in text


# The command


def statement(account: Account, **options: Any) -> str:
    told = io.StringIO()
    call_command(
        "statement",
        str(account.workspace_id),
        **{"environment": "production", "month": "2026-11", **options},
        stdout=told,
    )
    return told.getvalue()


def test_the_command_prints_csv(three_months: Account, tmp_path):
    printed = statement(three_months)
    statement(three_months, csv=tmp_path / "november.csv")

    assert len(printed.splitlines()) == 7
    assert (tmp_path / "november.csv").read_bytes() == printed.encode()


def test_the_command_writes_a_pdf(three_months: Account, tmp_path):
    statement(three_months, pdf=tmp_path / "november.pdf")

    assert (tmp_path / "november.pdf").read_bytes() == pdf_of(three_months)


@pytest.mark.parametrize(
    ("month", "told"),
    [
        ("2026-13", "not a month"),
        ("2026-00", "not a month"),
        ("november", "not a month"),
        ("\u0662026-11", "not a month"),
        ("2026-11-01", "not a month"),
        ("2027-01", "has not begun"),
    ],
)
def test_the_command_says_what_is_wrong(three_months: Account, month: str, told: str):
    with pytest.raises(CommandError, match=told):
        statement(three_months, month=month)


# The admin


@pytest.fixture
def staff(db: None) -> Client:
    return _staff("grace", "view_account")


def _staff(name: str, *permissions: str) -> Client:
    user = User.objects.create_user(name, is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client()
    log_in(client, user)
    return client


def url(account_id: UUID, month: str = "2026-11", kind: str = "csv") -> str:
    return reverse("admin:workspaces_account_statement", args=[account_id, month, kind])


def test_an_accounts_page_links_to_its_statements(three_months: Account, staff: Client):
    page = staff.get(
        reverse("admin:workspaces_account_change", args=[three_months.pk])
    ).content.decode()

    for month in ["2026-10", "2026-11", "2026-12"]:
        for kind in ["csv", "pdf"]:
            assert url(three_months.pk, month, kind) in page
    assert "2026-09" not in page


@pytest.mark.parametrize(
    ("kind", "media"), [("csv", "text/csv"), ("pdf", "application/pdf")]
)
def test_staff_get_a_statement(three_months: Account, staff: Client, kind, media):
    answer = staff.get(url(three_months.pk, kind=kind))
    content = b"".join(answer.streaming_content)

    assert answer.status_code == 200
    assert answer["Content-Type"].startswith(media)
    assert "no-store" in answer["Cache-Control"]
    name = f"statement-{three_months.workspace_id}-production-2026-11.{kind}"
    assert f'attachment; filename="{name}"' == answer["Content-Disposition"]
    assert int(answer["Content-Length"]) == len(content)
    assert content.startswith(b"%PDF" if kind == "pdf" else b"time,kind,amount")


def test_who_may_not_see_accounts_gets_no_statement(three_months: Account):
    for client in [_staff("otieno", "view_ledgerentry"), Client()]:
        answer = client.get(url(three_months.pk))
        assert answer.status_code in {302, 403}
        assert b"CHARGE" not in answer.content


@pytest.mark.parametrize(
    ("month", "kind"),
    [("2026-13", "csv"), ("2027-01", "csv"), ("2026-11", "xml"), ("9999-99", "pdf")],
)
def test_a_statement_that_cannot_be_is_not_found(
    three_months: Account, staff: Client, month: str, kind: str
):
    assert staff.get(url(three_months.pk, month, kind)).status_code == 404
    assert staff.get(url(uuid7())).status_code in {302, 404}


def test_opening_and_entries_make_the_balance_of_real_reports(api: Api):
    made = api.create(two_checks(), two_checks(), company())
    assert api.post(f"/reports/{made[0]['id']}/cancel").status_code == 200

    with opened(api.account.pk, DECEMBER) as so_far:
        lines = list(so_far.lines())

    assert isinstance(so_far, Statement)
    assert so_far.closing == lines[-1].balance == api.account.balance
    assert so_far.count == len(lines) == 7
