"""The retention in the settings: its limits, and what fewer days erase."""

from datetime import timedelta

import pytest
from django.utils.timezone import now

from tests.privacy.test_retention import age
from tests.world.clients import person
from verification.backoffice.models import AuditEvent
from verification.privacy.retention import erase_expired_reports
from workspaces.models import Workspace

FIELDS = {
    "name": "Acacia",
    "contact": "a@acacia.test",
    "retention_days": "365",
    "sandbox_retention_days": "365",
    "names_in_lists": "FULL",
    "low_balance_at": "",
}


@pytest.fixture
def old(api) -> str:
    """Create a report that ended 100 days ago."""
    made = api.create(person())["id"]
    api.work()
    age(made, 100)
    return made


def days(workspace: Workspace) -> tuple[int, int]:
    saved = Workspace.objects.get(pk=workspace.pk)
    return saved.retention_days, saved.sandbox_retention_days


def test_both_environments_have_their_own_days(owner):
    typed = {**FIELDS, "retention_days": "7", "sandbox_retention_days": "1"}

    assert owner.messages_after("settings", typed) == ["Saved."]
    assert days(owner.workspace) == (7, 1)


def test_fewer_days_ask_before_they_erase(owner, api, old):
    typed = {**FIELDS, "sandbox_retention_days": "30"}

    html = owner.post("settings", typed).content.decode()

    assert (
        "1 report that ended, or draft that last changed, over 30 days ago (Sandbox)"
        in html
    )
    assert 'name="sandbox_retention_days" value="30"' in html
    assert days(owner.workspace) == (365, 365)
    assert not AuditEvent.objects.exists()

    sure = {**typed, "confirmed": "on"}
    assert owner.messages_after("settings", sure) == ["Saved."]
    assert days(owner.workspace) == (365, 30)
    assert "sandbox_retention_days" in AuditEvent.objects.get().fields
    erase_expired_reports()
    assert api.report(old)["erasedAt"] is not None


def test_fewer_days_that_erase_nothing_do_not_ask(owner, old):
    typed = {**FIELDS, "sandbox_retention_days": "101", "retention_days": "7"}

    assert owner.messages_after("settings", typed) == ["Saved."]


def test_confirmation_is_in_kiswahili_too(owner, old, settings):
    typed = {**FIELDS, "sandbox_retention_days": "30"}

    owner.http.cookies[settings.LANGUAGE_COOKIE_NAME] = "sw"
    html = owner.post("settings", typed).content.decode()

    assert "Ufute ripoti za zamani?" in html


def test_more_days_do_not_keep_what_people_were_told_is_erased(owner, api):
    owner.post("settings", {**FIELDS, "sandbox_retention_days": "30"})
    before = api.create(person())["id"]
    owner.post("settings", FIELDS)
    after = api.create(person(idNumber="22222222"))["id"]
    api.work()
    for made in (before, after):
        age(made, 31)

    erase_expired_reports()

    assert api.report(before)["erasedAt"] is not None
    assert api.report(after)["erasedAt"] is None
    assert now() - timedelta(days=1) < owner.workspace.retention_terms.get().ended_at
