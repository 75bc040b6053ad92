"""Every operation of the OpenAPI document refuses clients without the right to it."""

from collections.abc import Callable, Iterable, Iterator
from itertools import cycle
from typing import Any
from uuid import uuid4

import pytest
from django.db import transaction
from django.test import Client as HttpClient
from django.urls import URLPattern, URLResolver, get_resolver

from tests.world.clients import (
    Api,
    company,
    create_lender,
    erase,
    erasing_api,
    person,
)
from tests.world.deliveries import configure_receiver, record_delivery
from tests.world.orders import count_rows, create_report_with_status
from tests.world.rules import raise_alert, rule_request, store_rule
from tests.world.staff import enter_request
from verification.api.docs import document
from verification.privacy.models import Correction
from verification.reports.models import Report
from workspaces.models import Scope, Workspace

OPERATIONS = {
    (method, path): operation
    for path, methods in document()["paths"].items()
    for method, operation in methods.items()
}
# Operations without a key are named here, each with its reason, or they fail below.
WITHOUT_KEY: set[tuple[str, str]] = {
    # The payment provider signs its events: test_payment_provider.py.
    ("post", "/api/v1/webhooks/payment-provider"),
}
CLOSED = [key for key in OPERATIONS if key not in WITHOUT_KEY]
NEEDED = {
    key: next(iter(OPERATIONS[key]["security"][0]["Bearer"]), None) for key in CLOSED
}
# As the interface names them, in its section 4.
SCOPES = {
    ("post", "/api/v1/reports"): "reports:create",
    ("get", "/api/v1/reports"): "reports:read",
    ("post", "/api/v1/reports/quote"): "reports:create",
    ("get", "/api/v1/reports/{reportId}"): "reports:read",
    ("post", "/api/v1/reports/{reportId}/launch"): "reports:create",
    ("post", "/api/v1/reports/{reportId}/draft"): "reports:create",
    ("post", "/api/v1/reports/{reportId}/cancel"): "reports:create",
    ("post", "/api/v1/reports/{reportId}/retry"): "reports:create",
    ("get", "/api/v1/reports/{reportId}/consent/state"): "reports:read",
    ("post", "/api/v1/reports/{reportId}/consent/resend"): "reports:create",
    ("post", "/api/v1/reports/{reportId}/subject/link"): "reports:create",
    ("post", "/api/v1/reports/{reportId}/payment/resend"): "reports:create",
    ("get", "/api/v1/reports/{reportId}/pdf"): "reports:read",
    ("post", "/api/v1/reports/{reportId}/objection"): "reports:create",
    ("delete", "/api/v1/reports/{reportId}/subject"): "subjects:erase",
    ("post", "/api/v1/reports/{reportId}/decision"): "decisions:write",
    ("get", "/api/v1/reports/{reportId}/decisions"): "reports:read",
    ("get", "/api/v1/erasures/{erasureId}"): "reports:read",
    ("get", "/api/v1/erasures/{erasureId}/certificate"): "reports:read",
    ("get", "/api/v1/erasures/{erasureId}/certificate.pdf"): "reports:read",
    ("get", "/api/v1/reports/{reportId}/events"): "reports:read",
    ("get", "/api/v1/corrections"): "reports:read",
    ("get", "/api/v1/corrections/{correctionId}"): "reports:read",
    ("get", "/api/v1/exports/alerts"): "monitoring:read",
    ("get", "/api/v1/exports/audit-trail"): "audit:read",
    ("get", "/api/v1/exports/decisions"): "reports:read",
    ("get", "/api/v1/exports/reports"): "reports:read",
    ("get", "/api/v1/exports/results"): "reports:read",
    ("get", "/api/v1/packages"): None,
    ("get", "/api/v1/policy/versions"): "reports:read",
    ("get", "/api/v1/checks/definitions"): None,
    ("get", "/api/v1/checks/definitions/{checkName}"): None,
    ("get", "/api/v1/sandbox/subjects"): None,
    ("get", "/api/v1/me"): None,
    ("get", "/api/v1/balance"): "reports:read",
    ("get", "/api/v1/events"): "webhooks:manage",
    ("post", "/api/v1/sandbox/balance"): "reports:create",
    ("post", "/api/v1/sandbox/receiver"): "webhooks:manage",
    ("post", "/api/v1/sandbox/results"): "reports:create",
    ("post", "/api/v1/sandbox/reports/{reportId}/consent"): "reports:create",
    ("post", "/api/v1/sandbox/reports/{reportId}/payment"): "reports:create",
    ("post", "/api/v1/sandbox/reports/{reportId}/reference"): "reports:create",
    ("get", "/api/v1/sandbox/reports/{reportId}/next"): "reports:read",
    ("post", "/api/v1/sandbox/reports/{reportId}/skip"): "reports:create",
    ("get", "/api/v1/sandbox/monitoring/{monitoringId}/next"): "monitoring:read",
    ("post", "/api/v1/sandbox/monitoring/{monitoringId}/skip"): "monitoring:write",
    ("get", "/api/v1/sandbox/deliveries/{deliveryId}/next"): "webhooks:manage",
    ("post", "/api/v1/sandbox/deliveries/{deliveryId}/skip"): "webhooks:manage",
    ("post", "/api/v1/webhooks/config"): "webhooks:manage",
    ("get", "/api/v1/webhooks/config"): "webhooks:manage",
    ("delete", "/api/v1/webhooks/config"): "webhooks:manage",
    ("post", "/api/v1/webhooks/payment-provider"): None,
    ("post", "/api/v1/webhooks/test"): "webhooks:manage",
    ("post", "/api/v1/webhooks/recover"): "webhooks:manage",
    ("get", "/api/v1/webhooks/deliveries"): "webhooks:manage",
    ("get", "/api/v1/webhooks/deliveries/{deliveryId}"): "webhooks:manage",
    ("post", "/api/v1/webhooks/deliveries/{deliveryId}/redeliver"): "webhooks:manage",
    ("post", "/api/v1/monitoring"): "monitoring:write",
    ("get", "/api/v1/monitoring"): "monitoring:read",
    ("get", "/api/v1/monitoring/{monitoringId}"): "monitoring:read",
    ("delete", "/api/v1/monitoring/{monitoringId}"): "monitoring:write",
    ("post", "/api/v1/monitoring/{monitoringId}/pause"): "monitoring:write",
    ("post", "/api/v1/monitoring/{monitoringId}/resume"): "monitoring:write",
    ("get", "/api/v1/monitoring/alerts"): "monitoring:read",
    ("get", "/api/v1/monitoring/alerts/{alertId}"): "monitoring:read",
    ("patch", "/api/v1/monitoring/alerts/{alertId}"): "monitoring:write",
    ("patch", "/api/v1/monitoring/alerts/read-all"): "monitoring:write",
    ("put", "/api/v1/monitoring/alerts/read-all"): "monitoring:write",
}


def erase_draft(api: Api) -> str:
    return str(erase(api, create_report_with_status(api, "DRAFT")).pk)


def dispute_draft(api: Api) -> str:
    report = Report.objects.get(pk=create_report_with_status(api, "DRAFT"))
    result = report.results.first()
    request = enter_request(report, kind="CORRECTION", origin="SUBJECT")
    correction = Correction.objects.create(
        request=request, report=report, result=result, check_name=result.name
    )
    return str(correction.pk)


# Parameter of a path -> makes an object that belongs to this client.
OWNED: dict[str, Callable[[Api], str]] = {
    "reportId": lambda api: create_report_with_status(api, "DRAFT"),
    "erasureId": erase_draft,
    "correctionId": dispute_draft,
    "deliveryId": lambda api: str(record_delivery(api).pk),
    "monitoringId": lambda api: str(store_rule(api).pk),
    "alertId": lambda api: str(raise_alert(api).pk),
}
# Path parameters of objects that every client may read.
SHARED = {"checkName": "IDENTITY"}
BODIES = {
    ("post", "/api/v1/reports"): {"reports": [company()]},
    ("post", "/api/v1/reports/quote"): {"reports": [company()]},
    ("post", "/api/v1/reports/{reportId}/draft"): {"purpose": "Taken over"},
    ("post", "/api/v1/reports/{reportId}/decision"): {"status": "APPROVED"},
    ("post", "/api/v1/sandbox/balance"): {"available": 10_000},
    ("post", "/api/v1/sandbox/receiver"): {"answer": "500"},
    ("post", "/api/v1/sandbox/results"): {
        "check": "IDENTITY",
        "idNumber": "12345678",
        "outcome": "ADVERSE",
    },
    ("post", "/api/v1/sandbox/reports/{reportId}/consent"): {"action": "grant"},
    ("post", "/api/v1/sandbox/reports/{reportId}/payment"): {"action": "pay"},
    ("post", "/api/v1/sandbox/reports/{reportId}/reference"): {"action": "answer"},
    ("post", "/api/v1/webhooks/config"): {
        "url": "https://taken.over.test/",
        "enabledEvents": [],
    },
    ("post", "/api/v1/webhooks/recover"): {"since": "2026-01-01T00:00:00Z"},
    ("post", "/api/v1/monitoring"): rule_request(),
    ("post", "/api/v1/monitoring/{monitoringId}/resume"): {},
    ("patch", "/api/v1/monitoring/alerts/{alertId}"): {"read": True},
}

# Query parameters that exports require
PERIOD = "?from=2026-01-01&to=2026-01-31"


def parameters(path: str) -> list[str]:
    return [part.partition("}")[0] for part in path.split("{")[1:]]


OF_AN_OBJECT = [key for key in CLOSED if set(parameters(key[1])) - set(SHARED)]


def address(path: str) -> str:
    """Return the path filled in with ids of nothing."""
    return path.format(**{name: uuid4() for name in parameters(path)} | SHARED)


def addresses(paths: Iterable[str], owner: Api) -> dict[str, str]:
    """Return {path: the path filled in}, with one object of each kind.

    A parameter that is not known here needs its line in OWNED or SHARED.
    """
    configure_receiver(owner.workspace, environment=owner.environment)
    names = {name for path in paths for name in parameters(path)} - set(SHARED)
    # An erasure takes all that is there of the person.
    ordered = sorted(names, key=lambda name: name != "erasureId")
    values = SHARED | {name: OWNED[name](owner) for name in ordered}
    return {path: path.format(**values) for path in paths}


def call(key: tuple[str, str], url: str, token: str | None = None, query: str = ""):
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    return getattr(HttpClient(), key[0])(
        url + query,
        BODIES.get(key, "" if key[0] in {"put", "patch"} else None),
        content_type="application/json",
        headers=headers,
    )


def code(answer: Any) -> str:
    assert answer["Content-Type"] == "application/problem+json"
    assert answer.json()["status"] == answer.status_code
    return answer.json()["code"]


def test_every_operation_needs_the_documented_scope():
    assert {**NEEDED, **dict.fromkeys(WITHOUT_KEY)} == SCOPES


@pytest.fixture(scope="module")
def owned(module_transaction: None) -> tuple[Workspace, dict[str, str]]:
    """Acacia Lenders with one object of each kind, for all tests of this file.

    Returns the addresses of all operations, too.
    """
    made = create_lender()
    return made, addresses(document()["paths"], Api(made, "sandbox"))


@pytest.fixture
def workspace(owned: tuple[Workspace, dict[str, str]], db: None) -> Workspace:
    # A test may change the object.
    return Workspace.objects.get(pk=owned[0].pk)


@pytest.fixture
def urls(owned: tuple[Workspace, dict[str, str]]) -> dict[str, str]:
    return owned[1]


@pytest.mark.django_db
def test_operation_is_refused_without_a_key():
    for key in CLOSED:
        answer = call(key, address(key[1]))

        refusal = (answer.status_code, code(answer))
        assert refusal == (401, "authentication-required"), key
        assert answer["WWW-Authenticate"] == "Bearer", key


def test_operation_is_refused_when_the_key_is_wrong_or_revoked(
    api: Api, settings, urls
):
    settings.FAILED_AUTHENTICATIONS_PER_MINUTE = len(CLOSED)
    wrong = api.text[:-1] + ("0" if api.text[-1] != "0" else "1")
    api.key.__class__.objects.update(revoked_at=api.key.created_at)

    # Every operation asks for the key alike.
    for key, token in zip(CLOSED, cycle([wrong, api.text]), strict=False):
        answer = call(key, urls[key[1]], token)
        assert (answer.status_code, code(answer)) == (401, "invalid-api-key"), key
        assert 'error="invalid_token"' in answer["WWW-Authenticate"], key


def test_object_of_another_workspace_is_not_found(another_api: Api, urls):
    token = erasing_api(another_api).text
    nobodys = problem_of(call(OF_AN_OBJECT[0], address(OF_AN_OBJECT[0][1]), token))
    before = count_rows()

    for key in OF_AN_OBJECT:
        theirs = call(key, urls[key[1]], token)

        assert (theirs.status_code, code(theirs)) == (404, "not-found"), key
        assert problem_of(theirs) == nobodys, key
    assert count_rows() == before


def test_object_of_the_other_environment_is_not_found(api: Api, live_api: Api, urls):
    of_live = addresses([path for _, path in OF_AN_OBJECT], live_api)
    for stranger, theirs in ((live_api, urls), (api, of_live)):
        token = erasing_api(stranger).text
        before = count_rows()

        for key in OF_AN_OBJECT:
            answer = call(key, theirs[key[1]], token)

            is_refused = stranger is live_api and "/sandbox/" in key[1]
            refusal = (403, "sandbox-only") if is_refused else (404, "not-found")
            assert (answer.status_code, code(answer)) == refusal, key
        assert count_rows() == before


def problem_of(answer: Any) -> dict:
    """The problem without the members that name the request."""
    own = {"instance", "requestId"}
    return {k: v for k, v in answer.json().items() if k not in own}


def test_key_needs_the_scope(api: Api, urls):
    poor = {
        needed: Api(
            api.workspace,
            "sandbox",
            scopes=[scope for scope in Scope.values if scope != needed],
        )
        for needed in Scope.values
    }
    before = count_rows()

    for key, needed in NEEDED.items():
        if needed is None:
            continue
        answer = call(key, urls[key[1]], poor[needed].text)

        assert (answer.status_code, code(answer)) == (403, "insufficient-scope"), key
        assert needed in answer.json()["detail"], key
        assert f'scope="{needed}"' in answer["WWW-Authenticate"], key
    assert count_rows() == before


def test_key_needs_no_other_scope(api: Api, urls):
    just = {
        scope: Api(api.workspace, "sandbox", scopes=[scope] if scope else []).text
        for scope in (*Scope.values, None)
    }
    # A draft has nothing to retry or decide, and has sent no link.
    nothing_to_do = {
        "report-not-retryable",
        "report-not-decidable",
        "consent-not-resendable",
        "payment-not-resendable",
        "subject-link-not-sendable",
        "sandbox-action-not-possible",
        "nothing-due",
    }
    for key in CLOSED:
        needed, url = NEEDED[key], urls[key[1]]
        with transaction.atomic():
            query = PERIOD if "/exports/" in url else ""
            answer = call(key, url, just[needed], query)
            if answer.streaming:
                # A workspace has few exports at once.
                b"".join(answer.streaming_content)
            # An objection, for one, would refuse the order of another operation.
            transaction.set_rollback(True)

        assert answer.status_code < 300 or code(answer) in nothing_to_do, key
        assert answer["X-Service-Sandbox"] == "true", key
        assert answer["X-Request-Id"], key
        assert str(answer.status_code) in OPERATIONS[key]["responses"], key


def test_operation_is_refused_when_the_workspace_is_suspended(api: Api, urls):
    Workspace.objects.get(pk=api.workspace.pk).suspend("Unpaid invoices")

    for key in CLOSED:
        answer = call(key, urls[key[1]], api.text)

        refusal = (answer.status_code, code(answer))
        assert refusal == (403, "workspace-suspended"), key


def test_unknown_query_parameter_is_refused(api: Api, urls):
    token = erasing_api(api).text
    before = count_rows()

    for key in CLOSED:
        answer = call(key, urls[key[1]], token, query="?nonsense=1&nonsense=2&x%00=")

        assert (answer.status_code, code(answer)) == (400, "validation-failed"), key
        assert {(e["parameter"], e["code"]) for e in answer.json()["errors"]} == {
            ("nonsense", "unknown-parameter"),
            ("x\x00", "unknown-parameter"),
        }, key
    assert count_rows() == before


def test_undocumented_method_is_not_allowed(api: Api, urls):
    for path, url in urls.items():
        described = {method.upper() for method in document()["paths"][path]}

        # The answer to one of them names all methods that the address has.
        method = min({"GET", "POST", "PUT", "PATCH", "DELETE"} - described)
        answer = call((method.lower(), path), url, api.text)
        refusal = (answer.status_code, code(answer))
        assert refusal == (405, "method-not-allowed"), (method, path)
        allowed = set(answer["Allow"].split(", "))
        assert allowed - {"HEAD", "OPTIONS"} == described, path


def routes(resolver: URLResolver, before: str = "") -> Iterator[str]:
    for entry in resolver.url_patterns:
        here = before + str(entry.pattern)
        if isinstance(entry, URLResolver):
            yield from routes(entry, here)
        elif isinstance(entry, URLPattern):
            yield "/" + here.replace("<uuid:", "<").replace("<str:", "<")


def test_every_operation_is_documented():
    described = {
        path.replace("{", "<").replace("}", ">") for path in document()["paths"]
    }
    about_the_api = {"/api/v1/schema", "/api/v1/docs"}

    found = {route for route in routes(get_resolver()) if route.startswith("/api/v1/")}

    undescribed = found - described - about_the_api
    assert not {route for route in undescribed if not route.endswith("/api/v1/")}
    assert found >= described


def test_key_revoked_during_a_batch_changes_nothing_more(api: Api):
    api.create(person())
    api.key.__class__.objects.update(revoked_at=api.key.created_at)
    before = count_rows()

    problem = api.refused("/reports", {"reports": [person()] * 100})

    assert problem["code"] == "invalid-api-key"
    assert count_rows() == before
