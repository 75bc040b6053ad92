"""The name that people outside are shown, who reviews it, and whom they may ask."""

import pytest
from django.core import mail
from django.core.checks import run_checks
from django.db import IntegrityError, transaction

from tests.clients import HOSTED, approve, person
from tests.golive.applications import by, draft, in_review, reviewer
from tests.hosted.visitor import Visitor, words
from verification.golive import applying, deciding
from verification.notifications.tasks import send_due
from workspaces.models import Workspace
from workspaces.operator import operator_account

pytestmark = pytest.mark.django_db


def hosted(api) -> Visitor:
    subject = {"dateOfBirth": "1990-03-27", "email": "wanjiku@example.com"}
    made = api.create({**person(**subject), "consent": HOSTED})
    return Visitor(made["consentState"]["consentUrl"])


def test_an_unreviewed_workspace_shows_its_name_and_is_not_reviewed(api):
    requester = api.workspace.requester

    assert (requester.name, requester.legal_name) == ("Acacia Lenders", "")
    assert requester.contact == api.workspace.owner_email
    html = hosted(api).enter().content.decode()
    assert "A customer of" in html
    assert "Reviewed by" not in html


def test_an_approval_shows_the_legal_name_and_the_contact_that_were_reviewed(owner):
    Workspace.objects.update(name="Central Bank of Kenya")
    application = in_review(owner.member, tradingName="Acacia Loans")

    deciding.approve(application.pk, by(reviewer()))

    workspace = Workspace.objects.get(pk=owner.workspace.pk)
    requester = workspace.requester
    assert requester.is_reviewed
    assert requester.name == "Acacia Lenders Limited (Acacia Loans)"
    assert requester.contact == "privacy@acacia.test"
    assert workspace.name == "Acacia Loans"


def test_the_database_refuses_an_approved_workspace_without_a_reviewed_name(api):
    approve(api.workspace, "Acacia Lenders Limited")

    for change in (
        {"legal_name": ""},
        {"name": "Central Bank of Kenya"},
        {"contact": None},
        {"go_live": "NONE"},
    ):
        with pytest.raises(IntegrityError), transaction.atomic():
            Workspace.objects.filter(pk=api.workspace.pk).update(**change)


def test_pages_mails_and_receipts_show_the_reviewed_name_and_both_contacts(api):
    approve(api.workspace, "Acacia Lenders Limited", "Acacia")
    visitor = hosted(api)
    shown = "Acacia Lenders Limited (Acacia)"

    visitor.open()
    pages = [visitor.text()]
    visitor.confirm()
    pages.append(visitor.text())
    visitor.grant()
    pages.append(visitor.text())

    for page in map(words, pages):
        assert shown in page
        assert f"{shown}, {api.workspace.contact}." in page
        assert "help@operator.test" in page
    send_due()
    assert mail.outbox
    for letter in mail.outbox:
        assert f"for {shown} ({api.workspace.contact})" in letter.body
        assert "(help@operator.test)" in letter.body


def test_an_application_without_a_contact_for_people_is_not_handed_in(owner):
    draft(owner.member, publicContact="")

    with pytest.raises(applying.NoContact):
        applying.submit(owner.member, by(owner.member.user))
    told = owner.told("golive-submit", {"confirmed": "on"})
    assert told == ["Say in the company's part where people reach you."]


def test_settings_do_not_rename_an_approved_workspace(owner):
    approve(owner.workspace)
    fields = {
        "name": "Central Bank of Kenya",
        "contact": "ask@acacia.test",
        "retention_days": "90",
        "low_balance_at": "",
    }

    assert owner.told("settings", fields) == ["Saved."]
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


def test_the_workspace_of_the_operator_has_its_contact():
    account = operator_account("sandbox")

    assert account.workspace.requester.contact == "help@operator.test"
