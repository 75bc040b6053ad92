"""The lender: a client of the API, and its requests.

def test_something(api):
    made = api.create(person(idNumber="90000000"))
    api.work()
    assert api.report(made["id"])["status"] == "READY"
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, ClassVar
from uuid import UUID

import pytest
from django.test import Client as HttpClient
from django.utils.timezone import now
from pydantic import BaseModel

from verification.api.content import to_json
from verification.api.docs import document
from verification.api.report_shapes import CreatedReport
from verification.api.reports import _report_body
from verification.checks.catalogue import CATALOGUE
from verification.checks.engine import run_due_checks
from verification.db.bulk_insert import Rows, insert
from verification.db.ids import uuid7
from verification.notifications.models import SandboxAddress
from verification.notifications.recipients import exact_address_hash
from verification.privacy.erasure import erase_person
from verification.privacy.models import Erasure
from verification.providers import registry
from verification.providers.base import Finding, Inquiry, Refused
from verification.reports.create import create_reports
from verification.reports.request import (
    RuleContext,
    catalogue,
    named_packages,
    named_return_hosts,
    read_orders,
)
from workspaces import keys
from workspaces.create import create_workspace
from workspaces.models import Account, Client, Scope, Workspace

ATTESTED = {
    "mode": "CUSTOMER_ATTESTED",
    "obtained": True,
    "obtainedAt": "2026-01-20T10:00:00Z",
    "method": "CUSTOMER_WEB_FORM",
    "policyVersion": "2026-01",
}
HOSTED = {"mode": "SERVICE_HOSTED"}
# Of a draft, to be attested later
NOT_OBTAINED = {"mode": "CUSTOMER_ATTESTED", "obtained": False}
DOCUMENT = document()


def person(**subject: Any) -> dict[str, Any]:
    """A request item for a person; `None` leaves a member out."""
    members = {
        "subjectType": "INDIVIDUAL",
        "fullName": "Wanjiku Kamau",
        "idNumber": "12345678",
        **subject,
    }
    return {
        "subject": {k: v for k, v in members.items() if v is not None},
        "checksRequested": ["IDENTITY", "KRA_PIN", "CRB_SCORE"],
        "purpose": "Loan application",
        "consent": ATTESTED,
    }


def company(**subject: Any) -> dict[str, Any]:
    """A request item for a company."""
    members = {
        "subjectType": "COMPANY",
        "fullName": "Baobab Traders Limited",
        "registrationNumber": "PVT-12345",
        **subject,
    }
    return {
        "subject": {k: v for k, v in members.items() if v is not None},
        "checksRequested": ["BUSINESS_VERIFICATION"],
        "purpose": "Supplier onboarding",
    }


def approve_workspace(
    workspace: Workspace, legal_name: str = "", trading_name: str = ""
) -> None:
    """Let a workspace go live without an application, under this reviewed name."""
    workspace.go_live = Workspace.GoLive.APPROVED
    workspace.set_reviewed_names(legal_name or workspace.name, trading_name)
    workspace.save()


class Api:
    """Sends requests with one API key through every middleware."""

    def __init__(self, workspace: Workspace, environment: str, **key: Any) -> None:
        self.workspace, self.environment = workspace, environment
        self.key, self.text = keys.issue(
            workspace, environment=environment, name="tests", force=True, **key
        )
        self._http = HttpClient(headers={"Authorization": f"Bearer {self.text}"})

    @property
    def account(self) -> Account:
        return self.workspace.accounts.get(environment=self.environment)

    def get(self, path: str, **query: Any):
        return self._http.get(f"/api/v1{path}", query)

    def post(self, path: str, body: Any = None, **headers: str):
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.raw(path, "" if body is None else json.dumps(body), sent)

    def raw(self, path: str, text: str, headers: Any = None):
        """Post a text, which need not be JSON."""
        return self._http.post(
            f"/api/v1{path}", text, content_type="application/json", headers=headers
        )

    def patch(self, path: str, body: Any = None):
        return self._sent("PATCH", path, body)

    def put(self, path: str, body: Any = None):
        return self._sent("PUT", path, body)

    def _sent(self, method: str, path: str, body: Any):
        data = "" if body is None else json.dumps(body)
        return self._http.generic(
            method, f"/api/v1{path}", data, content_type="application/json"
        )

    def delete(self, path: str):
        return self._http.delete(f"/api/v1{path}")

    def create(self, *items: dict[str, Any], **top: Any) -> Any:
        """Create reports by the verb; return the report, or a list if several.

        It costs half of the request, which a test posts if that is its rule.
        """
        body = json.loads(json.dumps({"reports": items, **top}))
        client = self._client()
        made = create_reports(client, read_orders(body, self._context(client, body)))
        reports = [_as_client_reads(CreatedReport.of(one)) for one in made]
        return reports[0] if len(items) == 1 else reports

    def report(self, report_id: str) -> dict[str, Any]:
        """Read a report by the verb."""
        return _as_client_reads(_report_body(self._client(), UUID(report_id)))

    def act(self, verb: Callable[..., Any], report_id: str, *more: Any) -> Any:
        """Call a verb of a report; return the report, as the answer to its request."""
        verb(self._client(), UUID(report_id), *more)
        return self.report(report_id)

    def _client(self) -> Client:
        key = keys.find(self.text)
        assert key, "the key cannot be used"
        return Client(key.workspace, key.account, f"key {key}")

    def _context(self, client: Client, body: dict[str, Any]) -> RuleContext:
        reports, workspace = body["reports"], client.workspace.pk
        return RuleContext(
            catalogue(),
            client.environment,
            named_packages(workspace, reports),
            named_return_hosts(workspace, reports),
        )

    def refused(self, path: str, body: Any = None, **headers: str) -> dict[str, Any]:
        """Return the problem that answers this POST, which the document describes."""
        answer = self.post(path, body, **headers)
        assert answer.status_code >= 400, answer.content
        assert answer["Content-Type"] == "application/problem+json"
        problem: dict[str, Any] = answer.json()
        members = DOCUMENT["components"]["schemas"]["Problem"]["properties"]
        assert problem.keys() <= members.keys()
        # A path without a route has no operation.
        if problem["code"] != "not-found":
            assert problem["code"] in _documented_codes(answer.resolver_match.route)
        return problem

    def work(self) -> None:
        """Run the checks that are due, as a job would."""
        run_due_checks()


def _documented_codes(route: str) -> set[str]:
    """Return the codes of problems that the document names for this POST."""
    path = "/" + re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", route)
    codes: set[str] = set()
    for answer in DOCUMENT["paths"][path]["post"]["responses"].values():
        name = answer.get("$ref", "").rpartition("/")[2]
        described = DOCUMENT["components"]["responses"][name] if name else answer
        content = described.get("content", {}).get("application/problem+json", {})
        codes |= content.get("examples", {}).keys()
    return codes


def _as_client_reads(shape: BaseModel) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(to_json(shape))
    return read


def erasing_api(api: Api) -> Api:
    """Return a client with a key that may erase."""
    return Api(api.workspace, api.environment, scopes=list(Scope.values))


def request_erasure(api: Api, report_id: str) -> dict[str, Any]:
    answer = erasing_api(api).delete(f"/reports/{report_id}/subject")
    assert answer.status_code == 202, answer.content
    return answer.json()


def erase(api: Api, report_id: str) -> Erasure:
    """Erase the subject of this report; return the erasure, which has ended."""
    made = request_erasure(api, report_id)
    erase_person(made["id"])
    erasure = Erasure.objects.select_related("request__workspace").get(pk=made["id"])
    assert erasure.ended_at is not None
    return erasure


def error_codes(problem: dict[str, Any]) -> dict[str, str]:
    """Return the codes of a problem's errors by pointer, parameter or header."""
    return {
        error.get("pointer") or error.get("parameter") or error["header"]: error["code"]
        for error in problem["errors"]
    }


# The sandbox sends messages to these addresses.
READERS = [
    "wanjiku@kamau.test",
    "right@kamau.test",
    "amina@baraka.test",
    "accounts@kilele.test",
    "amina@payer.test",
    "wanjiku@subject.test",
    "wanjiku@example.test",
    *(f"p{n}@kamau.test" for n in range(3)),
]


def confirm_sandbox_addresses(workspace: Workspace, *addresses: str) -> None:
    """Confirm addresses, as a member does who types the codes sent to them."""
    confirmed_at = now()
    rows = []
    for address in addresses:
        channel = "SMS" if address.startswith("+") else "EMAIL"
        rows.append(
            {
                "id": uuid7(),
                "workspace_id": workspace.pk,
                "channel": channel,
                "address": address,
                "address_hash": exact_address_hash(channel, address),
                "confirmed_at": confirmed_at,
                "created_at": confirmed_at,
            }
        )
    insert(Rows(SandboxAddress, rows))


def create_lender() -> Workspace:
    """Create Acacia Lenders, whose sandbox may write to READERS."""
    made = create_workspace(name="Acacia Lenders", owner_email="owner@acacia.test")
    confirm_sandbox_addresses(made, *READERS)
    return made


@pytest.fixture
def workspace(db: None) -> Workspace:
    """Acacia Lenders."""
    return create_lender()


@pytest.fixture
def api(workspace: Workspace) -> Api:
    """A test key with every scope."""
    return Api(workspace, "sandbox")


class Refusing:
    """A live source that refuses every call at once."""

    name: ClassVar[str] = "refusing"
    waits_on_network: ClassVar[bool] = False
    repeats_are_free: ClassVar[bool] = True
    countries: ClassVar[frozenset[str]] = frozenset()
    not_told: ClassVar[dict[str, tuple[str, ...]]] = {}

    def ask(self, inquiry: Inquiry) -> Finding:
        raise Refused("SOURCE_REFUSED", "The source refuses.")


@pytest.fixture
def live_source() -> Iterator[None]:
    """Configure a live source that refuses, unless the test configures sources."""
    if registry.live_sources():
        yield
        return
    asked = (e.name for e in CATALOGUE if e.name != registry.REFEREE_CHECK)
    path = f"{Refusing.__module__}.{Refusing.__name__}"
    routes = {name: {registry.EVERYWHERE: [Refusing.name]} for name in asked}
    registry.configure({Refusing.name: (path, {})}, routes)
    yield
    registry.configure({}, {})


@pytest.fixture
def live_api(workspace: Workspace, live_source: None) -> Api:
    """A production key."""
    return Api(workspace, "production")


@pytest.fixture
def another_api(workspace: Workspace) -> Api:
    """A test key of another workspace."""
    other = create_workspace(name="Baobab Bank", owner_email="owner@baobab.test")
    return Api(other, "sandbox")
