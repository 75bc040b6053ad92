"""Policies decide, or propose, when a report ends; their versions and dry runs."""

from __future__ import annotations

from uuid import UUID

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from tests.checks.engine import definitions, found
from tests.reports.test_retry import RECOVERS, retry, set_max_attempts
from tests.world.clients import HOSTED, Api, erase, person
from tests.world.corrections import create_wrong_report, dispute
from tests.world.decisions import (
    ADVERSE,
    APPROVE,
    Officer,
    create_ready_report,
    decide,
    demand_second,
    set_service_level,
)
from tests.world.notices import wait
from tests.world.orders import REFUSED, count_rows
from tests.world.packages import create_package
from tests.world.policies import (
    APPROVE_LOW,
    DECLINE_HIGH,
    activate,
    condition,
    draft_policy,
    rule,
    run_policy,
    seen,
    switch_on,
    waiting_reports,
)
from tests.world.rules import create_rule, run_rules
from tests.world.subject import Visitor
from verification.backoffice.models import AuditEvent
from verification.checks.due_checks import claim
from verification.checks.models import CheckDefinition, CheckResult
from verification.checks.results import completed_with, record_outcomes
from verification.consents.links import expire_consents
from verification.consents.models import Consent
from verification.consents.subject_decisions import Evidence
from verification.consents.subject_decisions import decline as decline_of_subject
from verification.console.policy_words import why_of
from verification.decisions import policies
from verification.decisions.cases import open_cases
from verification.decisions.models import Case, Decision, PolicyVersion, ReasonCode
from verification.decisions.policies import PolicyObstacle, PolicyRefused
from verification.decisions.rules import Outcome, read_rules
from verification.jobs.models import Job
from verification.jobs.queue import is_job
from verification.privacy.models import Origin
from verification.privacy.objections import object_to_use
from verification.providers.findings import build_finding
from verification.reports.models import Report
from verification.values.clock import now
from webhooks.models import Event
from workspaces.members import NotAllowed
from workspaces.models import Role


def decisions(report_id: str) -> list[tuple[str, str, str]]:
    rows = Decision.objects.filter(report=report_id).order_by("number")
    return list(rows.values_list("status", "state", "made_by_kind"))


def test_policy_declines_once_and_says_why_until_the_report_is_erased(api: Api):
    version = switch_on(api, APPROVE_LOW, DECLINE_HIGH)
    report = create_ready_report(api, ADVERSE)
    assert waiting_reports() == [report]
    # The database writes the job by itself, as the queue would.
    assert is_job(Job.objects.get(arguments=[report]).function)

    run_policy()

    decision = Decision.objects.get()
    assert decisions(report) == [("DECLINED", "FINAL", "POLICY")]
    assert decision.is_automated
    assert decision.policy_version == version
    assert decision.policy == {
        "rule": 2,
        "found": [100],
        "unanswered": [],
        "isBroken": False,
        "contradicted": [],
    }
    shown = api.report(report)["decision"]
    assert (shown["madeBy"], shown["madeByName"]) == ("POLICY", "version 1")
    assert shown["reasonCodes"] == ["OWN_CRITERIA"]
    event = Event.objects.get(name="report.decided")
    assert event.payload["decision"]["madeBy"] == "POLICY"
    run_policy()
    assert len(decisions(report)) == 1
    again = Decision.objects.get()
    again.pk, again.number = UUID(int=1), 2
    with (
        pytest.raises(IntegrityError, match="a_policy_decides_once"),
        transaction.atomic(),
    ):
        again.save(force_insert=True)

    erase(api, report)

    decision.refresh_from_db()
    assert (decision.policy, decision.codes) == ({}, None)
    assert decision.policy_version is not None


def test_no_rule_that_matches_is_a_review(api: Api):
    high = rule("APPROVED", condition("score", "AT_LEAST", 100))
    # A review is final, as nobody has to confirm it.
    switch_on(api, high, mode="PROPOSE")

    report = create_ready_report(api)
    run_policy()

    assert decisions(report) == [("REVIEW", "FINAL", "POLICY")]


def test_failed_check_is_never_approved(api: Api):
    low = rule("APPROVED", condition("level", "IS", "LOW"))
    failed = condition("state", "IS", "FAILED", "IDENTITY")
    switch_on(api, low, rule("DECLINED", failed, codes=["OWN_CRITERIA"]))
    report = create_ready_report(api, REFUSED)
    assert api.report(report)["status"] == "FAILED"

    run_policy()

    assert decisions(report) == [("REVIEW", "FINAL", "POLICY")]
    # The second rule matched, and did not decide.
    assert [str(why) for why in why_of(Decision.objects.get())] == [
        "No rule decided, so a person reviews the report.",
        "Rules without an answer: 1.",
    ]


def test_report_whose_checks_never_ran_is_judged_by_nobody(deciding_api: Api):
    set_service_level(deciding_api)
    incomplete = condition("state", "IS_NOT", "COMPLETED", "IDENTITY")
    decline = rule("DECLINED", incomplete, codes=["OWN_CRITERIA"])
    switch_on(deciding_api, decline)
    report = deciding_api.create({**person(), "consent": HOSTED})["id"]
    consent = Consent.objects.get(report=report)
    decline_of_subject(consent.pk, consent.generation, Evidence(), "")
    assert deciding_api.report(report)["status"] == "FAILED"

    policies.apply_policy(report)
    open_cases(report)

    assert decisions(report) == []
    assert not Case.objects.exists()
    body = {"status": "DECLINED", "reasonCodes": ["OWN_CRITERIA"]}
    problem = deciding_api.refused(f"/reports/{report}/decision", body)
    assert problem["code"] == "report-not-decidable"
    assert "None of its checks was run" in problem["detail"]
    by = Officer(deciding_api)
    assert policies.dry_run(by.client, read_rules([decline])).total == 0


def test_rule_whose_reason_contradicts_the_findings_leaves_it_to_a_person(api: Api):
    never = rule(
        "DECLINED", condition("score", "AT_LEAST", 0), codes=["IDENTITY_NOT_FOUND"]
    )
    switch_on(api, never)
    report = create_ready_report(api)

    run_policy()

    assert decisions(report) == [("REVIEW", "FINAL", "POLICY")]
    made = Decision.objects.get()
    assert made.policy["contradicted"] == ["IDENTITY_NOT_FOUND"]
    (why,) = why_of(made)
    assert "No finding bears out “ID number not in the register of persons”" in why


def test_policy_approves_nobody_for_what_a_source_left_open(api: Api):
    alive = condition("flag", "IS_NOT", "DECEASED", "IDENTITY")
    switch_on(api, rule("APPROVED", alive))
    report = create_ready_report(api)
    flags = {"DOB_MISMATCH": "The register has another date of birth."}
    partial = build_finding("acme", summary="", flags=flags, details={}, known=False)
    stored = completed_with(partial)
    result = CheckResult.objects.get(report=report, name="IDENTITY")
    result.score, result.finding = stored.score, stored.finding
    result.save()

    run_policy()

    assert result.score == 50
    assert decisions(report) == [("REVIEW", "FINAL", "POLICY")]


@pytest.mark.parametrize(
    ("when", "code", "expected"),
    [
        (
            condition("flag", "IS", "NON_PERFORMING_ACCOUNT", "CRB_FULL"),
            "ADVERSE_CREDIT",
            "REVIEW",
        ),
        (condition("score", "AT_LEAST", 70), "OWN_CRITERIA", "REVIEW"),
        (condition("flag", "IS", "NAME_MISMATCH"), "IDENTITY_MISMATCH", "DECLINED"),
    ],
)
def test_policy_declines_nobody_for_the_holder_of_a_mistyped_number(
    api: Api, officer: Officer, when, code, expected
):
    decline = rule("DECLINED", when, codes=[code])
    switch_on(api, decline)
    report = create_wrong_report(api, checksRequested=["IDENTITY", "CRB_FULL"])
    bureau = CheckResult.objects.get(report=report, name="CRB_FULL")
    bureau.score = 85
    bureau.finding["flags"].append({"code": "NON_PERFORMING_ACCOUNT"})
    bureau.save()
    Report.objects.update(risk_score=85)
    dry = policies.dry_run(officer.client, read_rules([decline]))

    policies.apply_policy(report)

    assert decisions(report) == [(expected, "FINAL", "POLICY")]
    assert dry.counts == {(None, expected): 1}


def test_proposal_waits_for_one_member(api: Api, officer: Officer):
    switch_on(api, DECLINE_HIGH, mode="PROPOSE")
    report = create_ready_report(api, ADVERSE)
    run_policy()
    assert decisions(report) == [("DECLINED", "PENDING", "POLICY")]

    officer.confirm(Decision.objects.get())

    decision = Decision.objects.get()
    assert decision.state == "FINAL"
    assert not decision.is_automated


def test_decline_is_a_proposal_where_a_second_member_confirms(api: Api):
    demand_second(api)
    switch_on(api, DECLINE_HIGH)

    report = create_ready_report(api, ADVERSE)
    run_policy()

    assert decisions(report) == [("DECLINED", "PENDING", "POLICY")]


@pytest.mark.parametrize("switched_on", ["before", "after"])
def test_policy_decides_alone_only_if_the_notice_said_so(api: Api, switched_on: str):
    if switched_on == "before":
        switch_on(api, DECLINE_HIGH)
    report = api.create({**person(idNumber=ADVERSE), "consent": HOSTED})
    visitor = Visitor(report["consentState"]["consentUrl"])
    visitor.prove()
    visitor.grant()
    if switched_on == "after":
        switch_on(api, DECLINE_HIGH)
    api.work()

    run_policy()

    state = {"before": "FINAL", "after": "PENDING"}[switched_on]
    assert decisions(report["id"]) == [("DECLINED", state, "POLICY")]


def test_proposal_of_a_key_stays(deciding_api: Api):
    demand_second(deciding_api)
    switch_on(deciding_api, APPROVE_LOW)
    report = create_ready_report(deciding_api)
    decide(deciding_api, report)

    run_policy()

    assert decisions(report) == [("DECLINED", "PENDING", "API_KEY")]


def test_refused_proposal_is_not_made_again(api: Api, officer: Officer):
    switch_on(api, DECLINE_HIGH, mode="PROPOSE")
    report = create_ready_report(api, ADVERSE)
    run_policy()
    officer.refuse(Decision.objects.get())

    run_policy()

    assert decisions(report) == [("DECLINED", "REFUSED", "POLICY")]


def test_report_gets_no_decision_after_an_objection(api: Api):
    switch_on(api, DECLINE_HIGH)
    report = create_ready_report(api, ADVERSE)
    object_to_use(UUID(report), Origin.SUBJECT, requested_by="sms")

    run_policy()

    assert decisions(report) == []


def test_policy_is_asked_about_many_reports_in_few_statements(api: Api):
    switch_on(api, DECLINE_HIGH)
    api.create(*[person(idNumber=str(10000000 + n)) for n in range(10)])
    claims = claim(64)

    with CaptureQueriesContext(connection) as statements:
        record_outcomes([(one, found(1)) for one in claims], definitions())

    assert len(waiting_reports()) == 10
    assert len(statements) <= 8


def test_report_that_never_ran_is_not_shown_to_the_policy(api: Api):
    switch_on(api, DECLINE_HIGH)
    cancelled = api.create({**person(), "draft": True})["id"]
    assert api.post(f"/reports/{cancelled}/cancel").status_code == 200
    report = api.create({**person(), "consent": HOSTED})["id"]
    Consent.objects.filter(report=report).update(expires_at=now())

    expire_consents()

    assert api.report(report)["status"] == "FAILED"
    assert waiting_reports() == []


def test_run_of_monitoring_is_not_shown_to_the_policy(api: Api, officer: Officer):
    switch_on(api, DECLINE_HIGH)
    create_rule(api)

    run_rules(api)

    run = api.workspace.reports.get(monitoring_id__isnull=False)
    assert run.status == "READY"
    assert waiting_reports() == []
    assert policies.dry_run(officer.client, read_rules([DECLINE_HIGH])).total == 0


def test_report_without_an_active_policy_schedules_nothing(api: Api, live_api: Api):
    version = switch_on(api, DECLINE_HIGH)
    by = Officer(api)
    policies.switch_off(by.client, version.pk, by.member, by.actor)
    draft_policy(api, DECLINE_HIGH, officer=by)

    create_ready_report(api)

    assert waiting_reports() == []


def test_policy_of_the_sandbox_leaves_production_alone(api: Api, live_api: Api):
    switch_on(live_api, DECLINE_HIGH)

    create_ready_report(api)

    assert waiting_reports() == []


def test_policy_costs_no_statement_when_a_report_ends(api: Api):
    def count(report: str) -> int:
        with CaptureQueriesContext(
            connection,
        ) as statements:
            api.work()
        assert api.report(report)["status"] == "READY"
        return len(statements)

    count(api.create(person())["id"])
    before = count(api.create(person(idNumber="12345670"))["id"])
    switch_on(api, DECLINE_HIGH)

    assert count(api.create(person(idNumber="12345671"))["id"]) == before
    assert len(waiting_reports()) == 1


def test_policy_decides_once_a_suspended_workspace_is_resumed(api: Api):
    switch_on(api, APPROVE_LOW)
    report = create_ready_report(api)
    api.workspace.suspend("Unpaid invoices")
    Job.objects.all().delete()
    policies.apply_policy(report)
    assert decisions(report) == []

    api.workspace.resume()
    run_policy()

    assert decisions(report) == [("APPROVED", "FINAL", "POLICY")]


def test_retry_that_ends_better_makes_a_proposal(api: Api):
    switch_on(api, APPROVE_LOW)
    set_max_attempts(1)
    report = create_ready_report(api, RECOVERS)
    run_policy()
    assert decisions(report) == [("REVIEW", "FINAL", "POLICY")]
    set_max_attempts(3)
    retry(api, report)
    policies.apply_policy(report)
    assert len(decisions(report)) == 1

    api.work()
    assert api.report(report)["status"] == "READY"
    run_policy()

    assert decisions(report) == [
        ("REVIEW", "FINAL", "POLICY"),
        ("APPROVED", "PENDING", "POLICY"),
    ]


def test_decline_of_a_person_that_waits_stays(api: Api, officer: Officer):
    wait(5, api)
    switch_on(api, APPROVE_LOW)
    report = create_ready_report(api)
    officer.decide(report)

    run_policy()

    assert decisions(report) == [("DECLINED", "WAITING", "MEMBER")]


class TestBroken:
    """A version names something that is gone."""

    @pytest.fixture
    def needs_all(self, api: Api):
        create_package(workspace=api.workspace)
        return rule(
            "DECLINED",
            condition("package", "IS", "loan"),
            condition("creditScore", "BELOW", 400, "CRB_SCORE"),
            codes=["CREDIT_SCORE_TOO_LOW"],
        )

    def break_check(self, api: Api) -> None:
        CheckDefinition.objects.filter(name="CRB_SCORE").update(active=False)

    def break_package(self, api: Api) -> None:
        api.workspace.packages.update(active=False)

    def break_code(self, api: Api) -> None:
        ReasonCode.objects.filter(code="CREDIT_SCORE_TOO_LOW").update(active=False)

    @pytest.mark.parametrize("what", ["check", "package", "code"])
    def test_broken_draft_is_not_switched_on(self, api: Api, needs_all, what):
        by = Officer(api)
        draft = draft_policy(api, needs_all, officer=by)
        policies.known_to(api.workspace)
        getattr(self, f"break_{what}")(api)

        with pytest.raises(PolicyRefused) as refusal:
            activate(draft, by)
        assert refusal.value.obstacle == PolicyObstacle.BROKEN
        assert PolicyVersion.objects.get().state == "DRAFT"
        assert [fault.gone for fault in policies.faults_of(draft)] == [what.upper()]

    def test_version_that_broke_proposes_a_review(self, api: Api, needs_all):
        version = switch_on(api, needs_all, APPROVE_LOW)
        self.break_check(api)
        report = create_ready_report_without(api, "CRB_SCORE")

        run_policy()

        assert decisions(report) == [("REVIEW", "FINAL", "POLICY")]
        assert Decision.objects.get().policy["isBroken"] is True
        version.refresh_from_db()
        assert version.broken_at is not None


def create_ready_report_without(api: Api, check: str) -> str:
    item = person()
    item["checksRequested"].remove(check)
    made: str = api.create(item)["id"]
    api.work()
    return made


class TestVersions:
    def test_new_version_retires_the_former_for_good(self, api: Api):
        switch_on(api, DECLINE_HIGH)
        switch_on(api, APPROVE_LOW)

        states = PolicyVersion.objects.values_list("number", "state")
        assert list(states) == [(1, "RETIRED"), (2, "ACTIVE")]
        former = PolicyVersion.objects.filter(number=1)
        with (
            pytest.raises(IntegrityError, match="append-only"),
            transaction.atomic(),
        ):
            former.update(state="ACTIVE", retired_at=None)
        events = AuditEvent.objects.filter(action="policy.activated")
        actors = set(events.values_list("actor", flat=True))
        assert actors == {"policy-maker-0", "policy-maker-1"}

    def test_database_keeps_the_one_version_that_was_switched_on(self, api: Api):
        version = switch_on(api, DECLINE_HIGH)

        for changes in (
            *[{"rules": []}, {"mode": "PROPOSE"}, {"state": "DRAFT"}, {"number": 7}],
        ):
            with (
                pytest.raises(IntegrityError, match="append-only"),
                transaction.atomic(),
            ):
                PolicyVersion.objects.filter(pk=version.pk).update(**changes)
        with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
            version.delete()
        version.pk, version.number = UUID(int=1), 2
        with pytest.raises(IntegrityError, match="one_active_policy_version"):
            version.save(force_insert=True)

    def test_api_lists_versions_that_were_switched_on(self, api: Api, live_api: Api):
        switch_on(api, rule("APPROVED", condition("level", "IS", "LOW", "KRA_PIN")))
        switch_on(api, DECLINE_HIGH)
        draft_policy(api, APPROVE_LOW)

        second, first = api.get("/policy/versions").json()["content"]

        assert (first["number"], first["state"]) == (1, "RETIRED")
        assert (second["state"], second["mode"]) == ("ACTIVE", "DECIDE")
        about_report = {"check": None, "fact": "score"}
        assert second["rules"] == [
            {
                "when": [about_report | {"comparison": "AT_LEAST", "value": 70.0}],
                "then": "DECLINED",
                "reasonCodes": ["OWN_CRITERIA"],
            }
        ]
        assert first["rules"][0]["when"][0]["value"] == "LOW"
        assert live_api.get("/policy/versions").json()["content"] == []

    def test_activation_of_a_draft_that_was_changed_is_refused(self, api: Api):
        by = Officer(api)
        draft = draft_policy(api, DECLINE_HIGH, officer=by)
        rules = read_rules([APPROVE_LOW])
        policies.save_draft(by.client, seen(draft), rules, by.member, by.actor)

        with pytest.raises(PolicyRefused) as refusal:
            activate(draft, by)
        assert refusal.value.obstacle == PolicyObstacle.CHANGED

    def test_member_whose_role_was_taken_switches_nothing_on(self, api: Api):
        by = Officer(api)
        draft = draft_policy(api, DECLINE_HIGH, officer=by)
        type(by.member).objects.filter(pk=by.member.pk).update(role=Role.VIEWER)

        with pytest.raises(NotAllowed):
            activate(draft, by)

    def test_version_without_rules_is_not_switched_on(self, api: Api):
        by = Officer(api)
        draft = policies.open_draft(by.client, by.member, by.actor, None)

        with pytest.raises(PolicyRefused) as refusal:
            activate(draft, by)
        assert refusal.value.obstacle == PolicyObstacle.NO_RULES


class TestDryRun:
    def test_dry_run_writes_nothing_and_is_what_the_real_run_decides(
        self, api: Api, officer: Officer
    ):
        switch_on(api, DECLINE_HIGH, APPROVE_LOW)
        reports = [create_ready_report(api, n) for n in ("12345678", ADVERSE)]
        before = count_rows()
        dry = policies.dry_run(officer.client, read_rules([DECLINE_HIGH, APPROVE_LOW]))
        assert count_rows() == before
        for report in reports:
            policies.apply_policy(report)

        assert dry.total == 2
        assert dry.counts == {(None, "APPROVED"): 1, (None, "DECLINED"): 1}
        made = [d.status for r in reports for d in Decision.objects.filter(report=r)]
        assert made == ["APPROVED", "DECLINED"]

    def test_dry_run_lists_what_was_decided_otherwise(self, deciding_api: Api):
        report = create_ready_report(deciding_api)
        decide(deciding_api, report)
        same = create_ready_report(deciding_api)
        decide(deciding_api, same, APPROVE)

        dry = policies.dry_run(Officer(deciding_api).client, read_rules([APPROVE_LOW]))

        (one,) = dry.differences
        assert (str(one.report_id), one.decided) == (report, "DECLINED")
        assert one.outcome == Outcome("APPROVED", (), 1, ())
        assert dry.counts == {("DECLINED", "APPROVED"): 1, ("APPROVED", "APPROVED"): 1}

    def test_dry_run_leaves_out_erased_restricted_and_disputed_reports(
        self, api: Api, officer: Officer
    ):
        disputed, _copy = [create_ready_report(api, "12345679") for _ in range(2)]
        dispute(disputed)
        erase(api, create_ready_report(api, "22222222"))
        report = UUID(create_ready_report(api))
        object_to_use(report, Origin.SUBJECT, requested_by="sms")

        assert policies.dry_run(officer.client, read_rules([APPROVE_LOW])).total == 0

    def test_dry_run_takes_few_statements(self, api: Api, officer: Officer):
        for n in range(3):
            create_ready_report(api, f"1234567{n}")
        flag = rule("APPROVED", condition("flag", "IS_NOT", "DECEASED"))

        with CaptureQueriesContext(connection) as statements:
            policies.dry_run(officer.client, read_rules([flag]))
        assert len(statements) == 3
