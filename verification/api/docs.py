"""Pages about the API: problems, the OpenAPI document, its reference, a first guide."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

import orjson
import yaml
from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.decorators import method_decorator
from django.views.decorators.http import condition, require_safe
from drf_spectacular.renderers import OpenApiJsonRenderer, OpenApiYamlRenderer
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularSwaggerSplitView
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from verification.api.content import refuse_unknown_parameters
from verification.api.problem_kinds import PROBLEM_KINDS
from verification.web.pages import page


@require_safe
@page
def problem_index(request: HttpRequest) -> HttpResponse:
    return render(request, "problems/index.html", {"kinds": PROBLEM_KINDS.values()})


@require_safe
@page
def problem_detail(request: HttpRequest, code: str) -> HttpResponse:
    if code not in PROBLEM_KINDS:
        raise Http404
    return render(request, "problems/detail.html", {"kind": PROBLEM_KINDS[code]})


# Swagger UI draws its icons from data: addresses.
SWAGGER_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@require_safe
@page
def getting_started(request: HttpRequest) -> HttpResponse:
    """Show a first guide, whose commands name this installation's addresses."""
    scheme = urlsplit(settings.BASE_URL).scheme
    sandbox, production = (
        f"{scheme}://{host}" if host else settings.BASE_URL
        for host in (settings.SANDBOX_HOST, settings.PRODUCTION_HOST)
    )
    context = {
        "sandbox": f"{sandbox}/api/v1",
        "production": f"{production}/api/v1",
    }
    return render(request, "docs/start.html", context)


@cache
def document() -> dict[str, Any]:
    """Return the OpenAPI document, read once in each process as it takes a second."""
    loaded: dict[str, Any] = yaml.load(_yaml(), Loader=yaml.CSafeLoader)
    return loaded


@cache
def _yaml() -> bytes:
    return settings.OPENAPI_FILE.read_bytes()


@cache
def _json() -> bytes:
    return orjson.dumps(document())


@cache
def _etag() -> str:
    """Weak, because it is that of YAML and JSON alike."""
    return f'W/"{sha256(_yaml()).hexdigest()[:32]}"'


class YamlFile(OpenApiYamlRenderer):
    def render(self, *args: Any, **kwargs: Any) -> bytes:
        return _yaml()


class JsonFile(OpenApiJsonRenderer):
    def render(self, *args: Any, **kwargs: Any) -> bytes:
        return _json()


class PlainYamlFile(YamlFile):
    media_type = "application/yaml"


class PlainJsonFile(JsonFile):
    media_type = "application/json"


@method_decorator(condition(etag_func=lambda *args, **kwargs: _etag()), "dispatch")
class SchemaView(APIView):
    """Sends the committed file, unless the client has it: to make it takes seconds."""

    authentication_classes = []
    permission_classes = []
    throttle_classes = []
    content_negotiation_class = DefaultContentNegotiation
    renderer_classes = [PlainJsonFile, JsonFile, PlainYamlFile, YamlFile]

    @extend_schema(exclude=True)
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        refuse_unknown_parameters(request, ["format"])
        return Response({}, headers={"Cache-Control": "no-cache"})


class ReferenceView(SpectacularSwaggerSplitView):
    content_negotiation_class = DefaultContentNegotiation
    throttle_classes = []
    template_name = "docs/reference.html"

    def finalize_response(
        self, request: Request, response: Response, *args: Any, **kwargs: Any
    ) -> Response:
        response = super().finalize_response(request, response, *args, **kwargs)
        response["Content-Security-Policy"] = SWAGGER_POLICY
        return response
