"""Pages about the API: guides, reference, problems, and the OpenAPI document."""

from collections.abc import Iterator, Sequence
from functools import cache, wraps
from hashlib import sha256
from operator import itemgetter
from typing import Any

import orjson
from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import translation
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
from verification.api.guides import (
    FIRST,
    GROUPS,
    NAMES,
    addresses,
    all_guides,
    get_guide,
    guide_link,
)
from verification.api.problem_kinds import PROBLEM_KINDS
from verification.api.reference import (
    document,
    groups,
    operation_html,
    operations,
    problem_example,
)
from verification.web.pages import View, allow_sources, page

# Swagger UI draws its icons from data: addresses.
SWAGGER_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
MOST_FOUND = 50
EXCERPT = 160
MARKDOWN = "text/markdown; charset=utf-8"


def render_docs(
    request: HttpRequest, template: str, here: str, **context: Any
) -> HttpResponse:
    """Render a page in the frame of the docs; `here` is its place in the navigation."""
    shared = {"here": here, "groups": navigation()}
    response = render(request, template, shared | context)
    allow_sources(response, script_src=["'self'"])
    return response


def navigation() -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the groups of the navigation, each with paths and titles."""
    groups = [
        (group, [guide_link(name) for name in names]) for group, names in GROUPS.items()
    ]
    groups[-1][1][:0] = [(reverse("docs-reference"), "API reference")]
    groups[-1][1][-1:-1] = [
        (reverse("problems"), "Problems"),
        (reverse("docs-clients"), "Clients"),
    ]
    return groups


def in_english(view: View) -> View:
    """Show a view in English, the language of the docs."""

    @wraps(view)
    def shown(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        with translation.override("en"):
            response = view(request, *args, **kwargs)
        response["Content-Language"] = "en"
        return response

    return shown


@require_safe
@page
def problem_index(request: HttpRequest) -> HttpResponse:
    here = reverse("problems")
    kinds = PROBLEM_KINDS.values()
    return render_docs(request, "problems/index.html", here, kinds=kinds)


@require_safe
@page
def problem_detail(request: HttpRequest, code: str) -> HttpResponse:
    if code not in PROBLEM_KINDS:
        raise Http404
    context = {"kind": PROBLEM_KINDS[code], "example": problem_example(code)}
    return render_docs(request, "problems/detail.html", reverse("problems"), **context)


@require_safe
@in_english
def guide(request: HttpRequest, name: str = FIRST) -> HttpResponse:
    """Show a guide, whose examples name this installation's addresses."""
    if name not in NAMES:
        raise Http404
    place = NAMES.index(name)
    shown = get_guide(name)
    if request.path != shown.path:
        return redirect(shown.path)
    context = {
        "guide": shown,
        "before": list(map(guide_link, NAMES[:place]))[-1:],
        "after": list(map(guide_link, NAMES[place + 1 :]))[:1],
    }
    return render_docs(request, "docs/guide.html", shown.path, **context)


@require_safe
def guide_markdown(request: HttpRequest, name: str) -> HttpResponse:
    if name not in NAMES:
        raise Http404
    return HttpResponse(get_guide(name).markdown, content_type=MARKDOWN)


@require_safe
def llms(request: HttpRequest) -> HttpResponse:
    """List the pages for programs that read them, as https://llmstxt.org proposes."""
    context = {"guides": list(all_guides()), "address": settings.BASE_URL}
    text = render_to_string("docs/llms.txt", context, request)
    return HttpResponse(text, content_type=MARKDOWN)


@require_safe
@in_english
def search(request: HttpRequest) -> HttpResponse:
    query = request.GET.get("q", "").replace("\0", "").strip()[:100]
    found = find_in_docs(query.lower().split()) if query else []
    return render_docs(request, "docs/search.html", "", query=query, found=found)


def find_in_docs(words: Sequence[str]) -> list[dict[str, str]]:
    """Return places with all words, those with the words in their title first."""
    found: list[tuple[bool, dict[str, str]]] = []
    for path, title, name, text in _places():
        lower = text.lower()
        is_titled = all(word in title.lower() for word in words)
        if is_titled or all(word in f"{title} {name} {text}".lower() for word in words):
            near = max(0, min(lower.find(word) for word in words) - EXCERPT // 4)
            start = text.rfind(" ", 0, near) + 1
            excerpt = text[start : start + EXCERPT].strip()
            row = {"path": path, "title": title, "page": name, "text": excerpt}
            found.append((not is_titled, row))
    found.sort(key=itemgetter(0))
    return [row for _, row in found[:MOST_FOUND]]


def _places() -> Iterator[tuple[str, str, str, str]]:
    for one in all_guides():
        for section in one.sections:
            end = section.anchor and f"#{section.anchor}"
            yield one.path + end, section.title, one.title, section.text
    for operation in operations().values():
        text = f"{operation.path} {operation.id}"
        yield operation.address, operation.title, "API reference", text
    for kind in PROBLEM_KINDS.values():
        path = reverse("problem", args=[kind.code])
        yield path, kind.title, f"Problems: {kind.code}", kind.explanation


@require_safe
@in_english
def reference(request: HttpRequest) -> HttpResponse:
    filter_by = request.GET.get("filter", "").strip()[:100]
    sandbox, production = addresses()
    context = {
        "reference": True,
        "filter": filter_by,
        "tags": groups(filter_by.lower().split()),
        "address": f"{sandbox}/api/v1",
        "production": f"{production}/api/v1",
    }
    return render_docs(request, "docs/reference.html", "", **context)


@require_safe
@in_english
def reference_operation(request: HttpRequest, name: str) -> HttpResponse:
    if name not in operations():
        raise Http404
    context = {
        "reference": True,
        "operation": operations()[name],
        "tags": groups(),
        "html": operation_html(name, addresses()[0]),
    }
    return render_docs(request, "docs/reference.html", "", **context)


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


class TryView(SpectacularSwaggerSplitView):
    content_negotiation_class = DefaultContentNegotiation
    throttle_classes = []
    template_name = "docs/try.html"

    def finalize_response(
        self, request: Request, response: Response, *args: Any, **kwargs: Any
    ) -> Response:
        response = super().finalize_response(request, response, *args, **kwargs)
        response["Content-Security-Policy"] = SWAGGER_POLICY
        return response
