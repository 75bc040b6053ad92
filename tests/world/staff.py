"""The admin as staff use it.

def test_something(rows, superuser):
    assert "Acacia" in read_page(superuser, list_url(Workspace))
"""

import json
import time
from datetime import timedelta
from secrets import token_hex
from typing import Any

import pytest
from allauth.account.models import EmailAddress
from allauth.mfa.totp.internal.auth import TOTP, generate_totp_secret
from django.conf import settings
from django.contrib import admin
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import Permission, User
from django.contrib.messages.storage.cookie import MessageDecoder
from django.contrib.messages.storage.session import SessionStorage
from django.http import HttpRequest
from django.test import Client, RequestFactory
from django.urls import reverse
from django.utils.timezone import now

from tests.golive.applications import submitted
from tests.world.brands import save_brand
from tests.world.clients import Api, person
from tests.world.corrections import dispute
from tests.world.members import create_member
from tests.world.rules import raise_alert_of_a_run
from verification.accounts.sessions import SessionStore, begin_session
from verification.checks.models import CheckResult
from verification.db.ids import uuid7
from verification.notifications.models import Block
from verification.notifications.recipients import block
from verification.privacy.disclosures import record_disclosures
from verification.privacy.holds import hold
from verification.privacy.models import (
    Channel,
    Origin,
    RequestKind,
    RetentionRun,
    SubjectRequest,
)
from verification.privacy.requests import open_request
from verification.reports.models import Report
from verification.sources.models import Call, Source

BACKEND = "allauth.account.auth_backends.AuthenticationBackend"
CHANGE = {
    "checkName": "IDENTITY",
    "field": "details.idNumber",
    "old": None,
    "new": "98765432",
}


@pytest.fixture
def rows(api: Api) -> Api:
    return create_rows(api)


def create_rows(api: Api) -> Api:
    """Create rows of the models that clients and their subjects fill."""
    api.create(person(idNumber="98765432"), person(idNumber="90000008"))
    payer = {"name": "Amina", "email": "amina@payer.test"}
    api.create({**person(), "paymentMode": "THIRD_PARTY", "payer": payer})
    raise_alert_of_a_run(api, changes=[CHANGE])
    submitted(create_member(api.workspace, "OWNER"))
    api.work()
    create_call(CheckResult.objects.first().report_id)
    Source.objects.create(name="acme")
    block(api.workspace.pk, [("EMAIL", "amina@payer.test")], Block.Reason.UNKNOWN)
    report = Report.objects.filter(completed_at__isnull=False).latest("id")
    enter_request(report)
    answered = CheckResult.objects.filter(status="COMPLETED").latest("id")
    dispute(str(answered.report_id), answered.name)
    record_disclosures([report.pk], Channel.API, "key vrf_test_1")
    hold(report.pk, "A court asks", now() + timedelta(days=30), by="staff grace")
    save_brand(api.workspace, colour="#0a7a3c", contact_line="Kimathi Street 12")
    run = {"environment": api.environment, "before": now(), "report_count": 1}
    RetentionRun.objects.create(workspace=api.workspace, **run)
    return api


def enter_request(report: Report | None = None, **fields) -> SubjectRequest:
    """Enter a request of the subject in the register, as staff do."""
    given = {"kind": RequestKind.ACCESS, "origin": Origin.STAFF, **fields}
    given.setdefault("details", {"request": "Wanjiku asks what is known"})
    return open_request(**given, requested_by="staff grace", report=report)


def create_call(report, **fields) -> Call:
    """Create a call of a source for the first check of this report."""
    result = CheckResult.objects.filter(report=report).first()
    made = {"source": "acme", "reference": "r", "attempt": 1, "tries": 0}
    return Call.objects.create(result=result, **made, **fields)


@pytest.fixture
def superuser(admin_user) -> Client:
    client = Client()
    log_in(client, admin_user)
    return client


@pytest.fixture
def staff(db: None) -> Client:
    """Grace has every permission in the admin, but is no superuser."""
    user = User.objects.create_user("grace", is_staff=True)
    user.user_permissions.set(Permission.objects.all())
    client = Client()
    log_in(client, user)
    return client


@pytest.fixture
def admin_client(superuser: Client) -> Client:
    """Replace pytest-django's client, which has no second factor."""
    return superuser


def log_in(client: Client, user: User) -> None:
    """Give the client a session of a login with a second factor.

    It costs a third of `Client.force_login`; tests/accounts holds the login itself.
    """
    give_factor(user)
    open_session(client, user, "totp")


def open_session(client: Client, user: User, factor: str) -> None:
    """Give the client a session of a login with this type of second factor."""
    user.last_login = now()
    user.save(update_fields=["last_login"])
    request = HttpRequest()
    request.session = SessionStore()
    request.session.update(
        {
            SESSION_KEY: str(user.pk),
            BACKEND_SESSION_KEY: BACKEND,
            HASH_SESSION_KEY: user.get_session_auth_hash(),
            "account_authentication_methods": [
                {"method": "mfa", "type": factor, "at": time.time()}
            ],
            "account_authentication_methods_user": str(user.pk),
        }
    )
    begin_session(request)
    # A random key is new, so nobody has to look.
    request.session._session_key = key = token_hex(16)
    row = request.session.create_model_instance(dict(request.session.items()))
    row.save(force_insert=True)
    client.cookies[settings.SESSION_COOKIE_NAME] = key


def give_factor(user: User) -> str:
    """Give the user an app for one-time codes; return its secret."""
    secret: str = generate_totp_secret()
    if not user.authenticator_set.exists():
        TOTP.activate(user, secret)
    if user.email:
        confirm_address(user)
    return secret


def confirm_address(user: User) -> None:
    given = {"verified": True, "primary": True}
    EmailAddress.objects.bulk_create(
        [EmailAddress(user=user, email=user.email, **given)],
        update_conflicts=True,
        unique_fields=["user", "email"],
        update_fields=[*given],
    )


def admin_url(model, name: str, *arguments) -> str:
    meta = model._meta
    return reverse(f"admin:{meta.app_label}_{meta.model_name}_{name}", args=arguments)


def list_url(model) -> str:
    return admin_url(model, "changelist")


def change_url(row) -> str:
    return admin_url(type(row), "change", row.pk)


def read_page(client: Client, url: str, **query: str) -> str:
    answer = client.get(url, query)
    assert answer.status_code == 200
    return answer.content.decode()


def run_action(client: Client, action: str, *chosen, **fields) -> list[str]:
    """Run an action on rows of the list; return the messages of the page."""
    data = {"action": action, "_selected_action": [row.pk for row in chosen]}
    # As if staff had confirmed the action on its page.
    data = {"_confirmed": "yes", **data, **fields}
    return take_messages(client.post(list_url(type(chosen[0])), data))


def take_messages(answer: Any) -> list[str]:
    """Return the messages of an answer, or of the page to which it redirects.

    Showing that page would cost more than everything that the answer has done.
    """
    if answer.status_code not in {302, 303}:
        shown = (answer.context or {}).get("messages", [])
        return [str(message) for message in shown]
    session = answer.client.session
    stored = session.pop(SessionStorage.session_key, None)
    if stored is None:
        return []
    session.save()
    return [str(message) for message in json.loads(stored, cls=MessageDecoder)]


def assert_read_only(client: Client, row) -> None:
    """Assert that nobody adds, edits or deletes rows of this model in the admin."""
    model = type(row)
    before = model.objects.filter(pk=row.pk).values().get()
    posted = dict.fromkeys(before, "")

    assert client.get(admin_url(model, "add")).status_code == 403
    assert client.post(admin_url(model, "add"), posted).status_code == 403
    assert client.post(change_url(row), posted).status_code == 403
    assert client.post(admin_url(model, "delete", row.pk)).status_code == 403
    run_action(client, "delete_selected", row, post="yes")
    assert model.objects.filter(pk=row.pk).values().get() == before


def press_button(client: Client, button: str, row, **fields) -> list[str]:
    """Press a button of the row's page and its dialog; return the messages."""
    return take_messages(client.post(dialog_url(button, row), dialog_fields(**fields)))


def dialog_url(button: str, row) -> str:
    return admin_url(type(row), button, row.pk)


def dialog_fields(**fields) -> dict[str, str]:
    """Return the fields that a dialog's last step sends."""
    return {"_form_submitted": "on", "confirmed": "on", "page": str(uuid7()), **fields}


def reveal(client: Client, row, reason: str = "The subject asked") -> None:
    data = {"reason": reason, "_form_submitted": "on"}
    assert client.post(reveal_url(row), data).status_code == 302


def reveal_url(row) -> str:
    return dialog_url("reveal", row)


def staff_request(client: Client, path: str = "/admin/", **query: str) -> Any:
    """Return a request of the client's user, for a view that is called directly.

    Middlewares and the template of a page cost ten times more than most views.
    """
    request: Any = RequestFactory().get(path, query)
    request.session = client.session
    request.user = User.objects.get(pk=request.session[SESSION_KEY])
    request._messages = SessionStorage(request)
    return request


def listed_ids(client: Client, model, **query: str) -> set[str]:
    """Return the ids of the rows that the first page of the list shows."""
    request = staff_request(client, list_url(model), **query)
    listed = admin.site.get_model_admin(model).get_changelist_instance(request)
    return {str(row.pk) for row in listed.result_list}
