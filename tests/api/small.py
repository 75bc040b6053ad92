"""A small API, to see what every endpoint has in common without being one of them."""

from typing import Any

from django.db import OperationalError, connection
from django.http import HttpRequest, HttpResponse
from django.urls import include, path
from django.utils.timezone import now
from django.views.decorators.http import require_POST
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.routers import SimpleRouter
from rest_framework.viewsets import ViewSet

from verification.api.body import refuse_body, refuse_unknown_parameters
from verification.urls import urlpatterns as all_urls
from workspaces.keys import issue
from workspaces.models import ApiKey, Environment, Workspace
from workspaces.signup import create_workspace


class Things(ViewSet):
    required_scopes = {
        "list": "reports:read",
        "retrieve": None,
        "create": "reports:create",
        "destroy": "reports:create",
    }
    rate_buckets = {"create": "create"}

    def list(self, request: Request) -> Response:
        refuse_unknown_parameters(request, {"page", "search"})
        return Response({"content": []})

    def retrieve(self, request: Request, pk: str) -> Response:
        {"crash": _crash, "slow": _time_out, "away": _lose_database}[pk]()
        return Response()

    def create(self, request: Request) -> Response:
        return Response(request.data, status=201)

    def destroy(self, request: Request, pk: str) -> Response:
        refuse_body(request)
        return Response(status=204)


class Unscoped(ViewSet):
    required_scopes: dict[str, Any] = {}

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


def a_workspace() -> Workspace:
    return create_workspace(name="Kamau Lettings", owner_email="owner@example.com")


def a_key(
    workspace: Workspace | None = None,
    *,
    live: bool = False,
    **fields: Any,
) -> tuple[ApiKey, str]:
    environment = Environment.PRODUCTION if live else Environment.SANDBOX
    key, text = issue(
        workspace or a_workspace(), environment=environment, name="A key", force=True
    )
    for name, value in fields.items():
        setattr(key, name, value)
    key.save()
    return key, text


def a_suspended_workspace() -> Workspace:
    workspace = a_workspace()
    workspace.suspended_at = now()
    workspace.suspension_reason = "Unpaid invoices"
    workspace.save()
    return workspace


def bearer(text: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}
