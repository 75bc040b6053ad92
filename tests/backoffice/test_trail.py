import pytest
from django.db import DatabaseError, connection, transaction
from django.test import Client

from tests.world.staff import (
    admin_url,
    change_url,
    list_url,
    listed_ids,
    press_button,
    read_page,
)
from verification.backoffice import audit
from verification.backoffice.models import AuditEvent
from workspaces.models import ApiKey, Workspace

pytestmark = pytest.mark.django_db
GRACE = audit.Actor(AuditEvent.Actor.STAFF, "grace", "192.0.2.7")


@pytest.fixture
def event(workspace: Workspace) -> AuditEvent:
    return audit.record("workspace.closed", GRACE, workspace, reason="Asked for it")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE backoffice_auditevent SET actor = 'somebody'",
        "DELETE FROM backoffice_auditevent",
        "TRUNCATE backoffice_auditevent",
    ],
)
def test_database_refuses_changes_of_the_audit_trail(event, statement):
    with (
        pytest.raises(DatabaseError, match="append-only"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(statement)
    assert AuditEvent.objects.get().actor == "grace"


def test_edit_is_audited_with_field_names_only(workspace: Workspace, superuser: Client):
    posted = {
        "name": "Baobab Lenders",
        "retention_days": "30",
        "sandbox_retention_days": "365",
        "accounts-TOTAL_FORMS": "0",
        "accounts-INITIAL_FORMS": "0",
    }

    answer = superuser.post(change_url(workspace), posted, REMOTE_ADDR="192.0.2.7")

    event = AuditEvent.objects.get()
    assert (event.actor_kind, event.actor) == ("STAFF", "admin")
    assert event.action == "workspace.changed"
    assert (event.object_type, event.object_id) == (
        "workspaces.workspace",
        str(workspace.pk),
    )
    assert event.workspace_id == workspace.pk
    assert sorted(event.fields) == ["name", "retention_days"]
    assert event.request_id == answer["X-Request-Id"]
    assert event.address == "192.0.2.7"
    assert "Baobab" not in str(vars(event))


def test_new_row_is_recorded(workspace: Workspace, superuser: Client):
    filled = {
        "workspace": str(workspace.pk),
        "environment": "sandbox",
        "name": "shop",
        "scopes": ["reports:read"],
    }
    superuser.post(admin_url(ApiKey, "add"), filled)

    event = AuditEvent.objects.get()
    assert event.action == "api-key.created"
    assert event.object_id == str(ApiKey.objects.get().pk)
    assert event.workspace_id == workspace.pk


def test_failed_change_leaves_no_audit_event(workspace, superuser, monkeypatch):
    def fail(*arguments, **members):
        raise DatabaseError("away")

    monkeypatch.setattr(audit, "record", fail)
    with pytest.raises(DatabaseError):
        press_button(superuser, "suspend", workspace, reason="Unpaid")

    workspace.refresh_from_db()
    assert not workspace.is_suspended


MATCHING = [
    {"actor": "grace"},
    {"action": "workspace.closed"},
    {"created_at_from_0": "2020-01-01", "created_at_from_1": "00:00"},
]


def test_trail_is_filtered(event, superuser):
    for query in MATCHING:
        assert listed_ids(superuser, AuditEvent, **query) == {str(event.pk)}, query


NOT_MATCHING = [
    {"actor": "grac"},
    {"action": "workspace"},
    {"object_id": "1"},
    {"workspace_id": "x"},
    {"created_at_to_0": "2020-01-01", "created_at_to_1": "00:00"},
    {"created_at_to_0": "2020-01-01"},
    {"created_at_from_0": "tomorrow"},
]


def test_trail_is_filtered_by_whole_text(event, superuser):
    for query in NOT_MATCHING:
        assert listed_ids(superuser, AuditEvent, **query) == set(), query


def test_trail_of_an_object_and_of_a_workspace_is_found(event, superuser):
    found = {str(event.pk)}
    for name in ("object_id", "workspace_id", "q"):
        query = {name: str(event.workspace_id)}
        assert (
            listed_ids(superuser, AuditEvent, **query) - {str(event.workspace_id)}
            == found
        )


NOT_ALLOWED = [
    {"actor": "gr\0ace"},
    # Nothing else than the filters that the page shows.
    {"reason__startswith": "Asked"},
    {"address__isnull": "0"},
    {"fields__contains": "1"},
]


def test_url_allows_only_the_filters_of_the_list(event, superuser):
    for query in NOT_ALLOWED:
        assert superuser.get(list_url(AuditEvent), query).status_code == 400, query


def test_audit_trail_has_no_forms(event, superuser):
    assert superuser.get(admin_url(AuditEvent, "add")).status_code == 403
    assert superuser.post(change_url(event), {"actor": "x"}).status_code == 403
    assert superuser.post(admin_url(AuditEvent, "delete", event.pk)).status_code == 403
    assert "Asked for it" in read_page(superuser, list_url(AuditEvent))
