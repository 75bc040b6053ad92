"""Insiders of a company do not decide on its application."""

import pytest
from django.contrib.auth.models import User

from tests.golive.applications import PDF, by, draft, reviewer
from tests.world.members import member
from verification.backoffice.models import ActorKind
from verification.checks.engine import run_due_checks
from verification.golive import applications, decisions
from verification.golive.models import DocumentKind
from workspaces.models import ApiKey


def other_account_of(user: User) -> User:
    named = reviewer("by-day")
    named.email = user.email.upper()
    named.save()
    return named


def submitter_who_left(owner, colleague):
    owner.delete()
    return owner.user


def uploader_who_left(owner, colleague):
    colleague.delete()
    return colleague.user


def other_account_of_a_member(owner, colleague):
    return other_account_of(owner.user)


@pytest.mark.parametrize(
    "insider",
    [
        submitter_who_left,
        uploader_who_left,
        other_account_of_a_member,
    ],
)
def test_insiders_do_not_decide(owner, insider):
    colleague = member(owner.workspace, "ADMIN", "colleague")
    draft(owner.member)
    acts = by(colleague.user, ActorKind.MEMBER)
    applications.upload_document(colleague, DocumentKind.KRA, "kra.pdf", PDF, acts)
    application = applications.submit(owner.member, by(owner.member.user))
    run_due_checks()
    user = insider(owner.member, colleague)

    with pytest.raises(decisions.OwnWorkspace):
        decisions.take(application.pk, by(user))
    decisions.take(application.pk, by(reviewer()))
    for decide in (
        lambda: decisions.approve(application.pk, by(user)),
        lambda: decisions.reject(application.pk, by(user), "No"),
    ):
        with pytest.raises(decisions.OwnWorkspace):
            decide()

    assert not ApiKey.objects.filter(environment="production").exists()
