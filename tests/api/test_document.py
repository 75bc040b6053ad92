"""The OpenAPI document is one that generators and their clients can live with."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from verification.api.docs import document
from verification.checks.catalogue import CATALOGUE

Json = dict[str, Any]
Steps = tuple[Any, ...]
MAX_BYTES = 400_000
SCHEMAS: Json = document()["components"]["schemas"]


def parts(value: Any, steps: Steps = ()) -> Iterator[tuple[Steps, Json]]:
    """Yield each object of the document with the steps that lead to it."""
    inner: Any = enumerate(value) if isinstance(value, list) else ()
    if isinstance(value, dict):
        yield steps, value
        inner = value.items()
    for step, part in inner:
        yield from parts(part, (*steps, step))


PARTS = list(parts(document()))
OPERATIONS: list[Json] = [
    part for steps, part in PARTS if steps[:1] == ("paths",) and len(steps) == 3
]


def reachable(roots: list[Json]) -> set[str]:
    """Return the names of the schemas that are named in these, or below them."""
    found: set[str] = set()
    waiting = [json.dumps(roots)]
    while waiting:
        names = set(re.findall("#/components/schemas/([A-Za-z]+)", waiting.pop()))
        waiting += [json.dumps(SCHEMAS[name]) for name in names - found]
        found |= names
    return found


WEBHOOKS: list[Json] = list(document()["webhooks"].values())
ANSWERS = reachable(
    [each["responses"] for each in OPERATIONS]
    + [document()["components"]["responses"], *WEBHOOKS]
)


def test_document_is_small():
    assert len(settings.OPENAPI_FILE.read_bytes()) < MAX_BYTES


def test_every_operation_can_be_found_and_named():
    tags = {tag["name"] for tag in document()["tags"]}

    for each in [*OPERATIONS, *(hook["post"] for hook in WEBHOOKS)]:
        assert each["summary"]
        assert each["description"]
        assert set(each["tags"]) <= tags, each["operationId"]
        for parameter in each.get("parameters", ()):
            assert parameter["description"], (each["operationId"], parameter["name"])
        for answer in each["responses"].values():
            assert answer.get("$ref") or answer["description"], each["operationId"]
    assert all(each["name"] in json.dumps(OPERATIONS) for each in document()["tags"])
    # Generators write a file for each tag, and those of webhooks over the others.
    of_operations = {tag for each in OPERATIONS for tag in each["tags"]}
    assert not of_operations & {
        tag for hook in WEBHOOKS for tag in hook["post"]["tags"]
    }
    assert [server["url"] for server in document()["servers"]] == ["/"]


def test_answers_about_a_subject_can_be_erased():
    erasable = [e for e in OPERATIONS if "AnswerErased" in json.dumps(e["responses"])]

    assert {each["operationId"] for each in erasable} == {
        "createRule",
        "decideReport",
        "actOnConsent",
        "actOnPayment",
        "actOnReference",
    }


def test_every_list_takes_a_page_and_its_size():
    pages = {name for name, schema in SCHEMAS.items() if "totalPages" in str(schema)}
    lists = 0
    for each in OPERATIONS:
        schema = each["responses"].get("200", {}).get("content", {})
        schema = schema.get("application/json", {}).get("schema", {})
        if schema.get("$ref", "").rpartition("/")[2] in pages:
            named = {parameter["name"] for parameter in each["parameters"]}
            assert named >= {"page", "size"}, each["operationId"]
            lists += 1
    assert lists == len(pages)


def test_every_component_is_used_and_named_for_readers():
    named = set(re.findall(r"#/components/(\w+)/([\w.-]+)", json.dumps(document())))

    components = document()["components"]
    for kind in components.keys() - {"securitySchemes"}:
        for name in components[kind]:
            assert (kind, name) in named, name
            assert not re.search(r"(Body|Enum|\d)$", name)


def test_answers_are_open():
    """Generated clients take members and values that they do not know."""
    closed = {f"#/components/schemas/{n}" for n in SCHEMAS if "enum" in SCHEMAS[n]}
    for name in ANSWERS:
        for steps, part in parts(SCHEMAS[name]):
            assert part.get("additionalProperties") is not False, (name, steps)
            if part.get("$ref") in closed:
                assert steps[-2] == "anyOf", (name, steps)
        for _, part in parts(SCHEMAS[name]):
            options = part.get("anyOf", [])
            if any(option.get("$ref") in closed for option in options):
                assert {"type": "string"} in options, name


def test_requests_are_strict_and_enumerations_are_components():
    bodies = reachable([each.get("requestBody", {}) for each in OPERATIONS])

    for name in bodies:
        if "properties" in SCHEMAS[name]:
            assert SCHEMAS[name]["additionalProperties"] is False, name
    for steps, part in PARTS:
        assert part.get("default", "") is not None, steps
        if "enum" in part and len(part["enum"]) > 2:
            assert steps[:2] == ("components", "schemas"), steps
            assert len(steps) == 3, steps


def test_requests_name_all_checks_and_inputs():
    assert SCHEMAS["CheckName"]["enum"] == [check.name for check in CATALOGUE]
    for check in CATALOGUE:
        for entry in check.required_inputs:
            assert entry["key"] in SCHEMAS["SubjectInput"]["properties"]
            assert entry["key"] in SCHEMAS["Subject"]["properties"]


@pytest.mark.parametrize(
    ("members", "is_accepted"),
    [
        ({"checksRequested": ["IDENTITY"]}, True),
        ({"package": "loan-applicant"}, True),
        ({}, False),
        ({"checksRequested": ["IDENTITY", "IDENTITY"]}, False),
        ({"checksRequested": ["IDENTTY"]}, False),
        ({"checksRequested": ["IDENTITY"], "purposse": "Loan"}, False),
    ],
)
def test_schema_says_what_a_request_needs(members: Json, is_accepted: bool):
    subject = {"subjectType": "INDIVIDUAL", "fullName": "Wanjiku Kamau"}
    item = {"subject": subject, "purpose": "Loan", **members}

    schema = {"$ref": "#/components/schemas/ReportItem"}
    assert (list(faults(schema, item)) == []) == is_accepted


def test_examples_are_valid_against_their_schemas():
    examples = document()["components"]["examples"]
    checked = 0
    for steps, part in PARTS:
        found = part.get("examples", ()) if "schema" in part else ()
        for example in dict(found).values():
            if "$ref" in example:
                example = examples[example["$ref"].rpartition("/")[2]]
            assert list(faults(part["schema"], example["value"])) == [], steps
            checked += 1
    for name, schema in SCHEMAS.items():
        for steps, part in parts(schema):
            for value in part.get("examples", ()):
                assert list(faults(part, value)) == [], (name, steps)
    assert checked > 100


RESOURCE = Resource(document(), DRAFT202012)
REGISTRY: Registry[Any] = Registry().with_resource("urn:document", RESOURCE)


def faults(schema: Json, value: Any) -> Iterator[str]:
    absolute = json.loads(
        json.dumps(schema).replace('"#/components', '"urn:document#/components')
    )
    validator = Draft202012Validator(
        absolute,
        registry=REGISTRY,
        format_checker=Draft202012Validator.FORMAT_CHECKER,
    )
    for error in validator.iter_errors(value):
        yield f"{error.json_path}: {error.message}"
