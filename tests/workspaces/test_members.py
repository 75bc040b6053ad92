from datetime import timedelta
from functools import partial
from itertools import product

import pytest
import time_machine
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.utils.timezone import now

from tests.world.clients import approve_workspace
from tests.world.members import create_member, create_user, invitation_token
from tests.world.threads import start_and_block, uncommitted
from verification.notifications.models import Notification
from verification.notifications.templates import write_email
from workspaces import members
from workspaces.members import (
    ALLOWED,
    INVITATION_LIFETIME,
    MAX_UNREVIEWED_OPEN,
    Permission,
    TooManyInvitations,
    TooManyOpenInvitations,
)
from workspaces.models import Invitation, Member, Role

ROLES = list(Role.values)
MANAGERS = [Role.OWNER, Role.ADMIN]


@pytest.fixture
def owner(workspace) -> Member:
    return create_member(workspace, "OWNER")


def invite_person(
    owner: Member, email: str = "new@people.test", role: str = "VIEWER"
) -> str:
    members.invite(owner, email, Role(role))
    return invitation_token(email)


def write_invitation(owner: Member, email: str) -> str:
    """Return subject and text of the e-mail that invites this address."""
    members.invite(owner, email, Role.VIEWER)
    letter = write_email(Notification.objects.latest("id"))
    return f"{letter.subject} {letter.text}"


def test_invitation_names_nobody_until_the_workspace_is_live(workspace, owner):
    workspace.name = "Win money at evil.example"
    workspace.contact = "win@evil.example"
    workspace.save()
    owner.user.first_name = "Winner of money"
    owner.user.save()
    unreviewed = write_invitation(owner, "new@people.test")

    assert "evil" not in unreviewed
    assert "Winner" not in unreviewed
    assert invitation_token("new@people.test") in unreviewed
    assert "/b/" in unreviewed

    approve_workspace(workspace, "Acacia Lenders Limited")
    assert "Acacia Lenders Limited" in (
        live := write_invitation(Member.objects.get(), "another@people.test")
    )
    assert "Winner of money" in live


def test_invitation_leaves_out_an_inviter_named_like_a_page(workspace, owner):
    approve_workspace(workspace)
    owner.user.first_name = "Win at evil dot com"
    owner.user.save()

    assert "evil" not in write_invitation(owner, "new@people.test")


def test_open_invitations_are_few_until_the_workspace_is_live(workspace, owner):
    for n in range(MAX_UNREVIEWED_OPEN):
        members.invite(owner, f"p{n}@people.test", Role.VIEWER)
    with pytest.raises(TooManyOpenInvitations):
        members.invite(owner, "new@people.test", Role.VIEWER)
    # It replaces an open one.
    members.invite(owner, "P0@people.test", Role.VIEWER)

    approve_workspace(workspace)
    assert members.invite(Member.objects.get(), "new@people.test", Role.VIEWER)


def test_invitations_of_a_day_are_few_until_the_workspace_is_live(owner, monkeypatch):
    monkeypatch.setattr(members, "UNREVIEWED_PER_DAY", 3)
    for _ in range(3):
        found = members.invite(owner, "new@people.test", Role.VIEWER)
        members.withdraw_invitation(owner, found)

    with pytest.raises(TooManyInvitations):
        members.invite(owner, "new@people.test", Role.VIEWER)


def test_each_role_has_the_permissions_of_the_role_below():
    assert ALLOWED[Role.VIEWER] < ALLOWED[Role.ADMIN] < ALLOWED[Role.OWNER]
    assert ALLOWED[Role.OFFICER] < ALLOWED[Role.ADMIN]
    assert ALLOWED[Role.OWNER] == set(Permission)


def test_only_owners_manage_owners_and_viewers_manage_nobody(workspace, owner):
    for actor, role in product(ROLES, ROLES):
        with transaction.atomic():
            acting = create_member(workspace, actor, "acting")
            other = create_member(workspace, role, "other")
            may = actor == "OWNER" or (actor == "ADMIN" and role != "OWNER")
            verbs = [
                partial(members.invite, acting, f"{role}@invited.test", Role(role)),
                partial(members.change_role, acting, other, Role(role)),
                partial(members.remove, acting, other),
            ]

            for verb in verbs:
                if may:
                    verb()
                else:
                    with pytest.raises(members.NotAllowed):
                        verb()

            assert Member.objects.filter(pk=other.pk).exists() is not may
            transaction.set_rollback(True)


@pytest.mark.parametrize("actor", ["ADMIN", "VIEWER"])
def test_members_cannot_make_themselves_owners(workspace, owner, actor):
    acting = create_member(workspace, actor)

    with pytest.raises(members.NotAllowed):
        members.change_role(acting, acting, Role.OWNER)


def test_demoted_member_has_no_old_permissions(workspace, owner):
    acting = create_member(workspace, "ADMIN")
    members.change_role(owner, acting, Role.VIEWER)
    # The page was opened before.
    acting.role = Role.ADMIN

    with pytest.raises(members.NotAllowed):
        members.invite(acting, "new@people.test", Role.VIEWER)


def test_removed_member_has_no_permissions(workspace, owner):
    acting, other = (
        create_member(workspace, "OWNER", "acting"),
        create_member(workspace, "VIEWER"),
    )
    members.remove(owner, acting)

    for verb in (
        lambda: members.invite(acting, "new@people.test", Role.VIEWER),
        lambda: members.change_role(acting, other, Role.OWNER),
        lambda: members.remove(acting, other),
    ):
        with pytest.raises(members.NotAllowed):
            verb()


def test_owners_manage_only_members_of_their_workspace(owner, another_api):
    theirs = create_member(another_api.workspace, "VIEWER", "theirs")

    for verb in (
        lambda: members.change_role(owner, theirs, Role.OWNER),
        lambda: members.remove(owner, theirs),
    ):
        with pytest.raises(members.NotAllowed):
            verb()


def test_workspace_keeps_an_owner(workspace, owner):
    for verb in (
        lambda: members.leave(owner),
        lambda: members.remove(owner, owner),
        lambda: members.change_role(owner, owner, Role.ADMIN),
    ):
        with pytest.raises(members.LastOwner):
            verb()

    second = create_member(workspace, "OWNER", "second")
    # Whose account is closed owns nothing that anybody could do something about.
    User.objects.filter(pk=second.user_id).update(is_active=False)
    with pytest.raises(members.LastOwner):
        members.leave(owner)

    User.objects.update(is_active=True)
    members.leave(owner)
    assert [m.user.username for m in workspace.members.all()] == ["second"]


def test_person_is_a_member_once(workspace, owner):
    with pytest.raises(IntegrityError, match="one_membership_a_person"):
        Member.objects.create(workspace=workspace, user=owner.user, role="VIEWER")


def test_invitation_makes_a_member_once(workspace, owner):
    token = invite_person(owner, role="ADMIN")
    user = create_user("new")

    made = members.accept(user, token)

    assert (made.workspace, made.role) == (workspace, "ADMIN")
    with pytest.raises(members.InvitationEnded):
        members.accept(user, token)


def test_invitation_is_for_all_spellings_of_one_address(owner):
    token = invite_person(owner, "New@People.test")

    with pytest.raises(members.InvitationEnded):
        members.accept(create_user("other"), token)

    assert members.accept(create_user("new"), token)


def test_invitation_expires(owner):
    token = invite_person(owner)
    user = create_user("new")

    with (
        time_machine.travel(
            now() + INVITATION_LIFETIME + timedelta(seconds=1), tick=False
        ),
        pytest.raises(members.InvitationEnded),
    ):
        members.accept(user, token)


def test_withdrawn_invitation_fails_and_is_not_sent(owner):
    token = invite_person(owner)
    members.withdraw_invitation(owner, Invitation.objects.get())

    with pytest.raises(members.InvitationEnded):
        members.accept(create_user("new"), token)
    assert Notification.objects.get().status == "CANCELLED"
    assert Invitation.objects.get().email is None


def test_second_invitation_replaces_the_first(owner):
    first = invite_person(owner)
    second = invite_person(owner, role="ADMIN")
    user = create_user("new")

    with pytest.raises(members.InvitationEnded):
        members.accept(user, first)
    assert members.accept(user, second).role == "ADMIN"


def test_members_are_not_invited(owner):
    with pytest.raises(members.AlreadyMember):
        members.invite(owner, owner.user.email.upper(), Role.ADMIN)


@pytest.mark.django_db(transaction=True)
def test_accepted_invitation_is_not_replaced(transactional_db, owner):
    token = invite_person(owner)
    user = create_user("new")
    with uncommitted(lambda: members.accept(user, token)):
        second = start_and_block(lambda: invite_person(owner))
    with pytest.raises(members.AlreadyMember):
        second.result()
    assert Invitation.objects.get().accepted_at


def test_invitation_does_not_change_the_role_of_a_member(workspace, owner):
    token = invite_person(owner, role="VIEWER")
    user = create_user("new")
    Member.objects.create(workspace=workspace, user=user, role=Role.ADMIN)

    assert members.accept(user, token).role == "ADMIN"


def test_table_has_neither_token_nor_address_in_clear(owner):
    token = invite_person(owner)
    row = repr(Invitation.objects.values().get())

    assert token not in row
    assert "people.test" not in row


def test_accepted_invitation_is_not_withdrawn(owner):
    token = invite_person(owner)
    waiting = Invitation.objects.get()
    members.accept(create_user("new"), token)

    with pytest.raises(members.InvitationEnded):
        members.withdraw_invitation(owner, waiting)
    assert Invitation.objects.get().accepted_at


def test_suspended_workspace_accepts_no_members(workspace, owner):
    token = invite_person(owner)
    user = create_user("new")
    workspace.suspend("Unpaid invoices")

    with pytest.raises(members.InvitationEnded):
        members.accept(user, token)
    assert members.find_open_invitation(token) is None
    workspace.resume()
    assert members.accept(user, token)


def test_invitations_a_day_are_limited(workspace, owner, monkeypatch):
    monkeypatch.setattr(members, "INVITATIONS_PER_DAY", 3)

    def invite() -> None:
        members.invite(owner, "new@people.test", Role.VIEWER)

    approve_workspace(workspace)
    owner = Member.objects.get()
    yesterday = now() - timedelta(days=1)
    for number in range(members.INVITATIONS_PER_DAY):
        members.invite(owner, f"{number}@people.test", Role.VIEWER)

    with pytest.raises(members.TooManyInvitations):
        invite()
    workspace.invitations.update(created_at=yesterday)
    invite()


def test_mail_to_a_workspace_goes_to_its_present_owner(workspace, owner):
    named = workspace.owner_email
    assert workspace.contact_email == owner.user.email

    heir = create_member(workspace, "OWNER", "heir")
    members.leave(owner)
    assert workspace.contact_email == heir.user.email

    Member.objects.all().delete()
    assert workspace.contact_email == named
