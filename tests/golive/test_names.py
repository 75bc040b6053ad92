"""Reviewed names and contacts of workspaces, and changes of names."""

import pytest
from django.contrib.auth.models import Group, User
from django.core import mail
from django.core.checks import run_checks
from django.db import IntegrityError, transaction
from django.test import Client

from tests.golive.applications import by, draft, in_review, reviewer
from tests.world.clients import HOSTED, approve_workspace, person
from tests.world.members import create_member
from tests.world.staff import change_url as change_url
from tests.world.staff import log_in, press_button, read_page
from tests.world.subject import Visitor, visible_text
from verification.backoffice.approvals import DecisionRefused
from verification.backoffice.models import AuditEvent
from verification.golive import applications, names, review
from verification.golive.models import NameChange
from verification.notifications.delivery import send_due_notifications
from workspaces.create import operator_account
from workspaces.models import Workspace

pytestmark = pytest.mark.django_db


def hosted(api) -> Visitor:
    subject = {"dateOfBirth": "1990-03-27", "email": "wanjiku@example.test"}
    made = api.create({**person(**subject), "consent": HOSTED})
    return Visitor(made["consentState"]["consentUrl"])


def test_unreviewed_workspace_shows_its_name_and_is_not_reviewed(api):
    requester = api.workspace.requester

    assert (requester.name, requester.legal_name) == ("Acacia Lenders", "")
    assert requester.contact == api.workspace.owner_email
    html = hosted(api).enter().content.decode()
    assert "A customer of" in html
    assert "Reviewed by" not in html


def test_approval_shows_the_legal_name_and_the_contact_that_were_reviewed(owner):
    Workspace.objects.update(name="Central Bank of Kenya")
    application = in_review(owner.member, tradingName="Acacia Loans")

    review.approve(application.pk, by(reviewer()))

    workspace = Workspace.objects.get(pk=owner.workspace.pk)
    requester = workspace.requester
    assert requester.is_reviewed
    assert requester.name == "Acacia Lenders Limited (Acacia Loans)"
    assert requester.contact == "privacy@acacia.test"
    assert workspace.name == "Acacia Loans"


def test_database_refuses_an_approved_workspace_without_a_reviewed_name(api):
    approve_workspace(api.workspace, "Acacia Lenders Limited")

    for change in (
        {"legal_name": ""},
        {"name": "Central Bank of Kenya"},
        {"go_live": "NONE"},
    ):
        with (
            pytest.raises(IntegrityError, match="reviewed_names"),
            transaction.atomic(),
        ):
            Workspace.objects.filter(pk=api.workspace.pk).update(**change)


def test_pages_mails_and_receipts_show_the_reviewed_name_and_both_contacts(api):
    approve_workspace(api.workspace, "Acacia Lenders Limited", "Acacia")
    visitor = hosted(api)
    shown = "Acacia Lenders Limited (Acacia)"

    visitor.open()
    pages = [visitor.text()]
    visitor.confirm()
    pages.append(visitor.text())
    visitor.prove()
    pages.append(visitor.text())
    visitor.grant()
    pages.append(visitor.text())

    for page in map(visible_text, pages):
        assert shown in page
        assert f"{shown}, {api.workspace.contact}." in page
        assert "help@operator.test" in page
    send_due_notifications()
    assert mail.outbox
    for letter in mail.outbox:
        assert f"for {shown} ({api.workspace.contact})" in letter.body
        assert "(help@operator.test)" in letter.body


def test_application_needs_a_contact_for_people(owner):
    draft(owner.member, publicContact="")

    with pytest.raises(applications.NoContact):
        applications.submit(owner.member, by(owner.member.user))
    told = owner.messages_after("golive-submit", {"confirmed": "on"})
    assert told == ["Under the company, say how people can reach you."]


def test_settings_do_not_rename_an_approved_workspace(owner):
    approve_workspace(owner.workspace)
    fields = {
        "name": "Central Bank of Kenya",
        "contact": "ask@acacia.test",
        "retention_days": "90",
        "sandbox_retention_days": "365",
        "names_in_lists": "FULL",
        "low_balance_at": "",
    }

    assert owner.messages_after("settings", fields) == ["Saved."]
    workspace = Workspace.objects.get(pk=owner.workspace.pk)
    assert workspace.requester.name == "Acacia Lenders"
    assert workspace.contact == "ask@acacia.test"


def test_check_fails_without_the_contact_of_the_operator(settings):
    assert "workspaces.E001" not in [found.id for found in run_checks()]

    settings.OPERATOR_CONTACT = " "

    (error,) = [found for found in run_checks() if found.id == "workspaces.E001"]
    assert error.is_serious()
    assert "OPERATOR_CONTACT" in error.msg
    assert "ask about their details" in (error.hint or "")


def test_workspace_of_the_operator_has_its_contact():
    account = operator_account("sandbox")

    assert account.workspace.requester.contact == "help@operator.test"


BANK = {"legal_name": "Central Bank of Kenya", "trading_name": "CBK", "note": ""}


@pytest.fixture
def office() -> Client:
    user = reviewer()
    user.groups.add(Group.objects.get(name="Reviewer"))
    client = Client()
    log_in(client, user)
    return client


@pytest.fixture
def approved(owner):
    approve_workspace(owner.workspace, "Acacia Lenders Limited")
    return owner


def name_now(visitor) -> str:
    return Workspace.objects.get(pk=visitor.workspace.pk).requester.name


def test_name_change_waits_for_staff_while_the_old_name_shows(approved, office):
    told = approved.messages_after("settings-name", BANK)

    assert told == [
        "It is submitted. People see the old name until we have reviewed it."
    ]
    assert name_now(approved) == "Acacia Lenders Limited"
    assert "A change waits for our review" in approved.page("settings-name")
    change = NameChange.objects.get()
    assert "Acacia Lenders Limited" in read_page(office, change_url(change))

    (told,) = press_button(
        office, "reject", change, reason="The register has another name"
    )

    assert told == "It is rejected; they are told."
    assert name_now(approved) == "Acacia Lenders Limited"
    assert "The register has another name" in approved.page("settings-name")
    send_due_notifications()
    (letter,) = mail.outbox
    assert letter.to == ["owner@people.test"]
    assert "Central Bank of Kenya (CBK)" in letter.body
    assert "The register has another name" in letter.body
    acts = AuditEvent.objects.filter(object_id=str(change.pk)).order_by("id")
    assert [e.action for e in acts] == ["name-change.requested", "name-change.rejected"]
    assert acts[1].reason == "The register has another name"
    assert acts[1].workspace_id == approved.workspace.pk


def test_approved_change_of_name_is_shown(approved, office):
    approved.messages_after(
        "settings-name", {**BANK, "legal_name": "Acacia Bank Limited"}
    )

    press_button(office, "approve", NameChange.objects.get())

    assert name_now(approved) == "Acacia Bank Limited (CBK)"
    assert approved.workspace.name_changes.get().decided_by.username == "reviewer"
    send_due_notifications()
    assert "from now on" in mail.outbox[0].subject


def test_members_do_not_decide_on_their_own_name_change(approved):
    approved.messages_after("settings-name", BANK)
    change = NameChange.objects.get()
    create_member(approved.workspace, "VIEWER", "cousin")
    cousin = User.objects.get(email="cousin@people.test")

    for insider in (approved.member.user, cousin):
        with pytest.raises(review.OwnWorkspace):
            names.approve_name_change(change.pk, by(insider))
    assert name_now(approved) == "Acacia Lenders Limited"


def test_name_change_is_decided_once(approved):
    approved.messages_after("settings-name", BANK)
    change = NameChange.objects.get()
    names.reject_name_change(change.pk, by(reviewer()), "No")

    with pytest.raises(DecisionRefused, match="decided or withdrawn"):
        names.approve_name_change(change.pk, by(reviewer()))
    kept = pytest.raises(IntegrityError, match="what was decided is not changed")
    with kept, transaction.atomic():
        NameChange.objects.update(legal_name="Acacia")


def test_new_name_change_replaces_the_waiting_one(approved):
    approved.messages_after("settings-name", BANK)
    approved.messages_after("settings-name", {**BANK, "trading_name": ""})

    statuses = NameChange.objects.order_by("id").values_list("status", flat=True)
    assert list(statuses) == ["WITHDRAWN", "WAITING"]
    assert approved.messages_after("settings-name-withdraw") == [
        "The change is withdrawn."
    ]
    assert not NameChange.objects.filter(status="WAITING").exists()


def test_change_to_the_same_names_is_refused(approved):
    same = {"legal_name": "Acacia Lenders Limited", "trading_name": "", "note": ""}

    answer = approved.post("settings-name", same)

    assert "These are the names that you have." in answer.content.decode()
    assert not NameChange.objects.exists()


def test_unreviewed_workspace_is_renamed_in_the_settings(owner):
    assert owner.get("settings-name").status_code == 303
    with pytest.raises(ValueError, match="not approved"):
        names.request_name_change(owner.member, "A", "", "", by(owner.member.user))


def test_viewer_cannot_request_a_name_change(approved, viewer):
    assert viewer.post("settings-name", BANK).status_code == 403
    assert not NameChange.objects.exists()
