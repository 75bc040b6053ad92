"""Objection: no monitoring, no reuse, no redelivery; what ends it."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils.timezone import now

from monitoring.alerts import compare_runs
from monitoring.models import Alert, Rule
from monitoring.pauses import notify_paused, pause_for_staff, resume_for_staff
from tests.checks.engine import FAILED, definitions, found
from tests.world.clients import ATTESTED, HOSTED, Api, erase, error_codes, person
from tests.world.deliveries import (
    configure_receiver,
    ended_fields,
    retrying_fields,
    update_delivery,
)
from tests.world.employer import employment_item
from tests.world.orders import (
    REFUSED,
    create_report_with_status,
    movements,
    two_checks,
)
from tests.world.payments import candidate_item, open_page, payment_of
from tests.world.rules import (
    CHANGING,
    create_rule,
    launch_runs,
    rule_request,
    rule_status,
    run_rules,
)
from tests.world.subject import Visitor
from verification.api.events import EVENTS
from verification.checks.due_checks import claim
from verification.checks.models import CheckResult
from verification.checks.results import record_outcomes
from verification.notifications.models import Notification
from verification.payments.checkouts import PaymentClosed
from verification.privacy.models import Origin, SubjectRequest
from verification.privacy.objections import object_to_use
from verification.privacy.people import fill_further_ids
from verification.reports.models import Report, SearchEntry, StatusChange
from verification.values.local_time import utc_text
from webhooks.events import envelope
from webhooks.models import Delivery, Event
from webhooks.redelivery import recover

EMAIL = "wanjiku@kamau.test"
BORN = {"dateOfBirth": "1990-03-27"}


def object_to(api: Api, report_id: str) -> dict:
    answer = api.post(f"/reports/{report_id}/objection")
    assert answer.status_code == 200, answer.content
    return answer.json()


def newer_consent() -> dict:
    return {**ATTESTED, "obtainedAt": utc_text(now())}


@pytest.fixture
def ended(api: Api) -> str:
    report_id = api.create(person())["id"]
    api.work()
    return report_id


def test_all_reports_of_the_person_are_restricted(api: Api, ended: str):
    second, other = api.create(person(), person(idNumber="22222222"))

    report = object_to(api, ended)

    assert report["restrictedAt"] is not None
    assert report["subject"]["fullName"] == "Wanjiku Kamau"
    assert api.report(second["id"])["restrictedAt"] == report["restrictedAt"]
    assert api.report(other["id"])["restrictedAt"] is None
    request = SubjectRequest.objects.get()
    assert (request.kind, request.origin, request.outcome) == (
        "OBJECTION",
        "CLIENT",
        "DONE",
    )
    assert StatusChange.objects.filter(trigger="subject objected").count() == 2


def test_person_does_not_object_for_somebody_with_the_same_number(api: Api, ended: str):
    stranger = api.create(person(fullName="Peter Otieno"))["id"]

    first = object_to_use(ended, Origin.SUBJECT, requested_by="subject")
    again = object_to_use(ended, Origin.SUBJECT, requested_by="subject")

    assert first == again
    assert api.report(ended)["restrictedAt"] is not None
    assert api.report(stranger)["restrictedAt"] is None
    # Nor does the objection count for orders on them.
    assert api.create(person(fullName="Peter Otieno"))["status"] == "RUNNING"
    api.refused("/reports", {"reports": [person()]})


def test_results_are_not_reused(api: Api, ended: str):
    waiting = Visitor("")
    waiting.report_id = api.create(person() | {"consent": HOSTED})["id"]
    object_to(api, ended)

    waiting.agree()
    again = api.create(person() | {"consent": newer_consent()})["id"]
    api.work()

    for report_id in (waiting.report_id, again):
        report = api.report(report_id)
        assert report["status"] == "READY"
        assert [r["reused"] for r in report["checkResults"]] == [False] * 3


def test_rules_pause_and_their_runs_stop(api: Api, ended: str):
    rule = Rule.objects.get(pk=create_rule(api, "IDENTITY")["id"])
    run = rule.runs.get().report_id

    object_to(api, ended)

    assert rule_status(rule) == ("PAUSED", "OBJECTION")
    assert api.report(str(run))["status"] == "CANCELLED"
    assert launch_runs() == []
    assert pause_for_staff(rule.pk)
    assert resume_for_staff(rule.pk)
    assert rule_status(rule) == ("PAUSED", "OBJECTION")
    notify_paused()
    (message,) = Notification.objects.filter(kind="MONITORING_PAUSED")
    assert message.context["reason"] == "OBJECTION"


def test_findings_of_a_stopped_run_raise_no_alert_or_event(api: Api):
    create_rule(api, "IDENTITY", "KRA_PIN", "CRB_SCORE", id_number=CHANGING)
    run_rules(api)
    (run,) = launch_runs()
    late = CheckResult.objects.filter(report=run.report_id).exclude(name="IDENTITY")
    late.update(next_attempt_at=now() + timedelta(days=1))
    api.work()
    late.update(next_attempt_at=now(), turn_at=now())
    under_way = claim(2)
    before = set(Event.objects.values_list("pk", flat=True))
    object_to(api, str(run.report_id))

    outcomes = list(zip(under_way, [found(5), FAILED], strict=True))
    record_outcomes(outcomes, definitions())
    compare_runs(str(run.report_id))

    assert sorted(late.values_list("status", flat=True)) == ["COMPLETED", "FAILED"]
    assert not Alert.objects.exists()
    told = Event.objects.exclude(pk__in=before)
    assert set(told.values_list("name", flat=True)) == {"report.restricted"}
    run.refresh_from_db()
    assert run.compared_at is not None


def test_person_does_not_pause_rules_on_somebody_with_the_same_number(api: Api):
    own = api.create(person(email=EMAIL))["id"]
    strangers = [
        create_rule(api, subject=person(**details)["subject"])["id"]
        for details in (
            {"fullName": "Peter Otieno"},
            {"email": "another-wanjiku@kamau.test"},
        )
    ]
    rule = create_rule(api, subject=person(email=EMAIL)["subject"])
    mine = Rule.objects.get(pk=rule["id"])

    first = object_to_use(own, Origin.SUBJECT, requested_by="subject")
    again = object_to_use(own, Origin.SUBJECT, requested_by="subject")

    assert first == again
    assert rule_status(mine) == ("PAUSED", "OBJECTION")
    for rule in Rule.objects.filter(pk__in=strangers).prefetch_related("runs__report"):
        assert rule_status(rule) == ("ACTIVE", "")
        assert rule.runs.get().report.status != "CANCELLED"


def test_person_pauses_a_rule_without_an_address(api: Api):
    own = api.create(person(email=EMAIL))["id"]
    rule = Rule.objects.get(pk=create_rule(api, "IDENTITY")["id"])
    api.work()
    (run,) = launch_runs()

    object_to_use(own, Origin.SUBJECT, requested_by="subject")

    assert rule_status(rule) == ("PAUSED", "OBJECTION")
    assert api.report(str(run.report_id))["status"] == "CANCELLED"
    # The person has not proved to be that of the runs before.
    ended = rule.runs.get(number=1).report_id
    assert api.report(str(ended))["restrictedAt"] is None


@pytest.mark.parametrize(
    ("origin", "contact", "known"),
    [
        (Origin.SUBJECT, {"phone": "+254712345678"}, {}),
        (Origin.CLIENT, {"email": "wanjiku@example.com"}, {}),
        (Origin.SUBJECT, {"email": "wanjiku@example.com"}, BORN),
    ],
)
def test_objection_pauses_a_rule_without_a_number(
    api: Api, origin: Origin, contact: dict[str, str], known: dict[str, str]
):
    own, *others = api.create(
        employment_item(idNumber=None, **contact, **known),
        employment_item(idNumber=None),
    )
    named = employment_item(idNumber=None, fullName="WANJIKU  KAMAU", **known)
    rule = create_rule(api, "EMPLOYER_VERIFICATION", subject=named["subject"])

    object_to_use(own["id"], origin, requested_by="subject")

    assert rule_status(Rule.objects.get(pk=rule["id"])) == ("PAUSED", "OBJECTION")
    assert [api.report(one["id"])["restrictedAt"] for one in others] == [None]
    # Nor does a new rule in its place begin.
    again = rule_request("EMPLOYER_VERIFICATION", subject=named["subject"])
    problem = api.refused("/monitoring", {**again, "consent": ATTESTED})
    assert error_codes(problem) == {"#/consent": "consent-required"}
    renewed = {**again, "consent": newer_consent()}
    assert api.post("/monitoring", renewed).status_code == 201
    for stranger in ({"idNumber": "22222222"}, {"fullName": "Peter Otieno"}):
        subject = {**named["subject"], **stranger}
        create_rule(api, "EMPLOYER_VERIFICATION", subject=subject)


def test_client_resumes_only_with_a_newer_consent(api: Api, ended: str):
    rule = Rule.objects.get(pk=create_rule(api, "IDENTITY")["id"])
    object_to(api, ended)
    url = f"/monitoring/{rule.pk}/resume"

    assert api.refused(url)["code"] == "rule-not-resumable"
    assert api.refused(url, {"consent": ATTESTED})["code"] == "validation-failed"
    assert rule_status(rule) == ("PAUSED", "OBJECTION")
    assert api.post(url, {"consent": newer_consent()}).status_code == 200
    assert rule_status(rule) == ("ACTIVE", "")


def test_new_rule_needs_a_newer_consent(api: Api, ended: str):
    object_to(api, ended)

    for consent in ({}, {"consent": ATTESTED}):
        problem = api.refused("/monitoring", rule_request("IDENTITY", **consent))
        assert problem["errors"][0]["code"] == "consent-required"
        assert problem["errors"][0]["pointer"] == "#/consent"
    assert not Rule.objects.exists()
    create_rule(api, "IDENTITY", consent=newer_consent())
    create_rule(api, "IDENTITY", id_number="33333333")


def test_order_needs_a_newer_attestation(api: Api, ended: str):
    object_to(api, ended)
    other = person(idNumber="22222222")

    for path in ("/reports", "/reports/quote"):
        for more in ({}, {"draft": True}):
            problem = api.refused(path, {"reports": [other, person()], **more})
            code, at = "consent-required", "#/reports/1/consent/obtainedAt"
            assert error_codes(problem) == {at: code}
            assert api.report(ended)["restrictedAt"][:10] in str(problem["errors"])
    assert Report.objects.count() == 1
    api.create(other, person() | {"consent": newer_consent()})
    assert api.create(person() | {"consent": HOSTED})["status"] == "PENDING_CONSENT"


def test_objection_and_its_event_outlive_the_reports(api: Api, ended: str):
    object_to(api, ended)
    erase(api, ended)

    problem = api.refused("/reports", {"reports": [person()]})

    assert error_codes(problem) == {
        "#/reports/0/consent/obtainedAt": "consent-required"
    }
    event = Event.objects.get(name="report.restricted")
    assert event.payload["requestedBy"] == "CLIENT"


def test_earlier_consent_of_a_draft_does_not_launch_it(api: Api, ended: str):
    draft = api.create(person(), draft=True)["id"]
    object_to(api, ended)

    problem = api.refused(f"/reports/{draft}/launch")

    assert problem["code"] == "report-not-launchable"
    assert problem["reasons"] == ["CONSENT_OUTSTANDING"]
    edited = f"/reports/{draft}/draft"
    assert api.post(edited, {"purpose": "Job"}).status_code == 200
    problem = api.refused(edited, {"consent": ATTESTED})
    assert error_codes(problem) == {"#/consent/obtainedAt": "consent-required"}
    renewed = api.post(edited, {"consent": newer_consent()}).json()
    assert renewed["restrictedAt"] is None
    assert api.report(ended)["restrictedAt"] is not None
    assert api.post(f"/reports/{draft}/launch").status_code == 200


def test_draft_of_another_subject_is_not_restricted(api: Api, ended: str):
    draft = api.create(person(), draft=True)["id"]
    object_to(api, ended)

    path = f"/reports/{draft}/draft"
    assert api.post(path, {"purpose": "Job"}).json()["restrictedAt"] is not None
    subject = {"subject": person(idNumber="22222222")["subject"]}
    assert api.post(path, subject).json()["restrictedAt"] is None


def test_earlier_grant_of_a_draft_does_not_launch_it(api: Api):
    visitor = Visitor("")
    item = {**person(), "consent": HOSTED}
    visitor.report_id = api.create(item, draft=True)["id"]
    visitor.agree()
    object_to(api, visitor.report_id)

    problem = api.refused(f"/reports/{visitor.report_id}/launch")

    assert problem["reasons"] == ["CONSENT_OUTSTANDING"]


def test_failed_checks_are_not_retried(api: Api):
    failed = api.create(two_checks(idNumber=REFUSED))["id"]
    api.work()
    object_to(api, failed)

    problem = api.refused(f"/reports/{failed}/retry")

    assert problem["code"] == "report-not-retryable"
    assert "objected" in problem["detail"]


def test_reports_under_way_are_cancelled_and_others_stay(api: Api):
    ended = ("PENDING_PAYMENT", "RUNNING")
    # All are about one person. The running one is the last, as it would end.
    statuses = ["DRAFT", "PENDING_CONSENT", "PENDING_PAYMENT", "READY", "RUNNING"]
    reports = [create_report_with_status(api, status) for status in statuses]

    object_to(api, reports[0])

    api.work()
    expected = ["CANCELLED" if status in ended else status for status in statuses]
    rows = Report.objects.order_by("pk")
    assert [one.status for one in rows] == expected
    assert all(one.restricted_at for one in rows)
    notes = StatusChange.objects.filter(trigger="subject objected").order_by("report")
    assert [one.target for one in notes] == expected


def test_report_with_a_check_that_waits_is_cancelled(api: Api):
    report_id = create_report_with_status(api, "PARTIAL on the way")

    assert object_to(api, report_id)["status"] == "CANCELLED"


def test_checks_that_have_not_run_are_credited(api: Api):
    report_id = api.create(two_checks())["id"]

    object_to_use(report_id, Origin.SUBJECT, requested_by="subject")

    booked = [("CHARGE", -50, 1)] * 2 + [("REVERSAL", 50, 1)] * 2
    assert movements(api)[-4:] == booked


def test_payment_pages_close(api: Api):
    draft, report = (
        api.create(candidate_item(), draft=True),
        api.create(candidate_item()),
    )

    asked = object_to(api, draft["id"])["paymentState"]

    assert asked["paymentUrl"] is None
    assert payment_of(report).status == "CANCELLED"
    for closed in (draft, report):
        with pytest.raises(PaymentClosed):
            open_page(closed)


def test_report_that_the_person_agreed_to_later_is_cancelled_too(api: Api):
    visitor = Visitor("")
    visitor.report_id = api.create({**person(), "consent": HOSTED})["id"]
    object_to(api, visitor.report_id)
    visitor.agree()
    agreed = api.report(visitor.report_id)
    assert (agreed["status"], agreed["restrictedAt"]) == ("RUNNING", None)

    assert object_to(api, visitor.report_id)["status"] == "CANCELLED"


def fill_register() -> None:
    """Store the objections of 5,000 others, which only an index passes over."""
    with connection.cursor() as cursor:
        cursor.execute(
            """INSERT INTO privacy_subjectrequest (id, kind, origin, environment,
            subject_id, further_ids, requested_by, received_at, due_at, outcome,
            answered_at, reason)
            SELECT gen_random_uuid(), 'OBJECTION', 'SUBJECT', '', gen_random_uuid(),
            CASE number % 5 WHEN 0 THEN ARRAY[gen_random_uuid()] ELSE '{}' END, '',
            now(), now() + interval '1 day', 'DONE', now(), ''
            FROM generate_series(1, 5000) number"""
        )
        cursor.execute("ANALYZE privacy_subjectrequest")


def test_only_attested_orders_cost_a_query_more(
    api: Api, django_assert_num_queries: Any
):
    hosted = {"reports": [person() | {"consent": HOSTED}]}
    attested = {"reports": [person(idNumber=f"2222{n:04}") for n in range(20)]}
    # The first request writes when its key was used.
    api.post("/reports/quote", hosted)
    with CaptureQueriesContext(connection) as one:
        api.post("/reports/quote", hosted)

    with django_assert_num_queries(len(one) + 1) as many:
        api.post("/reports/quote", attested)

    (query,) = [q["sql"] for q in many if "privacy_subjectrequest" in q["sql"]]
    fill_register()
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(f"EXPLAIN {query}")
        plan = str(cursor.fetchall())
    # Both conditions are answered by an index.
    assert "BitmapOr" in plan


def test_webhooks_are_not_sent_again(api: Api):
    configure_receiver(api.workspace)
    report_id = api.create(person())["id"]
    delivery = Delivery.objects.get()
    update_delivery(delivery, **ended_fields("FAILED"))
    object_to(api, report_id)

    problem = api.refused(f"/webhooks/deliveries/{delivery.pk}/redeliver")

    assert (problem["status"], problem["code"]) == (409, "event-restricted")
    assert recover(api.workspace.pk, "sandbox", delivery.created_at) == 0


def test_waiting_webhooks_are_not_sent(api: Api):
    configure_receiver(api.workspace)
    report_id, _ = (one["id"] for one in api.create(person(), person()))
    waiting = Delivery.objects.filter(next_attempt_at__isnull=False)
    for delivery, fields in zip(
        waiting.all(), [{"status": "PENDING"}, retrying_fields()], strict=True
    ):
        update_delivery(delivery, **fields)

    object_to(api, report_id)

    stopped = Delivery.objects.exclude(name="report.restricted")
    assert [one.status for one in stopped] == ["FAILED"] * 2
    assert {one.name for one in waiting.all()} == {"report.restricted"}


def test_client_gets_an_event_for_each_restricted_report(api: Api):
    configure_receiver(api.workspace, events=["report.restricted"])
    reports = [api.create(person(email=EMAIL))["id"] for _ in range(2)]

    object_to_use(reports[0], Origin.SUBJECT, requested_by="subject")
    object_to_use(reports[0], Origin.SUBJECT, requested_by="subject")

    told = Event.objects.filter(name="report.restricted").order_by("report_id")
    assert [event.payload for event in told] == [
        {
            "workspaceId": str(api.workspace.pk),
            "reportId": report_id,
            "requestedBy": "SUBJECT",
            "restrictedAt": api.report(report_id)["restrictedAt"],
        }
        for report_id in reports
    ]
    for event in told:
        EVENTS["report.restricted"].model_validate_json(envelope(event))
    waiting = Delivery.objects.filter(next_attempt_at__isnull=False)
    assert waiting.count() == 2
    url = f"/webhooks/deliveries/{told[0].pk}/redeliver"
    assert api.post(url).status_code == 202


def test_second_objection_changes_nothing_unless_there_is_a_new_report(
    api: Api, ended: str
):
    first = object_to(api, ended)
    again = object_to(api, ended)
    assert again == first
    assert SubjectRequest.objects.count() == 1
    later = api.create(person() | {"consent": newer_consent()})["id"]

    object_to(api, ended)

    assert api.report(later)["restrictedAt"] is not None
    assert SubjectRequest.objects.count() == 2


def test_later_objection_voids_a_consent_of_the_time_between(api: Api, ended: str):
    object_to(api, ended)
    SubjectRequest.objects.update(received_at=now() - timedelta(days=3))
    between = {**ATTESTED, "obtainedAt": utc_text(now() - timedelta(days=1))}

    object_to(api, ended)

    order = {"reports": [person() | {"consent": between}]}
    problem = api.refused("/reports", order)
    assert error_codes(problem) == {
        "#/reports/0/consent/obtainedAt": "consent-required"
    }


PIN = {"kraPin": "A123456789B"}
PIN_ALONE = {"idNumber": None, **PIN}


@pytest.mark.parametrize(("objected", "other"), [(PIN_ALONE, PIN), ({}, PIN_ALONE)])
def test_objection_counts_for_every_number(api: Api, objected: Any, other: Any):
    checks = {"checksRequested": ["KRA_PIN"]}
    first = api.create(person(**objected) | checks)["id"]
    further = [
        api.create(person(**each) | checks)["id"] for each in (PIN, other, PIN_ALONE)
    ]
    peter = person(fullName="Peter Otieno", idNumber="22222222", **PIN)
    stranger = api.create(peter)["id"]

    object_to(api, first)

    assert all(api.report(one)["restrictedAt"] for one in further)
    assert api.report(stranger)["restrictedAt"] is None
    problem = api.refused("/reports", {"reports": [person(**other) | checks]})
    assert problem["errors"][0]["code"] == "consent-required"
    api.create(person(**other) | checks | {"consent": newer_consent()})
    api.create(person(idNumber="22222222", kraPin="B987654321C"))


def test_objection_of_an_older_version_counts_once_it_is_filled(api: Api):
    checks = {"checksRequested": ["KRA_PIN"]}
    object_to(api, api.create(person(**PIN) | checks)["id"])
    SubjectRequest.objects.update(further_ids=None)

    fill_further_ids()

    problem = api.refused("/reports", {"reports": [person(**PIN_ALONE) | checks]})
    assert problem["errors"][0]["code"] == "consent-required"


@pytest.mark.parametrize("is_old", [False, True])
def test_objection_of_a_person_without_a_number_spares_namesakes(
    api: Api, is_old: bool
):
    theirs = employment_item(idNumber=None, phone="+254712345678")
    others = [
        employment_item(idNumber=None, phone="+254712345679"),
        employment_item(idNumber=None),
    ]
    own, *left = [one["id"] for one in api.create(theirs, *others)]

    object_to(api, own)
    if is_old:
        # An older version gave them one id.
        SubjectRequest.objects.update(further_ids=None, subject_id=(shared := uuid4()))
        Report.objects.update(subject_id=shared)
        SearchEntry.objects.update(further_ids=None)
        fill_further_ids()

    assert api.report(own)["restrictedAt"] is not None
    assert not any(api.report(one)["restrictedAt"] for one in left)
    problem = api.refused("/reports", {"reports": [*others, theirs]})
    at = "#/reports/2/consent/obtainedAt"
    assert error_codes(problem) == {at: "consent-required"}


@pytest.mark.parametrize(
    ("known", "theirs", "strangers"),
    [
        ({}, {}, {"idNumber": "22222222"}),
        ({**BORN, "email": EMAIL}, BORN, {}),
        ({"email": EMAIL}, {"email": EMAIL}, {"fullName": "Peter Otieno"}),
    ],
)
def test_order_on_the_name_of_a_person_without_a_number_needs_a_newer_consent(
    api: Api, known: Any, theirs: Any, strangers: Any
):
    first = api.create(employment_item(idNumber=None, **known))["id"]
    object_to(api, first)
    named = employment_item(idNumber=None, fullName="WANJIKU  KAMAU", **theirs)
    stranger = employment_item(**{"idNumber": None, **strangers})

    problem = api.refused("/reports", {"reports": [stranger, named]})

    at = "#/reports/1/consent/obtainedAt"
    assert error_codes(problem) == {at: "consent-required"}
    api.create(stranger, named | {"consent": newer_consent()})


def test_order_reads_objections_by_index(db: None):
    fill_register()

    with connection.cursor() as cursor:
        # From the sixth call on PostgreSQL uses the plan for average values.
        for count in [1, 1, 1, 1, 1, 1, 50]:
            ids = [uuid4() for _ in range(count)]
            cursor.execute("SELECT reports_refuse_objected(%s, %s)", [["any"], ids])
        cursor.execute(
            "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables "
            "WHERE relname = 'privacy_subjectrequest'"
        )
        (rows_read,) = cursor.fetchone()
    assert rows_read < 100
