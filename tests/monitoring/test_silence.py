"""Rules whose checks could not be done say so."""

from typing import Any

import pytest

from monitoring.models import Alert, Baseline, Rule
from tests.checks.engine import work_until_done
from tests.console.visitor import Visitor
from tests.monitoring.rules import alerts, let_pass, make, work
from tests.monitoring.test_comparison import DAY
from tests.world.clients import Api
from tests.world.members import member
from tests.world.staff import change, opened
from webhooks.models import Event

# Reserved in the sandbox: the source refuses; it answers.
SILENT, CLEAR = "90000008", "90000000"


def run(api: Api, times: int, days: int = 1) -> None:
    for _ in range(times):
        let_pass(days * DAY)
        work(api)


def point_to(number: str) -> None:
    rule = Rule.objects.get()
    rule.subject = {**rule.subject, "idNumber": number}
    rule.save()


def check_of(api: Api) -> dict[str, Any]:
    (rule,) = api.get("/monitoring").json()["content"]
    assert rule == api.get(f"/monitoring/{rule['id']}").json()
    (check,) = rule["checks"]
    return check


def test_rule_shows_when_each_check_last_completed(api: Api):
    made = make(api, id_number=CLEAR)
    assert made["checks"] == [
        {"checkName": "IDENTITY", "lastCompletedAt": None, "runsWithoutAnswer": 0}
    ]
    work(api)
    completed = check_of(api)["lastCompletedAt"]
    assert completed is not None

    point_to(SILENT)
    run(api, 2)

    assert check_of(api) == {
        "checkName": "IDENTITY",
        "lastCompletedAt": completed,
        "runsWithoutAnswer": 2,
    }


def test_check_that_fails_in_three_daily_runs_raises_one_alert(api: Api):
    make(api, id_number=CLEAR)
    work(api)
    point_to(SILENT)
    run(api, 2)
    assert alerts(api) == []

    run(api, 4)

    (alert,) = alerts(api)
    assert (alert["kind"], alert["severity"]) == ("NO_ANSWER", "WARNING")
    assert alert["title"] == "IDENTITY: no answer"
    assert (
        "could not be done in 3 runs in a row and last completed 20"
        in (alert["message"])
    )
    assert alert["changes"] == []
    (event,) = Event.objects.filter(name="monitoring.alert.created")
    assert event.payload["alert"]["kind"] == "NO_ANSWER"


def test_check_that_answers_again_may_raise_another_alert(api: Api):
    make(api, id_number=SILENT)
    work(api)
    run(api, 2)
    assert "last completed never" in alerts(api)[0]["message"]

    point_to(CLEAR)
    run(api, 1)
    assert check_of(api)["runsWithoutAnswer"] == 0
    point_to(SILENT)
    run(api, 3)

    assert [alert["kind"] for alert in alerts(api)] == ["NO_ANSWER"] * 2


@pytest.mark.parametrize(
    ("cadence", "days", "runs"), [("WEEKLY", 7, 2), ("MONTHLY", 31, 1)]
)
def test_longer_cadences_tell_of_silence_sooner(api: Api, cadence, days, runs):
    make(api, id_number=SILENT, cadence=cadence)
    work(api)
    run(api, runs - 1, days)

    assert [alert["kind"] for alert in alerts(api)] == ["NO_ANSWER"]


def test_run_that_is_compared_twice_counts_once(api: Api):
    made = make(api, id_number=SILENT)
    work(api)
    report = Rule.objects.get(pk=made["id"]).runs.get().report_id

    api.post(f"/reports/{report}/retry")
    work_until_done(api)
    work(api)

    assert Baseline.objects.get().unanswered == 1


def test_staff_and_members_see_what_was_not_looked_at(api: Api, staff):
    make(api, id_number=SILENT)
    work(api)
    run(api, 2)

    assert "A check could not be done" in opened(staff, change(Alert.objects.get()))
    page = opened(staff, change(Rule.objects.get()))
    assert "runs without an answer since" in page
    owner = Visitor(member(api.workspace, "OWNER"))
    page = owner.page("monitoring-rule", rule=Rule.objects.get().pk)
    assert "IDENTITY: not completed yet" in page
    assert "no answer in the last 3 runs" in page
    page = owner.page("monitoring-alert", alert=Alert.objects.get().pk)
    assert "could not be done in 3 runs in a row" in page
    assert "<table" not in page
