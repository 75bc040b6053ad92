"""The OpenAPI document, and the page that shows it."""

from __future__ import annotations

from functools import cache
from typing import Any

from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import (
    OpenApiJsonRenderer,
    OpenApiJsonRenderer2,
    OpenApiYamlRenderer,
    OpenApiYamlRenderer2,
)
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.request import Request
from rest_framework.response import Response

from verification.api.parsing import refuse_unknown_parameters

# Swagger UI draws its icons from data: addresses.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@cache
def document() -> dict[str, Any]:
    """Made once a process: it takes longer than any request should."""
    return SchemaGenerator().get_schema(request=None, public=True)


class SchemaView(SpectacularAPIView):
    content_negotiation_class = DefaultContentNegotiation
    throttle_classes = []
    renderer_classes = [
        OpenApiJsonRenderer2,
        OpenApiJsonRenderer,
        OpenApiYamlRenderer2,
        OpenApiYamlRenderer,
    ]

    @extend_schema(exclude=True)
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        refuse_unknown_parameters(request, {"format"})
        return Response(document())


class DocsView(SpectacularSwaggerSplitView):
    content_negotiation_class = DefaultContentNegotiation
    throttle_classes = []
    template_name = "docs.html"

    def finalize_response(
        self, request: Request, response: Response, *args: Any, **kwargs: Any
    ) -> Response:
        response = super().finalize_response(request, response, *args, **kwargs)
        response["Content-Security-Policy"] = POLICY
        return response
