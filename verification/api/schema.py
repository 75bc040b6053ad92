"""The OpenAPI document: pydantic shapes, and operations by their declarations.

Requests are described as they are validated: strict, and a member with a default is not
required. Answers are open, as they may gain members and values: docs/client/changes.md.
"""

import re
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from typing import Any, cast

from drf_spectacular.drainage import set_override
from drf_spectacular.extensions import (
    OpenApiAuthenticationExtension,
    OpenApiSerializerExtension,
)
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ComponentRegistry, ResolvedComponent
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse
from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode

from verification.api.content import JSON_LINES
from verification.api.examples import read_examples
from verification.api.operations import Operation
from verification.api.problem_kinds import PROBLEM_KINDS, ProblemKind
from verification.api.problems import MAX_ERRORS, MEDIA_TYPE
from verification.reports.status import LaunchObstacle

Schema = dict[str, Any]

REF = "#/components/schemas/"


# The names of components that are not those of the classes
NAMES = {
    "AttemptBody": "DeliveryAttempt",
    "Channel": "MessageChannel",
    "Comparison": "PolicyComparison",
    "Method": "ConsentMethod",
    "Mode": "ConsentMode",
    "NotificationError": "MessageError",
    "NotificationStatus": "MessageStatus",
    "Origin": "RequestOrigin",
    "Reason": "NameComparisonReason",
    "ResultStatus": "CheckResultStatus",
    "RuleBody": "MonitoringRule",
    "RuleCheckBody": "MonitoringRuleCheck",
    "RulePage": "MonitoringRulePage",
    "RuleRequest": "MonitoringRuleRequest",
    "RuleStatus": "MonitoringRuleStatus",
    "Severity": "AlertSeverity",
    "TestData": "WebhookTestData",
}
MOVED = ("type", "enum", "additionalProperties")
# Parts of requests are named so; any other shape gets the suffix Request there.
REQUEST_NAMES = ("Input", "Item", "Request")


class _Generator(GenerateJsonSchema):
    def field_title_should_be_set(self, schema: Any) -> bool:
        """Leave out the titles that pydantic makes of members' names."""
        return False

    def field_is_required(self, field: Any, total: bool) -> bool:
        """An answer has all its members, be they null."""
        return self.mode == "serialization" or super().field_is_required(field, total)

    def default_schema(self, schema: Any) -> Schema:
        """Leave out null, which says nothing, and the defaults of answers."""
        described = super().default_schema(schema)
        if self.mode == "serialization" or described.get("default") is None:
            described.pop("default", None)
        return described


class ShapeExtension(OpenApiSerializerExtension):
    target_class = "pydantic.BaseModel"
    match_subclasses = True
    priority = 1

    def get_name(self, auto_schema: AutoSchema, direction: str) -> str:
        # Another shape may contain this one and have registered it.
        set_override(self.target, "suppress_collision_warning", True)
        return _component_name(self.target.__name__).removesuffix("Request")

    def map_serializer(self, auto_schema: AutoSchema, direction: str) -> Schema:
        schema = json_schema(self.target, is_request=direction == "request")
        for name, definition in schema.pop("$defs").items():
            register(auto_schema.registry, "schemas", name, definition)
        return schema


def register(
    registry: ComponentRegistry, kind: str, name: str, described: Schema
) -> Schema:
    """Add a component, unless it is there, and return a reference to it."""
    # Any object will do: the names of components are unique.
    component = ResolvedComponent(name, kind, described, object=name)
    registry.register_on_missing(component)
    return component.ref


def json_schema(shape: type[BaseModel], *, is_request: bool) -> Schema:
    """Return the schema of a shape, with the components that it names as `$defs`."""
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
    titled: Schema = {}
    schema = _name_parts(_without_title(schema), names, titled)
    definitions = {
        names[name]: _name_parts(_without_title(definition), names, titled)
        for name, definition in definitions.items()
    } | titled
    if not is_request:
        closed = {REF + n for n, part in definitions.items() if "enum" in part}
        schema = _opened(schema, closed)
        definitions = _opened(definitions, closed) | _any_of(closed)
    return {**schema, "$defs": definitions}


def _definition_name(name: str, definition: Schema, *, is_request: bool) -> str:
    name = _component_name(name)
    # An enumeration is the same both ways.
    if not is_request or "properties" not in definition:
        return name
    return name if name.endswith(REQUEST_NAMES) else f"{name}Request"


def _component_name(name: str) -> str:
    name = re.sub(r"[^A-Za-z0-9.]", "", name)
    return NAMES.get(name, name.removesuffix("Body"))


def _without_title(schema: Schema) -> Schema:
    return {name: value for name, value in schema.items() if name != "title"}


def _name_parts(schema: Any, names: dict[str, str], titled: Schema) -> Any:
    """Rename references, and move parts with a title to `titled`: they are components.

    The description of a part stays in its place.
    """
    if isinstance(schema, list):
        return [_name_parts(item, names, titled) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if isinstance(name := schema.get("title"), str):
        titled[name] = {key: schema[key] for key in MOVED if key in schema}
        rest = {k: v for k, v in schema.items() if k not in {"title", *MOVED}}
        return {"$ref": REF + name, **rest}
    return {
        key: REF + names.get(value.removeprefix(REF), value.removeprefix(REF))
        if key == "$ref" and isinstance(value, str)
        else _name_parts(value, names, titled)
        for key, value in schema.items()
    }


_TEXT: Schema = {"type": "string"}


def _opened(schema: Any, closed: set[str]) -> Any:
    """Let an answer gain members, and its enumerations (`closed`) values."""
    if isinstance(schema, list):
        return [_opened(item, closed) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("$ref") in closed:
        return {**schema, "$ref": REF + _any_name(schema["$ref"])}
    return {
        key: _opened(value, closed)
        for key, value in schema.items()
        if (key, value) != ("additionalProperties", False)
    }


def _any_name(reference: str) -> str:
    return f"Any{reference.removeprefix(REF)}"


def _any_of(references: Iterable[str]) -> dict[str, Schema]:
    """Return a component for each enumeration that takes its values and any other.

    `anyOf` the enumeration or a string is what generators make types of that know the
    values and take others. An enumeration itself is closed, because requests use it.
    The component has a name of its own, since some generators name a part within
    another by both, and `status` in CheckResult would replace CheckResultStatus.
    """
    return {
        _any_name(reference): {"anyOf": [{"$ref": reference}, _TEXT]}
        for reference in references
    }


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
    "insufficient-scope",
    "network-not-allowed",
    "workspace-suspended",
    "https-required",
    "rate-limited",
)
IDEMPOTENCY_CODES = (
    "idempotency-in-progress",
    "idempotency-key-reused",
)
BODY_CODES = (
    "malformed-body",
    "request-timeout",
    "body-too-large",
    "unsupported-media-type",
)

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
            "$ref": f"{REF}AnyProblemCode",
            "description": "For programs.",
        },
        "requestId": {**_TEXT, "description": "Finds this request in the log."},
        "requiredScope": {**_TEXT, "description": "With insufficient-scope."},
        "reportStatus": {**_TEXT, "description": "With report-not-…: its status."},
        "consentStatus": {**_TEXT, "description": "With consent-not-resendable."},
        "paymentStatus": {**_TEXT, "description": "With payment-not-resendable."},
        "pauseReason": {**_TEXT, "description": "With rule-not-resumable."},
        "possible": {
            "type": "array",
            "description": "With sandbox-action-not-possible: the possible actions.",
            "items": _TEXT,
        },
        "decisionId": {
            "anyOf": [{**_TEXT, "format": "uuid"}, {"type": "null"}],
            "description": "With decision-conflict: the decision that came first.",
        },
        "topUpUrl": {
            **_TEXT,
            "format": "uri",
            "description": "With insufficient-balance, where payments are taken: the "
            "page where anybody can top up the workspace.",
        },
        "reasons": {
            "type": "array",
            "description": "With report-not-launchable.",
            "items": {"$ref": f"{REF}AnyLaunchObstacle"},
        },
        "errors": {
            "type": "array",
            "description": "With validation-failed: all broken rules, up to 100.",
            "maxItems": MAX_ERRORS,
            "items": {"$ref": f"{REF}MemberError"},
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
PROBLEM_PARTS: dict[str, Schema] = {
    "Problem": PROBLEM,
    "ProblemCode": {**_TEXT, "enum": sorted(PROBLEM_KINDS)},
    "LaunchObstacle": {**_TEXT, "enum": [*LaunchObstacle]},
    **_any_of([f"{REF}ProblemCode", f"{REF}LaunchObstacle"]),
    "MemberError": MEMBER_ERROR,
}
# Members of the problems' examples, beside those that every problem has
EXAMPLE_MEMBERS: dict[str, Schema] = {
    "validation-failed": {
        "detail": "reports[0].subject.idNumber is missing; IDENTITY needs idNumber.",
        "errors": [
            {
                "pointer": "#/reports/0/subject/idNumber",
                "code": "missing-input",
                "detail": "This is missing; IDENTITY needs idNumber.",
            }
        ],
    },
    "insufficient-balance": {
        "detail": "This needs KES 4,500.00 and the workspace has KES 2,480.00, its "
        "credit included. Top up and try again."
    },
    "insufficient-scope": {"requiredScope": "reports:create"},
    "report-not-launchable": {
        "reportStatus": "DRAFT",
        "reasons": ["CONSENT_OUTSTANDING"],
    },
    "report-not-editable": {"reportStatus": "RUNNING"},
    "report-not-cancellable": {"reportStatus": "READY"},
    "report-not-retryable": {"reportStatus": "READY"},
}
HEADERS: dict[str, Schema] = {
    "X-Request-Id": {
        "description": "The id of the request: its own X-Request-Id, or a new one.",
        "schema": {**_TEXT, "pattern": "^[A-Za-z0-9._-]{1,128}$"},
    },
    "Idempotent-Replayed": {
        "description": "There when the answer is an earlier one, given again.",
        "schema": {**_TEXT, "enum": ["true"]},
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
        "description": "What is left of it, and the seconds until it starts again.",
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


def complete_webhooks(
    result: Schema, generator: SchemaGenerator, **kwargs: Any
) -> Schema:
    """Add the components of webhooks, and say that their requests have no key."""
    for methods in result["webhooks"].values():
        methods["post"]["security"] = []
    return {**result, "components": generator.registry.build({})}


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


IDEMPOTENCY_KEY = OpenApiParameter(
    "Idempotency-Key",
    {"type": "string", "minLength": 1, "maxLength": 120, "pattern": "^[ -~]+$"},
    OpenApiParameter.HEADER,
    description="A repeated request with the same key gets the first answer again and "
    "creates nothing. Remembered for 72 hours.",
)


def _capitalize(code: str) -> str:
    return "".join(map(str.capitalize, code.split("-")))


def _parameter_schema(member: Schema) -> Schema:
    """A parameter is absent rather than null."""
    (option,) = (o for o in member.get("anyOf", [member]) if o.get("type") != "null")
    kept = {"default": member["default"]} if "default" in member else {}
    return {k: v for k, v in option.items() if k != "description"} | kept


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
        answers = {declared.media_type: declared.answer}
        if declared.line:
            answers[JSON_LINES] = declared.line
        description = declared.outcome or f"{declared.summary}."
        return {
            (declared.status, kind) if kind else declared.status: OpenApiResponse(
                answer, description=description
            )
            for kind, answer in answers.items()
        }

    def get_override_parameters(self) -> list[Any]:
        declared, view = self.operation, cast(Any, self.view)
        parameters = self._query_parameters(declared.query) if declared.query else []
        if declared.idempotent_as:
            parameters.append(IDEMPOTENCY_KEY)
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

    def _query_parameters(self, shape: type[BaseModel]) -> list[OpenApiParameter]:
        schema = json_schema(shape, is_request=True)
        for name, definition in schema["$defs"].items():
            self._component("schemas", name, definition)
        return [
            OpenApiParameter(
                name,
                _parameter_schema(member),
                OpenApiParameter.QUERY,
                required=name in schema.get("required", []),
                description=member.get("description", ""),
            )
            for name, member in schema["properties"].items()
        ]

    def get_examples(self) -> list[OpenApiExample]:
        found = read_examples()["operations"].get(self.operation.name, {})
        examples = []
        if answer := found.get("answer"):
            examples.append(OpenApiExample("Answer", answer, response_only=True))
        if body := found.get("request"):
            examples.append(OpenApiExample("Request", body, request_only=True))
        return examples

    def get_description(self) -> str:  # type: ignore[override]
        text = super().get_description()
        scope = self.operation.scope
        return f"{text}\n\nNeeds the scope `{scope}`." if scope else text

    # drf-spectacular has public names for neither of these two.
    def _is_list_view(self, serializer: Any = None) -> bool:
        # Only the action matters: the envelope of a list is a shape of its own.
        return serializer is None and self.action == "list"

    def _get_response_bodies(self, direction: Any = "response") -> Schema:
        bodies = super()._get_response_bodies(direction)
        for body in bodies.values():
            names = self._common_headers()
            if self.operation.idempotent_as:
                names.append("Idempotent-Replayed")
            headers = {name: self._header(name) for name in names}
            body["headers"] = {**body.get("headers", {}), **headers}
            for content in body.get("content", {}).values():
                for name, example in content.get("examples", {}).items():
                    content["examples"][name] = self._shared_example(example)
        return {**bodies, **self._problems()}

    def _shared_example(self, example: Schema) -> Schema:
        for name, value in read_examples()["shared"].items():
            if example["value"] == value:
                return self._component("examples", name, example)
        return example

    def _common_headers(self) -> list[str]:
        names = ["X-Request-Id"]
        if self.takes_key:
            names += ["X-Service-Sandbox", "RateLimit-Policy", "RateLimit"]
        return names

    def _codes(self) -> Iterator[str]:
        yield from COMMON_CODES
        if self.takes_key:
            yield from KEY_CODES
        if self.method in {"POST", "PUT", "PATCH"}:
            yield from BODY_CODES
        if "{" in self.path:
            yield "not-found"
        if self.operation.idempotent_as:
            yield from IDEMPOTENCY_CODES
        yield from self.operation.problems
        yield from getattr(self.view, "common_problems", {})

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
        for part, schema in PROBLEM_PARTS.items():
            self._component("schemas", part, schema)
        examples = {kind.code: self._example(kind) for kind in kinds}
        content = {"schema": {"$ref": f"{REF}Problem"}, "examples": examples}
        described = {
            "description": " ".join(f"`{k.code}`: {k.explanation}" for k in kinds),
            "headers": {name: self._header(name) for name in names},
            "content": {MEDIA_TYPE: content},
        }
        shared = self._shared_name(kinds)
        return self._component("responses", shared, described) if shared else described

    def _shared_name(self, kinds: list[ProblemKind]) -> str:
        """Return the name of the response as a component; "" if it is not shared."""
        if not self.takes_key:
            return ""
        if len(kinds) == 1:
            return _capitalize(kinds[0].code)
        if any(kind.code in self.operation.problems for kind in kinds):
            return "Or".join(_capitalize(kind.code) for kind in kinds)
        common = getattr(self.view, "common_problems", {})
        names = [common[kind.code] for kind in kinds if kind.code in common]
        if names:
            return names[0]
        return HTTPStatus(kinds[0].status).phrase.replace(" ", "")

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
            **EXAMPLE_MEMBERS.get(kind.code, {}),
        }
        return self._component("examples", kind.code, {"value": value})

    def _header(self, name: str) -> Schema:
        return self._component("headers", name, HEADERS[name])

    def _component(self, kind: str, name: str, described: Schema) -> Schema:
        return register(self.registry, kind, name, described)
