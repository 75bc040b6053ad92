"""Pages of the console in a workspace of a million reports.

They are those that need no id, and those of a policy's draft and of a report.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from uuid import UUID

from django.test import Client
from django.urls import reverse

from benchmarks import queue
from benchmarks.admin import session_cookie, time_page
from benchmarks.client import Connection
from benchmarks.figures import Figure, bench
from benchmarks.lists import use_filled
from benchmarks.service import Service
from tests.world.addresses import list_pages
from tests.world.clients import Api
from tests.world.members import create_member
from tests.world.policies import APPROVE_LOW, DECLINE_HIGH, draft_policy
from verification.console.base import PAGE_SIZE
from verification.console.urls import PAGES
from verification.decisions.models import Case, PolicyVersion
from workspaces.models import Member, Role, Workspace

MILLISECONDS = 150
HOME_MILLISECONDS = 60
# Their own bench is `console_figures`.
ELSEWHERE = {"figures", "figures-csv"}
# Of the list of reports; `lists` measures its filters.
QUERIES = (
    "sort=oldest",
    "sort=risk",
    "sort=risk&status=FAILED",
    "sort=risk&status=RUNNING",
    "sort=risk&first=2026-03-03&last=2026-03-03",
    "sort=risk&search=Mwangi",
    "sort=risk&search=xqzwv",
)


@bench(is_filled=True, reports=2_000, rounds=1)
def console_pages(
    service: Service, reports: int = 1_000_000, rounds: int = 15
) -> Iterator[Figure]:
    use_filled(service, reports)
    with service.connect() as db:
        (workspace_id, _) = db.execute("SELECT * FROM filled").fetchone()  # type: ignore[misc]
    workspace = Workspace.objects.get(pk=workspace_id)
    member = any_member(workspace)
    queue.fill(service, reports, member)
    draft = PolicyVersion.objects.filter(workspace=workspace).first()
    draft = draft or draft_policy(Api(workspace, "sandbox"), APPROVE_LOW, DECLINE_HIGH)
    cookie = session_cookie(member.user)
    with service.web():
        http = Connection(service.port)
        queries = [*QUERIES, f"sort=risk&page={reports // PAGE_SIZE - 1}"]
        for name, path in _pages(workspace_id, draft, cookie, queries).items():
            samples = [time_page(http, path, cookie) for _ in range(rounds + 1)]
            target = HOME_MILLISECONDS if name == "dashboard" else MILLISECONDS
            yield Figure(name, samples[1:], target=target)


def _pages(
    workspace_id: UUID, draft: PolicyVersion, cookie: str, queries: Sequence[str]
) -> dict[str, str]:
    """Return the addresses of the pages without arguments, a draft, and a report."""
    place = {"workspace": workspace_id, "environment": "sandbox"}
    client = Client(SERVER_NAME="localhost")
    client.cookies.load(cookie)
    pages = {
        name: reverse(f"console:{name}", kwargs=place)
        for path, name in list_pages(PAGES)
        if "<" not in path and name not in ELSEWHERE
    }
    # The others take forms alone, or lead to another page.
    found = {name: url for name, url in pages.items() if _is_shown(client, url)}
    waiting = Case.objects.filter(workspace=workspace_id, closed_at=None)
    report = waiting.order_by("-report")[:1].get().pk
    one = {
        "policy-version": {"version": draft.pk},
        "reports-detail": {"report": report},
    }
    lists = {f"reports?{query}": f"{found['reports']}?{query}" for query in queries}
    return (
        found
        | lists
        | {
            name: reverse(f"console:{name}", kwargs=place | ids)
            for name, ids in one.items()
        }
    )


def _is_shown(client: Client, url: str) -> bool:
    status = client.get(url).status_code
    assert status in {200, 302, 303, 405}, (url, status)
    return status == 200


def any_member(workspace: Workspace) -> Member:
    found = Member.objects.filter(workspace=workspace, role=Role.OWNER).first()
    return found or create_member(workspace, "OWNER")
