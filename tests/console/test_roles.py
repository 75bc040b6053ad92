"""Permissions of roles, and the separation of workspaces."""

import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.http import Http404, HttpResponse
from django.test import Client, RequestFactory
from django.urls import Resolver404, resolve

from tests.world.addresses import list_pages
from tests.world.clients import Api, create_lender
from tests.world.console import ConsoleVisitor
from tests.world.members import create_member
from tests.world.pages import OF_REVIEWED, create_page_rows, page_arguments
from verification.backoffice.models import AuditEvent
from verification.console.base import Place
from verification.console.urls import PAGES
from workspaces import members
from workspaces.models import Member, Role, Workspace

pytestmark = pytest.mark.django_db
ALL, MANAGERS, OWNER = set(Role.values), {"OWNER", "ADMIN"}, {"OWNER"}
# The roles that order and decide, and the roles that see keys, money and members
WORKERS, ADMINISTRATION = {*MANAGERS, "OFFICER"}, {*MANAGERS, "VIEWER"}
STATEMENTS = {"money-csv", "money-pdf"}
SENT_WHILE_SUSPENDED = {"members-leave", "messages", "exports", "webhooks-delivery"}
# name: who may see it, who may send its form
TABLE = {
    "dashboard": (ALL, None),
    "keys": (ADMINISTRATION, None),
    "keys-create": (MANAGERS, MANAGERS),
    "keys-networks": (MANAGERS, MANAGERS),
    "keys-rotate": (MANAGERS, MANAGERS),
    "keys-revoke": (MANAGERS, MANAGERS),
    "exports": (ALL, ALL),
    "find": (ALL, None),
    "requests": (ADMINISTRATION, None),
    "messages": (ALL, ALL),
    "reports": (ALL, None),
    "reports-chosen": (None, ALL),
    "reports-detail": (ALL, None),
    "reports-progress": (ALL, None),
    "reports-pdf": (ALL, None),
    "reports-data-link": (None, MANAGERS),
    "reports-decide": (None, WORKERS),
    "reports-confirm": (None, WORKERS),
    "reports-refuse": (None, WORKERS),
    "reports-withdraw": (None, WORKERS),
    "notices-pdf": (WORKERS, None),
    "notices-resend": (None, WORKERS),
    "notices-hand-over": (None, WORKERS),
    "reports-new": (WORKERS, WORKERS),
    "reports-again": (WORKERS, None),
    "reports-batches": (ALL, None),
    "reports-batch-new": (WORKERS, WORKERS),
    "reports-batch-template": (WORKERS, None),
    "reports-batch": (ALL, WORKERS),
    "reports-batch-launch": (WORKERS, WORKERS),
    "reports-batch-remind": (None, WORKERS),
    "reports-batch-results": (ALL, None),
    "reports-edit": (WORKERS, WORKERS),
    "reports-launch": (WORKERS, WORKERS),
    "reports-cancel": (WORKERS, WORKERS),
    "reports-retry": (WORKERS, WORKERS),
    "reports-consent-link": (None, WORKERS),
    "reports-payment-link": (None, WORKERS),
    "erasures-certificate": (ALL, None),
    "queue": (ALL, None),
    "queue-notices": (ALL, None),
    "queue-next": (None, WORKERS),
    "queue-approve": (WORKERS, WORKERS),
    "queue-assign": (None, WORKERS),
    "queue-note": (None, WORKERS),
    "policy": (ALL, None),
    "policy-open": (None, MANAGERS),
    "policy-version": (ALL, None),
    "policy-activate": (None, MANAGERS),
    "policy-off": (MANAGERS, MANAGERS),
    "policy-discard": (None, MANAGERS),
    "policy-rule": (MANAGERS, MANAGERS),
    "policy-rule-add": (MANAGERS, MANAGERS),
    "policy-rule-up": (None, MANAGERS),
    "policy-rule-remove": (None, MANAGERS),
    "corrections": (ALL, None),
    "corrections-detail": (ALL, MANAGERS),
    "corrections-document": (MANAGERS, None),
    "corrections-join": (ALL, MANAGERS),
    "corrections-run": (MANAGERS, MANAGERS),
    "corrections-take": (None, MANAGERS),
    "figures": (ALL, None),
    "figures-csv": (ALL, None),
    "money": (ADMINISTRATION, None),
    "money-csv": (ADMINISTRATION, None),
    "money-pdf": (ADMINISTRATION, None),
    "webhooks": (ADMINISTRATION, None),
    "webhooks-configure": (MANAGERS, MANAGERS),
    "webhooks-remove": (MANAGERS, MANAGERS),
    "webhooks-test": (None, MANAGERS),
    "webhooks-delivery": (ADMINISTRATION, ADMINISTRATION),
    "webhooks-recover": (MANAGERS, MANAGERS),
    "webhooks-redeliver": (None, MANAGERS),
    "monitoring": (ALL, None),
    "monitoring-alerts": (ALL, None),
    "monitoring-alert": (ALL, None),
    "monitoring-read": (None, WORKERS),
    "monitoring-read-all": (None, WORKERS),
    "monitoring-rule": (ALL, None),
    "monitoring-pause": (None, MANAGERS),
    "monitoring-resume": (MANAGERS, MANAGERS),
    "monitoring-new": (MANAGERS, MANAGERS),
    "monitoring-change": (MANAGERS, MANAGERS),
    "monitoring-delete": (MANAGERS, MANAGERS),
    "sandbox": (ALL, None),
    "mailbox": (MANAGERS, None),
    "mailbox-message": (MANAGERS, None),
    "mailbox-html": (MANAGERS, None),
    "mailbox-addresses": (MANAGERS, MANAGERS),
    "mailbox-confirm": (None, MANAGERS),
    "mailbox-remove": (None, MANAGERS),
    "members": (ADMINISTRATION, MANAGERS),
    "members-leave": (ALL, ALL),
    "members-role": (None, MANAGERS),
    "members-remove": (MANAGERS, MANAGERS),
    "members-withdraw": (None, MANAGERS),
    "golive": (ADMINISTRATION, None),
    "golive-company": (MANAGERS, MANAGERS),
    "golive-again": (None, MANAGERS),
    "golive-hand-in": (MANAGERS, MANAGERS),
    "golive-document": (MANAGERS, None),
    "golive-submit": (MANAGERS, MANAGERS),
    "settings": (ALL, MANAGERS),
    "settings-decisions": (ALL, MANAGERS),
    "settings-notices": (None, MANAGERS),
    "settings-reason": (MANAGERS, MANAGERS),
    "settings-reason-add": (MANAGERS, MANAGERS),
    "settings-queue": (ALL, MANAGERS),
    "settings-brand": (MANAGERS, MANAGERS),
    "settings-brand-preview": (MANAGERS, MANAGERS),
    "settings-packages": (ALL, None),
    "settings-packages-create": (MANAGERS, MANAGERS),
    "settings-packages-edit": (MANAGERS, MANAGERS),
    "settings-packages-activate": (None, MANAGERS),
    "settings-packages-deactivate": (None, MANAGERS),
    "settings-close": (OWNER, OWNER),
}
# What a page asks about that no address names
QUERIES = {"queue-approve": {"all": "on"}}
FORMS = {name for name, (_, sends) in TABLE.items() if sends}
LINK = re.compile(r'<a\b[^>]* href="([^"#]+)')
# Parts of a page whose links the browser fetches early
EARLY = re.compile(r'<nav class="(?:side|tabs)".*?</nav>', re.DOTALL)
LISTS = {"keys", "money", "monitoring", "reports", "requests", "queue"}
# An e-mail has its own language and styles.
FILES = ("-pdf", "-csv", "-results", "-document", "-certificate", "-html")
FORM = re.compile(r'<form\b[^>]* method="post"[^>]*>')


@pytest.fixture(scope="module")
def workspace(module_transaction: None) -> Workspace:
    return create_lender()


@pytest.fixture(scope="module")
def api(workspace: Workspace) -> Api:
    return Api(workspace, "sandbox")


@pytest.fixture(scope="module")
def owner(workspace: Workspace) -> ConsoleVisitor:
    return ConsoleVisitor(create_member(workspace, "OWNER"))


@pytest.fixture(scope="module")
def admin(workspace: Workspace) -> ConsoleVisitor:
    return ConsoleVisitor(create_member(workspace, "ADMIN"))


@pytest.fixture(scope="module")
def officer(workspace: Workspace) -> ConsoleVisitor:
    return ConsoleVisitor(create_member(workspace, "OFFICER"))


@pytest.fixture(scope="module")
def viewer(workspace: Workspace) -> ConsoleVisitor:
    return ConsoleVisitor(create_member(workspace, "VIEWER"))


@pytest.fixture(scope="module")
def visitors(owner, admin, officer, viewer) -> dict[str, ConsoleVisitor]:
    return {"OWNER": owner, "ADMIN": admin, "OFFICER": officer, "VIEWER": viewer}


@pytest.fixture(scope="module")
def rows(api: Api, owner: ConsoleVisitor, viewer: ConsoleVisitor) -> dict[str, Any]:
    return create_page_rows(api, owner, viewer)


def test_every_page_is_in_the_table():
    assert set(TABLE) | OF_REVIEWED == {page for _path, page in list_pages(PAGES)}


def status(
    visitor: ConsoleVisitor,
    method: str,
    name: str,
    environment: str = "sandbox",
    **arguments: Any,
) -> int:
    """Call the view of a page without middlewares; return its status.

    A page that says only why it refuses is not rendered.
    """
    url = visitor.url(name, environment, **arguments)
    request = RequestFactory().generic(method, url)
    request.user = visitor.member.user
    view, _, kwargs = resolve(url)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Place, "render", lambda *_, status: HttpResponse(status=status))
        try:
            return int(view(request, **kwargs).status_code)
        except Http404:
            return 404


def test_each_role_opens_sends_and_is_offered_what_the_table_says(rows, visitors):
    assert set(visitors) == set(Role.values)
    early, recorded, lists = set[str](), set[str](), 0
    for role, visitor in visitors.items():
        # A browser keeps its language.
        browser = ConsoleVisitor(visitor.member)
        for name, (sees, sends) in TABLE.items():
            more = page_arguments(name, rows)
            # Statements are read in a transaction of their own; see test_pages.
            if name not in STATEMENTS and is_lowest(role, sees or ALL):
                query = {"lang": "sw", **QUERIES.get(name, {})}
                before = AuditEvent.objects.count()
                answer = browser.get(name, query=query, **more)
                recorded |= {name} if AuditEvent.objects.count() > before else set()
                assert answer.status_code == (200 if sees else 303), (role, name)
                for page, of in offered(answer):
                    assert role in (TABLE[page][of] or ()), (role, name, page)
                if sees and not name.endswith(FILES):
                    html = answer.content.decode()
                    assert_safe(name, answer, html)
                    lists += count_lists(name, html)
                    parts = "".join(EARLY.findall(html))
                    early |= {page for page, _ in pages_at(LINK.findall(parts), 0)}
            if sees and role not in sees and name not in STATEMENTS:
                assert status(visitor, "GET", name, **more) == 403, (role, name)
            if sends is not None and role not in sends:
                assert status(visitor, "POST", name, **more) == 403, (role, name)
    assert lists > len(LISTS)
    # The browser fetches these early, so opening them is no action.
    assert {"dashboard", "queue", "keys"} < early
    assert not early & recorded


def assert_safe(name: str, answer: Any, html: str) -> None:
    """Assert that the page is not cached and has no script or style of its own."""
    assert answer["Cache-Control"] == "no-store", name
    assert "unsafe" not in answer["Content-Security-Policy"], name
    # A part of a page is in its page.
    assert name in {"find", "reports-progress"} or '<html lang="sw"' in html, name
    # Rules for the browser are no script.
    own = r'<script(?! src=| type="speculationrules">)| on\w+='
    assert not re.search(own, html), name
    assert 'style="' not in html, name


def count_lists(name: str, html: str) -> int:
    """Assert that tablets hide the same columns in head and rows; count the rows."""
    if name not in LISTS:
        return 0
    rows = 0
    for table in re.findall(r"<table .*?</table>", html, re.DOTALL):
        head, *below = re.findall(r"<tr.*?</tr>", table, re.DOTALL)
        for row in below:
            assert hidden_columns(row) == hidden_columns(head), name
        rows += len(below)
    return rows


def offered(answer: Any) -> Iterator[tuple[str, int]]:
    """Return the pages that this one links to (0), or sends a form to (1)."""
    if not answer["Content-Type"].startswith("text/html"):
        return
    html, here = answer.content.decode(), answer.request["PATH_INFO"]
    actions = (re.search(r' action="([^"]+)', form) for form in FORM.findall(html))
    yield from pages_at(LINK.findall(html), 0)
    yield from pages_at([action[1] if action else here for action in actions], 1)


def pages_at(urls: list[str], of: int) -> Iterator[tuple[str, int]]:
    pages = (page_at(urlsplit(url).path) for url in dict.fromkeys(urls))
    return ((page, of) for page in pages if page in TABLE)


@cache
def page_at(path: str) -> str:
    try:
        found = resolve(path)
    except Resolver404:
        return ""
    return found.url_name or "" if found.namespace == "console" else ""


def is_lowest(role: str, among: set[str]) -> bool:
    """Return whether nobody has less permissions; a higher role has all of theirs."""
    less = {"OWNER": ALL - OWNER, "ADMIN": ALL - MANAGERS}.get(role, set())
    return role in among and not less & among


def test_officer_sees_no_keys_money_or_members(rows, owner, officer):
    links = {
        name: officer.url(name)
        for name, (sees, _) in TABLE.items()
        if sees is ADMINISTRATION and not page_arguments(name, rows)
    }
    assert {"keys", "money", "members", "webhooks"} < set(links)

    for page in ("dashboard", "reports", "reports-new", "settings", "sandbox"):
        html = officer.page(page)
        assert not [name for name, url in links.items() if f'href="{url}"' in html]
        assert "Balance" not in html, page
    assert "Balance" in owner.page("dashboard")


def test_officer_exports_no_audit_trail(rows, owner, officer):
    period = {"first": "2026-01-01", "last": "2026-01-02", "format": "csv"}

    assert "Audit trail" in owner.page("exports")
    assert "Audit trail" not in officer.page("exports")
    html = officer.post("exports", {**period, "kind": "audit-trail"}).content.decode()
    assert "Select a valid choice" in html


def method_of(name: str) -> str:
    """Return the method that opens the page, or POST if it only takes a form."""
    return "GET" if TABLE[name][0] else "POST"


def test_stranger_finds_no_page_of_the_workspace(rows, owner, stranger):
    theirs = ConsoleVisitor(stranger.member)
    theirs.workspace = owner.workspace
    for name in TABLE:
        more = page_arguments(name, rows)
        assert status(theirs, method_of(name), name, **more) == 404, name
    assert theirs.get("dashboard").status_code == 404


def test_anonymous_visitor_is_led_to_the_login(owner):
    for url in (owner.url("dashboard"), "/console/", "/console/new"):
        assert Client().get(url)["Location"].startswith("/accounts/login/"), url


def test_page_that_a_member_does_not_find_is_of_the_console(owner):
    html = owner.http.get("/console/nowhere").content.decode()

    assert "There is no page at this address in your workspaces." in html
    assert "M-Pesa" not in html


def test_second_press_of_a_removal_says_that_nothing_was_done(owner, viewer):
    gone = owner.url("members-remove", member=viewer.member.pk)
    owner.http.post(gone)

    again = owner.http.post(gone)

    assert again.status_code == 404
    assert "Nothing was done: it is gone" in again.content.decode()


# Rows of one environment
OF_ENVIRONMENT = [
    *["keys-networks", "keys-rotate", "reports-detail", "webhooks-delivery"],
    *["monitoring-alert", "mailbox-message", "mailbox-html", "mailbox-addresses"],
]


def test_rows_of_another_place_are_not_found_in_ones_own(rows, owner, stranger):
    places = {name: page_arguments(name, rows) for name in TABLE}
    no_rows = {"month", "kind", "number", "format"}
    of_rows = {name: more for name, more in places.items() if set(more) - no_rows}
    assert len(of_rows) > 10
    for name, more in of_rows.items():
        for method, roles in zip(("GET", "POST"), TABLE[name], strict=True):
            if roles:
                assert status(stranger, method, name, **more) == 404, (method, name)
    for name in OF_ENVIRONMENT:
        more = {"environment": "production", **places[name]}
        assert status(owner, method_of(name), name, **more) == 404, name


def test_forms_without_their_token_are_refused(rows, owner):
    visitor = ConsoleVisitor(owner.member)
    visitor.http.handler.enforce_csrf_checks = True

    assert visitor.post("members-leave").status_code == 403
    for name in FORMS:
        view = resolve(owner.url(name, **page_arguments(name, rows))).func
        assert not getattr(view, "csrf_exempt", False), name


def test_suspended_workspace_is_read_only(rows, owner):
    Workspace.objects.get(pk=owner.workspace.pk).suspend("Unpaid")

    assert "is suspended" in owner.page("dashboard")
    for name in FORMS - SENT_WHILE_SUSPENDED:
        assert status(owner, "POST", name, **page_arguments(name, rows)) == 403, name
    answer = owner.post("keys-create")
    assert answer.status_code == 403
    assert "Write to Verification reports (help@operator.test)" in answer.text


def test_suspended_workspace_offers_its_owner_what_a_viewer_may_do(rows, owner):
    Workspace.objects.get(pk=owner.workspace.pk).suspend("Unpaid")
    # Owners read these beside what a viewer reads.
    more = {"corrections-document"}

    for name, (sees, _) in TABLE.items():
        if "VIEWER" in (sees or ()) and not name.endswith(FILES):
            for page, of in offered(owner.get(name, **page_arguments(name, rows))):
                assert "VIEWER" in (TABLE[page][of] or ()) or page in more, (name, page)
                assert not of or page in SENT_WHILE_SUSPENDED, (name, page)
    assert "reports-new" not in dict(offered(owner.get("mailbox")))


def hidden_columns(row: str) -> list[bool]:
    """Return for each cell whether tablets hide it: the second of two lesser ones."""
    lesser = ["wide-only" in cell for cell in re.findall(r"<t[hd][ >][^>]*", row)]
    return [all(pair) for pair in pairwise([False, *lesser])]


def test_removed_member_loses_access_at_once(rows, owner, viewer):
    members.remove(owner.member, Member.objects.get(pk=viewer.member.pk))

    assert viewer.get("dashboard").status_code == 404
