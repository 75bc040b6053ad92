"""Every page is looked at: in English and Kiswahili, light, dark and forced colours.

A page of the console without a row in `tests/world/pages.py` fails, and so does an
account page without an example in `accounts.py`.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.http.response import HttpResponseBase
from django.test import Client
from django.utils.timezone import localdate
from playwright.sync_api import Page

from tests.checks.conftest import paying_api as paying_api
from tests.fakes.paystack import paystack as paystack
from tests.pages import examples
from tests.pages.accounts import NOT_WALKED, account_pages
from tests.pages.urls import ERRORS
from tests.pages.walk import Walk, stay, submit_form, submit_wrong
from tests.world.addresses import list_pages
from tests.world.clients import Api, approve_workspace, person
from tests.world.console import ConsoleVisitor
from tests.world.members import create_member, create_user, invitation_token
from tests.world.pages import OF_REVIEWED, create_page_rows, page_arguments
from tests.world.refunds import paystack_api as paystack_api
from tests.world.staff import change_url, list_url, log_in
from tests.world.staff import rows as rows
from verification.accounts.urls import urlpatterns as account_urls
from verification.api.guides import NAMES, guide_path
from verification.backoffice.models import AuditEvent
from verification.console.urls import PAGES
from verification.figures.daily import count_changed_days
from verification.figures.models import DailyFigure
from verification.golive.models import Application
from verification.reports.models import Report
from verification.web.request_records import writer
from workspaces import ledger
from workspaces.member_messages import links_of
from workspaces.models import Workspace

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.django_db(transaction=True),
]

CONSOLE_PARTS = 3
# Lists and forms, which a new workspace sees empty.
EMPTY = [
    "dashboard",
    "reports",
    "reports-batches",
    "queue",
    "queue-notices",
    "policy",
    "corrections",
    "figures",
    "monitoring",
    "monitoring-alerts",
    "webhooks",
    "mailbox",
    "requests",
    "keys",
    "members",
    "golive",
    "settings",
    "settings-packages",
]
# Forms that say what is wrong with them
FAULTY: dict[str, Callable[[Page], None]] = {
    "keys-create": submit_form,
    "policy-rule-add": submit_wrong,
    "webhooks-configure": submit_wrong,
    "members": submit_wrong,
    "golive-company": submit_wrong,
    "settings-brand": submit_wrong,
    "settings-packages-create": submit_form,
    "settings-reason-add": submit_form,
    "reports-new": examples.order_without_details,
    "monitoring-new": examples.order_without_details,
}
# Staff read English.
NO_CHOICE = ("",)
VIEWED = ["dashboard", "reports", "reports-detail", "queue", "policy", "settings"]


def is_page(answer: HttpResponseBase) -> bool:
    """Return False for a form's address, a file, a part of a page, and a mail."""
    is_mail = "sandbox" in answer.get("Content-Security-Policy", "")
    return b"<html" in answer.getvalue() and not is_mail


@pytest.mark.parametrize("part", range(CONSOLE_PARTS))
def test_console(walk: Walk, api: Api, owner: ConsoleVisitor, viewer, part: int):
    rows = create_page_rows(api, owner, viewer)
    # The records of requests wait for the thread of a web process.
    writer.flush()
    count_changed_days()
    names = [name for _path, name in list_pages(PAGES) if name not in OF_REVIEWED]
    walk.enter(owner.http)
    for name in names[part::CONSOLE_PARTS]:
        path = owner.url(name, **page_arguments(name, rows))
        answer = owner.http.get(path)
        if not is_page(answer) or name.endswith(("-csv", "-xlsx")):
            continue
        assert answer.status_code == 200, name
        walk.see(f"console-{name}", path)
        if act := FAULTY.get(name):
            walk.see(f"console-{name}-errors", path, act)
        if name == "figures":
            walk.see(f"console-{name}-tables", path, examples.unfold)
    walk.end()


def test_console_of_others(walk: Walk, api: Api, owner, viewer, another_api: Api):
    """A new workspace, an approved one, a viewer, and people without a workspace."""
    rows = create_page_rows(api, owner, viewer)
    for name in VIEWED:
        path = viewer.url(name, **page_arguments(name, rows))
        walk.see_as(f"console-viewer-{name}", viewer.http, path)
    walk.see_as("console-not-allowed", viewer.http, viewer.url("keys-create"))
    token = invitation_token("new@people.test")
    for name, end in (("invitation", token), ("invitation-over", "x")):
        walk.see_as(f"console-{name}", Client(), f"/console/invitations/{end}")
    new = ConsoleVisitor(create_member(another_api.workspace, "OWNER", "baobab"))
    for name in EMPTY:
        walk.see_as(f"console-empty-{name}", new.http, new.url(name))
    nobody = Client()
    log_in(nobody, create_user("nobody"))
    walk.see_as("console-without-workspace", nobody, "/console/")
    path = examples.path_of(
        links_of(owner.member, "sandbox-ALERT", "sandbox")["offUrl"]
    )
    walk.see_as("console-messages-off", Client(), path)
    approve_workspace(another_api.workspace, "Baobab Bank PLC", "Baobab")
    for name in ("dashboard", "keys", "money"):
        path = new.url(name, "production")
        walk.see_as(f"console-production-{name}", new.http, path)
    walk.see_as("console-settings-name", new.http, new.url("settings-name"))
    plain = ConsoleVisitor(
        create_member(another_api.workspace, "ADMIN", "plain"), has_factor=False
    )
    walk.see_as("console-second-factor", plain.http, plain.url("keys"))
    another_api.workspace.suspend("Unpaid")
    walk.see_as("console-suspended", new.http, new.url("dashboard"))
    walk.end()


def test_reports_of_all_kinds(walk: Walk, api: Api, owner: ConsoleVisitor):
    for name, report in examples.reports(api):
        walk.see_as(
            f"report-{name}", owner.http, owner.url("reports-detail", report=report)
        )
    for name, path in examples.files(owner):
        walk.see_as(f"file-{name}", owner.http, path)
        walk.check_wide_screen()
    ledger.top_up(api.workspace, "sandbox", 12_345_678, actor="tests", note="N" * 90)
    count_changed_days()
    day = {"day": localdate() - timedelta(days=1), "all_packages": True}
    place = {"workspace": api.workspace, "environment": api.environment}
    DailyFigure.objects.create(**place, **day, charged=10**12)
    for name in ("dashboard", "reports", "queue", "figures", "money", "reports-new"):
        walk.see_as(f"full-{name}", owner.http, owner.url(name))
        walk.check_wide_screen()
    walk.end()


def test_accounts(walk: Walk):
    seen = set()
    for example in account_pages():
        seen.add(example.name)
        walk.see_as(*example)
    assert {url.name for url in account_urls} - seen == NOT_WALKED
    walk.end()


def test_public_pages(walk: Walk, api: Api, settings: Any):
    anyone = Client()
    english = {
        **{f"docs-{name}": guide_path(name) for name in NAMES},
        "docs-clients": "/docs/clients",
        "docs-search": "/docs/search?q=webhook",
        "docs-reference": "/docs/reference",
        "docs-operation": "/docs/reference/createReports",
        "docs-event": "/docs/reference/receiveReportReady",
    }
    for name, path in english.items():
        walk.see_as(name, anyone, path, stay, ("en",))
    for name, path in {
        "landing": "/",
        "problems": "/problems/",
        "problem": "/problems/validation-failed",
        **{f"error-{name}": f"/errors/{name}" for name in ERRORS},
    }.items():
        walk.see_as(name, anyone, path)
    settings.DEBUG = True
    api.create(person(email="wanjiku@kamau.test"))
    walk.see_as("console-styles", anyone, "/console/styles/")
    walk.see_as("dev-mail", anyone, "/dev/mail")
    walk.end()


def test_consents(walk: Walk, api: Api):
    for example in examples.consent_pages(api):
        walk.see_as(*example)
    walk.end()


def test_subjects(walk: Walk, api: Api):
    for example in examples.data_pages(api):
        walk.see_as(*example)
    walk.end()


def test_payers_and_referees(walk: Walk, api: Api, paying_api: Api):
    for example in examples.payment_pages(api):
        walk.see_as(*example)
    for example in examples.reference_pages(paying_api):
        walk.see_as(*example)
    walk.end()


def test_payers_by_prompt(walk: Walk, paystack_api: Api, paystack):
    for example in examples.provider_pages(paystack_api, paystack):
        walk.see_as(*example)
    walk.end()


def test_back_office(walk: Walk, rows: Api, admin_user: User):
    office = Client()
    log_in(office, admin_user)
    pages = {
        "dashboard": "/admin/",
        "reports": list_url(Report),
        "report": change_url(Report.objects.filter(completed_at__isnull=False)[0]),
        "application": change_url(Application.objects.get()),
        "customer": change_url(rows.workspace),
        "trail": list_url(AuditEvent),
        "search": "/admin/search?q=Wanjiku",
        "workspaces": list_url(Workspace),
    }
    for name, path in pages.items():
        walk.see_as(f"admin-{name}", office, path, stay, NO_CHOICE)
    walk.end()
