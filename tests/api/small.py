"""A small API that shows what all operations have in common."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from django.db import OperationalError, connection
from django.http import HttpRequest, HttpResponse
from django.urls import include, path, set_urlconf
from django.utils.timezone import now
from django.views.decorators.http import require_POST
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.routers import SimpleRouter

from verification.api.content import refuse_body
from verification.api.operations import OperationViewSet, operation
from verification.reports.request import RequestShape
from verification.urls import urlpatterns as all_urls
from verification.values.shapes import Shape
from workspaces.create import create_workspace
from workspaces.keys import issue
from workspaces.models import ApiKey, Environment, Scope, Workspace


class ThingQuery(Shape):
    page: str | None = None
    search: str | None = None


class ThingRequest(RequestShape):
    """Never validated: the API answers with the body that it read."""


class Things(OperationViewSet):
    lookup_value_converter = "str"

    @operation("listThings", "List things", scope=Scope.REPORTS_READ, query=ThingQuery)
    def list(self, request: Request) -> dict[str, Any]:
        return {"content": []}

    @operation("getThing", "Get a thing", scope=None)
    def retrieve(self, request: Request, pk: str) -> None:
        {"crash": _crash, "slow": _time_out, "away": _lose_database}[pk]()

    @operation(
        "createThing",
        "Create a thing",
        scope=Scope.REPORTS_CREATE,
        body=ThingRequest,
        validates_body=False,
        rate_bucket="create",
        status=201,
    )
    def create(self, request: Request) -> Any:
        return self.body

    @operation("deleteThing", "Delete", scope=Scope.REPORTS_CREATE, status=204)
    def destroy(self, request: Request, pk: str) -> None:
        refuse_body(request)


class Unscoped(OperationViewSet):
    def list(self, request: Request) -> Response:
        return Response()


@require_POST
def hook(request: HttpRequest) -> HttpResponse:
    return HttpResponse()


def _crash() -> None:
    name = "Wanjiku Canary"
    raise KeyError(name)


def _time_out() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL statement_timeout = '10ms'; SELECT pg_sleep(1)")


def _lose_database() -> None:
    raise OperationalError("connection refused")


router = SimpleRouter(trailing_slash=False)
router.register("things", Things, basename="thing")
router.register("unscoped", Unscoped, basename="unscoped")
urlpatterns = [
    path("api/v1/", include(router.urls)),
    path("api/v1/hook", hook),
    *[url for url in all_urls if str(url.pattern) != "api/v1/"],
]
handler404 = "verification.web.pages.not_found"
handler500 = "verification.web.pages.server_error"


@pytest.fixture(autouse=True)
def small_api(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Serve these addresses in the tests of each module that imports this.

    Django keeps the addresses by the name of their module. `pytest.mark.urls` would
    drop them all before and after each test, and reading them takes as long as it.
    """
    monkeypatch.setattr(settings, "ROOT_URLCONF", __name__)
    set_urlconf(None)
    yield
    set_urlconf(None)


def new_workspace() -> Workspace:
    return create_workspace(name="Kamau Lettings", owner_email="owner@example.com")


def new_key(
    workspace: Workspace | None = None,
    *,
    live: bool = False,
    **fields: Any,
) -> tuple[ApiKey, str]:
    environment = Environment.PRODUCTION if live else Environment.SANDBOX
    key, text = issue(
        workspace or new_workspace(), environment=environment, name="A key", force=True
    )
    for name, value in fields.items():
        setattr(key, name, value)
    key.save()
    return key, text


def new_suspended_workspace() -> Workspace:
    workspace = new_workspace()
    workspace.suspended_at = now()
    workspace.suspension_reason = "Unpaid invoices"
    workspace.save()
    return workspace


def bearer(text: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}
