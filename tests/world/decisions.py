"""Decide about reports, and demand a second member for it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.world.clients import Api, create_lender, person
from tests.world.members import create_member
from verification.backoffice.audit import Actor
from verification.backoffice.models import ActorKind
from verification.decisions import cases
from verification.decisions import decide as verbs
from verification.decisions.decide import Maker, NewDecision
from verification.decisions.models import Case, CaseNote, Decision, SecondMemberRule
from verification.jobs.models import Job
from verification.jobs.names import JobName
from workspaces.models import Client, Member, Scope, Workspace

# Its last digit gives an adverse result with the score 90 (deceased).
ADVERSE = "90000003"
DECLINE = {"status": "DECLINED", "reasonCodes": ["ADVERSE_CREDIT"]}
APPROVE = {"status": "APPROVED"}


@pytest.fixture(scope="module")
def report_id(module_transaction: None) -> str:
    """A ready report of Acacia Lenders, for all tests of a file that import this.

    They import `workspace`, too, so that each begins with these rows.
    """
    api = Api(create_lender(), "sandbox")
    return create_ready_report(api, email="wanjiku@kamau.test")


@pytest.fixture
def workspace(report_id: str, db: None) -> Workspace:
    # A test may change the object.
    return Workspace.objects.get(reports=report_id)


def deciding_api(api: Api) -> Api:
    """Return a client with a key that may decide."""
    return Api(api.workspace, api.environment, scopes=list(Scope.values))


def create_ready_report(api: Api, id_number: str = "12345678", **subject: Any) -> str:
    report_id: str = api.create(person(idNumber=id_number, **subject))["id"]
    api.work()
    return report_id


def decide(api: Api, report_id: str, body: Any = DECLINE, **more: Any) -> Any:
    """Decide by the API; return the decision."""
    answer = api.post(f"/reports/{report_id}/decision", {**body, **more})
    assert answer.status_code == 201, answer.content
    return answer.json()


def demand_second(api: Api, **rule: Any) -> None:
    SecondMemberRule.objects.update_or_create(
        workspace=api.workspace, defaults=rule or {"declines": True}
    )


def set_service_level(api: Api, hours: int | None = 24) -> None:
    Workspace.objects.filter(pk=api.workspace.pk).update(decision_hours=hours)


class Officer:
    """A member who decides by the verbs, as the console does."""

    def __init__(self, api: Api, role: str = "ADMIN", name: str = "otieno") -> None:
        self.member: Member = create_member(api.workspace, role, name)
        self.client = Client(api.workspace, api.account, f"member {self.member.pk}")
        self.actor = Actor(ActorKind.MEMBER, self.member.user.username)

    def decide(self, report_id: Any, status: str = "DECLINED", **more: Any) -> Decision:
        codes = ["ADVERSE_CREDIT"] if status == "DECLINED" else []
        new = NewDecision(status, codes, **more)
        maker = Maker.of_member(self.member, self.actor)
        return verbs.decide(self.client, report_id, new, maker)

    def confirm(self, decision: Decision) -> Decision:
        return verbs.confirm(self.client, decision.pk, self.member, self.actor)

    def refuse(self, decision: Decision) -> Decision:
        return verbs.refuse(self.client, decision.pk, self.member, self.actor)

    def assign(self, report_id: Any, to: Member | None, seen: Any = None) -> Case:
        return cases.assign(
            self.client,
            report_id,
            self.member,
            self.actor,
            to=to.pk if to else None,
            seen=seen.pk if seen else None,
        )

    def take(self, report_id: Any, seen: Member | None = None) -> Case:
        return self.assign(report_id, self.member, seen)

    def take_next(self, held: int | None = None) -> Case | None:
        return cases.take_next(self.client, self.member, self.actor, held=held)

    def note(self, report_id: Any, text: str) -> CaseNote:
        return cases.add_note(self.client, report_id, self.member, self.actor, text)


def open_new_cases() -> None:
    """Run the jobs that put ended reports into the queue."""
    for row in Job.objects.filter(function=JobName.OPEN_CASES):
        cases.open_cases(*row.arguments)


def create_case(api: Api, id_number: str = "12345678", **item: Any) -> str:
    """Let a report of one check end in a workspace with a service level.

    Returns its id.
    """
    if Workspace.objects.get(pk=api.workspace.pk).decision_hours is None:
        set_service_level(api)
    item = {**person(idNumber=id_number), "checksRequested": ["IDENTITY"], **item}
    report_id: str = api.create(item)["id"]
    api.work()
    job = Job.objects.filter(function=JobName.OPEN_CASES).latest("id")
    cases.open_cases(*job.arguments)
    return report_id
