"""Findings change after a policy has decided."""

import pytest

from tests.decisions.test_policies import decisions
from tests.world.clients import Api, create_lender
from tests.world.corrections import RIGHT, create_wrong_report, dispute, reviewer
from tests.world.decisions import Officer, demand_second
from tests.world.notices import wait
from tests.world.policies import (
    APPROVE_LOW,
    condition,
    rule,
    run_policy,
    switch_on,
)
from verification.checks.models import CheckResult
from verification.decisions import policies
from verification.decisions.models import Decision
from verification.jobs.models import Job
from verification.privacy import corrections
from verification.privacy.personal_data import erase_reports
from verification.values.clock import now
from workspaces.models import Workspace


@pytest.fixture(scope="module")
def report(module_transaction: None) -> str:
    """A report that a policy has declined for another person's finding."""
    api = Api(create_lender(), "sandbox")
    mismatch = condition("flag", "IS", "NAME_MISMATCH", "IDENTITY")
    decline = rule("DECLINED", mismatch, codes=["IDENTITY_MISMATCH"])
    switch_on(api, decline, APPROVE_LOW)
    made = create_wrong_report(api)
    run_policy()
    assert decisions(made) == [("DECLINED", "FINAL", "POLICY")]
    return made


@pytest.fixture
def workspace(report: str, db: None) -> Workspace:
    return Workspace.objects.get(reports=report)


@pytest.fixture
def correct(api: Api, report: str):
    def act(report_id: str = report) -> None:
        correction = dispute(report_id)
        by = reviewer()
        corrections.take(correction.pk, by)
        corrections.rerun(correction.pk, by, {"idNumber": RIGHT})
        api.work()
        corrections.correct(correction.pk, by, "Mistyped")

    return act


def test_finding_about_the_mistyped_number_is_left_to_a_person(
    api: Api, report, correct
):
    other = create_wrong_report(
        api, checksRequested=["IDENTITY", "KRA_PIN"], reuse=False
    )
    mismatch = condition("flag", "IS", "NAME_MISMATCH", "KRA_PIN")
    switch_on(api, rule("DECLINED", mismatch, codes=["TAX_PIN_MISMATCH"]))

    correct(other)
    policies.apply_policy(other)

    assert decisions(other) == [("REVIEW", "FINAL", "POLICY")]


@pytest.fixture
def copy(api: Api, report) -> str:
    """Return a report without a decision that reuses the finding of `report`."""
    made = create_wrong_report(api)
    origin = CheckResult.objects.get(report=report)
    CheckResult.objects.filter(report=made).update(reused_from_id=origin.pk)
    Job.objects.all().delete()
    return made


def test_copy_of_a_corrected_finding_is_left_to_a_person(copy, correct):
    correct()
    run_policy()

    assert decisions(copy) == [("REVIEW", "FINAL", "POLICY")]


def test_copy_of_a_corrected_finding_gets_no_more_than_a_proposal(
    api: Api, copy, correct
):
    answered = condition("state", "IS", "COMPLETED", "IDENTITY")
    switch_on(api, rule("DECLINED", answered, codes=["OWN_CRITERIA"]))

    correct()
    policies.apply_policy(copy)

    assert decisions(copy) == [("DECLINED", "PENDING", "POLICY")]


@pytest.mark.parametrize("is_erased", [False, True])
def test_copy_of_a_disputed_finding_waits_for_the_answer(report, copy, is_erased):
    correction = dispute(report)
    policies.apply_policy(copy)
    assert decisions(copy) == []

    if is_erased:
        erase_reports([correction.report_id], now())
    else:
        corrections.withdraw(correction.pk)
    run_policy()

    assert decisions(copy) == [("DECLINED", "FINAL", "POLICY")]


def test_correction_makes_a_proposal(report, correct):
    correct()
    run_policy()

    assert decisions(report) == [
        ("DECLINED", "FINAL", "POLICY"),
        ("APPROVED", "PENDING", "POLICY"),
    ]


def test_correction_of_a_decline_that_waits_makes_a_proposal(api: Api, correct):
    wait(5, api)
    report = create_wrong_report(api, reuse=False)
    policies.apply_policy(report)
    policies.apply_policy(report)
    assert decisions(report) == [("DECLINED", "WAITING", "POLICY")]
    assert Decision.objects.get(report=report).is_automated

    correct(report)
    run_policy()

    assert decisions(report)[1:] == [("APPROVED", "PENDING", "POLICY")]


def test_correction_leaves_the_decision_of_a_person(report, correct, officer: Officer):
    officer.decide(report, replaces=Decision.objects.get().pk)

    correct()
    run_policy()

    assert decisions(report)[1:] == [("DECLINED", "FINAL", "MEMBER")]


def test_report_under_correction_waits(api: Api, report):
    other = create_wrong_report(api, reuse=False)
    correction = dispute(other)
    run_policy()
    assert decisions(other) == []

    corrections.withdraw(correction.pk)
    run_policy()

    assert decisions(other) == [("DECLINED", "FINAL", "POLICY")]


@pytest.mark.parametrize("is_copy", [False, True])
def test_report_that_ended_without_a_policy_gets_no_decision(api: Api, report, is_copy):
    by = Officer(api)
    version = policies.versions_of(by.client).get(state="ACTIVE")
    policies.switch_off(by.client, version.pk, by.member, by.actor)
    made = create_wrong_report(api, reuse=is_copy)
    correction = dispute(report if is_copy else made)
    mismatch = condition("flag", "IS", "NAME_MISMATCH")
    switch_on(api, rule("DECLINED", mismatch, codes=["IDENTITY_MISMATCH"]))

    corrections.withdraw(correction.pk)
    run_policy()

    assert decisions(made) == []


def test_closed_correction_that_changes_nothing_adds_nothing(report):
    corrections.withdraw(dispute(report).pk)
    run_policy()

    assert len(decisions(report)) == 1


def test_proposal_about_old_findings_is_withdrawn(api: Api, report, correct):
    demand_second(api)
    by = Officer(api)
    CheckResult.objects.filter(report=report).update(score=10)
    correct()
    run_policy()
    assert decisions(report)[1] == ("APPROVED", "PENDING", "POLICY")
    version = policies.versions_of(by.client).get(state="ACTIVE")
    policies.switch_off(by.client, version.pk, by.member, by.actor)
    review = rule("REVIEW", condition("score", "BELOW", 101))
    switch_on(api, review)

    policies.apply_policy(report)

    assert decisions(report)[1:] == [
        ("APPROVED", "REFUSED", "POLICY"),
        ("REVIEW", "PENDING", "POLICY"),
    ]
