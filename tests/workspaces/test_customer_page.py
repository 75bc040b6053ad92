"""The page of a workspace in the admin is the page of a customer."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import Group, User
from django.db import DatabaseError, connection, transaction
from django.test import Client
from django.utils.timezone import now

from tests.world.clients import Api
from tests.world.deliveries import configure_receiver
from tests.world.members import create_member
from tests.world.staff import (
    change_url,
    dialog_url,
    log_in,
    press_button,
    read_page,
    reveal,
)
from verification.backoffice.models import AuditEvent
from verification.backoffice.widgets import NOT_OFFERED
from verification.db.ids import uuid7
from verification.reports.models import Report
from verification.staff import customer
from verification.staff.customer import REPORTS
from workspaces.create import create_workspace
from workspaces.models import ApiKey, Note, purge_notes

pytestmark = pytest.mark.django_db
HEADINGS = {
    "Money",
    "Owner and members",
    "Recent reports",
    "API keys",
    "Webhook receivers",
    "Go-live",
    "Monitoring",
    "Notes of staff",
}
SEES = {
    "Reviewer": HEADINGS - {"Money", "Webhook receivers", "Monitoring"},
    "Operations": HEADINGS - {"Money", "Go-live"},
    "Finance": {"Money", "Recent reports", "Notes of staff"},
}
TEXT = "Mary Wanjiku of accounts calls on Mondays"


def person(role: str) -> Client:
    user = User.objects.create_user(role.lower(), is_staff=True)
    user.groups.add(Group.objects.get(name=role))
    client = Client()
    log_in(client, user)
    return client


def headings(html: str) -> set[str]:
    return {name for name in HEADINGS if f">{name}</h2>" in html}


def test_each_role_sees_its_sections_of_a_customer(rows):
    for role in SEES:
        html = read_page(person(role), change_url(rows.workspace))

        assert headings(html) == SEES[role]
        assert ("Top up" in html) == (role == "Finance")
        revokes = dialog_url("revoke_key", rows.key) in html
        assert revokes == (role == "Operations")


def test_customer_page_has_all_sections_and_rows_of_no_other_workspace(rows, superuser):
    workspace = rows.workspace
    receiver = configure_receiver(workspace)
    other = create_workspace(name="Baobab", owner_email="owner@baobab.test")
    Api(other, "sandbox")
    configure_receiver(other)
    Note.objects.create(workspace=other, author="grace", text=TEXT)

    html = read_page(superuser, change_url(workspace))

    assert headings(html) == HEADINGS
    for row in (
        *workspace.accounts.all(),
        *workspace.members.all(),
        *Report.objects.filter(workspace=workspace).order_by("-id")[:REPORTS],
        *ApiKey.objects.filter(workspace=workspace),
        receiver,
        workspace.applications.get(),
    ):
        assert change_url(row) in html
    for shown in ("KES 0.00", "Top up", dialog_url("revoke_key", rows.key)):
        assert shown in html
    # The state of its application
    assert "Submitted" in html
    assert AuditEvent.objects.filter(action="workspace.opened").exists()
    for row in (*other.accounts.all(), *other.api_keys.all()):
        assert str(row.pk) not in html
    assert "No note yet" in html


def test_customer_page_costs_constant_queries(
    rows, superuser, django_assert_max_num_queries
):
    for number in range(5):
        create_member(rows.workspace, "VIEWER", f"viewer{number}")
        Api(rows.workspace, "sandbox")
        Note.objects.create(workspace=rows.workspace, author="grace", text=TEXT)

    with django_assert_max_num_queries(32):
        read_page(superuser, change_url(rows.workspace))


def test_newest_reports_come_from_an_index(workspace):
    """A workspace with a million reports opens as fast as one with ten."""
    rows = Report.objects.filter(workspace=workspace, environment="sandbox")
    newest = rows.defer("subject").order_by("-created_at", "-id")[:REPORTS]
    with transaction.atomic(), connection.cursor() as cursor:
        # An almost empty table is read whole, or sorted, otherwise.
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("SET LOCAL enable_sort = off")
        plan = newest.explain()

    assert "report_list" in plan
    assert "Sort" not in plan


def test_customer_page_counts_up_to_a_limit(workspace, monkeypatch):
    monkeypatch.setattr(customer, "MAX_COUNT", 1)
    assert customer._count(workspace.accounts.all()) == "1+"


def test_addresses_and_notes_are_masked_until_revealed(workspace, superuser, staff):
    grace = create_member(workspace, "OWNER", "grace2")
    assert workspace.contact_email == grace.user.email
    told = press_button(superuser, "add_note", workspace, text=TEXT)
    assert told == ["The note is added."]
    html = read_page(superuser, change_url(workspace))
    assert "g••••@people.test" in html
    for personal in (grace.user.email, TEXT):
        assert personal not in html

    reveal(superuser, workspace)

    revealed, masked = (
        read_page(client, change_url(workspace)) for client in (superuser, staff)
    )
    for personal in (grace.user.email, TEXT):
        assert personal in revealed
        assert personal not in masked


def test_note_names_its_author_and_is_sealed(workspace, superuser):
    page = str(uuid7())
    press_button(superuser, "add_note", workspace, text=TEXT, page=page)
    again = press_button(superuser, "add_note", workspace, text=TEXT, page=page)

    assert "the note is there once" in again[-1]
    note = Note.objects.get()
    assert (note.author, note.text) == ("admin", TEXT)
    event = AuditEvent.objects.get(action="workspace.note-added")
    assert (event.workspace_id, event.reason) == (workspace.pk, "")
    with connection.cursor() as cursor:
        cursor.execute("SELECT text FROM workspaces_note")
        assert TEXT.encode() not in bytes(cursor.fetchone()[0])


def test_database_refuses_changes_of_notes(workspace):
    Note.objects.create(workspace=workspace, author="grace", text=TEXT)
    for statement in [
        "UPDATE workspaces_note SET author = 'x'",
        "DELETE FROM workspaces_note",
    ]:
        with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
            connection.cursor().execute(statement)


def test_notes_are_erased_when_the_retention_is_over(workspace):
    days = timedelta(days=workspace.retention_days)
    made = {"workspace": workspace, "author": "grace", "text": TEXT}
    old = Note.objects.create(**made, created_at=now() - days - timedelta(minutes=1))
    young = Note.objects.create(**made, created_at=now() - days + timedelta(hours=1))

    purge_notes()

    old, young = (Note.objects.get(pk=n.pk) for n in (old, young))
    assert (old.text, young.text) == (None, TEXT)


def test_key_is_revoked_once_from_the_page(api, superuser):
    told = press_button(superuser, "revoke_key", api.key)

    assert told == [f"{api.key} is revoked."]
    html = read_page(superuser, change_url(api.workspace))
    assert dialog_url("revoke_key", api.key) not in html
    assert press_button(superuser, "revoke_key", api.key) == [NOT_OFFERED]
