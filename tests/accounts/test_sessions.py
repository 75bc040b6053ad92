"""People see and end their sessions; changes of how they log in end the others."""

import base64
import re
from datetime import timedelta

import pytest
import time_machine
from allauth.mfa.models import Authenticator
from django.contrib.auth.models import User
from django.db import OperationalError, transaction
from django.test import Client
from django.utils.timezone import now

from tests.accounts.visitor import (
    code_of,
    create_user,
    is_logged_in,
    log_in,
    path_mailed_to,
)
from tests.world import staff
from tests.world.members import PASSWORD
from tests.world.staff import press_button
from tests.world.staff import superuser as superuser
from tests.world.threads import start_and_block
from verification.accounts.models import Colleague, Session
from verification.backoffice.models import AuditEvent
from workspaces.logins import remove_second_factors
from workspaces.models import Member, Role

PAGE = "/accounts/sessions/"
EMAIL = "grace@people.test"
NEW = "eight loud elephants"
PHONE = "Mozilla/5.0 (Linux; Android 10) AppleWebKit/537.36 Chrome/143.0 Safari/537.36"
ELSEWHERE = "198.51.100.7"


@pytest.fixture
def grace(db):
    return create_user()


def open_session(**more) -> Client:
    client = Client(**more)
    log_in(client, EMAIL)
    assert is_logged_in(client)
    return client


def confirm_identity(client: Client, page: str, secret: str = "") -> Client:
    """Type the password or a code again."""
    again = client.get(page)["Location"]
    client.post(again, {"code": code_of(secret)} if secret else {"password": PASSWORD})
    return client


def is_open(client: Client) -> bool:
    return client.get("/accounts/security/").status_code == 200


def test_session_page_lists_open_sessions(grace):
    other = open_session(headers={"user-agent": PHONE}, REMOTE_ADDR=ELSEWHERE)
    create_user("otieno")
    log_in(Client(REMOTE_ADDR="192.0.2.77"), "otieno@people.test")

    html = open_session().get(PAGE).content.decode()

    assert "Chrome, Android" in html
    assert ELSEWHERE in html
    assert "192.0.2.77" not in html
    assert html.count("This session") == 1
    assert other.session.session_key not in html


def test_rows_of_sessions_log_nobody_in(grace, settings):
    open_session()
    for key in Session.objects.values_list("session_key", flat=True):
        thief = Client()
        thief.cookies[settings.SESSION_COOKIE_NAME] = key
        assert not is_open(thief)


def test_session_is_ended_from_another(grace):
    here, there, third = (
        open_session(),
        open_session(REMOTE_ADDR=ELSEWHERE),
        open_session(),
    )
    html = here.get(PAGE).content.decode()
    name = re.search(rf'{ELSEWHERE}.*?name="session" value="(\w+)"', html, re.DOTALL)[1]

    asked = here.post(PAGE, {"session": name})
    assert is_open(there)
    here.post(asked["Location"], {"password": PASSWORD})

    assert [is_open(client) for client in (here, there, third)] == [True, False, True]
    here.post(PAGE)
    assert [is_open(client) for client in (here, third)] == [True, False]
    events = AuditEvent.objects.filter(action="user.other-sessions-ended")
    assert events.count() == 2


def test_session_of_another_user_is_not_ended(grace):
    create_user("otieno")
    stranger = Client()
    log_in(stranger, "otieno@people.test")
    confirm_identity(stranger, "/accounts/email/")
    here = open_session(REMOTE_ADDR=ELSEWHERE)
    other = open_session()
    html = here.get(PAGE).content.decode()
    name = re.search(r'name="session" value="(\w+)"', html)[1]

    stranger.post(PAGE, {"session": name})

    assert is_open(other)


@pytest.mark.django_db(transaction=True)
def test_change_of_factor_ends_other_sessions():
    create_user()
    here, there = open_session(), open_session()
    confirm_identity(here, "/accounts/totp/activate/")
    secret = here.get("/accounts/totp/activate/").context["form"].secret
    here.post("/accounts/totp/activate/", {"code": code_of(secret)})
    assert [is_open(here), is_open(there)] == [True, False]

    again = Client()
    again.force_login(User.objects.get())
    assert is_open(again)
    here.post("/accounts/totp/deactivate/")
    assert not Authenticator.objects.exists()
    assert [is_open(here), is_open(again)] == [True, False]


def test_change_of_password_or_address_ends_other_sessions(grace):
    here, there = open_session(), open_session()
    fields = {"oldpassword": PASSWORD, "password1": "eight loud elephants"}
    fields["password2"] = fields["password1"]
    here.post("/accounts/password/change/", fields)
    assert [is_open(here), is_open(there)] == [True, False]
    assert Session.objects.filter(user=grace).count() == 1

    there = Client()
    log_in(there, EMAIL, "eight loud elephants")
    again = here.get("/accounts/email/")["Location"]
    here.post(again, {"password": "eight loud elephants"})
    here.post("/accounts/email/", {"email": "new@people.test", "action_add": ""})
    assert is_open(there)
    here.post(path_mailed_to("new@people.test", "ACCOUNT_CONFIRM").partition("?")[0])
    assert [is_open(here), is_open(there)] == [True, False]


def test_password_reset_ends_all_sessions(grace):
    there = open_session()
    reset_password()

    assert not Session.objects.filter(user=grace).exists()
    assert not is_open(there)


def reset_password() -> None:
    guest = Client()
    guest.post("/accounts/password/reset/", {"email": EMAIL})
    link = path_mailed_to(EMAIL, "ACCOUNT_RESET")
    form = guest.get(link, follow=True).request["PATH_INFO"]
    guest.post(form, dict.fromkeys(("password1", "password2"), "eight loud elephants"))


@pytest.mark.parametrize("is_reset", [True, False])
def test_end_of_other_sessions_ends_the_new_address_that_they_asked_for(
    grace, is_reset
):
    thief = confirm_identity(open_session(), "/accounts/email/")
    thief.post("/accounts/email/", {"email": "thief@people.test", "action_add": ""})
    if is_reset:
        reset_password()
    else:
        confirm_identity(open_session(), "/accounts/email/").post(PAGE)

    assert [one.email for one in grace.emailaddress_set.all()] == [EMAIL]


@pytest.mark.django_db(transaction=True)
def test_factor_is_not_set_up_when_its_last_step_fails(monkeypatch):
    grace = create_user()
    client = open_session(raise_request_exception=False)
    confirm_identity(client, "/accounts/totp/activate/")
    secret = client.get("/accounts/totp/activate/").context["form"].secret
    monkeypatch.delattr("verification.accounts.signals.end_other_sessions")

    answer = client.post("/accounts/totp/activate/", {"code": code_of(secret)})

    assert answer.status_code == 500
    assert not grace.authenticator_set.exists()
    assert not AuditEvent.objects.exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("end", ["password", "session"])
def test_form_that_waits_for_another_one_sees_what_it_has_changed(end):
    grace, thief = create_user(), open_session()
    form = {"oldpassword": PASSWORD, "password1": NEW, "password2": NEW}

    with transaction.atomic():
        User.objects.select_for_update(no_key=True).get()
        changing = start_and_block(
            lambda: thief.post("/accounts/password/change/", form)
        )
        if end == "password":
            grace.set_password("nine loud purple hippos")
            grace.save()
        else:
            grace.sessions.all().delete()

    assert changing.result().status_code in (200, 400)
    grace.refresh_from_db()
    assert not grace.check_password(NEW)


@pytest.mark.django_db(transaction=True)
def test_address_is_not_confirmed_when_the_change_ends_meanwhile():
    grace, thief = create_user(), open_session()
    confirm_identity(thief, "/accounts/email/")
    thief.post("/accounts/email/", {"email": "thief@people.test", "action_add": ""})
    link = path_mailed_to("thief@people.test", "ACCOUNT_CONFIRM").partition("?")[0]

    with transaction.atomic():
        User.objects.select_for_update(no_key=True).get()
        confirming = start_and_block(lambda: thief.post(link))
        grace.emailaddress_set.filter(verified=False).delete()

    assert confirming.result().status_code == 404
    grace.refresh_from_db()
    assert grace.email == EMAIL


@pytest.mark.parametrize("change", ["password", "factor"])
def test_login_begins_again_when_the_account_changes_before_the_code(grace, change):
    secret, client = staff.give_factor(grace), Client()
    log_in(client, EMAIL)

    if change == "password":
        reset_password()
    else:
        remove_second_factors(grace)

    client.post("/accounts/code/", {"code": code_of(secret)})
    assert not is_logged_in(client)
    page = client.get("/accounts/login/", follow=True)
    assert page.request["PATH_INFO"] == "/accounts/login/"
    assert page.status_code == 200


def test_lost_connection_to_the_sessions_ends_none(grace, monkeypatch):
    client, save = open_session(raise_request_exception=False), Session.save

    def lose_connection(row: Session, *, force_update: bool, **more) -> None:
        if force_update:
            raise OperationalError("the connection is lost")
        save(row, force_update=force_update, **more)

    with (
        monkeypatch.context() as broken,
        # The page notes the time of use.
        time_machine.travel(now() + timedelta(minutes=1), tick=False),
    ):
        broken.setattr(Session, "save", lose_connection)
        assert client.get("/accounts/security/").status_code == 503
    assert is_open(client)


def test_session_gets_a_new_key_after_a_second_step(grace):
    client = open_session()
    before = client.session.session_key

    confirm_identity(client, "/accounts/totp/activate/")

    assert client.session.session_key != before
    assert is_open(client)
    assert Session.objects.filter(user=grace).count() == 1


def test_changes_need_the_second_factor(grace):
    secret = staff.give_factor(grace)
    client = Client()
    client.force_login(grace)

    for page in ("/accounts/email/", "/accounts/recovery-codes/generate/"):
        assert client.get(page)["Location"].startswith("/accounts/code/again/")
    by_password = client.post("/accounts/reauthenticate/", {"password": PASSWORD})
    assert by_password["Location"].startswith("/accounts/code/again/")
    assert client.get("/accounts/email/").status_code == 302
    page = client.get("/accounts/code/again/").content.decode()
    assert "/accounts/reauthenticate/" not in page

    confirm_identity(client, "/accounts/email/", secret)
    assert client.get("/accounts/email/").status_code == 200
    client.post("/accounts/email/", {"email": "new@people.test", "action_add": ""})
    client.post(path_mailed_to("new@people.test", "ACCOUNT_CONFIRM").partition("?")[0])
    grace.refresh_from_db()
    assert grace.email == "new@people.test"


def test_sessions_are_sealed_to_their_rows(grace):
    client = open_session()
    confirm_identity(client, "/accounts/totp/activate/")
    secret = client.get("/accounts/totp/activate/").context["form"].secret
    assert secret == client.session["mfa.totp.secret"]

    row = Session.objects.get(user=grace)
    assert secret.encode() not in base64.b64decode(row.session_data)
    other = open_session()
    Session.objects.update(session_data=row.session_data)
    assert is_open(client)
    assert not is_open(other)


def test_staff_end_the_sessions_of_a_member_and_of_a_colleague(superuser, workspace):
    grace = create_user()
    member = Member.objects.create(workspace=workspace, user=grace, role=Role.VIEWER)
    client = open_session()

    assert press_button(
        superuser, "end_sessions", member, reason="Her phone was stolen"
    ) == ["The sessions are ended."]

    assert not is_open(client)
    event = AuditEvent.objects.get(action="user.sessions-ended")
    assert (event.object_id, event.reason) == (str(grace.pk), "Her phone was stolen")

    otieno = create_user("otieno", is_staff=True)
    http = Client()
    staff.log_in(http, otieno)
    press_button(
        superuser, "end_sessions", Colleague.objects.get(pk=otieno.pk), reason="Lost"
    )
    assert not is_open(http)


def test_end_of_session_clears_the_browsers_data(grace):
    client = open_session()
    assert "Clear-Site-Data" not in client.get(PAGE).headers

    assert client.post("/accounts/logout/")["Clear-Site-Data"] == '"cache", "storage"'
    assert "Clear-Site-Data" not in client.get("/accounts/login/").headers
