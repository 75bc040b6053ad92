import re
from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import Group, Permission, User
from django.core.exceptions import PermissionDenied
from django.db.models import Model
from django.test import Client, RequestFactory
from django.urls import resolve

from tests.world.clients import HOSTED, Api, create_lender, person
from tests.world.payments import candidate_item, open_page
from tests.world.staff import (
    admin_url,
    change_url,
    create_rows,
    list_url,
    log_in,
    press_button,
    read_page,
    reveal_url,
    run_action,
    staff_request,
)
from verification.backoffice.roles import ROLES, write_roles
from verification.consents.models import Consent
from verification.privacy.models import Hold
from verification.reports.models import Report
from verification.sources.models import Call

pytestmark = pytest.mark.django_db

LINK = r'href="/admin/(\w+/\w+)/[^/"]+/change/"'
STORY = {
    "reports.report",
    "checks.checkresult",
    "consents.consent",
    "consents.consentrecord",
    "decisions.decision",
    "references.reference",
    "workspaces.workspace",
    "workspaces.member",
}
# Models that each role may view, written independently of `ROLES`.
SEES = {
    "Reviewer": STORY
    | {
        "golive.application",
        "golive.namechange",
        "workspaces.apikey",
        "workspaces.brand",
        "notifications.block",
        "privacy.subjectrequest",
        "privacy.correction",
    },
    "Operations": STORY
    | {
        "payments.payment",
        "webhooks.configuration",
        "webhooks.event",
        "webhooks.delivery",
        "monitoring.rule",
        "monitoring.run",
        "monitoring.alert",
        "notifications.block",
        "notifications.notification",
        "sources.source",
        "sources.call",
        "jobs.job",
        "watchlists.edition",
        "django_q.schedule",
        "workspaces.apikey",
        "workspaces.brand",
        "privacy.subjectrequest",
        "privacy.correction",
        "privacy.hold",
        "privacy.erasure",
        "privacy.retentionrun",
    },
    "Finance": {
        "reports.report",
        "checks.checkdefinition",
        "checks.checkpackage",
        "payments.payment",
        "payments.checkout",
        "payments.refund",
        "payments.dispute",
        "payments.paymentevent",
        "payments.operatoralert",
        "sources.source",
        "sources.call",
        "workspaces.workspace",
        "workspaces.account",
        "workspaces.ledgerentry",
        "workspaces.staffentry",
    },
    "Privacy officer": STORY
    | {
        "backoffice.auditevent",
        "notifications.block",
        "privacy.subjectrequest",
        "privacy.correction",
        "privacy.hold",
        "privacy.disclosure",
        "privacy.erasure",
        "privacy.stafferasure",
        "privacy.retentionrun",
    },
}
# Models whose rows each role may add by a form.
ADDED = {
    "Superuser": {
        "checks.checkpackage",
        "workspaces.workspace",
        "workspaces.apikey",
        "accounts.colleague",
        "auth.group",
        "privacy.subjectrequest",
        "privacy.stafferasure",
    },
    "Finance": {"checks.checkpackage"},
    "Privacy officer": {"privacy.subjectrequest", "privacy.stafferasure"},
}
# Models whose rows each role may change by a form.
CHANGED = {
    "Superuser": {
        "accounts.colleague",
        "auth.group",
        "checks.checkdefinition",
        "checks.checkpackage",
        "workspaces.account",
        "workspaces.apikey",
        "workspaces.workspace",
    },
    "Finance": {
        "checks.checkdefinition",
        "checks.checkpackage",
        "workspaces.account",
    },
    "Operations": {"workspaces.apikey", "workspaces.workspace"},
}


@pytest.fixture(scope="module")
def rows(module_transaction: None) -> Api:
    return create_rows(Api(create_lender(), "sandbox"))


def create_user(role: str) -> User:
    user = User.objects.create_user(role.lower(), is_staff=True)
    user.groups.add(Group.objects.get(name=role))
    return user


def member(role: str) -> Client:
    client = Client()
    log_in(client, create_user(role))
    return client


def models() -> list:
    return sorted(admin.site._registry, key=lambda model: model._meta.label)


def label_of(model: type[Model]) -> str:
    return model._meta.label_lower


def test_each_role_may_view_add_and_change_what_the_tables_say():
    for role in [*SEES, "Superuser"]:
        request = RequestFactory().get("/admin/")
        request.user = create_user(role)
        for model in models():
            label, listed = label_of(model), admin.site.get_model_admin(model)
            seen = role == "Superuser" or label in SEES[role]
            assert listed.has_view_permission(request) == seen, (role, label)
            adds = label in ADDED.get(role, ())
            assert listed.has_add_permission(request) == adds, (role, label)
            changes = label in CHANGED.get(role, ())
            assert listed.has_change_permission(request) == changes, (role, label)
            assert not listed.has_delete_permission(request), (role, label)


def status_of(request: Any, path: str) -> int:
    """Return the status of a page whose view is called directly."""
    view, arguments, named = resolve(path)
    try:
        return view(request, *arguments, **named).status_code
    except PermissionDenied:
        return 403


def test_role_opens_no_lists_and_pages_but_its_own(rows):
    client = member("Finance")
    request = staff_request(client)

    assert client.get("/admin/").status_code == 200
    assert client.get(list_url(Consent)).status_code == 403
    for model in models():
        label = label_of(model)
        if label not in SEES["Finance"]:
            assert status_of(request, list_url(model)) == 403, label
            for row in model.objects.all()[:1]:
                assert status_of(request, change_url(row)) == 403, label
    history = admin_url(Consent, "history", Consent.objects.first().pk)
    assert status_of(request, history) == 403


def test_pages_link_only_pages_that_the_role_may_view(rows):
    checkout = open_page(rows.create(candidate_item()))
    held = Report.objects.get(pk=Hold.objects.get().report_id)
    shown = [checkout.report, held, checkout.report.payment, Call.objects.get()]
    for role, seen in SEES.items():
        client, linked = member(role), set()
        for row in shown:
            if label_of(type(row)) in seen:
                html = read_page(client, change_url(row))
                linked |= set(re.findall(LINK, html))
        assert {name.replace("/", ".") for name in linked} <= seen, role
        assert len(linked) > 2, role


def test_superuser_opens_forms_and_history(rows, superuser):
    request = staff_request(superuser)
    for label in ADDED["Superuser"]:
        page = admin_url(apps.get_model(label), "add")
        assert status_of(request, page) == 200, label
    history = admin_url(Report, "history", Report.objects.first().pk)
    assert superuser.get(history).status_code == 200


def test_only_operations_act_on_reports_and_every_role_may_reveal(api):
    made = api.create({**person(), "consent": HOSTED})
    waiting = Report.objects.get(pk=made["id"])
    for role in [*SEES, "Superuser"]:
        request = staff_request(member(role))
        acts = role in {"Operations", "Superuser"}

        for verb in ("cancel", "retry", "resend_consent", "resend_payment"):
            status = status_of(request, change_url(waiting).replace("change", verb))
            offered = acts and verb in {"cancel", "resend_consent"}
            # Who acts on reports reads on the page why another button does nothing.
            assert status == (200 if offered else 302 if acts else 403)
        assert status_of(request, reveal_url(waiting)) == 200


def test_reviewer_and_finance_neither_revoke_keys_nor_suspend(api):
    for role in ("Reviewer", "Finance"):
        client = member(role)
        run_action(client, "revoke", api.key)
        press_button(client, "suspend", api.workspace, reason="Because")
    api.key.refresh_from_db()
    assert api.key.revoked_at is None
    api.workspace.refresh_from_db()
    assert not api.workspace.is_suspended


def test_table_of_roles_names_existing_permissions():
    for role, models in ROLES.items():
        named = sum(len(allowed) for allowed in models.values())
        assert Group.objects.get(name=role).permissions.count() == named


def test_roles_are_written_again_and_keep_their_members():
    group = Group.objects.get(name="Finance")
    user = User.objects.create_user("grace", is_staff=True)
    user.groups.add(group)
    group.permissions.set(Permission.objects.filter(codename="delete_user"))

    write_roles()
    write_roles()

    assert Group.objects.filter(name="Finance").count() == 1
    assert user.groups.get() == group
    assert not user.has_perm("auth.delete_user")
    assert user.has_perm("payments.change_refund")
