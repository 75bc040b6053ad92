"""The client acts in its sandbox as the referee."""

from typing import Any

import pytest

from tests.world.clients import Api, error_codes
from tests.world.employer import create_reference, employment_item, result_of
from tests.world.referee import visit_as_referee
from verification.references.models import Reference

ASKED = {"refereeEmail": "referee@sandbox.test"}


@pytest.fixture
def reference(api: Api) -> Reference:
    return create_reference(api, **ASKED)


def path_of(reference: Reference) -> str:
    return f"/sandbox/reports/{reference.report_id}/reference"


def act(api: Api, reference: Reference, action: str, **more: Any) -> dict[str, Any]:
    """Act, run the check, and return its result."""
    answer = api.post(path_of(reference), {"action": action, **more})
    assert answer.status_code == 200, answer.content
    api.work()
    return result_of(api, reference)


def test_referee_confirms_what_the_subject_stated(api: Api, reference: Reference):
    result = act(api, reference, "answer")

    assert (result["status"], result["flags"]) == ("COMPLETED", [])
    reference.refresh_from_db()
    assert (reference.evidence or {})["userAgent"] == "Sandbox API"


def test_answers_replace_what_the_subject_stated(api: Api, reference: Reference):
    answers = {"jobTitle": "Driver", "wouldRehire": "NO", "employedTo": "2020-01-31"}

    result = act(api, reference, "answer", answers=answers)

    assert {flag["code"] for flag in result["flags"]} == {
        "JOB_TITLE_MISMATCH",
        "WOULD_NOT_REHIRE",
        "DATES_MISMATCH",
    }


def test_referee_does_not_know_the_employment(api: Api, reference: Reference):
    result = act(api, reference, "answer", answers={"employed": False})

    assert [flag["code"] for flag in result["flags"]] == ["EMPLOYMENT_NOT_FOUND"]


@pytest.mark.parametrize(
    ("action", "code"),
    [("decline", "REFEREE_DECLINED"), ("expire", "REFEREE_NO_ANSWER")],
)
def test_check_fails_without_an_answer(
    api: Api, reference: Reference, action: str, code: str
):
    assert act(api, reference, action)["failure"]["code"] == code


def test_referee_answers_once(api: Api, reference: Reference):
    act(api, reference, "answer")

    problem = api.refused(path_of(reference), {"action": "decline"})

    assert problem["code"] == "sandbox-action-not-possible"
    assert problem["possible"] == []
    assert "SUBMITTED" in problem["detail"]


def test_referee_who_is_not_asked_cannot_answer(api: Api):
    made = api.create(employment_item(**ASKED))

    problem = api.refused(
        f"/sandbox/reports/{made['id']}/reference", {"action": "answer"}
    )

    assert "has asked no referee yet" in problem["detail"]


def test_only_an_answer_has_answers(api: Api, reference: Reference):
    body = {"action": "decline", "answers": {"wouldRehire": "NO"}}

    problem = api.refused(path_of(reference), body)

    assert error_codes(problem) == {"#/answers": "not-allowed-here"}


def test_answer_that_the_page_would_refuse_is_refused(api: Api, reference: Reference):
    for body, place, code in (
        ({"reason": "I am busy"}, "#/reason", "not-allowed-here"),
        (
            {"answers": {"employedFrom": "2999-01-01"}},
            "#/answers/employedFrom",
            "out-of-range",
        ),
        (
            {"answers": {"employedFrom": "2023-02-01", "employedTo": "2023-01-31"}},
            "#/answers/employedTo",
            "out-of-range",
        ),
        # Before the first day that the subject stated
        (
            {"answers": {"employedTo": "1970-01-01"}},
            "#/answers/employedTo",
            "out-of-range",
        ),
    ):
        problem = api.refused(path_of(reference), {"action": "answer", **body})

        assert error_codes(problem) == {place: code}


def test_answers_that_contradict_each_other_are_refused(api: Api, reference: Reference):
    for answers, places in (
        (
            {"employed": False, "jobTitle": "Driver", "wouldRehire": "NO"},
            ["jobTitle", "wouldRehire"],
        ),
        ({"stillEmployed": True, "employedTo": "2023-01-31"}, ["employedTo"]),
    ):
        body = {"action": "answer", "answers": answers}

        problem = api.refused(path_of(reference), body)

        expected = {f"#/answers/{place}": "not-allowed-here" for place in places}
        assert error_codes(problem) == expected


def test_live_key_cannot_name_the_referee_of_the_sandbox(live_api: Api):
    problem = live_api.refused("/reports", {"reports": [employment_item(**ASKED)]})

    pointer = "#/reports/0/subject/refereeEmail"
    assert error_codes(problem)[pointer] == "not-allowed-here"


def test_any_other_referee_is_played_by_the_fixtures(api: Api):
    made = api.create(employment_item())
    api.work()

    assert api.report(made["id"])["status"] == "READY"


def test_page_of_the_referee_says_that_it_is_a_test(reference: Reference):
    page = visit_as_referee(reference)
    page.open()

    assert "This is a test. No real source is asked." in page.text()
