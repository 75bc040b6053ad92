"""The catalogue of checks, and the sandbox's reserved subjects, over HTTP."""

from __future__ import annotations

from django.http import Http404
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import ViewSet

from verification.api.body import client_of, refuse_unknown_parameters
from verification.api.check_shapes import (
    CheckDefinitionBody,
    CheckDefinitionPage,
    CheckDefinitionQuery,
    ReservedSubject,
    ReservedSubjectPage,
)
from verification.api.operations import describe_checks, describe_sandbox
from verification.api.query import build_page, read_query
from verification.checks.models import CheckDefinition
from verification.providers.sandbox import list_reserved_numbers
from workspaces.models import Environment


@describe_checks
class CheckDefinitionViewSet(ViewSet):
    """The checks that can be requested."""

    http_method_names = ["get", "head"]
    lookup_url_kwarg = "checkName"
    required_scopes = {"retrieve": None, "list": None}

    def list(self, request: Request) -> Response:
        """List the checks that are offered, with their prices and inputs."""
        country = read_query(request, CheckDefinitionQuery).country
        offered = CheckDefinition.objects.filter(active=True)
        where = (client_of(request).environment, country)
        content = [CheckDefinitionBody.of(each, *where) for each in offered]
        return Response(_whole(CheckDefinitionPage, content))

    def retrieve(self, request: Request, checkName: str) -> Response:
        """Get one check: who it is for, what it needs, costs and answers."""
        country = read_query(request, CheckDefinitionQuery).country
        definition = CheckDefinition.objects.filter(name=checkName).first()
        if definition is None:
            raise Http404
        where = (client_of(request).environment, country)
        return Response(CheckDefinitionBody.of(definition, *where))


@describe_sandbox
class SandboxSubjectViewSet(ViewSet):
    """The reserved numbers of the sandbox."""

    http_method_names = ["get", "head"]

    required_scopes = {"list": None}

    def list(self, request: Request) -> Response:
        """List the reserved numbers and how a check on them ends. Test keys only."""
        refuse_unknown_parameters(request, ())
        if client_of(request).environment != Environment.SANDBOX:
            raise Http404
        content = [
            ReservedSubject.model_validate(row) for row in list_reserved_numbers()
        ]
        return Response(_whole(ReservedSubjectPage, content))


def _whole(shape, content):  # type: ignore[no-untyped-def]
    return build_page(shape, content, len(content), page=0, size=max(1, len(content)))
