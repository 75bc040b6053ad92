"""The limits of bodies, by route and by client."""

import io
from uuid import UUID

import pytest
from django.contrib.auth import SESSION_KEY
from django.http import HttpResponse
from django.urls import reverse

from tests.world.clients import HOSTED, approve_workspace, person
from tests.world.members import create_member
from verification.accounts.sessions import SessionStore
from verification.consents.models import Consent
from verification.hosted.subject_data import subject_pages
from verification.web import bodies
from verification.web.bodies import calls_identity_provider, limit_body
from verification.web.gateway import BodyLimit, Room
from workspaces import keys

MIB = 1024 * 1024
ROW, OTHER = UUID(int=1), UUID(int=2)


@pytest.fixture(autouse=True)
def forget_keys():
    bodies._known.clear()


def limit_of(path: str, **headers: str) -> BodyLimit:
    environ = {"PATH_INFO": path, "REMOTE_ADDR": "192.0.2.1", **headers}
    limit = limit_body(
        {"REQUEST_METHOD": "POST", "wsgi.input": io.BytesIO(), **environ}
    )
    return limit if isinstance(limit, BodyLimit) else limit()


def limit_by_key(text: str) -> BodyLimit:
    return limit_of("/api/v1/reports", HTTP_AUTHORIZATION=f"Bearer {text}")


STRANGER = BodyLimit(64 * 1024, Room.STRANGERS, "192.0.2.1")


@pytest.mark.parametrize(
    "path",
    [
        "/my-data",
        f"/c/v/{ROW}/grant",
        f"/c/v/{ROW}/data/wrong/{OTHER}",
        "/accounts/login/",
        "/console/",
        "/api/v1/reports",
        "/caf\xc3\xa9",
    ],
)
def test_body_of_a_stranger_is_no_larger_than_a_form(path):
    assert limit_of(path) == STRANGER


@pytest.mark.parametrize(
    ("path", "size"),
    [
        ("/api/v1/webhooks/payment-provider", 256 * 1024),
        ("/callbacks/smile-id", 2 * MIB),
    ],
)
def test_providers_have_a_room_of_their_own(path, size):
    assert limit_of(path) == BodyLimit(size, Room.PROVIDERS, "192.0.2.1")


def test_key_has_room_that_a_made_up_key_does_not_get(transactional_db, workspace):
    _, text = keys.issue(workspace, environment="sandbox", name="a")
    body = "vrf_test_" + "0" * 32
    made_up = body + keys._checksum(body)

    assert keys.is_well_formed(made_up)
    assert limit_by_key(made_up) == STRANGER
    known = limit_by_key(text)
    assert (known.size, known.room) == (2 * MIB, Room.SANDBOX)


def test_key_of_the_sandbox_takes_no_room_of_production(transactional_db, workspace):
    """Everybody who signs up gets one."""
    rooms = {
        environment: limit_by_key(
            keys.issue(workspace, environment=environment, name="a", force=True)[1]
        ).room
        for environment in ("sandbox", "production")
    }

    assert rooms == {"sandbox": Room.SANDBOX, "production": Room.KEYS}


def test_revoked_key_is_a_stranger(transactional_db, workspace):
    key, text = keys.issue(workspace, environment="sandbox", name="a")
    keys.revoke(key)

    assert limit_by_key(text) == STRANGER


def test_known_key_is_not_looked_up_again(
    transactional_db, workspace, django_assert_num_queries, monkeypatch
):
    _, text = keys.issue(workspace, environment="sandbox", name="a")
    limit_by_key(text)

    with django_assert_num_queries(0):
        limit_by_key(text)
    monkeypatch.setattr(bodies.time, "monotonic", lambda: float("inf"))
    with django_assert_num_queries(1):
        limit_by_key(text)


@pytest.mark.parametrize("path", ["/console/", "/admin/", "/accounts/password/"])
def test_session_may_upload_documents(
    transactional_db, django_user_model, settings, path
):
    user = django_user_model.objects.create_user("a@example.com", is_staff=True)
    session = SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session.save()
    cookie = f"{settings.SESSION_COOKIE_NAME}={session.session_key}"

    assert limit_of(path, HTTP_COOKIE=cookie) == BodyLimit(
        11 * MIB, Room.PEOPLE, str(user.pk)
    )
    session.delete()
    assert limit_of(path, HTTP_COOKIE=cookie) == STRANGER


def test_member_takes_no_room_of_live_workspaces_before_going_live(
    transactional_db, workspace, settings
):
    """Everybody can sign up."""
    session = SessionStore()
    session[SESSION_KEY] = str(create_member(workspace, "OWNER").user_id)
    session.save()
    cookie = f"{settings.SESSION_COOKIE_NAME}={session.session_key}"

    before = limit_of("/console/", HTTP_COOKIE=cookie)
    approve_workspace(workspace)

    assert (before.size, before.room) == (11 * MIB, Room.SANDBOX)
    assert limit_of("/console/", HTTP_COOKIE=cookie).room == Room.PEOPLE


def test_cookie_that_is_no_text_is_of_a_stranger(transactional_db, settings):
    cookie = f'{settings.SESSION_COOKIE_NAME}="abcdefgh\\000ijkl"'

    assert limit_of("/console/", HTTP_COOKIE=cookie) == STRANGER


def test_subject_with_a_visit_may_upload_documents(api, live_api, monkeypatch):
    # It would close the connection of the test.
    monkeypatch.setattr(bodies, "close_old_connections", lambda: None)
    for client, room in [(api, Room.SANDBOX), (live_api, Room.PEOPLE)]:
        client.create({**person(), "consent": HOSTED, "draft": True})
        row, response = Consent.objects.latest("id").pk, HttpResponse()
        subject_pages.cookie.remember(response, row, [1])
        cookie = response.cookies.output(header="", attrs=[]).strip()
        path = f"/c/v/{row}/data/wrong/{OTHER}"

        assert limit_of(path, HTTP_COOKIE=cookie).room == room
        other = f"/c/v/{OTHER}/data/wrong/{OTHER}"
        assert limit_of(other, HTTP_COOKIE=cookie) == STRANGER


def test_logins_by_identity_providers_are_told_from_other_paths():
    routes = ["login", "callback", "end_sessions"]
    paths = [reverse(f"openid_connect_{route}", args=["bank"]) for route in routes]

    assert all(map(calls_identity_provider, paths))
    assert not calls_identity_provider(reverse("account_login"))
