"""An invited person joins a workspace by one mail and one page."""

from __future__ import annotations

import pytest
from allauth.account.models import EmailAddress
from django.contrib.auth.models import User
from django.test import Client

from tests.accounts.visitor import (
    SIGN_UP,
    create_user,
    is_logged_in,
    log_in,
    sign_up,
)
from tests.world.members import PASSWORD, create_member, invitation_token
from tests.world.threads import SECONDS, start_and_block, uncommitted
from verification.notifications.models import Notification
from workspaces import members
from workspaces.models import Invitation, Member, Role, Workspace

EMAIL = "Grace@People.test"
JOIN = {"name": "Grace Wambui", "password1": PASSWORD}


@pytest.fixture
def client(db) -> Client:
    return Client()


@pytest.fixture
def page(workspace: Workspace) -> str:
    """Return the path of the page that an invitation leads to."""
    members.invite(create_member(workspace, "OWNER"), EMAIL, Role.OFFICER)
    return f"/console/invitations/{invitation_token(EMAIL)}"


def html_of(client: Client, page: str) -> str:
    answer = client.get(page)
    assert answer.status_code == 200
    return answer.content.decode()


def test_invited_person_chooses_a_password_and_is_in(client, workspace, page):
    shown = html_of(client, page)
    assert "Grace@People.test" in shown
    assert 'type="email"' not in shown

    answer = client.post(page, JOIN)

    member = Member.objects.get(user__email="grace@people.test")
    assert answer["Location"] == f"/console/{workspace.pk}/sandbox/"
    assert client.get(answer["Location"]).status_code == 200
    assert (member.role, member.user.first_name) == ("OFFICER", "Grace Wambui")
    assert EmailAddress.objects.get(user=member.user).verified
    # The person gets no other workspace and no other mail.
    assert Workspace.objects.count() == 1
    assert [one.kind for one in Notification.objects.all()] == ["INVITATION"]
    later = Client()
    log_in(later, "grace@people.test")
    assert is_logged_in(later)


def test_link_opens_one_account(client, page):
    client.post(page, JOIN)

    for visitor in (client, Client()):
        assert visitor.get(page).status_code == 410
        assert visitor.post(page, JOIN).status_code == 410
    assert User.objects.filter(email="grace@people.test").count() == 1


def test_join_takes_no_other_address(client, page):
    client.post(page, {**JOIN, "email": "eve@people.test"})

    assert Member.objects.get(role="OFFICER").user.email == "grace@people.test"
    assert not User.objects.filter(email="eve@people.test").exists()


FAULTY = [
    ({"password1": ""}, "Fill in “Password”"),
    ({"password1": "short"}, "at least 12 characters"),
    ({"password1": "gracewambui1"}, "uses names"),
    ({"name": ""}, "Fill in “Your name”"),
    ({"name": "See evil.example"}, "Use no links"),
]


def test_faulty_form_opens_no_account(client, page):
    for typed, error in FAULTY:
        answer = client.post(page, {**JOIN, **typed})

        assert error in answer.content.decode(), typed
    assert Member.objects.count() == 1
    assert Invitation.objects.get().accepted_at is None


def test_person_with_an_account_logs_in_and_accepts(client, page):
    user = create_user()

    shown = html_of(client, page)
    assert 'name="password1"' not in shown
    login = f"/accounts/login/?next={page}"
    assert login.replace("/", "%2F").partition("next=")[2] in shown.replace("/", "%2F")
    assert 'value="Grace@People.test"' in html_of(client, login)
    client.post(page, JOIN)
    assert not Member.objects.filter(user=user).exists()

    answer = log_in(client, "grace@people.test", fields={"next": page})
    assert answer["Location"] == page
    assert "Accept" in html_of(client, page)
    client.post(page)
    assert Member.objects.get(user=user).role == "OFFICER"


def test_sign_up_of_a_stranger_does_not_keep_the_address(client, page):
    """Anybody can sign up with an address that they do not read."""
    stranger = {"name": "Eve", "email": EMAIL, "password1": "nine loud hippopotami"}
    Client().post(SIGN_UP, stranger)

    client.post(page, JOIN)

    mine = User.objects.get(email="grace@people.test")
    assert mine.check_password(PASSWORD)
    assert mine.first_name == "Grace Wambui"
    assert Member.objects.filter(user=mine).exists()


@pytest.mark.django_db(transaction=True)
def test_person_who_confirms_meanwhile_opens_no_second_account(client, page):
    confirm = sign_up(EMAIL.lower())

    with uncommitted(confirm):
        joining = start_and_block(lambda: client.post(page, JOIN))

    assert joining.result(SECONDS).status_code == 200
    assert User.objects.get(email="grace@people.test").first_name == "Njeri"
    assert not is_logged_in(client)


def test_invited_staff_log_in_with_their_own_password(client, page):
    """The link of a workspace must not set the password of staff."""
    staff = User.objects.create_user("grace", EMAIL, is_staff=True)
    EmailAddress.objects.create(user=staff, email=EMAIL, primary=True)

    client.post(page, JOIN)

    staff.refresh_from_db()
    assert not staff.has_usable_password()
    assert not is_logged_in(client)
    assert not Member.objects.filter(user=staff).exists()


def test_another_user_neither_joins_nor_opens_an_account(client, page):
    client.force_login(User.objects.create_user("eve", "eve@people.test", PASSWORD))

    assert "for another e-mail address" in html_of(client, page)
    client.post(page, JOIN)

    assert Member.objects.count() == 1
    assert not User.objects.filter(email="grace@people.test").exists()


@pytest.mark.usefixtures("new_minute")
def test_forms_of_an_address_are_limited(client, page):
    answers = [client.post(page, {}).status_code for _ in range(11)]

    assert answers == [200] * 10 + [429]
