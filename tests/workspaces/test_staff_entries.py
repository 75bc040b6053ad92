"""Top-ups and adjustments by staff: a form books once, large ones need two people."""

import re
from datetime import timedelta
from decimal import Decimal

import pytest
import time_machine
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction
from django.test import Client
from django.utils.timezone import now

from tests.payments.test_refund_admin import browser
from tests.world.staff import (
    dialog_fields,
    dialog_url,
    list_url,
    press_button,
    read_page,
    run_action,
)
from tests.world.threads import run_at_once
from verification.backoffice.approvals import StaffActor
from verification.backoffice.models import AuditEvent
from verification.db.ids import uuid7
from workspaces import ledger, staff_entries
from workspaces.ledger import Kind, Movement
from workspaces.models import Account, LedgerEntry, StaffEntry

pytestmark = pytest.mark.django_db
GRACE = StaffActor(1, "staff grace")


@pytest.fixture
def account(workspace) -> Account:
    return workspace.accounts.get(environment="production")


def finance(name: str) -> Client:
    return browser(
        name, "view_account", "change_account", "view_staffentry", "change_staffentry"
    )


def make_entry(
    account: Account, amount: object, kind: Kind = Kind.TOP_UP
) -> StaffEntry:
    return staff_entries.request_entry(
        uuid7(), account.pk, kind, Decimal(amount), "Bank", GRACE
    )


def balance(account: Account) -> Decimal:
    return Account.objects.get(pk=account.pk).balance


def test_form_sent_twice_books_once(account, superuser):
    first = dialog_fields(amount="100", note="Transfer 7")

    assert (
        "Top-up of KES 100.00" in press_button(superuser, "top_up", account, **first)[0]
    )
    told = press_button(superuser, "top_up", account, **first)
    assert told[0].startswith("This page was sent before")
    # Going back and typing another amount does not make it another page.
    press_button(superuser, "top_up", account, **{**first, "amount": "900"})

    assert (balance(account), LedgerEntry.objects.count()) == (100, 1)
    # Another page is another entry, whatever is typed there.
    press_button(
        superuser, "top_up", account, **dialog_fields(amount="100", note="Transfer 7")
    )
    assert balance(account) == 200


def test_each_opened_dialog_has_its_own_id(account, superuser):
    url = dialog_url("top_up", account)
    found = [
        re.search(r'name="page" value="([^"]+)"', read_page(superuser, url))[1]
        for _ in range(2)
    ]
    assert found[0] != found[1]


@pytest.mark.parametrize("page", ["", "1", "../../x"])
def test_first_step_of_the_dialog_books_nothing(account, superuser, page):
    assert press_button(superuser, "top_up", account, amount="100", page=page) == []

    assert not StaffEntry.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_double_click_books_once(account):
    page = uuid7()

    def click(number: int) -> StaffEntry:
        return staff_entries.request_entry(
            page, account.pk, Kind.TOP_UP, Decimal(10), "", GRACE
        )

    answers = run_at_once(4, click)

    refused = [one for one in answers if isinstance(one, staff_entries.NotBooked)]
    assert len(refused) == 3
    assert all("sent before" in str(one) for one in refused)
    assert balance(account) == 10


def test_database_books_a_staff_entry_once(account):
    entry = make_entry(account, 10)
    again = Movement(account.pk, Kind.TOP_UP, Decimal(10), "x", staff_entry_id=entry.pk)

    with pytest.raises(IntegrityError, match="a_staff_entry_is_booked_once"):
        ledger.record_movements(again)


def test_large_entry_needs_a_second_person(account, settings):
    settings.STAFF_ENTRY_NEEDS_SECOND_ABOVE = Decimal(100)
    grace, wangari = finance("grace"), finance("wangari")
    (told,) = press_button(grace, "top_up", account, amount="100.01", note="Transfer 7")
    assert told.endswith("waits for a second person.")
    entry = StaffEntry.objects.get()

    for _ in range(2):
        (refused,) = run_action(grace, "approve", entry, confirmed="yes")
        assert "Another person" in refused
        User.objects.filter(username="grace").update(username="Grace ")
    # Approving asks first, and says what for.
    data = {"action": "approve", "_selected_action": [entry.pk]}
    page = wangari.post(list_url(StaffEntry), data).content.decode()
    assert "KES 100.01" in page
    assert "Transfer 7" in page
    assert balance(account) == 0
    assert run_action(wangari, "approve", entry, confirmed="yes") == [
        f"{entry.pk}: approved."
    ]
    (again,) = run_action(wangari, "approve", entry, confirmed="yes")
    assert "BOOKED already" in again

    assert balance(account) == Decimal("100.01")
    trail = AuditEvent.objects.filter(workspace_id=account.workspace_id)
    assert list(trail.order_by("id").values_list("actor", "action", "reason")) == [
        ("grace", "account.topped-up-asked", "Transfer 7"),
        ("wangari", "staff-entry.approved", ""),
    ]
    call_command("audit_ledger")


def test_rejected_entry_is_not_booked(account, settings):
    settings.STAFF_ENTRY_NEEDS_SECOND_ABOVE = Decimal(0)
    entry = make_entry(account, 50)

    staff_entries.reject(entry.pk, by=StaffActor(2, "staff wangari"))

    with pytest.raises(staff_entries.NotBooked, match="REJECTED already"):
        staff_entries.approve(entry.pk, by=StaffActor(2, "staff wangari"))
    assert balance(account) == 0


def test_several_small_entries_in_a_day_are_one_large_one(account, settings):
    settings.STAFF_ENTRY_NEEDS_SECOND_ABOVE = Decimal(100)
    assert not make_entry(account, 60).needs_second
    assert make_entry(account, -41, Kind.ADJUSTMENT).needs_second
    staff_entries.reject(StaffEntry.objects.latest("id").pk, by=GRACE)
    assert not make_entry(account, -40, Kind.ADJUSTMENT).needs_second

    with time_machine.travel(now() + timedelta(days=1, seconds=1)):
        assert not make_entry(account, 100).needs_second


def test_play_money_needs_no_second_person(workspace, settings):
    settings.STAFF_ENTRY_NEEDS_SECOND_ABOVE = Decimal(0)
    sandbox = workspace.accounts.get(environment="sandbox")

    assert not make_entry(sandbox, 1_000_000).needs_second


def test_approval_is_refused_when_the_balance_is_short(account, settings):
    settings.STAFF_ENTRY_NEEDS_SECOND_ABOVE = Decimal(0)
    entry = make_entry(account, -50, Kind.ADJUSTMENT)

    with pytest.raises(staff_entries.NotBooked, match="This needs KES 50"):
        staff_entries.approve(entry.pk, by=StaffActor(2, "staff wangari"))

    assert StaffEntry.objects.get().status == "REQUESTED"


def test_approval_needs_the_permission(account, settings):
    settings.STAFF_ENTRY_NEEDS_SECOND_ABOVE = Decimal(0)
    entry = make_entry(account, 50)

    run_action(browser("reader", "view_staffentry"), "approve", entry, confirmed="yes")

    assert StaffEntry.objects.get().status == "REQUESTED"


@pytest.mark.parametrize(
    "forced",
    [{"status": "BOOKED"}, {"status": "BOOKED", "decided_by_user": 1}],
)
def test_database_requires_a_second_person(account, settings, forced):
    settings.STAFF_ENTRY_NEEDS_SECOND_ABOVE = Decimal(0)
    make_entry(account, 50)
    if "decided_by_user" in forced:
        forced = {**forced, "decided_at": now()}

    with (
        pytest.raises(IntegrityError, match="decided_by_another"),
        transaction.atomic(),
    ):
        StaffEntry.objects.update(**forced)


@pytest.mark.parametrize("change", [{"amount": 51}, {"kind": "ADJUSTMENT"}])
def test_audit_finds_an_entry_with_another_booking(account, change, capsys):
    make_entry(account, 50)
    StaffEntry.objects.update(**change)

    with pytest.raises(CommandError):
        call_command("audit_ledger")

    assert "booked otherwise" in capsys.readouterr().out


def test_audit_finds_an_entry_without_a_booking(account, settings, capsys):
    settings.STAFF_ENTRY_NEEDS_SECOND_ABOVE = Decimal(0)
    make_entry(account, 50)
    StaffEntry.objects.update(status="BOOKED", needs_second=False)

    with pytest.raises(CommandError):
        call_command("audit_ledger")

    assert "no entry in the ledger" in capsys.readouterr().out
