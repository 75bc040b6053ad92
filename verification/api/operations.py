"""Operations of the API: each is declared once, beside its code.

`OperationViewSet` reads and refuses requests by the declaration, and `schema.py` makes
the OpenAPI document from it. The prose of the document is the docstring of the action.
"""

from collections.abc import Callable
from dataclasses import dataclass
from types import NoneType
from typing import Any, ClassVar, TypeVar, get_type_hints
from uuid import UUID

from django.http.response import HttpResponseBase
from pydantic import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from verification.api.authentication import client_of, count_checks, key_of
from verification.api.content import (
    parameter_names,
    read_query,
    refuse_body,
    refuse_unknown_parameters,
)
from verification.backoffice import audit
from verification.backoffice.models import ActorKind
from verification.checks.packages import Packages
from verification.reports.idempotency import IdempotencyKey, run_once
from verification.reports.request import InvalidRequest, named_packages, shape_faults
from verification.values.shapes import Shape
from verification.web.request import client_address
from workspaces.models import Client, Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """The declaration of an action: its query, body, answer, scope and problems."""

    name: str
    """The operationId, which also names its example in `examples.yaml`. PUT as the
    alias of PATCH gets the suffix `ByPut`."""
    summary: str
    scope: Scope | None
    """None: any valid key may use it."""
    answer: Any
    """The shape of the answer, a type of drf-spectacular, or None without a body. The
    default is the shape that the action returns by its annotation."""
    status: int = 200
    outcome: str = ""
    """What the document says of the answer, if it is not the summary."""
    media_type: str = ""
    """Of an answer that is not JSON."""
    line: Any = None
    """The shape of a line, if the answer can also be JSON Lines."""
    query: type[Shape] | None = None
    body: Any = None
    """The shape of the body. None: the body of a POST, PUT or PATCH must be empty."""
    validates_body: bool = True
    """False if the verb validates the body, with facts that only the verb has."""
    rate_bucket: str = "rest"
    counts_checks: bool = False
    """Whether an order of many checks counts as several requests."""
    idempotent_as: str = ""
    """The name of the request under which its Idempotency-Keys are remembered, with
    the parameters of its path in braces."""
    problems: tuple[str, ...] = ()
    """The codes of problems beyond those of every operation of its kind."""


def operation(
    name: str, summary: str, **declared: Any
) -> Callable[[Callable[..., Any]], Any]:
    """Declare the operation that an action of an `OperationViewSet` is."""

    def declare(action: Callable[..., Any]) -> Any:
        if "answer" not in declared:
            shape = get_type_hints(action)["return"]
            declared["answer"] = None if shape is NoneType else shape
        declaration = Operation(name=name, summary=summary, **declared)
        action.operation = declaration  # type: ignore[attr-defined]
        return action

    return declare


class PageEnvelope(Shape):
    page: int
    size: int
    total_elements: int
    total_pages: int
    first: bool
    last: bool
    content: list[Any]


ReadShape = TypeVar("ReadShape", bound=Shape)


class OperationViewSet(GenericViewSet):
    """Reads requests by the declaration of their action, and refuses what breaks it.

    The refusals come in this order: authentication, scope, rate (all three by the
    framework's hooks), query parameters, body. An action returns the shape that it
    answers with, or a response.
    """

    # Neither OPTIONS nor TRACE; a route has the methods that its actions declare.
    http_method_names = ["get", "head", "post", "patch", "put", "delete"]
    lookup_value_converter = "uuid"
    lookup_description: ClassVar[str] = ""
    """What the document says of the parameter in the path."""
    common_problems: ClassVar[dict[str, str]] = {}
    """The codes of problems that all its operations have, with a name for the document.
    """
    client: Client
    query: Any
    """The query parameters in the declared shape."""
    body: Any
    """The body in the declared shape, or as JSON if the verb validates it. {} of a
    request that has none."""
    packages: Packages
    """The packages that the body names, where its checks are counted."""

    @property
    def operation(self) -> Operation:
        """Return the declaration of the action. Raises AttributeError without one."""
        declared: Operation = getattr(self, self.action or "").operation
        return declared

    @property
    def actor(self) -> audit.Actor:
        """The key as an actor of the audit trail."""
        address = client_address(self.request)
        key = str(key_of(self.request))
        return audit.Actor(ActorKind.KEY, key, str(address) if address else None)

    @property
    def is_method_allowed(self) -> bool:
        return hasattr(self, self.action or "")

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if not self.is_method_allowed:
            return
        declared = self.operation
        self.client = client_of(request)
        refuse_unknown_parameters(request, parameter_names(declared.query))
        if declared.query:
            self.query = read_query(request, declared.query)
        if declared.body:
            # The parser has checked that it is an object.
            self.body = dict(request.data)
            if declared.validates_body:
                self.body = read_shape(declared.body, self.body)
        elif request.method in {"POST", "PUT", "PATCH"}:
            refuse_body(request)
            self.body = {}
        if declared.counts_checks:
            reports = self.body.get("reports")
            self.packages = named_packages(self.client.workspace.pk, reports)
            count_checks(request, self, reports, self.packages)

    def finalize_response(
        self, request: Request, response: Any, *args: Any, **kwargs: Any
    ) -> Any:
        if not isinstance(response, HttpResponseBase):
            response = Response(response, status=self.operation.status)
        return super().finalize_response(request, response, *args, **kwargs)

    def run_once(
        self,
        create: Callable[[], Shape],
        report_of: Callable[[dict[str, Any]], UUID] | None = None,
    ) -> Response:
        """Run `create`, or repeat the answer to a request with the same key.

        `report_of` returns the report of the person whom the answer names.
        """

        def body() -> dict[str, Any]:
            return create().model_dump(mode="json", by_alias=True)

        declared = self.operation
        header = self.request.headers.get("Idempotency-Key")
        key = None
        if header is not None:
            name = declared.idempotent_as.format_map(self.kwargs)
            key = IdempotencyKey.read(header, self.client, name, self.body)
        answer = run_once(key, body, report_of)
        headers = {"Idempotent-Replayed": "true"} if answer.replayed else None
        return Response(answer.body, status=declared.status, headers=headers)

    def page_of(
        self, content: list[Any], total: int | None = None, **more: Any
    ) -> PageEnvelope:
        """Return the requested page in the envelope that the operation declares.

        Without a total the content is the whole list. `more` are members that only this
        envelope has.
        """
        page, size = self.query.page, self.query.size
        if total is None:
            total = len(content)
            content = content[page * size :][:size]
        pages = -(-total // size)
        envelope: PageEnvelope = self.operation.answer(
            page=page,
            size=size,
            total_elements=total,
            total_pages=pages,
            first=page == 0,
            last=page >= pages - 1,
            content=content,
            **more,
        )
        return envelope


def read_shape(shape: type[ReadShape], body: dict[str, Any]) -> ReadShape:
    """Return the body in this shape. Raises InvalidRequest."""
    try:
        return shape.model_validate(body)
    except ValidationError as e:
        raise InvalidRequest(shape_faults(e)) from e
