"""The reference: each operation and event of the API document as a page."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from typing import Any

import yaml
from django.conf import settings
from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from verification.api.guides import parser, render_samples, sample, trusted
from verification.api.problem_kinds import PROBLEM_KINDS, ProblemKind

# Deeper members are shown by the page of their own operation, or the example.
MAX_DEPTH = 4
# The service in examples of the document
EXAMPLE_ADDRESS = "https://verify.example.com"
# The noun that methods of the clients leave out, for each tag: `reports.get`
NOUNS = {
    "checks": "CheckDefinition",
    "corrections": "Correction",
    "erasures": "Erasure",
    "events": "Event",
    "monitoring": "Rule",
    "packages": "Package",
    "policy": "PolicyVersion",
    "reports": "Report",
    "sandbox": "Sandbox",
    "webhooks": "Webhook",
}
# The clients have no method for an alias of PATCH, nor for payment providers.
NOT_IN_CLIENTS = {"readAllAlertsByPut", "receivePaymentEvent"}
JSON_WORD = re.compile(r'"(?:\\.|[^"\\])*"|true|false|null')
PYTHON_WORDS = {"true": "True", "false": "False", "null": "None"}
# Longer enumerations, such as countries, show the first three values and the last.
MAX_VALUES = 30


@cache
def document() -> dict[str, Any]:
    """Return the OpenAPI document, read once in each process as it takes a second."""
    loaded: dict[str, Any] = yaml.load(
        settings.OPENAPI_FILE.read_bytes(), Loader=yaml.CSafeLoader
    )
    return loaded


@dataclass(frozen=True)
class Operation:
    id: str
    method: str
    """The HTTP method; `event` for an event that a receiver gets."""
    path: str
    """The path, or the name of an event."""
    title: str
    tag: str
    source: Mapping[str, Any]

    @property
    def address(self) -> str:
        return f"/docs/reference/{self.id}"

    @property
    def short_method(self) -> str:
        return {"delete": "DEL"}.get(self.method, self.method.upper())

    @property
    def description(self) -> str:
        text: str = self.source["description"]
        return text.partition("\n\nNeeds the scope")[0]

    @property
    def scope(self) -> str:
        keys = self.source["security"]
        return "".join(scope for key in keys for scope in key.get("Bearer", ()))

    def fits(self, words: Sequence[str]) -> bool:
        text = f"{self.title} {self.method} {self.path} {self.id}".lower()
        return all(word in text for word in words)


@cache
def operations() -> dict[str, Operation]:
    """Return the operations by their ids, in the order of the document's tags."""
    tags = [tag["name"] for tag in document()["tags"]]
    found = [*_operations("paths"), *_operations("webhooks")]
    found.sort(key=lambda each: tags.index(each.tag))
    return {each.id: each for each in found}


def _operations(member: str) -> Iterator[Operation]:
    for path, methods in document()[member].items():
        for method, source in methods.items():
            kind = method if member == "paths" else "event"
            title = source["summary"].rstrip(".")
            yield Operation(
                *(source["operationId"], kind, path, title, source["tags"][0], source)
            )


def groups(words: Sequence[str] = ()) -> list[tuple[str, list[Operation]]]:
    """Return the operations of each tag that have all of these words."""
    names = {tag["name"]: tag["name"].capitalize() for tag in document()["tags"]}
    names["receiver"] = "Events for your receiver"
    named = [
        (title, [o for o in operations().values() if o.tag == name and o.fits(words)])
        for name, title in names.items()
    ]
    return [(title, found) for title, found in named if found]


@cache
def operation_html(name: str, address: str) -> SafeString:
    """Return an operation's description and examples for the server at `address`."""
    operation = operations()[name]
    source = operation.source
    body = source.get("requestBody", {}).get("content", {}).get("application/json")
    parameters = [_parameter(each) for each in source.get("parameters", [])]
    places = {"path": "Path", "query": "Query", "header": "Headers"}
    context = {
        "operation": operation,
        "description": _markdown(operation.description),
        "parameters": [
            (title, [each for each in parameters if each["place"] == place])
            for place, title in places.items()
            if any(each["place"] == place for each in parameters)
        ],
        "body": _members(body["schema"]) if body else [],
        "answer": _members(_success(source)[1]),
        "status": _success(source)[0],
        "problems": list(_problems(source)),
        "examples": [trusted(text) for text in _examples(operation, address)],
    }
    return trusted(render_to_string("docs/operation.html", context))


def _markdown(text: str) -> SafeString:
    return trusted(parser().render(text))


def _resolve(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Follow references to the components of the document."""
    while "$ref" in schema:
        found: Any = document()
        for step in schema["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        schema = {**found, **{k: v for k, v in schema.items() if k != "$ref"}}
    return schema


def _choices(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return what a value may be besides null."""
    schema = _resolve(schema)
    inner = [_resolve(each) for each in schema.get("anyOf", [])]
    found = [choice for each in inner for choice in _choices(each)] or [schema]
    return [each for each in found if each.get("type") != "null"] or found


def _parameter(parameter: Mapping[str, Any]) -> dict[str, Any]:
    shown = _member(parameter["name"], parameter["schema"], False, 1)
    return {
        **shown,
        "place": parameter["in"],
        "is_required": parameter.get("required", False),
        "description": _markdown(parameter.get("description", "")),
    }


def _members(schema: Mapping[str, Any], depth: int = 0) -> list[dict[str, Any]]:
    """Describe the members of an object, or of the items of an array."""
    if depth == MAX_DEPTH:
        return []
    for choice in _choices(schema):
        if "items" in choice:
            return _members(choice["items"], depth)
        if "properties" in choice:
            required = choice.get("required", [])
            return [
                _member(name, member, name in required, depth)
                for name, member in choice["properties"].items()
            ]
    return []


def _member(
    name: str, schema: Mapping[str, Any], is_required: bool, depth: int
) -> dict[str, Any]:
    description = _resolve(schema).get("description", "")
    return {
        "name": name,
        "type": _type(schema),
        "values": _values(schema),
        "is_required": is_required,
        "is_nullable": any(e == {"type": "null"} for e in schema.get("anyOf", [])),
        "description": _markdown(description),
        "members": _members(schema, depth + 1),
    }


def _type(schema: Mapping[str, Any]) -> str:
    choice = _choices(schema)[0]
    kind = str(choice.get("type", "any value"))
    if kind == "array":
        least, most = choice.get("minItems"), choice.get("maxItems")
        size = f" of {least or 0} to {most}" if most else ""
        return f"array{size}: {_type(choice['items'])}"
    parts = [str(choice.get("format", kind))]
    if "maxLength" in choice and "format" not in choice:
        parts.append(f"up to {choice['maxLength']}")
    if "minimum" in choice and "maximum" in choice:
        parts.append(f"{choice['minimum']} to {choice['maximum']}")
    if default := _resolve(schema).get("default"):
        parts.append(f"default {default}")
    return ", ".join(parts)


def _values(schema: Mapping[str, Any]) -> list[str]:
    """Return the known values of an enumeration."""
    choices = _choices(schema)
    if "items" in choices[0]:
        return _values(choices[0]["items"])
    known = (each.get("enum", [each.get("const")]) for each in choices)
    found = [str(value) for values in known for value in values if value is not None]
    return [*found[:3], "…", found[-1]] if len(found) > MAX_VALUES else found


def _success(source: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return the status and the schema of the answer to a request that succeeds."""
    status, answer = next(iter(source["responses"].items()))
    content = _resolve(answer).get("content", {}).get("application/json", {})
    return status, content.get("schema", {})


def _problems(source: Mapping[str, Any]) -> Iterator[ProblemKind]:
    """Return the problems of this operation that few others have."""
    for code in _codes(source):
        if code == "validation-failed" or code not in _common_codes():
            yield PROBLEM_KINDS[code]


def _codes(source: Mapping[str, Any]) -> list[str]:
    failures = (_resolve(a) for s, a in source["responses"].items() if s[0] in "45")
    contents = (media for a in failures for media in a.get("content", {}).values())
    return [code for media in contents for code in media.get("examples", {})]


@cache
def _common_codes() -> set[str]:
    counted = Counter(c for o in operations().values() for c in _codes(o.source))
    return {code for code, count in counted.items() if count > len(operations()) / 4}


def _examples(operation: Operation, address: str) -> Iterator[str]:
    source = operation.source
    request = _example(source.get("requestBody", {}).get("content", {}))
    if operation.method == "event":
        name = f"{operation.path} application/json"
        yield render_samples("example-event", [sample(_json(request), "json", name)])
        return
    tabs = [sample(curl(operation, address), "sh", "curl")]
    if has_call(operation):
        tabs += [sample(call(operation, name), name) for name in ("python", "ts")]
    yield render_samples("example-request", tabs)
    status, answer = next(iter(source["responses"].items()))
    found = _example(_resolve(answer).get("content", {}))
    if found is not None:
        name = f"{status} {HTTPStatus(int(status)).phrase}"
        yield render_samples("example-answer", [sample(_json(found), "json", name)])


def _example(content: Mapping[str, Any]) -> Any:
    examples = content.get("application/json", {}).get("examples", {})
    return next((_resolve(each)["value"] for each in examples.values()), None)


def _json(value: Any) -> str:
    """Write an example, in which the service has this installation's address."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return text.replace(EXAMPLE_ADDRESS, settings.BASE_URL)


def curl(operation: Operation, address: str) -> str:
    """Return a command that sends the document's example of a request."""
    source = operation.source
    path = operation.path
    for parameter in source.get("parameters", []):
        if parameter["in"] == "path":
            name = parameter["name"]
            variable = "".join(f"_{c}" if c.isupper() else c for c in name).upper()
            path = path.replace(f"{{{name}}}", f"${variable}")
    lines = [f"curl {address}{path}"]
    if operation.method not in {"get", "post"}:
        lines.append(f"-X {operation.method.upper()}")
    request = _example(source.get("requestBody", {}).get("content", {}))
    if operation.method == "post" and request is None:
        lines.append("-X POST")
    lines.append('-H "Authorization: Bearer $KEY"')
    names = [each["name"] for each in source.get("parameters", [])]
    if request is not None:
        lines.append('-H "Content-Type: application/json"')
        if "Idempotency-Key" in names:
            lines.append('-H "Idempotency-Key: $(uuidgen)"')
        lines.append(f"-d '{_json(request)}'")
    return " \\\n  ".join(lines)


def has_call(operation: Operation) -> bool:
    """Return whether an example in Python and TypeScript can be made."""
    if operation.method == "event" or operation.id in NOT_IN_CLIENTS:
        return False
    parameters = operation.source.get("parameters", [])
    return not any(p["in"] == "query" and p.get("required") for p in parameters)


def client_method(operation: Operation) -> str:
    """Return the method of the TypeScript client, as `reports.get`."""
    name, noun = operation.id, NOUNS.get(operation.tag)
    if operation.tag in {"me", "balance"}:
        return operation.tag
    if name == "createReports":
        return "reports.createMany"
    if noun:
        name = re.sub(rf"(?<=[a-z]){noun}s?(?=[A-Z]|$)", "", name)
    name = re.sub("^export(?=[A-Z])", "", name)
    return f"{operation.tag}.{name[0].lower()}{name[1:]}"


def snake_case(name: str) -> str:
    return re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", name)


def call(operation: Operation, language: str) -> str:
    """Return a call of a client that sends the document's example of a request."""
    source = operation.source
    parameters = source.get("parameters", [])
    arguments = [p["name"] for p in parameters if p["in"] == "path"]
    name = f"client.{client_method(operation)}"
    request = _example(source.get("requestBody", {}).get("content", {}))
    body = [] if request is None else [_json(request)]
    if language == "ts":
        return f"await {name}({', '.join([*arguments, *body])});"
    body = [
        JSON_WORD.sub(lambda word: PYTHON_WORDS.get(word[0], word[0]), text)
        for text in body
    ]
    return f"{snake_case(name)}({', '.join([*map(snake_case, arguments), *body])})"


@cache
def problem_example(code: str) -> SafeString:
    """Return the document's example of a problem, or nothing."""
    found = document()["components"]["examples"].get(code)
    if found is None:
        return SafeString("")
    text = _json(_resolve(found)["value"])
    name = f"{PROBLEM_KINDS[code].status} application/problem+json"
    return trusted(render_samples("example", [sample(text, "json", name)]))
