"""Changes of the e-mail address, and the purge of sign-ups."""

from datetime import timedelta

import pytest
from allauth.account.models import EmailAddress
from django.contrib.auth.models import User
from django.core.cache import cache
from django.test import Client
from django.utils.timezone import now

from tests.accounts.visitor import (
    SIGN_UP,
    create_user,
    is_logged_in,
    log_in,
    path_mailed_to,
    sign_up,
)
from tests.world.members import PASSWORD, create_member, invitation_token
from tests.world.threads import SECONDS, start_and_block, uncommitted
from verification.accounts import colleagues
from verification.accounts.models import Session, purge_unconfirmed_users
from verification.accounts.sessions import purge_sessions, row_key
from verification.backoffice.models import AuditEvent
from verification.notifications.models import Notification
from workspaces import members
from workspaces.models import Invitation, Member, Role, Workspace

SIGN_UP_FORM = {"name": "Grace", "password1": PASSWORD}
PAGE, OLD, NEW = "/accounts/email/", "grace@people.test", "wambui@people.test"


@pytest.fixture
def client(db) -> Client:
    create_user()
    client = Client()
    log_in(client, OLD)
    client.post("/accounts/reauthenticate/", {"password": PASSWORD})
    return client


def request_change(client: Client, email: str = NEW) -> str:
    """Request a change; return the path of the link that the new address gets."""
    answer = client.post(PAGE, {"email": email, "action_add": ""})
    assert answer.status_code == 302
    return path_mailed_to(email, "ACCOUNT_CONFIRM")


def can_log_in(email: str) -> bool:
    client = Client()
    log_in(client, email)
    return is_logged_in(client)


def test_confirmed_address_replaces_the_old_one_and_mails_it(client):
    client.post(request_change(client))

    assert User.objects.get().email == NEW
    assert (can_log_in(NEW), can_log_in(OLD)) == (True, False)
    # A later mail is about the next login.
    mail = Notification.objects.filter(kind="ACCOUNT_CHANGED").earliest("id")
    assert (mail.recipient, mail.context["what"]) == (OLD, "email")
    assert AuditEvent.objects.get().action == "user.email-changed"
    # Only the first confirmed address creates a workspace.
    assert not Workspace.objects.exists()


def test_unconfirmed_address_changes_nothing(client, workspace):
    link = request_change(client)
    owner = create_member(workspace, "OWNER", "owner")
    members.invite(owner, NEW, Role.VIEWER)

    client.get(link)

    assert User.objects.get(username="grace").email == OLD
    assert (can_log_in(NEW), can_log_in(OLD)) == (False, True)
    client.post(f"/console/invitations/{invitation_token(NEW)}")
    assert Member.objects.get() == owner


def test_new_address_counts_after_a_login_only(client):
    """The mistyped address of a stranger would else open the account to them."""
    link, stranger = request_change(client), Client()

    for visitor in (stranger, logged_in_visitor("otieno")):
        answer = visitor.post(link)
        assert answer["Location"].startswith("/accounts/login/?next=%2Faccounts%2F")
    assert User.objects.get(username="grace").email == OLD

    login = stranger.get(link)["Location"]
    page = stranger.post(login, {"login": OLD, "password": PASSWORD}, follow=True)
    assert NEW in page.content.decode()
    stranger.post(link)
    assert User.objects.get(username="grace").email == NEW


def logged_in_visitor(name: str) -> Client:
    visitor = Client()
    visitor.force_login(create_user(name))
    return visitor


def test_link_to_a_withdrawn_address_confirms_nothing(client):
    link = request_change(client, "mistyped@people.test")
    request_change(client)

    client.post(link)

    assert User.objects.get().email == OLD
    assert EmailAddress.objects.get(verified=True).email == OLD


def test_forms_do_not_accept_an_unconfirmed_address(client):
    request_change(client)
    EmailAddress.objects.update(verified=False)

    client.post(PAGE, {"email": NEW, "action_primary": ""})

    assert User.objects.get().email == OLD


def test_too_long_address_is_refused(client):
    long = "a" * 60 + "@" + ".".join(["b" * 60] * 4) + ".test"

    for path, more in ((PAGE, {"action_add": ""}), (SIGN_UP, SIGN_UP_FORM)):
        visitor = client if path == PAGE else Client()
        answer = visitor.post(path, {"email": long, **more})
        assert "Enter an e-mail address" in answer.content.decode()
    assert User.objects.count() == 1


def test_present_address_can_be_kept(client):
    link = request_change(client)
    assert NEW in client.get(PAGE).content.decode()

    client.post(PAGE, {"email": NEW, "action_remove": ""})
    client.post(link)

    assert (User.objects.get().email, can_log_in(OLD)) == (OLD, True)


def test_taken_address_gets_the_same_answer_and_no_change(client):
    create_user("otieno")
    unknown = client.post(PAGE, {"email": NEW, "action_add": ""})

    taken = client.post(PAGE, {"email": "otieno@people.test", "action_add": ""})
    assert (taken.status_code, taken["Location"]) == (302, unknown["Location"])
    client.post(path_mailed_to("otieno@people.test", "ACCOUNT_CONFIRM"))

    assert User.objects.get(username="grace").email == OLD
    assert can_log_in("otieno@people.test")


@pytest.mark.django_db(transaction=True)
def test_address_is_confirmed_by_one_account_at_a_time(client):
    link = request_change(client)
    # An address gets one link in three minutes.
    cache.clear()
    confirm = sign_up(NEW)

    with uncommitted(confirm):
        later = start_and_block(lambda: client.post(link))

    assert later.result(SECONDS).status_code == 302
    assert EmailAddress.objects.get(email=NEW, verified=True).user.first_name == "Njeri"
    assert User.objects.get(username="grace").email == OLD


def test_address_of_an_invited_colleague_is_not_confirmed(client, admin_user):
    colleagues.add(NEW, "Wambui", [], by=admin_user)

    client.post(request_change(client))

    assert User.objects.get(email=NEW).is_staff
    assert can_log_in(OLD)


def test_address_page_asks_for_the_password_or_a_login(client):
    assert client.get(PAGE).status_code == 200
    later = Client()
    assert later.get(PAGE)["Location"] == f"/accounts/login/?next={PAGE}"

    log_in(later, OLD)
    answer = later.post(PAGE, {"email": NEW, "action_add": ""})

    assert answer["Location"].startswith("/accounts/reauthenticate/")
    assert not EmailAddress.objects.filter(email=NEW).exists()


def test_purge_deletes_only_unconfirmed_users(client, workspace):
    for name in ("stranger", "fresh", "invited", "staffer"):
        User.objects.create_user(name, f"{name}@people.test", PASSWORD)
    long_ago = now() - timedelta(days=31)
    User.objects.exclude(username="fresh").update(date_joined=long_ago)
    User.objects.filter(username="staffer").update(is_staff=True)
    invited = User.objects.get(username="invited")
    Member.objects.create(workspace=workspace, user=invited, role="VIEWER")

    purge_unconfirmed_users()
    purge_unconfirmed_users()

    assert {user.username for user in User.objects.all()} == {
        "grace",
        "fresh",
        "invited",
        "staffer",
    }


def test_old_sessions_are_purged(client):
    Session.objects.create(session_key="old", expire_date=now() - timedelta(days=1))

    purge_sessions()

    assert Session.objects.get().session_key == row_key(client.session.session_key)


def test_purge_deletes_addresses_of_expired_invitations(workspace):
    owner = create_member(workspace, "OWNER", "owner")
    members.invite(owner, "new@people.test", Role.VIEWER)
    members.invite(owner, "late@people.test", Role.VIEWER)
    late = Invitation.objects.latest("id")
    Invitation.objects.filter(pk=late.pk).update(expires_at=now())

    members.end_expired_invitations()

    late.refresh_from_db()
    assert late.email is None
    assert Invitation.objects.get(revoked_at=None).email == "new@people.test"
