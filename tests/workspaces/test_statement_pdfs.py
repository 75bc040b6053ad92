"""The statement as a PDF."""

import io
from datetime import timedelta

import pytest
from pypdf import PdfReader

from tests.workspaces.months import DECEMBER, at, many, move, pdf_of
from tests.workspaces.months import _in_december as _in_december
from tests.workspaces.months import account as account
from tests.workspaces.months import three_months as three_months
from workspaces import ledger
from workspaces.models import Account

pytestmark = pytest.mark.django_db(transaction=True)


def text_of(pdf: bytes) -> str:
    pages = PdfReader(io.BytesIO(pdf)).pages
    return "\n".join(page.extract_text() for page in pages)


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
    many(account, 2_000)
    assert len(PdfReader(io.BytesIO(pdf_of(account))).pages) > 20
    many(account, 1)

    text = text_of(pdf_of(account))

    assert "There are 2001 entries. They are in the CSV file" in text
    assert "2,001.00" in text


# The command
