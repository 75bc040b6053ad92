"""Statements by the command, and on the account's page in the admin."""

import io
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import Permission, User
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from tests.workspaces.months import _in_december as _in_december
from tests.workspaces.months import account as account
from tests.workspaces.months import pdf_of
from tests.workspaces.months import three_months as three_months
from tests.world.staff import log_in
from verification.db.ids import uuid7
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
