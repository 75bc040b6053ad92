"""Of decisions, answers and cases at once, one wins."""

import pytest

from tests.world.clients import Api
from tests.world.decisions import (
    ADVERSE,
    Officer,
    create_case,
    create_ready_report,
    demand_second,
)
from tests.world.notices import create_report, decline, deliver, wait
from tests.world.policies import DECLINE_HIGH, activate, draft_policy, switch_on
from tests.world.threads import run_at_once
from verification.decisions import decide as verbs
from verification.decisions import notices, policies
from verification.decisions.cases import CaseObstacle, CaseRefused
from verification.decisions.decide import (
    Obstacle,
    ReportDecisionRefused,
    finish_waiting_declines,
)
from verification.decisions.models import AdverseNotice, Case, Decision
from verification.decisions.policies import PolicyRefused
from webhooks.models import Event
from workspaces import members
from workspaces.members import NotAllowed

pytestmark = pytest.mark.django_db(transaction=True)


def assignee_of(report_id: str) -> object:
    return Case.objects.get(pk=report_id).assignee


def test_of_two_decisions_at_once_one_wins(api: Api, deciding_api: Api):
    report_id = create_ready_report(api)
    officers = [Officer(api, name=f"officer{n}") for n in range(3)]

    def act(number: int):
        if number < len(officers):
            return officers[number].decide(report_id, "APPROVED")
        return deciding_api.post(
            f"/reports/{report_id}/decision", {"status": "APPROVED"}
        ).status_code

    answers = run_at_once(5, act)

    won = [a for a in answers if isinstance(a, Decision) or a == 201]
    lost = [a for a in answers if a == 409 or isinstance(a, ReportDecisionRefused)]
    assert (len(won), len(lost)) == (1, 4), answers
    assert Event.objects.filter(name="report.decided").count() == 1


def test_of_two_answers_to_a_proposal_one_wins(api: Api, officer: Officer):
    demand_second(api)
    proposal = officer.decide(create_ready_report(api))
    officers = [Officer(api, name=f"officer{n}") for n in range(4)]

    def act(number: int):
        one = officers[number]
        return one.confirm(proposal) if number % 2 else one.refuse(proposal)

    answers = run_at_once(4, act)

    assert sum(isinstance(one, Decision) for one in answers) == 1, answers
    lost = [one for one in answers if isinstance(one, ReportDecisionRefused)]
    assert {one.obstacle for one in lost} == {Obstacle.ANSWERED}


def test_of_decline_and_its_end_at_once_one_wins(api: Api, officer: Officer):
    wait(1, api)
    report_id = create_report(api)
    made = decline(officer, report_id)
    deliver()
    AdverseNotice.objects.update(waits_until=notices.now())

    def act(number: int):
        if number % 2:
            return finish_waiting_declines()
        return verbs.withdraw(officer.client, made.pk, officer.member, officer.actor)

    run_at_once(4, act)

    made.refresh_from_db()
    assert made.state in ("FINAL", "WITHDRAWN")
    told = Event.objects.filter(name="report.decided").count()
    assert told == (made.state == "FINAL")


def test_jobs_at_once_decide_once(api: Api):
    switch_on(api, DECLINE_HIGH)
    report = create_ready_report(api, ADVERSE)

    run_at_once(4, lambda _: policies.apply_policy(report))

    made = Decision.objects.get()
    assert (made.status, made.made_by_kind) == ("DECLINED", "POLICY")


def test_of_two_activations_at_once_one_wins(api: Api):
    by = Officer(api)
    draft = draft_policy(api, DECLINE_HIGH, officer=by)

    def act(_: int) -> str:
        try:
            activate(draft, by)
        except PolicyRefused as e:
            return e.obstacle.name
        return "ACTIVE"

    assert sorted(run_at_once(2, act)) == ["ACTIVE", "NO_DRAFT"]


def test_of_two_members_at_once_one_gets_the_case(api, officer, second):
    report = create_case(api)
    people = [officer, second]

    results = run_at_once(2, lambda n: people[n].take(report), connected=True)

    refused = [one for one in results if isinstance(one, CaseRefused)]
    assert [one.obstacle for one in refused] == [CaseObstacle.TAKEN]
    assert refused[0].assignee == assignee_of(report)


def test_next_case_of_two_members_at_once_is_not_the_same(api, officer, second):
    reports = {create_case(api, number) for number in ("11111111", "22222222")}
    people = [officer, second]

    taken = run_at_once(2, lambda n: people[n].take_next(), connected=True)

    assert {str(case.pk) for case in taken} == reports
    assert officer.take_next() is None


def test_double_click_takes_one_case(api, officer):
    for number in ("11111111", "22222222"):
        create_case(api, number)

    def take(_n: int) -> bool:
        try:
            return officer.take_next(held=0) is not None
        except CaseRefused:
            return False

    assert sorted(run_at_once(2, take, connected=True)) == [False, True]
    assert Case.objects.filter(assignee=officer.member).count() == 1


def test_member_who_leaves_while_they_get_a_case_keeps_none(api, officer, second):
    report = create_case(api)

    def leave() -> None:
        members.remove(second.member, officer.member)

    def give() -> None:
        second.assign(report, officer.member)

    results = run_at_once(2, lambda n: (leave, give)[n](), connected=True)

    assert results[0] is None
    assert results[1] is None or isinstance(results[1], NotAllowed)
    assert assignee_of(report) is None
