"""Statements as CSV and PDF: by the command, and from the account's page."""

import io
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import Permission, User
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from django.utils.translation import override
from pypdf import PdfReader

from tests.workspaces.months import DECEMBER, at, many, move, pdf_of
from tests.workspaces.months import _in_december as _in_december
from tests.workspaces.months import account as account
from tests.workspaces.months import three_months as three_months
from tests.world.clients import Api
from tests.world.orders import two_checks
from tests.world.staff import log_in
from verification.db.ids import number_of_id, uuid7
from verification.documents import statements
from workspaces import ledger
from workspaces.models import Account

pytestmark = pytest.mark.django_db(transaction=True)


def statement(account: Account, **options: Any) -> str:
    told = io.StringIO()
    call_command(
        "statement",
        str(account.workspace_id),
        **{"environment": "production", "month": "2026-11", **options},
        stdout=told,
    )
    return told.getvalue()


def test_command_prints_csv(three_months: Account, tmp_path):
    printed = statement(three_months)
    statement(three_months, csv=tmp_path / "november.csv")

    assert len(printed.splitlines()) == 7
    assert (tmp_path / "november.csv").read_bytes() == printed.encode("utf-8-sig")


def test_command_writes_a_pdf(three_months: Account, tmp_path):
    statement(three_months, pdf=tmp_path / "november.pdf")

    assert (tmp_path / "november.pdf").read_bytes() == pdf_of(three_months)


INVALID_MONTHS = [
    ("2026-13", "not a month"),
    ("2026-00", "not a month"),
    ("november", "not a month"),
    ("\u0662026-11", "not a month"),
    ("2026-11-01", "not a month"),
    ("2027-01", "has not begun"),
]


def test_command_reports_invalid_arguments(three_months: Account):
    for month, told in INVALID_MONTHS:
        with pytest.raises(CommandError, match=told):
            statement(three_months, month=month)


def test_command_names_the_file_that_it_cannot_write(three_months: Account, tmp_path):
    for form in ["csv", "pdf"]:
        with pytest.raises(CommandError, match=r"cannot be written: .*/away/file"):
            statement(three_months, **{form: tmp_path / "away" / "file"})


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


def test_accounts_page_links_to_its_statements(three_months: Account, staff: Client):
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
    assert content.startswith(b"%PDF" if kind == "pdf" else b"\xef\xbb\xbftime,")


def test_statement_needs_the_permission_for_accounts(three_months: Account):
    for client in [_staff("otieno", "view_ledgerentry"), Client()]:
        answer = client.get(url(three_months.pk))
        assert answer.status_code in {302, 403}
        assert b"CHARGE" not in answer.content


def test_invalid_statement_is_not_found(three_months: Account, staff: Client):
    for month, kind in [
        ("2026-13", "csv"),
        ("2027-01", "csv"),
        ("2026-11", "xml"),
        ("9999-99", "pdf"),
    ]:
        assert staff.get(url(three_months.pk, month, kind)).status_code == 404
        assert staff.get(url(uuid7())).status_code in {302, 404}


def text_of(pdf: bytes) -> str:
    pages = PdfReader(io.BytesIO(pdf)).pages
    return "\n".join(page.extract_text() for page in pages)


def test_pdf_shows_totals_before_entries(three_months: Account):
    text = text_of(pdf_of(three_months))

    for part in ["Statement of November 2026", "Acacia Lenders", "Production"]:
        assert part in text
    assert str(three_months.workspace_id) in text
    shown = ["1,000.00", "-350.50", "50.50", "690.00", "-300.00", "649.50"]
    positions = [text.index(amount) for amount in shown[:4]]
    assert positions == sorted(positions)
    assert text.index("Closing balance") < text.index("2026-11-01 00:00:00")
    assert all(amount in text for amount in shown)
    assert "Play money" not in text


def test_pdf_of_the_current_month_says_so(three_months: Account):
    text = text_of(pdf_of(three_months, DECEMBER))

    assert "Balance so far" in text
    assert "Until 2026-12-01 00:00:00" in text
    assert "Closing balance" not in text


def test_pdf_of_the_sandbox_names_play_money(three_months: Account):
    play = ledger.account_of(three_months.workspace, "sandbox")

    text = text_of(pdf_of(play))
    assert "Play money of the sandbox." in text
    assert "CHARGE" not in text


def test_pdf_names_reports_by_their_numbers(api: Api):
    made = api.create(two_checks())

    text = text_of(pdf_of(api.account, DECEMBER))
    assert number_of_id("R", UUID(made["id"])) in text


def test_pdf_is_in_the_language_of_the_reader(three_months: Account):
    with override("sw"):
        text = text_of(pdf_of(three_months))

    for part in ["Taarifa ya akaunti ya Novemba 2026", "Salio la mwisho", "Ukurasa 1"]:
        assert part in text
    assert "CHARGE" not in text


def test_same_month_gives_the_same_pdf(three_months: Account, time_machine):
    made = pdf_of(three_months), pdf_of(three_months, DECEMBER)
    time_machine.shift(timedelta(hours=3))

    assert (pdf_of(three_months), pdf_of(three_months, DECEMBER)) == made


def test_pdf_is_tagged_for_screen_readers(three_months: Account):
    reader = PdfReader(io.BytesIO(pdf_of(three_months)))

    assert reader.root_object["/MarkInfo"]["/Marked"]
    assert b"pdfuaid:part" in reader.root_object["/Metadata"].get_object().get_data()
    assert reader.metadata.title == "Statement of November 2026"


def test_notes_in_a_pdf_are_text(account: Account):
    notes = ['#eval("1")', "*x* $y$ <label>", "= A heading"]
    for note in [*notes, "中文"]:
        move(account, ("TOP_UP", "5", at(11, 2)), note=note)

    shown = text_of(pdf_of(account))
    assert shown.count("5.00") >= 4
    assert [note for note in notes if note not in shown] == []


def test_pdf_of_a_very_long_month_points_to_the_csv(
    account: Account, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(statements, "MAX_PDF_LINES", 100)
    many(account, 100)
    whole = pdf_of(account)
    assert len(PdfReader(io.BytesIO(whole)).pages) > 2
    assert "in the CSV file" not in text_of(whole)
    many(account, 1)

    text = text_of(pdf_of(account))

    assert "101 entries are in the CSV file" in text
    assert "101.00" in text


# The command
