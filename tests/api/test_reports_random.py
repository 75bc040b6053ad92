"""Whatever a body holds, it is accepted or refused: it never makes the service fail."""

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.world.clients import ATTESTED, HOSTED, Api, company, person
from tests.world.orders import EMPLOYMENT, PAYER

pytestmark = pytest.mark.slow

TEXTS = [
    "",
    " ",
    "\u0000",
    "\ud800",
    "\x1c",
    "IDENTITY",
    "INDIVIDUAL",
    "COMPANY",
    "SELF",
    "KE",
    "2024-02-29",
    "2026-01-20T10:00:00Z",
    "+254712345678",
    "x" * 501,
]
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([10**30, -(10**30), 2**63, 2**64])
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=30)
    | st.sampled_from(TEXTS)
)
anything = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=12), inner, max_size=4)
    ),
    max_leaves=12,
)
FULL = {
    **person(
        **EMPLOYMENT,
        email="w@acacia.test",
        phone="+254712345678",
        dateOfBirth="1990-01-31",
        country="KE",
        kraPin="A012345678Z",
    ),
    "checksRequested": ["IDENTITY", "KRA_PIN", "EMPLOYER_VERIFICATION"],
    "paymentMode": "THIRD_PARTY",
    "payer": PAYER,
    "draft": True,
    "reuse": True,
    "reference": "A-1",
}
TEMPLATES = [FULL, company(), {**person(), "consent": HOSTED}]


def paths_into(value: Any, before: tuple = ()) -> list[tuple]:
    """The path to every value within this one."""
    inner = value.items() if isinstance(value, dict) else ()
    if isinstance(value, list):
        inner = enumerate(value)
    return [before, *(way for k, v in inner for way in paths_into(v, (*before, k)))]


@st.composite
def bodies(draw: st.DrawFn) -> Any:
    """A good request of which up to three values are something else."""
    items = draw(st.lists(st.sampled_from(TEMPLATES), min_size=1, max_size=3))
    body: Any = {"reports": copy.deepcopy(items)}
    for _ in range(draw(st.integers(0, 3))):
        way = draw(st.sampled_from(paths_into(body)[1:]))
        place = body
        for step in way[:-1]:
            place = place[step]
        match draw(st.sampled_from(["replace", "remove", "add"])):
            case "replace":
                place[way[-1]] = draw(anything)
            case "remove":
                del place[way[-1]]
            case "add" if isinstance(place, dict):
                place[draw(st.text(max_size=12))] = draw(anything)
            case "add":
                place.append(draw(anything))
        if not body:
            break
    return body


OK = {200, 201, 400, 402, 409, 422}
bounded = settings(
    max_examples=80,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def post_and_check(api: Api, path: str, body: Any, **headers: str) -> None:
    answer = api.post(path, body, **headers)
    assert answer.status_code in OK, answer.content
    if answer.status_code >= 400:
        problem = answer.json()
        assert problem["code"] != "internal-error"
        for error in problem.get("errors", ()):
            assert error["code"] in MEMBER_CODES, error


MEMBER_CODES = {
    "required",
    "unknown-member",
    "invalid-type",
    "invalid-format",
    "invalid-choice",
    "too-long",
    "too-many",
    "too-few",
    "out-of-range",
    "duplicate",
    "unknown-check",
    "inactive-check",
    "subject-type-not-accepted",
    "missing-input",
    "consent-required",
    "not-allowed-here",
}


@bounded
@given(body=bodies())
@example(body={"reports": [{**FULL, "subject": None}]})
def test_create_never_crashes_when_the_request_is_nearly_valid(api: Api, body: Any):
    post_and_check(api, "/reports", body)
    post_and_check(api, "/reports/quote", body)


@bounded
@given(body=bodies())
def test_create_never_crashes_when_it_has_an_idempotency_key(api: Api, body: Any):
    post_and_check(api, "/reports", body, Idempotency_Key="one for all")


@bounded
@given(body=anything)
def test_create_never_crashes_when_the_body_is_random_json(api: Api, body: Any):
    post_and_check(api, "/reports", body)
    post_and_check(api, "/reports", {"reports": body})
    post_and_check(api, "/reports", {"reports": [body]})


@pytest.fixture
def draft(api: Api) -> str:
    return api.create(FULL)["id"]


@bounded
@given(body=bodies())
def test_edit_never_crashes_when_the_body_is_nearly_valid(
    api: Api, draft: str, body: Any
):
    reports = body.get("reports") if isinstance(body, dict) else None
    item = (
        reports[0] if isinstance(reports, list) and reports else {"consent": ATTESTED}
    )
    post_and_check(api, f"/reports/{draft}/draft", item)
    api.report(draft)


@bounded
@given(
    query=st.dictionaries(
        st.sampled_from(["page", "size", "search", "status", "from", "to", "x"]),
        st.text(max_size=20) | st.sampled_from([*TEXTS[:2], *TEXTS[4:]]),
    )
)
def test_list_never_crashes_when_the_query_is_random(api: Api, query: dict[str, str]):
    encodable = {k: v.encode(errors="replace").decode() for k, v in query.items()}

    assert api.get("/reports", **encodable).status_code in OK
