import re

import pytest
from django.contrib import admin
from django.utils.html import escape

from tests.office import listing
from verification.backoffice.office import SURE, OfficeAdmin
from workspaces.models import ApiKey, Workspace

pytestmark = pytest.mark.django_db
# Those that ask by a page of their own, and one that only asks a provider.
ASK_THEMSELVES = {
    "resume",
    "run_now",
    "revoke",
    "clear_doubt",
    "refund",
    "approve",
    "reject",
    "look",
}


def test_every_action_asks_before_it_changes_anything():
    for page in admin.site._registry.values():
        assert isinstance(page, OfficeAdmin)
        for name in page.actions or ():
            assert name in page.sure or name in ASK_THEMSELVES, (page, name)


def test_nothing_is_done_before_somebody_has_said_yes(api, superuser):
    data = {"action": "revoke", "_selected_action": [api.key.pk]}

    page = superuser.post(listing(ApiKey), data).content.decode()

    assert ApiKey.objects.get().revoked_at is None
    assert "This cannot be undone" in page
    answer = superuser.post(listing(ApiKey), sent_by(page), follow=True)
    assert "is revoked" in answer.content.decode()
    assert ApiKey.objects.get().revoked_at


def test_what_was_typed_beside_the_action_goes_with_it(workspace, superuser):
    reason = 'Unpaid "again" & again'
    data = {"action": "suspend", "reason": reason, "_selected_action": [workspace.pk]}

    page = superuser.post(listing(Workspace), data).content.decode()
    assert escape(reason) in page
    superuser.post(listing(Workspace), {**data, SURE: "yes"})

    workspace.refresh_from_db()
    assert workspace.suspension_reason == reason


def test_nothing_chosen_is_told_as_ever(workspace, superuser):
    answer = superuser.post(
        listing(Workspace), {"action": "resume", "index": "0"}, follow=True
    )

    assert "Items must be selected" in answer.content.decode()


def sent_by(page: str) -> dict[str, str]:
    """What the page's form sends with its button."""
    found = re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page)
    return {**dict(found), SURE: "Yes, go on"}
