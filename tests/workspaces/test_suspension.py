import pytest
from django.db import IntegrityError

from workspaces.models import Workspace


def test_suspension_has_its_time_and_reason(workspace):
    assert workspace.suspend("Unpaid invoices")

    workspace.refresh_from_db()
    assert workspace.is_suspended
    assert workspace.suspended_at
    assert workspace.suspension_reason == "Unpaid invoices"


def test_second_suspension_changes_nothing(workspace):
    workspace.suspend("Unpaid invoices")
    since = workspace.suspended_at
    same = Workspace.objects.get(pk=workspace.pk)

    assert not same.suspend("Another reason")
    assert (same.suspended_at, same.suspension_reason) == (since, "Unpaid invoices")


def test_resumed_workspace_has_no_suspension_fields(workspace):
    workspace.suspend("Unpaid invoices")

    assert workspace.resume()
    assert not workspace.resume()
    assert not workspace.is_suspended
    assert workspace.suspension_reason == ""


def test_suspension_without_a_reason_is_refused(workspace):
    with pytest.raises(IntegrityError, match="a_suspension_says_why"):
        workspace.suspend("")
