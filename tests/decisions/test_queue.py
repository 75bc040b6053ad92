"""The queue: reports that wait for a decision, their assignees and due times."""

from datetime import timedelta
from importlib import import_module
from typing import Any
from uuid import UUID

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.models import QuerySet
from django.test.utils import CaptureQueriesContext

from tests.reports.test_retry import RECOVERS, set_max_attempts
from tests.world.clients import HOSTED, Api, create_lender, erase, person
from tests.world.corrections import RIGHT, create_wrong_report, dispute, reviewer
from tests.world.decisions import (
    APPROVE,
    Officer,
    create_case,
    create_ready_report,
    decide,
    deciding_api,
    demand_second,
    open_new_cases,
    set_service_level,
)
from tests.world.notices import create_report, decline, wait
from tests.world.orders import REFUSED, two_checks
from tests.world.rules import create_rule, run_rules
from verification.backoffice.models import AuditEvent
from verification.checks.models import CheckResult
from verification.consents.links import expire_consents
from verification.consents.models import Consent
from verification.decisions.case_list import Holder, QueueFilters, Wait, list_cases
from verification.decisions.cases import (
    CaseObstacle,
    CaseRefused,
    open_case,
    open_cases,
    release_cases,
)
from verification.decisions.decide import withdraw
from verification.decisions.models import Case, CaseCause, CaseNote, Decision
from verification.jobs.models import Job
from verification.jobs.names import JobName
from verification.privacy import corrections
from verification.privacy.models import Origin
from verification.privacy.objections import object_to_use
from verification.reports.models import Report
from verification.values.clock import now
from workspaces import members
from workspaces.members import NotAllowed
from workspaces.models import Role, Workspace


@pytest.fixture(scope="module")
def report(module_transaction: None) -> str:
    """A report that waits for a decision, within a day, for all tests of this file."""
    return create_case(Api(create_lender(), "sandbox"))


@pytest.fixture
def workspace(report: str, db: None) -> Workspace:
    return Workspace.objects.get(reports=report)


def case_of(report_id: str) -> Case:
    return Case.objects.get(pk=report_id)


def waits(report_id: Any) -> bool:
    return Case.objects.filter(pk=report_id, closed_at=None).exists()


def obstacle(do, *arguments) -> CaseObstacle:
    with pytest.raises(CaseRefused) as refusal:
        do(*arguments)
    return refusal.value.obstacle


# Entering and leaving


def test_report_waits_from_its_end_for_the_hours_of_the_service_level(api: Api):
    set_service_level(api, 24)

    case = case_of(create_case(api))

    assert (case.cause, case.assignee, case.closed_at) == ("ENDED", None, None)
    assert case.risk_level == case.report.risk_level
    assert case.due_at - case.opened_at == timedelta(hours=24)
    assert now() - case.opened_at < timedelta(minutes=1)


def test_workspace_without_a_service_level_pays_nothing_for_the_queue(api: Api):
    def statements(id_number: str) -> list[str]:
        api.create(two_checks(idNumber=id_number))
        with CaptureQueriesContext(connection) as captured:
            api.work()
        return [query["sql"] for query in captured]

    set_service_level(api, None)
    Job.objects.all().delete()
    statements("11111111")
    before = statements("22222222")
    assert not any("case" in sql for sql in before if "decisions_" in sql)
    assert not Job.objects.filter(function=JobName.OPEN_CASES).exists()

    set_service_level(api)
    after = statements("33333333")

    # The job goes with the events, in one statement.
    assert Job.objects.filter(function=JobName.OPEN_CASES).exists()
    assert len(after) <= len(before) + 1, "more than the NOTIFY of the job"


def test_run_of_monitoring_has_alerts_and_no_case(api: Api):
    set_service_level(api)
    create_rule(api)

    run_rules(api)
    open_new_cases()

    run = api.workspace.reports.get(monitoring_id__isnull=False)
    assert run.status == "READY"
    assert not waits(run.pk)


def test_job_of_an_end_can_run_twice(officer: Officer, report: str):
    opened = case_of(report).opened_at

    open_new_cases()
    assert case_of(report).opened_at == opened

    officer.decide(report)
    open_new_cases()
    assert not waits(report)


def test_decision_before_the_job_leaves_nothing_to_wait_for(api: Api, officer):
    set_service_level(api)
    report = create_ready_report(api)
    officer.decide(report)

    open_new_cases()

    assert not waits(report)


def test_decline_that_waits_before_the_job_leaves_nothing_to_wait_for(api, officer):
    set_service_level(api)
    wait(3, api)
    report = create_report(api)
    assert decline(officer, report, "ADVERSE_CREDIT").state == "WAITING"

    open_new_cases()

    assert not waits(report)


def test_approval_closes_the_case_and_a_review_opens_it(
    officer: Officer, second: Officer, report: str
):
    first = officer.decide(report, "REVIEW")
    assert waits(report)

    officer.take(report)
    approval = officer.decide(report, "APPROVED", replaces=first.pk)
    assert case_of(report).assignee is None
    assert not waits(report)
    assert obstacle(second.take, report) == CaseObstacle.CLOSED

    officer.decide(report, "REVIEW", replaces=approval.pk)
    assert case_of(report).cause == CaseCause.REVIEW
    assert waits(report)


def test_proposal_goes_back_to_nobody_and_waits_for_the_second_member(
    api: Api, officer: Officer, second: Officer, report: str
):
    demand_second(api)
    officer.take(report)
    due = case_of(report).due_at

    proposal = officer.decide(report)

    case = case_of(report)
    assert (case.assignee, case.closed_at, case.due_at) == (None, None, due)
    second.confirm(proposal)
    assert not waits(report)


def test_proposal_of_a_program_leaves_the_case_with_its_member(
    api, officer, report: str
):
    demand_second(api)
    officer.take(report)

    decide(deciding_api(api), report)

    assert case_of(report).assignee == officer.member


def test_refused_proposal_still_waits(
    api: Api, officer: Officer, second: Officer, report: str
):
    demand_second(api)
    second.refuse(officer.decide(report))

    assert waits(report)


def test_refused_proposal_to_decide_anew_waits_no_more(
    api, officer, second, report: str
):
    made = officer.decide(report, "APPROVED")
    demand_second(api)
    proposal = officer.decide(report, replaces=made.pk)
    assert case_of(report).cause == CaseCause.PROPOSED
    assert waits(report)

    second.refuse(proposal)

    assert not waits(report)


def test_proposal_about_an_older_report_enters_the_queue(api: Api, officer):
    report = create_ready_report(api)
    set_service_level(api)
    demand_second(api)

    officer.decide(report)

    assert case_of(report).cause == CaseCause.PROPOSED


def test_subject_who_asks_for_a_person_opens_the_case_again(officer, report: str):
    officer.decide(report)
    soon = now() + timedelta(hours=2)

    for _ in range(2):
        with transaction.atomic():
            row = Report.objects.select_for_update(of=("self",)).get(pk=report)
            assert open_case(row, CaseCause.REQUESTED, due_at=soon)
            # A later deadline does not put the case off.
            assert open_case(row, CaseCause.ENDED, due_at=soon + timedelta(days=1))

    case = case_of(report)
    assert (case.cause, case.due_at, case.closed_at) == ("REQUESTED", soon, None)


def test_what_needs_a_person_waits_without_a_service_level(api: Api, officer):
    """Hours only say by when."""
    set_service_level(api, None)
    Case.objects.all().delete()
    review, proposed, withdrawn = (
        create_ready_report(api, number)
        for number in ("11111111", "22222222", "33333333")
    )
    assert not Case.objects.exists()
    wait(5, api)
    officer.decide(review, "REVIEW")
    made = officer.decide(withdrawn)
    withdraw(officer.client, made.pk, officer.member, officer.actor)
    demand_second(api)
    officer.decide(proposed)

    found = {str(case.pk): (case.cause, case.due_at) for case in open_now()}
    assert found == {
        review: ("REVIEW", None),
        withdrawn: ("REVIEW", None),
        proposed: ("PROPOSED", None),
    }
    set_service_level(api)
    officer.decide(review, "REVIEW", replaces=Decision.objects.get(report=review).pk)
    assert case_of(review).due_at


def open_now() -> QuerySet[Case]:
    return Case.objects.filter(closed_at=None)


def test_migration_puts_what_waits_into_the_queue(api: Api, officer, second):
    """It waited in no list in workspaces without a service level."""
    set_service_level(api, None)
    demand_second(api)
    proposed, review, decided, refused = (
        create_ready_report(api, f"{digit}" * 8) for digit in range(1, 5)
    )
    officer.decide(proposed)
    officer.decide(review, "REVIEW")
    officer.decide(decided, "APPROVED")
    second.refuse(officer.decide(refused))
    declined = api.create({**person(), "consent": HOSTED})["id"]
    Consent.objects.filter(report=declined).update(expires_at=now())
    expire_consents()
    Case.objects.all().delete()
    row = Report.objects.get(pk=declined)
    columns = ("workspace_id", "environment", "risk_level")
    Case.objects.create(
        report=row, cause="REVIEW", **{name: getattr(row, name) for name in columns}
    )

    migration = import_module(
        "verification.decisions.migrations.0010_cases_without_hours"
    )
    with connection.cursor() as cursor:
        for statement in (migration.CLOSE_UNDECIDABLE, migration.FILL):
            cursor.execute(statement)

    found = {str(case.pk): case.cause for case in open_now()}
    assert found == {proposed: "PROPOSED", review: "REVIEW"}


def test_new_service_level_leaves_open_cases_as_they_are(api: Api, officer: Officer):
    first = create_case(api)
    due = case_of(first).due_at

    set_service_level(api, 2)
    second = create_case(api)
    officer.decide(first, "REVIEW")
    set_service_level(api, None)

    assert case_of(first).due_at == due
    assert case_of(second).due_at < due
    assert waits(first)


def test_check_that_runs_again_keeps_the_case_and_its_assignee(api: Api, officer):
    set_service_level(api)
    report = api.create(two_checks(idNumber=REFUSED))["id"]
    api.work()
    open_new_cases()
    officer.take(report)
    case = case_of(report)
    assert api.post(f"/reports/{report}/retry").status_code == 200

    api.work()
    open_new_cases()

    again = case_of(report)
    assert (again.assignee, again.due_at) == (officer.member, case.due_at)


@pytest.mark.parametrize("number", [REFUSED, RECOVERS])
def test_decided_report_waits_again_if_a_retry_completes_a_check(
    api: Api, officer, number
):
    set_service_level(api)
    set_max_attempts(1)
    report = api.create(two_checks(idNumber=number))["id"]
    api.work()
    open_new_cases()
    officer.decide(report)
    set_max_attempts(3)
    assert api.post(f"/reports/{report}/retry").status_code == 200

    api.work()
    open_new_cases()

    assert waits(report) == (number == RECOVERS)


def test_cancelled_erased_and_restricted_reports_leave_the_queue(api: Api, officer):
    set_service_level(api)
    cancelled = api.create(two_checks(idNumber=REFUSED))["id"]
    api.work()
    open_new_cases()
    assert api.post(f"/reports/{cancelled}/retry").status_code == 200
    assert waits(cancelled)
    assert api.post(f"/reports/{cancelled}/cancel").status_code == 200
    assert not waits(cancelled)

    erased = create_case(api, "22222222")
    restricted = create_case(api, "33333333")
    officer.take(erased)
    erase(api, erased)
    object_to_use(UUID(restricted), Origin.STAFF, requested_by="staff")

    assert not any(map(waits, [cancelled, erased, restricted]))
    assert case_of(erased).risk_level == "UNKNOWN"
    row = Report.objects.get(pk=restricted)
    assert not open_case(row, CaseCause.REQUESTED, due_at=now())
    open_cases(erased, restricted, cancelled)
    assert not any(map(waits, [cancelled, erased, restricted]))


def test_corrected_finding_changes_the_level_of_the_case(api: Api):
    set_service_level(api)
    report = create_wrong_report(api)
    open_new_cases()
    before = case_of(report).risk_level
    correction = dispute(report)
    corrections.take(correction.pk, reviewer())
    corrections.rerun(correction.pk, reviewer(), {"idNumber": RIGHT})
    api.work()

    corrections.correct(correction.pk, reviewer(), "Mistyped")

    level = Report.objects.get(pk=report).risk_level
    assert level != before
    assert case_of(report).risk_level == level


# The list


FILL = """
INSERT INTO reports_report SELECT (jsonb_populate_record(r, jsonb_build_object(
    'id', gen_random_uuid(), 'subject_id', gen_random_uuid()))).*
FROM reports_report r, generate_series(1, 5000)
"""
FILL_CASES = """
INSERT INTO decisions_case (report_id, workspace_id, environment, risk_level, package,
    cause, due_at, opened_at, assignee_id)
SELECT id, workspace_id, environment,
    CASE WHEN n %% 500 = 0 THEN 'HIGH' ELSE 'LOW' END,
    CASE WHEN n %% 400 = 0 THEN 'rare' END, 'ENDED', now() + n * interval '1 second',
    now(), CASE WHEN n %% 300 = 0 THEN %(member)s::uuid END
FROM (SELECT *, row_number() OVER (ORDER BY id) AS n FROM reports_report) r
ON CONFLICT DO NOTHING
"""
FILL_DECISIONS = """
INSERT INTO decisions_decision (id, workspace_id, environment, report_id, number,
    status, state, codes, made_by_kind, made_by, made_by_key, needs_second, second_by,
    created_at, final_at)
SELECT gen_random_uuid(), workspace_id, environment, report_id, 1, 'REVIEW',
    CASE WHEN package = 'rare' THEN 'PENDING' ELSE 'FINAL' END, '{}', 'API_KEY', 'key',
    gen_random_uuid(), package IS NOT NULL, '', now(),
    CASE WHEN package IS NULL THEN now() END
FROM decisions_case
"""
# A page in the middle of the list, for each of these filters
QUEUES = [
    QueueFilters(),
    QueueFilters(holder=Holder.MINE),
    QueueFilters(holder=Holder.NOBODY),
    QueueFilters(overdue=True),
    QueueFilters(level="HIGH"),
    QueueFilters(package="rare"),
    QueueFilters(wait=Wait.SECOND),
    QueueFilters(wait=Wait.DECISION),
    QueueFilters(search="wanjiku"),
]


def test_long_queue_is_read_by_its_indexes(officer: Officer):
    with connection.cursor() as cursor:
        cursor.execute(FILL)
        cursor.execute(FILL_CASES, {"member": officer.member.pk})
        cursor.execute(FILL_DECISIONS)
        cursor.execute("ANALYZE reports_report, decisions_case, decisions_decision")
        # What is left of them then has no index.
        cursor.execute("SET LOCAL enable_seqscan = off")
    middle = Case.objects.order_by("due_at")[2_500].pk

    plans = [plan_of(officer, filters, middle) for filters in QUEUES]
    assert "open_cases" in plans[0]
    # The index has the order of the list.
    assert "Sort" not in plans[0]
    assert [plan for plan in plans if "Seq Scan" in plan] == []


def plan_of(officer: Officer, filters: QueueFilters, after: UUID) -> str:
    """Return the plan of the statements that find the rows of a page."""
    with CaptureQueriesContext(connection) as captured:
        list_cases(officer.member, "sandbox", filters, after=after, size=20)
    order = 'ORDER BY "decisions_case"."due_at"'
    queries = [q["sql"] for q in captured if order in q["sql"]]
    assert queries
    plans = []
    with connection.cursor() as cursor:
        for query in queries:
            cursor.execute(f"EXPLAIN {query}")
            plans += [line for (line,) in cursor.fetchall()]
    return "\n".join(plans)


# Members who take a case


def test_member_takes_a_case_and_gives_it_to_another(officer, second, report: str):
    officer.take(report)
    assert obstacle(second.take, report) == CaseObstacle.TAKEN
    assert case_of(report).assignee == officer.member
    officer.assign(report, second.member, officer.member)
    assert case_of(report).assignee == second.member
    officer.assign(report, None, second.member)
    assert case_of(report).assignee is None

    events = AuditEvent.objects.filter(action="case.assigned")
    assert [event.actor for event in events] == ["otieno"] * 3


def test_next_case_is_the_one_that_is_due_first(api, officer, report: str):
    second = create_case(api, "22222222")
    Case.objects.filter(pk=second).update(due_at=now() - timedelta(days=1))

    assert [str(officer.take_next().pk) for _ in range(2)] == [second, report]


def test_next_case_is_none_that_waits_for_another_member(
    api, officer, second, report: str
):
    demand_second(api)
    officer.decide(report)

    assert officer.take_next() is None
    assert str(second.take_next().pk) == report


def test_case_cannot_be_given_to_a_member_who_may_not_decide(api, officer, report: str):
    viewer = Officer(api, "VIEWER", "viewer")

    with pytest.raises(NotAllowed):
        officer.assign(report, viewer.member)
    for do in (lambda: viewer.take(report), viewer.take_next):
        with pytest.raises(NotAllowed):
            do()
    assert case_of(report).assignee is None


def test_case_of_another_workspace_is_not_found(another_api, officer, report: str):
    stranger = Officer(another_api, "OWNER", "stranger")

    with pytest.raises(Case.DoesNotExist):
        stranger.take(report)
    with pytest.raises(NotAllowed):
        officer.assign(report, stranger.member)
    with pytest.raises(Report.DoesNotExist):
        stranger.note(report, "Not mine")
    assert stranger.take_next() is None


def test_cases_of_a_member_who_leaves_go_back_to_nobody(officer, second, report: str):
    officer.take(report)

    members.remove(second.member, officer.member)

    assert case_of(report).assignee is None
    assert waits(report)


def test_cases_of_a_member_whose_role_is_taken_go_back_to_nobody(
    officer, second, report: str
):
    officer.take(report)
    members.change_role(second.member, officer.member, Role.OWNER)
    release_cases(str(officer.member.pk))
    assert case_of(report).assignee == officer.member

    members.change_role(second.member, officer.member, Role.VIEWER)
    row = Job.objects.filter(function__endswith="release_cases").last()
    release_cases(*row.arguments)

    assert case_of(report).assignee is None


# Notes


def test_double_click_adds_one_note(officer: Officer, report: str):
    for text in ("Rang the employer", "Rang the employer", "No answer"):
        officer.note(report, text)

    assert [one.text for one in CaseNote.objects.all()] == [
        "Rang the employer",
        "No answer",
    ]


def test_report_takes_a_limited_number_of_notes(
    officer: Officer, monkeypatch, report: str
):
    monkeypatch.setattr("verification.decisions.cases.MAX_NOTES", 1)
    officer.note(report, "Rang the employer")

    with pytest.raises(CaseRefused):
        officer.note(report, "No answer")


def test_note_says_who_and_is_sealed(api: Api, officer: Officer, report: str):
    note = officer.note(report, "Rang the employer")

    with connection.cursor() as cursor:
        cursor.execute("SELECT text FROM decisions_casenote")
        assert b"employer" not in bytes(cursor.fetchone()[0])
    stored = CaseNote.objects.get()
    assert stored.text == "Rang the employer"
    assert (stored.author, stored.author_user) == (
        f"member {officer.member.pk}",
        officer.member.user_id,
    )
    event = AuditEvent.objects.get(action="case.noted")
    assert (event.object_id, event.workspace_id) == (str(note.pk), api.workspace.pk)


def test_note_stays_as_it_was_until_it_is_erased(
    api: Api, officer: Officer, report: str
):
    note = officer.note(report, "Rang the employer")
    for change in (
        lambda: CaseNote.objects.update(author="nobody"),
        lambda: CaseNote.objects.all().delete(),
    ):
        with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
            change()

    erase(api, report)

    note.refresh_from_db()
    assert note.text is None
    assert obstacle(officer.note, report, "More") == CaseObstacle.CLOSED


def test_keys_decide_and_close_cases_too(api: Api, report: str):
    decide(deciding_api(api), report, APPROVE)

    assert not waits(report)
    assert CheckResult.objects.filter(report=report).exists()
