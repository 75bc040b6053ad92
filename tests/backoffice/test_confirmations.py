import re

import pytest
from django.contrib import admin

from tests.world.clients import Api
from tests.world.staff import listing
from verification.backoffice.model_admin import CONFIRMED_FIELD, BackofficeAdmin
from workspaces.models import ApiKey

pytestmark = pytest.mark.django_db
# Actions with their own confirmation page.
ASK_THEMSELVES = {
    "resume",
    "run_now",
    "revoke",
    "clear_doubt",
    "refund",
    "record_elsewhere",
    "approve",
    "reject",
}


def test_every_action_asks_before_it_changes_anything():
    for page in admin.site._registry.values():
        assert isinstance(page, BackofficeAdmin)
        for name in page.actions or ():
            assert name in page.sure or name in ASK_THEMSELVES, (page, name)


def test_action_waits_for_the_confirmation(api, superuser):
    data = {"action": "revoke", "_selected_action": [api.key.pk]}

    page = superuser.post(listing(ApiKey), data).content.decode()

    assert ApiKey.objects.get().revoked_at is None
    assert "This cannot be undone" in page
    answer = superuser.post(listing(ApiKey), sent_by(page), follow=True)
    assert "is revoked" in answer.content.decode()
    assert ApiKey.objects.get().revoked_at


def test_confirmation_page_names_the_rows_and_links_back(api, superuser):
    url = f"{listing(ApiKey)}?environment__exact=sandbox"
    data = {"action": "revoke", "_selected_action": [api.key.pk]}

    page = superuser.post(url, data).content.decode()

    assert f"<li>{api.key}</li>" in page
    assert f'<a class="cancel" href="{url}">Cancel</a>' in page


def test_confirmation_page_counts_all_rows_when_all_are_chosen(api, superuser):
    Api(api.workspace, "production")
    data = {"action": "revoke", "_selected_action": [api.key.pk], "select_across": "1"}

    page = superuser.post(listing(ApiKey), data).content.decode()

    assert "2 chosen:" in page


def test_action_without_rows_shows_djangos_message(api, superuser):
    answer = superuser.post(
        listing(ApiKey), {"action": "revoke", "index": "0"}, follow=True
    )

    assert "Items must be selected" in answer.content.decode()


def sent_by(page: str) -> dict[str, str]:
    """Return the fields that the form of the page sends."""
    found = re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page)
    return {**dict(found), CONFIRMED_FIELD: "Yes, go on"}
