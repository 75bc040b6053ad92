"""A second member confirms or refuses what the first one proposes."""

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.models import BinaryField, Value

from tests.world.clients import Api, erase
from tests.world.decisions import (
    ADVERSE,
    Officer,
    create_ready_report,
    decide,
    demand_second,
)
from tests.world.decisions import report_id as report_id
from tests.world.decisions import workspace as workspace
from verification.backoffice.models import AuditEvent
from verification.decisions.decide import Obstacle, ReportDecisionRefused
from verification.decisions.models import Decision, SecondMemberRule
from verification.privacy.models import Origin
from verification.privacy.objections import object_to_use
from webhooks.models import Event
from workspaces.members import NotAllowed
from workspaces.models import Role, Scope


def obstacle(do, *arguments, **more) -> Obstacle:
    with pytest.raises(ReportDecisionRefused) as refusal:
        do(*arguments, **more)
    return refusal.value.obstacle


@pytest.fixture
def proposal(api: Api, officer: Officer, report_id: str) -> Decision:
    demand_second(api)
    return officer.decide(report_id)


def test_another_member_confirms_once(api: Api, proposal, second: Officer):
    second.confirm(proposal)

    decision = api.report(str(proposal.report_id))["decision"]
    assert decision["state"] == "FINAL"
    assert decision["secondAt"] == decision["decidedAt"]
    event = Event.objects.get(name="report.decided")
    assert event.payload["decision"]["confirmedBySecond"] is True
    actions = list(AuditEvent.objects.values_list("action", "actor"))
    assert actions == [
        ("decision.proposed", "otieno"),
        ("decision.confirmed", "wambui"),
    ]
    for do in (second.confirm, second.refuse):
        assert obstacle(do, proposal) == Obstacle.ANSWERED


def test_another_member_refuses_and_somebody_decides_anew(
    api: Api, proposal, officer: Officer, second: Officer
):
    second.refuse(proposal)

    report = api.report(str(proposal.report_id))
    assert (report["decision"], report["proposedDecision"]) == (None, None)
    assert not Event.objects.filter(name="report.decided").exists()
    assert officer.decide(proposal.report_id, "APPROVED").state == "FINAL"
    listed = api.get(f"/reports/{proposal.report_id}/decisions").json()["content"]
    assert [one["state"] for one in listed] == ["FINAL", "REFUSED"]


def test_first_member_never_confirms_and_takes_a_proposal_back(
    proposal, officer: Officer, second: Officer
):
    assert obstacle(officer.confirm, proposal) == Obstacle.SAME_PERSON
    with (
        pytest.raises(IntegrityError, match="confirmed_by_another"),
        transaction.atomic(),
    ):
        Decision.objects.filter(pk=proposal.pk).update(
            state="FINAL",
            second_by="member",
            second_by_user=officer.member.user_id,
            second_at=proposal.created_at,
            final_at=proposal.created_at,
        )
    # Nor by another account with the same address
    user = second.member.user
    user.email = "OTIENO@people.test"
    user.save()
    assert obstacle(second.confirm, proposal) == Obstacle.SAME_PERSON

    assert officer.refuse(proposal).state == "REFUSED"


def test_any_member_confirms_what_a_key_proposes(
    deciding_api: Api, officer: Officer, report_id: str
):
    demand_second(deciding_api)
    made = decide(deciding_api, report_id)

    officer.confirm(Decision.objects.get(pk=made["id"]))

    (decision,) = Decision.objects.all()
    assert (decision.state, decision.second_by_user) == (
        "FINAL",
        officer.member.user_id,
    )


def test_maker_of_a_key_never_confirms_what_it_proposes(
    api: Api, officer: Officer, second: Officer, report_id: str
):
    demand_second(api)
    made_by = officer.member.user_id
    of_officer = Api(api.workspace, "sandbox", scopes=list(Scope), made_by=made_by)
    proposal = Decision.objects.get(pk=decide(of_officer, report_id)["id"])

    assert obstacle(officer.confirm, proposal) == Obstacle.SAME_PERSON
    assert officer.take_next() is None
    with (
        pytest.raises(IntegrityError, match="keys_count_as_their_makers"),
        transaction.atomic(),
    ):
        Decision.objects.filter(pk=proposal.pk).update(
            state="FINAL",
            second_by="member",
            second_by_user=made_by,
            second_at=proposal.created_at,
            final_at=proposal.created_at,
        )
    assert second.confirm(proposal).state == "FINAL"


def test_viewer_neither_decides_nor_confirms(api: Api, proposal):
    viewer = Officer(api, "VIEWER", "njeri")
    for do in (viewer.confirm, viewer.refuse):
        with pytest.raises(NotAllowed):
            do(proposal)
    with pytest.raises(NotAllowed):
        viewer.decide(create_ready_report(api, "22222222"))


@pytest.mark.parametrize("end", ["role", "removed"])
def test_role_that_was_taken_meanwhile_does_not_decide(
    api: Api, proposal, second: Officer, end: str
):
    """The objects of the request still have the role."""
    members = type(second.member).objects.filter(pk=second.member.pk)
    members.update(role=Role.VIEWER) if end == "role" else members.delete()

    for do in (second.confirm, second.refuse):
        with pytest.raises(NotAllowed):
            do(proposal)
    assert Decision.objects.get().state == "PENDING"


def test_member_of_another_workspace_does_not_decide(
    api: Api, another_api, officer, report_id: str
):
    foreign = Officer(another_api, "OWNER", "stranger")
    foreign.client = officer.client

    with pytest.raises(NotAllowed):
        foreign.decide(report_id)


def test_objection_takes_a_proposal_back(proposal, second: Officer):
    object_to_use(proposal.report_id, Origin.CLIENT, requested_by="client")

    decision = Decision.objects.get()
    assert (decision.state, decision.second_by) == ("REFUSED", "service")
    assert obstacle(second.confirm, proposal) == Obstacle.ANSWERED


def test_erasure_ends_a_proposal(api: Api, proposal, second: Officer):
    erase(api, str(proposal.report_id))

    decision = Decision.objects.get()
    assert (decision.state, decision.second_by) == ("REFUSED", "erasure")
    assert obstacle(second.confirm, proposal) == Obstacle.ANSWERED


@pytest.mark.parametrize(
    ("rule", "status", "score", "needed"),
    [
        ({}, "DECLINED", 90, False),
        ({"declines": True}, "DECLINED", 5, True),
        ({"declines": True}, "APPROVED", 90, False),
        ({"score_from": 70}, "APPROVED", 70, True),
        ({"score_from": 70}, "APPROVED", 69, False),
        ({"score_from": 70}, "DECLINED", 90, True),
        ({"score_to": 20}, "DECLINED", 20, True),
        ({"score_to": 20}, "DECLINED", 21, False),
        ({"score_from": 70, "score_to": 20}, "APPROVED", 50, False),
        ({"score_from": 70}, "APPROVED", None, True),
        ({"declines": True, "score_from": 0}, "REVIEW", 90, False),
    ],
)
def test_rule_says_when_a_second_member_is_needed(rule, status, score, needed):
    assert SecondMemberRule(**rule).applies_to(status, score) is needed


def test_score_of_the_report_counts(api: Api, officer: Officer, report_id: str):
    demand_second(api, score_from=70)

    assert officer.decide(report_id, "APPROVED").state == "FINAL"
    adverse = create_ready_report(api, ADVERSE)
    assert officer.decide(adverse, "APPROVED").state == "PENDING"


def test_decisions_are_append_only(api: Api, proposal, second: Officer):
    changes = [
        {"status": "APPROVED"},
        {"codes": ["OWN_CRITERIA"]},
        {"content": Value(b"Other", BinaryField())},
        {"made_by": "somebody"},
    ]
    rows = Decision.objects.filter(pk=proposal.pk)
    for change in changes:
        with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
            rows.update(**change)
    second.confirm(proposal)
    ended = [*changes, {"state": "REFUSED"}, {"second_by": "nobody"}]
    for change in ended:
        with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
            rows.update(**change)
    with connection.cursor() as cursor:
        with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
            cursor.execute("DELETE FROM decisions_decision")
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
            cursor.execute("TRUNCATE decisions_decision CASCADE")
