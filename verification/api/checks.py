"""The catalogue of checks, and the sandbox's reserved subjects, over HTTP."""

from __future__ import annotations

from typing import Any

from django.http import Http404
from rest_framework.request import Request

from verification.api import examples
from verification.api.check_shapes import (
    CheckDefinitionBody,
    CheckDefinitionPage,
    CheckDefinitionQuery,
    ReservedSubject,
    ReservedSubjectPage,
)
from verification.api.operations import OperationViewSet, operation
from verification.api.query import PageEnvelope, build_page
from verification.checks.models import CheckDefinition
from verification.providers.sandbox import list_reserved_numbers
from workspaces.models import Environment


class CheckDefinitionViewSet(OperationViewSet):
    """The checks that can be requested."""

    http_method_names = ["get", "head"]
    lookup_url_kwarg = "checkName"
    lookup_description = "The name of the check, such as KRA_PIN."

    @operation(
        "listCheckDefinitions",
        "List the checks on offer",
        scope=None,
        query=CheckDefinitionQuery,
        answer=CheckDefinitionPage,
        example=examples.DEFINITIONS,
    )
    def list(self, request: Request) -> PageEnvelope:
        """List the checks that are offered, with their prices and inputs."""
        offered = CheckDefinition.objects.filter(active=True)
        content = [self._definition_body(each) for each in offered]
        return _single_page(CheckDefinitionPage, content)

    @operation(
        "getCheckDefinition",
        "Get a check definition",
        scope=None,
        query=CheckDefinitionQuery,
        answer=CheckDefinitionBody,
        example=examples.DEFINITION,
    )
    def retrieve(self, request: Request, checkName: str) -> CheckDefinitionBody:
        """Get one check: who it is for, what it needs, costs and answers."""
        definition = CheckDefinition.objects.filter(name=checkName).first()
        if definition is None:
            raise Http404
        return self._definition_body(definition)

    def _definition_body(self, definition: CheckDefinition) -> CheckDefinitionBody:
        return CheckDefinitionBody.of(
            definition, self.client.environment, self.query.country
        )


class SandboxSubjectViewSet(OperationViewSet):
    """The reserved numbers of the sandbox."""

    http_method_names = ["get", "head"]

    @operation(
        "listSandboxSubjects",
        "List the sandbox's reserved subjects",
        scope=None,
        answer=ReservedSubjectPage,
        example=examples.RESERVED_SUBJECTS,
    )
    def list(self, request: Request) -> PageEnvelope:
        """List the reserved numbers and how a check on them ends. Test keys only."""
        if self.client.environment != Environment.SANDBOX:
            raise Http404
        content = [
            ReservedSubject.model_validate(row) for row in list_reserved_numbers()
        ]
        return _single_page(ReservedSubjectPage, content)


def _single_page(shape: type[PageEnvelope], content: list[Any]) -> PageEnvelope:
    return build_page(shape, content, len(content), page=0, size=max(1, len(content)))
