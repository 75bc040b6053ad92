"""Members of a live workspace need a second factor."""

import re

import pytest
from django.test import Client
from django.utils.timezone import localdate

from tests.accounts.visitor import code_of
from tests.accounts.visitor import empty_cache as empty_cache
from tests.golive.applications import draft
from tests.world import staff
from tests.world.clients import Api, approve_workspace
from tests.world.console import ConsoleVisitor
from tests.world.members import PASSWORD, create_member
from verification.backoffice.models import AuditEvent
from verification.console.navigation import section_of

WHY = "A stolen password alone must not open it"


def live(api: Api) -> Api:
    approve_workspace(api.workspace)
    return api


# Sections of the sandbox that need it, too
OF_WORKSPACE = {"keys", "money", "members", "golive", "settings"}


def test_live_workspace_asks_its_members_for_a_factor(api):
    owner, viewer = (
        ConsoleVisitor(create_member(live(api).workspace, role), has_factor=False)
        for role in ("OWNER", "VIEWER")
    )

    for visitor, name, environment in [
        (owner, "reports", "production"),
        (owner, "keys", "sandbox"),
        (owner, "mailbox-addresses", "sandbox"),
        (viewer, "dashboard", "production"),
    ]:
        answer = visitor.get(name, environment)

        assert answer.status_code == 403, name
        page = answer.content.decode()
        assert WHY in page, name
        path = visitor.url(name, environment)
        assert f'"/accounts/totp/activate/?next={path}"' in page, name
    for name in OF_WORKSPACE:
        assert section_of(name).of_workspace, name


def test_forms_of_a_live_workspace_change_nothing_without_a_factor(api):
    visitor = ConsoleVisitor(
        create_member(live(api).workspace, "OWNER"), has_factor=False
    )

    answer = visitor.post("keys-create", {"name": "x"}, "production")

    assert (answer.status_code, AuditEvent.objects.count()) == (403, 0)


def test_newcomers_need_no_factor(api):
    newcomer = ConsoleVisitor(create_member(api.workspace, "OWNER"), has_factor=False)
    for name in ("dashboard", "keys", "money", "members", "settings"):
        assert newcomer.get(name).status_code == 200
    assert newcomer.get("dashboard", "production").status_code == 200


def test_sandbox_of_a_live_workspace_needs_no_factor(api):
    visitor = ConsoleVisitor(
        create_member(live(api).workspace, "OWNER"), has_factor=False
    )

    for name in ("dashboard", "reports", "webhooks", "sandbox"):
        assert visitor.get(name).status_code == 200, name


def test_audit_trail_of_a_live_workspace_needs_a_factor_in_full(api):
    owner = create_member(live(api).workspace, "OWNER")
    visitor = ConsoleVisitor(owner, has_factor=False)
    day = f"{localdate():%Y-%m-%d}"
    trail = {"kind": "audit-trail", "first": day, "last": day, "format": "csv"}
    in_full = {**trail, "in_full": "on", "reason": "Audit"}

    assert visitor.post("exports", in_full).status_code == 403
    assert visitor.post("exports", trail).status_code == 200
    assert ConsoleVisitor(owner).post("exports", in_full).status_code == 200


@pytest.mark.django_db(transaction=True)
def test_owner_sets_a_factor_up_and_comes_back(api):
    visitor = ConsoleVisitor(
        create_member(live(api).workspace, "OWNER"), has_factor=False
    )
    staff.confirm_address(visitor.member.user)
    client: Client = visitor.http
    page = visitor.url("keys", "production")
    link = re.search(r'"(/accounts/totp/[^"]+)"', client.get(page).content.decode())[1]

    again = client.get(link)["Location"]
    back = client.post(again, {"password": PASSWORD})["Location"]
    secret = client.get(back).context["form"].secret
    done = client.post(back, {"code": code_of(secret)})["Location"]

    assert f'<a href="{page}">Continue</a>' in client.get(done).content.decode()
    assert client.get(page).status_code == 200


def test_session_from_before_the_factor_is_asked_for_its_code(api):
    owner = create_member(live(api).workspace, "OWNER")
    visitor = ConsoleVisitor(owner, has_factor=False)
    secret = staff.give_factor(owner.user)
    page = visitor.url("members")

    asked = visitor.get("members").content.decode()
    link = f"/accounts/code/again/?next={page}"
    assert f'"{link}"' in asked
    answer = visitor.http.post(link, {"code": code_of(secret), "next": page})

    assert answer["Location"] == page
    assert visitor.get("members").status_code == 200


def test_applicants_are_told_before_the_approval(api):
    owner = create_member(api.workspace, "OWNER")
    draft(owner)
    told = "From the approval on, all members log in with a second factor"

    without = ConsoleVisitor(owner, has_factor=False)
    assert f"{told}. You have none yet." in without.page("golive")
    assert told in without.page("golive-submit")
    assert "You have none yet." not in ConsoleVisitor(owner).page("golive")
    viewer = ConsoleVisitor(create_member(api.workspace, "VIEWER"), has_factor=False)
    assert "You have none yet." in viewer.page("golive")
