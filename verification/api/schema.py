"""The OpenAPI document: pydantic shapes, and operations by their declarations.

The extension of drf-spectacular describes a shape in a request as in an answer. Here
the shapes of requests are described as they are validated and get the suffix Request,
so that a member with a default is not required.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

from drf_spectacular.drainage import set_override
from drf_spectacular.extensions import (
    OpenApiAuthenticationExtension,
    OpenApiSerializerExtension,
)
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ResolvedComponent
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse
from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode

from verification.api.content import JSON_LINES
from verification.api.operations import Operation
from verification.api.problem_kinds import PROBLEM_KINDS, ProblemKind
from verification.api.problems import MAX_ERRORS, MEDIA_TYPE

REF = "#/components/schemas/"


class _Generator(GenerateJsonSchema):
    def field_title_should_be_set(self, schema: Any) -> bool:
        """Leave out the titles that pydantic makes of members' names."""
        return False

    def field_is_required(self, field: Any, total: bool) -> bool:
        """An answer has all its members, be they null."""
        return self.mode == "serialization" or super().field_is_required(field, total)


class ShapeExtension(OpenApiSerializerExtension):
    target_class = "pydantic.BaseModel"
    match_subclasses = True
    priority = 1

    def get_name(self, auto_schema: AutoSchema, direction: str) -> str:
        # Another shape may contain this one and have registered it.
        set_override(self.target, "suppress_collision_warning", True)
        return _component_name(self.target.__name__).removesuffix("Request")

    def map_serializer(self, auto_schema: AutoSchema, direction: str) -> dict[str, Any]:
        schema = json_schema(self.target, is_request=direction == "request")
        for name, definition in schema.pop("$defs", {}).items():
            auto_schema.registry.register_on_missing(
                ResolvedComponent(
                    name=name,
                    type=ResolvedComponent.SCHEMA,
                    # Any shape will do: the names of shapes are unique.
                    object=self.target,
                    schema=definition,
                )
            )
        return schema


def json_schema(shape: type[BaseModel], *, is_request: bool) -> dict[str, Any]:
    mode: JsonSchemaMode = "validation" if is_request else "serialization"
    schema = shape.model_json_schema(
        by_alias=True,
        ref_template=REF + "{model}",
        schema_generator=_Generator,
        mode=mode,
    )
    definitions = schema.pop("$defs", {})
    names = {
        name: _definition_name(name, definition, is_request=is_request)
        for name, definition in definitions.items()
    }
    schema = _rename_references(_without_title(schema), names)
    schema["$defs"] = {
        names[name]: _rename_references(_without_title(definition), names)
        for name, definition in definitions.items()
    }
    return schema


def _definition_name(name: str, definition: dict[str, Any], *, is_request: bool) -> str:
    name = _component_name(name)
    # An enumeration is the same both ways.
    if not is_request or "properties" not in definition:
        return name
    return f"{name.removesuffix('Request')}Request"


def _component_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]", "", name)


def _without_title(schema: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in schema.items() if name != "title"}


def _rename_references(schema: Any, names: dict[str, str]) -> Any:
    if isinstance(schema, list):
        return [_rename_references(item, names) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: REF + names.get(value.removeprefix(REF), value.removeprefix(REF))
        if key == "$ref" and isinstance(value, str)
        else _rename_references(value, names)
        for key, value in schema.items()
    }


Schema = dict[str, Any]

COMMON_CODES = (
    "validation-failed",
    "not-acceptable",
    "internal-error",
    "unavailable",
    "overloaded",
)
KEY_CODES = (
    "authentication-required",
    "invalid-api-key",
    "wrong-environment",
    "workspace-suspended",
    "rate-limited",
)
IDEMPOTENCY_CODES = (
    "answer-erased",
    "idempotency-in-progress",
    "idempotency-key-reused",
)
BODY_CODES = (
    "malformed-body",
    "request-timeout",
    "body-too-large",
    "unsupported-media-type",
)

_TEXT: Schema = {"type": "string"}
_PLACE = "where the rule is broken"
PROBLEM: Schema = {
    "type": "object",
    "description": "What went wrong, in the form of RFC 9457.",
    "required": ["type", "title", "status", "detail", "instance", "code", "requestId"],
    "properties": {
        "type": {**_TEXT, "format": "uri", "description": "A page that explains it."},
        "title": _TEXT,
        "status": {"type": "integer"},
        "detail": {
            **_TEXT,
            "description": "For people; do not parse it. With validation-failed the "
            "first fault and its place.",
        },
        "instance": {**_TEXT, "description": "The path of the request."},
        "code": {
            **_TEXT,
            "enum": sorted(PROBLEM_KINDS),
            "description": "For programs.",
        },
        "requestId": {**_TEXT, "description": "Finds this request in the log."},
        "requiredScope": {**_TEXT, "description": "With insufficient-scope."},
        "reportStatus": {**_TEXT, "description": "With report-not-…: its status."},
        "consentStatus": {**_TEXT, "description": "With consent-not-resendable."},
        "paymentStatus": {**_TEXT, "description": "With payment-not-resendable."},
        "topUpUrl": {
            **_TEXT,
            "format": "uri",
            "description": "With insufficient-balance, where payments are taken: the "
            "page where anybody can top up the workspace.",
        },
        "reasons": {
            "type": "array",
            "description": "With report-not-launchable.",
            "items": {
                **_TEXT,
                "enum": ["CONSENT_OUTSTANDING", "PAYMENT_OUTSTANDING", "NOT_A_DRAFT"],
            },
        },
        "errors": {
            "type": "array",
            "description": "With validation-failed: all broken rules, up to 100.",
            "maxItems": MAX_ERRORS,
            "items": {"$ref": "#/components/schemas/MemberError"},
        },
    },
}
MEMBER_ERROR: Schema = {
    "type": "object",
    "description": "One broken rule, with one of pointer, parameter and header.",
    "required": ["code", "detail"],
    "properties": {
        "pointer": {
            **_TEXT,
            "description": f"A JSON Pointer into the body: {_PLACE}.",
            "examples": ["#/reports/17/subject/idNumber"],
        },
        "parameter": {**_TEXT, "description": f"The query parameter: {_PLACE}."},
        "header": {**_TEXT, "description": f"The header: {_PLACE}."},
        "code": _TEXT,
        "detail": _TEXT,
    },
}
HEADERS: dict[str, Schema] = {
    "X-Request-Id": {
        "description": "The id of the request: its own X-Request-Id, or a new one.",
        "schema": {**_TEXT, "pattern": "^[A-Za-z0-9._-]{1,128}$"},
    },
    "X-Service-Sandbox": {
        "description": "There when the request was made with a test key.",
        "schema": {**_TEXT, "enum": ["true"]},
    },
    "RateLimit-Policy": {
        "description": "The limit of the key (IETF draft): quota and window.",
        "schema": {**_TEXT, "examples": ['"rest";q=3000;w=60']},
    },
    "RateLimit": {
        "description": "What is left of it, and the seconds until it starts anew.",
        "schema": {**_TEXT, "examples": ['"rest";r=2998;t=31']},
    },
    "Retry-After": {
        "description": "Seconds to wait before trying again.",
        "schema": {"type": "integer"},
    },
    "WWW-Authenticate": {
        "description": "How to authenticate (RFC 6750).",
        "schema": _TEXT,
    },
}


class BearerScheme(OpenApiAuthenticationExtension):
    target_class = "verification.api.authentication.ApiKeyBearer"
    name = "Bearer"

    def get_security_definition(self, auto_schema: AutoSchema) -> Schema:
        return {
            "type": "http",
            "scheme": "bearer",
            "bearerFormat": "vrf_test_… or vrf_live_…",
            "description": "An API key: vrf_test_… in the sandbox, vrf_live_… in "
            "production. A test key never causes a charge.",
        }

    def get_security_requirement(self, auto_schema: AutoSchema) -> Schema:
        scope = auto_schema.operation.scope  # type: ignore[attr-defined]
        return {"Bearer": [scope] if scope else []}


IDEMPOTENCY_PARAMETERS = [
    OpenApiParameter(
        "Idempotency-Key",
        {"type": "string", "minLength": 1, "maxLength": 120, "pattern": "^[ -~]+$"},
        OpenApiParameter.HEADER,
        description="A repeated request with the same key gets the first answer again "
        "and creates nothing. Remembered for 72 hours.",
    ),
    OpenApiParameter(
        "Idempotent-Replayed",
        {"type": "string", "enum": ["true"]},
        OpenApiParameter.HEADER,
        response=[201],
        description="There when the answer is an earlier one, given again.",
    ),
]


def query_parameters(shape: type[BaseModel]) -> list[OpenApiParameter]:
    schema = json_schema(shape, is_request=True)
    return [
        OpenApiParameter(
            name,
            _inline_references(member, schema.get("$defs", {})),
            OpenApiParameter.QUERY,
            required=name in schema.get("required", []),
            description=member.get("description", ""),
        )
        for name, member in schema["properties"].items()
    ]


def _inline_references(member: Schema, definitions: Schema) -> Schema:
    """A parameter is absent rather than null, and its enumeration stands in it."""
    for option in member.get("anyOf", [member]):
        if "$ref" in option:
            return dict(definitions[option["$ref"].rpartition("/")[2]])
        if option.get("type") != "null":
            inlined = {k: v for k, v in option.items() if k != "description"}
            if member.get("default") is not None:
                inlined["default"] = member["default"]
            return inlined
    raise TypeError("a parameter that can only be null")


class OperationSchema(AutoSchema):
    """Describes an operation by its declaration (`operations.py`)."""

    @property
    def action(self) -> str:
        return getattr(self.view, "action", None) or self.method.lower()

    @property
    def operation(self) -> Operation:
        declared: Operation = getattr(self.view, self.action).operation
        return declared

    @property
    def takes_key(self) -> bool:
        return bool(self.view.get_authenticators())

    def get_operation_id(self) -> str:
        # drf-spectacular calls this on the schemas of webhooks too, which have none.
        name: str = getattr(getattr(self, "operation", None), "name", "")
        # PUT is an alias of PATCH, and every operation has an id of its own.
        return f"{name}ByPut" if self.method == "PUT" else name

    def get_summary(self) -> str:
        return self.operation.summary

    def get_request_serializer(self) -> Any:
        return self.operation.body

    def get_response_serializers(self) -> Any:
        declared = self.operation
        if declared.media_type:
            answers = {declared.media_type: declared.answer}
            if declared.line:
                answers[JSON_LINES] = declared.line
            return {(declared.status, kind): one for kind, one in answers.items()}
        description = declared.outcome or f"{declared.summary}."
        answer = OpenApiResponse(declared.answer, description=description)
        return {declared.status: answer}

    def get_override_parameters(self) -> list[Any]:
        declared, view = self.operation, cast(Any, self.view)
        parameters = query_parameters(declared.query) if declared.query else []
        if declared.idempotent_as:
            parameters += IDEMPOTENCY_PARAMETERS
        lookup = getattr(view, "lookup_url_kwarg", "")
        if lookup and f"{{{lookup}}}" in self.path:
            is_uuid = view.lookup_value_converter == "uuid"
            parameters.append(
                OpenApiParameter(
                    lookup,
                    OpenApiTypes.UUID if is_uuid else OpenApiTypes.STR,
                    OpenApiParameter.PATH,
                    description=view.lookup_description,
                )
            )
        return parameters

    def get_examples(self) -> list[OpenApiExample]:
        declared = self.operation
        answer, body = declared.example, declared.body_example
        examples = []
        if answer:
            examples.append(OpenApiExample("Answer", answer, response_only=True))
        if body:
            examples.append(OpenApiExample("Request", body, request_only=True))
        return examples

    def get_description(self) -> str:  # type: ignore[override]
        text = super().get_description()
        scope = self.operation.scope
        return f"{text}\n\nNeeds the scope `{scope}`." if scope else text

    def get_extensions(self) -> Schema:
        scope = self.operation.scope
        extensions = dict(super().get_extensions())
        return {**extensions, "x-required-scope": scope} if scope else extensions

    # drf-spectacular has public names for neither of these two.
    def _is_list_view(self, serializer: Any = None) -> bool:
        # Only the action matters: the envelope of a list is a shape of its own.
        return serializer is None and self.action == "list"

    def _get_response_bodies(self, direction: Any = "response") -> Schema:
        bodies = super()._get_response_bodies(direction)
        for body in bodies.values():
            headers = {name: self._header(name) for name in self._common_headers()}
            body["headers"] = {**body.get("headers", {}), **headers}
        return {**bodies, **self._problems()}

    def _common_headers(self) -> list[str]:
        names = ["X-Request-Id"]
        if self.takes_key:
            names += ["X-Service-Sandbox", "RateLimit-Policy", "RateLimit"]
        return names

    def _codes(self) -> Iterator[str]:
        yield from COMMON_CODES
        if self.takes_key:
            yield from KEY_CODES
        if self.operation.scope:
            yield from ("insufficient-scope", "https-required")
        if self.method in {"POST", "PUT", "PATCH"}:
            yield from BODY_CODES
        if "{" in self.path:
            yield "not-found"
        if self.operation.idempotent_as:
            yield from IDEMPOTENCY_CODES
        yield from self.operation.problems

    def _problems(self) -> dict[str, Schema]:
        codes = set(self._codes())
        by_status: dict[int, list[ProblemKind]] = {}
        for kind in PROBLEM_KINDS.values():
            if kind.code in codes:
                by_status.setdefault(kind.status, []).append(kind)
        return {str(status): self._problem(by_status[status]) for status in by_status}

    def _problem(self, kinds: list[ProblemKind]) -> Schema:
        names = self._common_headers()
        if kinds[0].status in {401, 403}:
            names.append("WWW-Authenticate")
        if {kind.code for kind in kinds} & {
            "idempotency-in-progress",
            "rate-limited",
            "unavailable",
            "overloaded",
        }:
            names.append("Retry-After")
        self._component("schemas", "MemberError", MEMBER_ERROR)
        schema = self._component("schemas", "Problem", PROBLEM)
        examples = {kind.code: self._example(kind) for kind in kinds}
        return {
            "description": " ".join(f"`{k.code}`: {k.explanation}" for k in kinds),
            "headers": {name: self._header(name) for name in names},
            "content": {MEDIA_TYPE: {"schema": schema, "examples": examples}},
        }

    def _example(self, kind: ProblemKind) -> Schema:
        value = {
            # A fixed host keeps the document the same on every installation.
            "type": f"https://verify.example.com/problems/{kind.code}",
            "title": kind.title,
            "status": kind.status,
            "detail": kind.explanation,
            "instance": "/api/v1/reports",
            "code": kind.code,
            "requestId": "0192f3a1-7c1e-4f3a-9f0e-3b8a1c2d4e5f",
        }
        return self._component("examples", kind.code, {"value": value})

    def _header(self, name: str) -> Schema:
        return self._component("headers", name, HEADERS[name])

    def _component(self, type_: str, name: str, schema: Schema) -> Schema:
        component = ResolvedComponent(name, type_, schema, object=name)
        self.registry.register_on_missing(component)
        return component.ref
