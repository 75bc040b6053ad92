"""Clients decide about reports over the API, and read the decisions."""

import json
from typing import Any

import pytest

from tests.world.clients import Api, erase, error_codes
from tests.world.decisions import (
    APPROVE,
    DECLINE,
    create_ready_report,
    decide,
    demand_second,
)
from tests.world.decisions import report_id as report_id
from tests.world.decisions import workspace as workspace
from tests.world.deliveries import configure_receiver
from tests.world.orders import create_report_with_status
from verification.api.events import EVENTS
from verification.api.examples import read_examples
from verification.api.report_shapes import DecisionBody
from verification.decisions.models import Decision, ReasonCode
from verification.privacy.models import Origin
from verification.privacy.objections import object_to_use
from verification.reports.models import Report
from webhooks.events import envelope
from webhooks.models import Delivery, Event
from workspaces.models import Scope

NOTE = "Two loans in arrears"


def refused(api: Api, report_id: str, body=DECLINE, **more) -> dict:
    return api.refused(f"/reports/{report_id}/decision", {**body, **more})


def test_report_shows_the_decision_with_reasons_and_note(
    deciding_api: Api, report_id: str
):
    assert deciding_api.report(report_id)["decision"] is None

    made = decide(deciding_api, report_id, note=NOTE)

    assert made["state"] == "FINAL"
    assert made["reasonCodes"] == ["ADVERSE_CREDIT"]
    assert made["note"] == NOTE
    assert made["madeBy"] == "API_KEY"
    assert made["madeByName"] == str(deciding_api.key)
    report = deciding_api.report(report_id)
    assert report["decision"] == made
    assert report["proposedDecision"] is None
    assert report["updatedAt"] == made["decidedAt"]


def test_note_is_sealed(deciding_api: Api, report_id: str):
    made = decide(deciding_api, report_id, note=NOTE)

    (stored,) = Decision.objects.extra(select={"raw": "content"}).values_list("raw")[0]
    assert NOTE.encode() not in bytes(stored)
    assert Decision.objects.get(pk=made["id"]).note == NOTE


def test_example_of_a_decision_has_its_shape(deciding_api: Api, report_id: str):
    made = decide(deciding_api, report_id)

    example = read_examples()["parts"]["decision"]
    assert made.keys() == example.keys()
    read = DecisionBody.model_validate(example)
    assert read.model_dump(mode="json", by_alias=True) == example


def test_reason_that_contradicts_a_result_is_refused(deciding_api: Api, report_id: str):
    """The person, and a notice of the decline, would state a false reason."""
    codes = ["OWN_CRITERIA", "IDENTITY_NOT_FOUND"]

    for status in ("DECLINED", "APPROVED"):
        body = {"status": status, "reasonCodes": codes}
        (error,) = refused(deciding_api, report_id, body)["errors"]
        assert error["pointer"] == "#/reasonCodes/1"
        assert error["code"] == "not-allowed-here"
        assert "contradicts the result of IDENTITY" in error["detail"]
    missing = create_ready_report(deciding_api, "90000001")
    assert decide(deciding_api, missing, reasonCodes=codes)["reasonCodes"] == codes


def test_report_that_ended_partial_is_decided(deciding_api: Api):
    report_id = create_report_with_status(deciding_api, "PARTIAL ended")

    assert decide(deciding_api, report_id, APPROVE)["status"] == "APPROVED"


@pytest.mark.parametrize("status", ["DRAFT", "PARTIAL on the way", "CANCELLED"])
def test_report_that_has_no_result_is_not_decided(deciding_api: Api, status: str):
    report_id = create_report_with_status(deciding_api, status)

    problem = refused(deciding_api, report_id)

    assert (problem["status"], problem["code"]) == (409, "report-not-decidable")
    assert problem["reportStatus"] == status.split()[0]
    assert not Decision.objects.exists()


def test_report_is_not_decided_after_an_objection(deciding_api: Api, report_id: str):
    object_to_use(Report.objects.get().pk, Origin.CLIENT, requested_by="client")

    problem = refused(deciding_api, report_id)

    assert problem["code"] == "report-not-decidable"
    assert "objected" in problem["detail"]


def test_erased_report_is_not_decided(deciding_api: Api, report_id: str):
    erase(deciding_api, report_id)

    assert refused(deciding_api, report_id)["code"] == "report-erased"


def test_suspended_workspace_decides_nothing(deciding_api: Api, report_id: str):
    deciding_api.workspace.suspend("Unpaid")

    assert refused(deciding_api, report_id)["code"] == "workspace-suspended"
    assert not Decision.objects.exists()


def test_report_of_others_is_not_found(
    deciding_api: Api, another_api: Api, live_api, report_id: str
):
    for other in (another_api, live_api):
        key = Api(other.workspace, other.environment, scopes=list(Scope.values))
        assert refused(key, report_id)["code"] == "not-found"
        assert other.get(f"/reports/{report_id}/decisions").status_code == 404


def test_keys_decide_only_with_the_scope(api: Api, report_id: str):
    problem = refused(api, report_id)

    assert problem["requiredScope"] == "decisions:write"
    assert "decisions:write" not in api.key.scopes


FAULTS: list[tuple[dict[str, Any], dict[str, str]]] = [
    ({}, {"#/status": "required"}),
    ({"status": "MAYBE"}, {"#/status": "invalid-choice"}),
    ({"status": "DECLINED"}, {"#/reasonCodes": "too-few"}),
    (
        {"status": "APPROVED", "reasonCodes": ["TALL"]},
        {"#/reasonCodes/0": "invalid-choice"},
    ),
    (
        {"status": "DECLINED", "reasonCodes": ["OWN_CRITERIA"] * 2},
        {"#/reasonCodes/1": "duplicate"},
    ),
    ({**DECLINE, "reasonCodes": ["A"] * 11}, {"#/reasonCodes": "too-many"}),
    ({**DECLINE, "note": "x" * 1001}, {"#/note": "too-long"}),
    ({**DECLINE, "replaces": "no"}, {"#/replaces": "invalid-format"}),
    ({**DECLINE, "reason": "no"}, {"#/reason": "unknown-member"}),
]


def test_faults_name_their_place(deciding_api: Api, report_id: str):
    for body, faults in FAULTS:
        problem = deciding_api.refused(f"/reports/{report_id}/decision", body)

        assert error_codes(problem) == faults
    assert not Decision.objects.exists()


def test_inactive_reason_is_refused(deciding_api: Api, report_id: str):
    decide(deciding_api, create_ready_report(deciding_api, "22222222"))
    ReasonCode.objects.filter(code="ADVERSE_CREDIT").update(active=False)

    problem = refused(deciding_api, report_id)

    assert error_codes(problem) == {"#/reasonCodes/0": "invalid-choice"}


def test_decision_keeps_the_words_of_its_reasons(deciding_api: Api, report_id: str):
    decide(deciding_api, report_id)
    ReasonCode.objects.update(text="Other words", text_sw="Maneno mengine")

    (reason,) = Decision.objects.get().reasons

    assert reason["text"] == "Adverse information at a credit bureau"
    assert reason["textSw"] == "Taarifa mbaya katika ofisi ya mikopo"


def test_new_decision_names_the_one_that_it_replaces(deciding_api: Api, report_id: str):
    first = decide(deciding_api, report_id, {"status": "REVIEW"})

    for replaces in ({}, {"replaces": report_id}):
        problem = refused(deciding_api, report_id, **replaces)
        assert (problem["status"], problem["code"]) == (409, "decision-conflict")
        assert problem["decisionId"] == first["id"]
    second = decide(deciding_api, report_id, replaces=first["id"])

    assert deciding_api.report(report_id)["decision"] == second
    listed = deciding_api.get(f"/reports/{report_id}/decisions").json()
    assert listed["content"] == [second, first]


def test_report_takes_a_limited_number_of_decisions_from_keys(
    deciding_api: Api, monkeypatch, report_id: str
):
    monkeypatch.setattr("verification.decisions.decide.MAX_DECISIONS", 1)
    first = decide(deciding_api, report_id, {"status": "REVIEW"})

    problem = refused(deciding_api, report_id, replaces=first["id"])

    assert (problem["status"], problem["code"]) == (409, "report-not-decidable")
    assert "no more from keys" in problem["detail"]


def test_first_decision_replaces_nothing(deciding_api: Api, report_id: str):
    problem = refused(deciding_api, report_id, replaces=report_id)

    assert (problem["code"], problem["decisionId"]) == ("decision-conflict", None)
    assert problem["detail"].endswith("Leave `replaces` out.")


def test_repeated_request_decides_once(deciding_api: Api, report_id: str):
    other_id = create_ready_report(deciding_api, "22222222")

    def post(report: str):
        path = f"/reports/{report}/decision"
        return deciding_api.post(path, DECLINE, Idempotency_Key="k-1")

    answers = [post(report_id), post(report_id), post(other_id)]

    assert [answer.status_code for answer in answers] == [201, 201, 422]
    assert answers[0].json() == answers[1].json()
    assert answers[1]["Idempotent-Replayed"] == "true"
    assert Decision.objects.count() == 1
    erase(deciding_api, report_id)
    assert post(report_id).json()["code"] == "answer-erased"


def test_event_tells_the_decision_to_receivers_that_enable_it(
    deciding_api: Api, report_id: str
):
    configure_receiver(deciding_api.workspace)
    decide(deciding_api, report_id, note=NOTE)

    event = Event.objects.get(name="report.decided")
    sent = json.loads(envelope(event))
    read = EVENTS["report.decided"].model_validate(sent)
    assert read.model_dump(mode="json", by_alias=True) == sent
    assert sent["data"]["decision"]["reasonCodes"] == ["ADVERSE_CREDIT"]
    assert NOTE not in json.dumps(sent)
    assert Delivery.objects.filter(event=event).exists()


def test_event_is_not_sent_to_receivers_that_do_not_enable_it(deciding_api: Api):
    configure_receiver(deciding_api.workspace, events=["report.ready"])
    decide(deciding_api, create_ready_report(deciding_api, "22222222"))

    assert Delivery.objects.filter(event__name="report.ready").exists()
    assert not Delivery.objects.filter(event__name="report.decided").exists()


def test_timeline_tells_who_decided(deciding_api: Api, report_id: str):
    decide(deciding_api, report_id)

    last = deciding_api.get(f"/reports/{report_id}/events").json()["events"][-1]
    assert (last["trigger"], last["from"], last["to"]) == ("decided", "READY", "READY")
    assert last["actor"] == f"key {deciding_api.key}"


def test_key_only_proposes_where_a_second_member_is_demanded(
    deciding_api: Api, report_id: str
):
    configure_receiver(deciding_api.workspace)
    demand_second(deciding_api, declines=True)

    made = decide(deciding_api, report_id)

    assert (made["state"], made["decidedAt"]) == ("PENDING", None)
    report = deciding_api.report(report_id)
    assert (report["decision"], report["proposedDecision"]) == (None, made)
    assert not Event.objects.filter(name="report.decided").exists()
    again = refused(deciding_api, report_id, APPROVE)
    assert (again["code"], again["decisionId"]) == ("decision-conflict", made["id"])


def test_decision_stays_while_the_report_is_retried(deciding_api: Api):
    report_id = create_report_with_status(deciding_api, "FAILED")
    made = decide(deciding_api, report_id)

    retried = deciding_api.post(f"/reports/{report_id}/retry").json()

    assert (retried["status"], retried["decision"]) == ("RUNNING", made)
    problem = refused(deciding_api, report_id, replaces=made["id"])
    assert problem["code"] == "report-not-decidable"
