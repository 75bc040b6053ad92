"""The words of problems: they name the place, what is wrong there, and the way out."""

import inspect
import re
from collections.abc import Iterator
from itertools import product
from typing import Any, get_args

import pytest
from django.test import Client
from pydantic import BaseModel
from pydantic_core.core_schema import ErrorType

from tests.world.clients import ATTESTED, Api, person
from tests.world.orders import with_value
from verification.api.operations import Operation
from verification.api.urls import configuration, router
from verification.reports.request import validate_shape
from verification.values.shapes import Shape

# Beginnings of the sentences of pydantic, Django REST framework and Python's json
LIBRARY_WORDS = re.compile(
    "Input |List should|Dictionary |String should|Field required|Extra |Value error|"
    "Unable to|Keys should|after validation|Assertion|Expecting|Unterminated|"
    "Invalid control|JSON parse|pydantic|Object has no",
)
WRONG: list[Any] = [None, 5, -1, 1.5, 10**30, "", " ", "x", "x" * 3000, True, [], {}]
WRONG += [
    "9" * 5000,
    ["x"] * 600,
    [None],
    {"x": 1},
    "2026-11-24T00:00:00Z",
    ["x" * 3000],
]


def shapes_of_requests() -> set[type[Shape]]:
    """Return the shapes of all bodies and queries, and those inside them."""
    found: set[type[Shape]] = set()
    views = [viewset for _prefix, viewset, _name in router.registry]
    for view in [*views, configuration.cls]:
        for name in dir(view):
            declared = getattr(inspect.getattr_static(view, name), "operation", None)
            if isinstance(declared, Operation):
                found |= {*_inside(declared.body), *_inside(declared.query)}
    return found


def _inside(annotation: Any) -> Iterator[type[Shape]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        for field in annotation.model_fields.values():
            yield from _inside(field.annotation)
    for part in get_args(annotation):
        yield from _inside(part)


def test_no_fault_has_the_words_or_the_code_of_a_library():
    shapes = shapes_of_requests()
    faults = {
        (fault.code, fault.detail)
        for shape in shapes
        for field, value in product(shape.model_fields.values(), WRONG)
        for fault in validate_shape(shape, {str(field.alias): value})
    }
    faults |= {(f.code, f.detail) for s in shapes for f in validate_shape(s, "x")}

    assert {"ReportItem", "SubjectInput", "RuleRequest"} <= {s.__name__ for s in shapes}
    assert len(faults) > 30
    for code, detail in faults:
        assert not LIBRARY_WORDS.search(detail), detail
        assert "{" not in detail
        assert code not in get_args(ErrorType)
        assert "API document" not in detail, "an error that SHAPE_FAULTS lacks"


def test_text_that_is_no_json_is_refused_with_its_place(api: Api):
    for text in ('{"a" 1}', "{", '{"a": "x', "x", '{"a": 1} 2'):
        problem = api.raw("/reports", text).json()

        assert problem["code"] == "malformed-body"
        assert problem["detail"].startswith("The body is not JSON from line 1, column ")
        assert not LIBRARY_WORDS.search(problem["detail"])


DETAILS: list[tuple[dict[str, Any], str]] = [
    (
        {"subject/idNumber": None},
        "reports[1].subject.idNumber is missing; IDENTITY needs idNumber.",
    ),
    ({"purpose": None}, "reports[1].purpose must not be null."),
    (
        {"purpose": "", "reference": 5},
        "reports[1].purpose must not be empty, and 1 more.",
    ),
    (
        {"subject/country": "Kenya"},
        "reports[1].subject.country must be a country code of two capital letters; "
        "write KE.",
    ),
    (
        {"subject/country": "Atlantis"},
        "reports[1].subject.country must be a country code of two capital letters, "
        "such as KE.",
    ),
    (
        {"subject/idNumber": "31234561.0"},
        "reports[1].subject.idNumber must be in the form of country KE: 1 to 9 digits.",
    ),
    (
        {"subject/registrationNumber": "PVT-1"},
        "reports[1].subject.registrationNumber is for a company only.",
    ),
    (
        {"consent": None, "checksRequested": ["IDENTITY", "CRB_SCORE"]},
        "reports[1].consent is needed for IDENTITY, CRB_SCORE.",
    ),
    (
        {"checksRequested": ["IDENTITY", "IDENTITY"], "purpose": 1},
        "reports[1].purpose must be a string, and 1 more.",
    ),
]


def test_detail_is_the_first_fault_with_its_place(api: Api):
    fine = {**person(), "checksRequested": ["IDENTITY"], "consent": ATTESTED}
    for members, detail in DETAILS:
        wrong = fine
        for path, value in members.items():
            wrong = with_value(wrong, path, value)

        problem = api.refused("/reports", {"reports": [fine, wrong]})
        assert problem["detail"] == detail


def test_time_in_place_of_a_date_is_refused_with_the_form(api: Api):
    answer = api.get("/reports", **{"from": "2026-11-24T00:00:00Z"})

    assert answer.status_code == 400
    assert answer.json()["errors"][0]["code"] == "invalid-format"
    assert answer.json()["detail"] == (
        "The parameter from must be a date without a time, as YYYY-MM-DD, such as "
        "2026-01-31."
    )


def test_fault_of_an_operation_keeps_its_subject(api: Api):
    problem = api.patch("/monitoring/alerts/read-all", {"a": 1}).json()

    assert problem["detail"] == "a: This operation takes no members."


@pytest.mark.parametrize(
    ("name", "value", "beginning"),
    [
        ("page", "x", "The parameter page must be an integer."),
        ("limit", "5", "The parameter limit is not known; known here: from, "),
    ],
)
def test_wrong_parameter_is_named_once(api: Api, name, value, beginning):
    detail = api.get("/reports", **{name: value}).json()["detail"]

    assert detail.startswith(beginning)


NEAREST = {
    "/report": "/api/v1/reports",
    "/reports/": "/api/v1/reports",
    "/reports/4711": "/api/v1/reports/{reportId}",
    "/reports/nonsense": "/api/v1/reports/{reportId}",
    "/reports/qoute": "/api/v1/reports/quote",
    "/reports/4711/lunch": "/api/v1/reports/{reportId}/launch",
    "/webhook/config": "/api/v1/webhooks/config",
    "/checks": "/api/v1/checks/definitions",
    "/zzz": "",
    "/" + "reports/" * 1000: "",
}


def test_wrong_address_names_the_nearest(client: Client):
    for path, nearest in NEAREST.items():
        problem = client.get(f"/api/v1{path}").json()

        assert problem["code"] == "not-found"
        assert problem["detail"].startswith("The API has no such address. ")
        named = re.findall("/api/v1/[^ ]*(?=[.])", problem["detail"])
        assert named == [nearest] * bool(nearest), path


def test_wrong_address_tells_nothing_of_objects(api: Api, another_api: Api):
    own, foreign = api.create(person())["id"], another_api.create(person())["id"]

    details = {
        api.get(f"/reports/{report}/lunch").json()["detail"]
        for report in (own, foreign, "01920000-0000-7000-8000-000000000000")
    }

    assert len(details) == 1


@pytest.mark.parametrize(
    ("header", "found"),
    [
        (None, "The request has no Authorization header."),
        ("KEY", "The Authorization header has the key without the word Bearer."),
        ("Token KEY", "The Authorization header has another form."),
    ],
)
def test_request_without_bearer_is_told_the_form(
    api: Api, client: Client, header: str | None, found: str
):
    headers = {"Authorization": header.replace("KEY", api.text)} if header else {}

    problem = client.get("/api/v1/reports", headers=headers).json()

    assert problem["code"] == "authentication-required"
    assert problem["detail"] == (
        f"{found} Send “Authorization: Bearer” followed by a space and your API key."
    )
