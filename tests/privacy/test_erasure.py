"""Erasing one person: what goes, what stays, and what comes too late."""

import json
import time
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.db.models import Q
from django.utils.timezone import now

from monitoring.alerts import compare_runs
from monitoring.models import Alert, Baseline, Rule
from tests.checks.engine import definitions, found
from tests.world.clients import HOSTED, Api, erase, erasing_api, person, request_erasure
from tests.world.clock import let_time_pass
from tests.world.corrections import (
    MISTYPED,
    REASON,
    RIGHT,
    create_wrong_report,
    dispute,
    reviewer,
)
from tests.world.deliveries import configure_receiver
from tests.world.employer import employment_item
from tests.world.logs import LogLines
from tests.world.logs import log_lines as log_lines
from tests.world.orders import STATUSES, create_report_with_status, movements
from tests.world.payments import candidate_item, end_checkout, open_page, payment_of
from tests.world.rules import (
    create_rule,
    end_runs,
    launch_runs,
    raise_alert,
    store_rule,
)
from tests.world.staff import enter_request
from tests.world.threads import run_at_once
from verification.api.events import EVENTS
from verification.batches.cells import Cell, Line, Sheet
from verification.batches.models import Batch, Upload
from verification.checks.due_checks import claim
from verification.checks.models import CheckResult
from verification.checks.results import Failed, Retry, record_outcomes
from verification.console.batches import store_upload
from verification.console.order_inputs import Choice
from verification.db.ids import uuid7
from verification.notifications.delivery import claim as claim_notification
from verification.notifications.delivery import record as record_notification
from verification.notifications.models import Notification, Outcome
from verification.payments.checkouts import CheckoutNotOpened, open_at_provider
from verification.payments.models import PaymentEvent, Refund
from verification.payments.provider_events import record_provider_event
from verification.payments.refunds import send_refunds
from verification.payments.registry import provider_named
from verification.privacy import erasure as erasure_module
from verification.privacy.corrections import correct, rerun, take
from verification.privacy.erasure import (
    ErasureHeld,
    erase_person,
    resume_erasures,
    sweep_erasures,
)
from verification.privacy.erasure import request_erasure as ask
from verification.privacy.holds import hold
from verification.privacy.joins import ask_to_join
from verification.privacy.models import (
    ErasedCount,
    Erasure,
    Hold,
    Origin,
    SubjectRequest,
)
from verification.privacy.models import Outcome as RequestOutcome
from verification.privacy.people import Person, Proof, fill_further_ids
from verification.privacy.personal_data import erase_reports
from verification.privacy.requests import (
    DETAILS_RETENTION,
    answer_request,
    erase_old_details,
)
from verification.providers.base import Unavailable
from verification.providers.payment_provider import CheckoutState, ProviderEvent
from verification.reports.models import Report, SearchEntry
from webhooks.attempts import claim as claim_deliveries
from webhooks.attempts import record_attempts
from webhooks.events import envelope
from webhooks.models import Attempt, Delivery, Event
from webhooks.sender import Answer
from workspaces.models import Client

MARK = "Wanjiku"


def marked_rows() -> list[str]:
    """Return where the readable columns of the database name the person."""
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT table_name, column_name FROM information_schema.columns
            WHERE table_schema = current_schema()
            AND data_type IN ('text', 'character varying')"""
        )
        searches = [
            f"(SELECT '{table}.{column}' FROM \"{table}\" "  # noqa: S608
            f'WHERE "{column}" LIKE %(mark)s LIMIT 1)'
            for table, column in cursor.fetchall()
        ]
        cursor.execute(" UNION ALL ".join(searches), {"mark": f"%{MARK}%"})
        return [place for (place,) in cursor.fetchall()]


def test_files_that_wait_are_deleted_with_a_person_in_them(api: Api):
    report = api.create(person(phone="+254712345678"))["id"]
    header = Line(1, [Cell("fullName"), Cell("idNumber")])
    chosen = Choice("INDIVIDUAL", "KE", ("IDENTITY",), "", "", "SELF")
    client = Client(api.workspace, api.account, "member of the client")
    others = Line(2, [Cell("Wanjiku Otieno"), Cell("1234567")])

    def send(*cells: str) -> Upload:
        lines = [others, Line(3, [Cell(cell) for cell in cells])] if cells else [others]
        return store_upload(client, "a.csv", Sheet(header, lines), chosen, {})

    for cells in [
        ("Wanjiku Kamau", "12345678"),
        ("", "12345678.0"),
        ("", "'12345678"),
        ("", "12,345,678"),
        ("", "1234\u200b5678"),
        ("ID 12345678 of Wanjiku", ""),
        ("KAMAU, Wanjikú", "1234S678"),
        ("", "0712 345 678"),
    ]:
        send(*cells)
    of_others = send()

    erase(api, report)

    assert list(Upload.objects.all()) == [of_others]
    later = send("Wanjiku Kamau", "12345678")
    Erasure.objects.update(sweep_at=now())
    sweep_erasures()
    assert later in Upload.objects.all()


def test_name_of_a_file_is_erased_with_the_first_of_its_people(api: Api):
    reports = [
        api.create(person())["id"],
        api.create(person(idNumber="22222222"))["id"],
    ]
    batch = Batch.objects.create(
        id=uuid7(),
        workspace=api.workspace,
        environment=api.environment,
        digest=b"digest",
        name="wanjiku.csv",
        report_ids=reports,
        row_numbers=[2, 3],
        draft=False,
        created_by="member",
    )

    erase(api, reports[1])

    batch.refresh_from_db()
    assert batch.name is None
    assert [str(report) for report in batch.report_ids] == reports


def test_client_finds_the_erasure_at_the_report(api: Api):
    report = api.create(person())["id"]
    before = api.report(report)
    assert before["erasureId"] is None

    erasure = erase(api, report)

    body = api.report(report)
    assert body["erasureId"] == str(erasure.pk)
    assert body["updatedAt"] == body["erasedAt"] > before["updatedAt"]


def test_every_report_of_the_person_is_erased_for_one_request(api: Api):
    first, second, other = (
        api.create(person())["id"],
        api.create(person())["id"],
        api.create(person(idNumber="22222222"))["id"],
    )
    api.work()

    erasure = erase(api, first)

    assert {str(pk) for pk in erasure.report_ids} == {first, second}
    erased = api.report(first), api.report(second)
    for report in erased:
        assert (report["subject"], report["status"]) == (None, "READY")
        assert report["erasedAt"] is not None
    assert api.report(other)["erasedAt"] is None
    assert erasure.report_count == 2
    request = SubjectRequest.objects.get()
    assert (request.kind, request.origin, request.outcome) == (
        "ERASURE",
        "CLIENT",
        "DONE",
    )
    assert erasure.request == request
    assert request.requested_by.startswith("key vrf_test_")
    # A second request and a second run change nothing.
    again = request_erasure(api, first)
    erase_person(again["id"])
    assert again["id"] == str(erasure.pk)
    assert (api.report(first), api.report(second)) == erased
    after = Erasure.objects.get()
    assert (after.certificate, after.ended_at) == (
        erasure.certificate,
        erasure.ended_at,
    )


def test_person_does_not_erase_somebody_whose_number_a_client_mistyped(api: Api):
    address = {"email": "wanjiku@kamau.test"}
    own = api.create(person(**address, dateOfBirth="1990-01-31"))["id"]
    again = api.create(person(**address))["id"]
    stranger = api.create(person(fullName="Peter Otieno"))["id"]
    strangers = [
        create_rule(api, subject=person(**details)["subject"])["id"]
        for details in (
            {"fullName": "Peter Otieno"},
            {"email": "another-wanjiku@kamau.test"},
        )
    ]
    mine = create_rule(api, subject=person(**address)["subject"])["id"]
    api.work()

    asked = ask(own, Origin.SUBJECT, requested_by="subject")
    erase_person(str(asked.pk))
    sweep_erasures()

    asked.refresh_from_db()
    run = Report.objects.get(monitoring_id=mine)
    assert {str(pk) for pk in asked.report_ids} == {own, again, str(run.pk)}
    assert api.report(stranger)["erasedAt"] is None
    assert asked.rule_ids == [UUID(mine)]
    left = Rule.objects.values_list("pk", flat=True)
    assert {str(pk) for pk in left} == {*strangers}


def test_person_leaves_requests_of_others_with_the_number(api: Api):
    victim, thief = api.create(
        person(email="wanjiku@kamau.test"), person(email="thief@kamau.test")
    )
    ask_to_join(Proof.of(Report.objects.get(pk=victim["id"])))

    asked = ask(thief["id"], Origin.SUBJECT, requested_by="subject")
    erase_person(str(asked.pk))

    request = SubjectRequest.objects.get(report=victim["id"])
    assert request.details == {"address": "wanjiku@kamau.test"}
    erase(api, victim["id"])
    request.refresh_from_db()
    assert request.details is None


def test_erasure_leaves_the_text_of_an_open_letter(api: Api, log_lines: LogLines):
    made = api.create(person(), person())
    report = Report.objects.get(pk=made[0]["id"])
    answered, letter = enter_request(report), enter_request(report)
    scope = {"workspace": api.workspace, "environment": report.environment}
    unnamed = enter_request(subject_id=report.subject_id, **scope)
    answer_request(answered, RequestOutcome.DONE)

    erase(api, made[1]["id"])

    left = SubjectRequest.objects.filter(details__isnull=False)
    assert {row.pk for row in left} == {letter.pk, unnamed.pk}
    answer_request(letter, RequestOutcome.DONE)
    Erasure.objects.update(sweep_at=now())
    sweep_erasures()
    assert Erasure.objects.get().sweeps == 1
    assert {row.pk for row in left.all()} == {letter.pk, unnamed.pk}
    assert "late data" not in str(log_lines())
    # A page that was under way
    enter_request(report, proved_address=b"digest")
    Erasure.objects.update(sweep_at=now())
    sweep_erasures()
    assert {row.pk for row in left.all()} == {letter.pk, unnamed.pk}
    assert "late data" in str(log_lines())
    left.update(answered_at=now() - DETAILS_RETENTION, outcome=RequestOutcome.DONE)
    erase_old_details()
    assert not left.exists()


def test_later_erasure_leaves_what_staff_answered_after_that_of_its_report(api: Api):
    made = api.create(person())["id"]
    letter = enter_request(Report.objects.get(pk=made))
    erase(api, made)
    answer_request(letter, RequestOutcome.DONE)
    later = api.create(person())["id"]
    early = enter_request(Report.objects.get(pk=later))
    answer_request(early, RequestOutcome.DONE)

    erase(api, later)

    assert SubjectRequest.objects.get(details__isnull=False) == letter


def test_wider_erasure_does_not_wait_for_that_of_a_person(api: Api):
    own, stranger = (
        made["id"] for made in api.create(person(), person(fullName="Peter Otieno"))
    )
    narrow = ask(own, Origin.SUBJECT, requested_by="subject")
    assert ask(own, Origin.SUBJECT, requested_by="subject") == narrow
    other = ask(stranger, Origin.SUBJECT, requested_by="subject")

    wide = ask(own, Origin.CLIENT, requested_by="key")

    assert len({narrow.pk, other.pk, wide.pk}) == 3
    assert ask(stranger, Origin.STAFF, requested_by="staff") == wide
    assert [one.report_ids for one in (narrow, other, wide)] == [
        [UUID(own)],
        [UUID(stranger)],
        [UUID(own), UUID(stranger)],
    ]


def test_wider_erasure_stands_for_that_of_a_person(api: Api):
    own = api.create(person())["id"]
    wide = ask(own, Origin.CLIENT, requested_by="key")

    assert ask(own, Origin.SUBJECT, requested_by="subject") == wide


def test_hold_on_the_report_of_a_stranger_does_not_stop_a_person(api: Api):
    own, stranger = (
        made["id"] for made in api.create(person(), person(fullName="Peter Otieno"))
    )
    hold(UUID(stranger), "A court asks", now() + timedelta(days=1), by="staff grace")

    with pytest.raises(ErasureHeld):
        ask(own, Origin.CLIENT, requested_by="key")

    assert ask(own, Origin.SUBJECT, requested_by="subject").report_ids == [UUID(own)]


def test_one_refusal_a_day_is_in_the_register(api: Api):
    own = api.create(person())["id"]
    hold(UUID(own), "A court asks", now() + timedelta(days=1), by="staff grace")

    for origin in [Origin.SUBJECT, Origin.CLIENT, Origin.SUBJECT, Origin.CLIENT]:
        with pytest.raises(ErasureHeld):
            ask(own, origin, requested_by="somebody")

    refused = SubjectRequest.objects.filter(outcome="REFUSED")
    assert sorted(r.origin for r in refused) == ["CLIENT", "SUBJECT"]


def test_report_of_any_status_is_ended_and_erased(api: Api):
    # The running one last: bringing the others where they are would end it.
    for status in sorted(STATUSES, key=lambda status: status == "RUNNING"):
        create_report_with_status(api, status)
    reports = Report.objects.order_by("pk")
    ended = [one.status if one.is_ended else "CANCELLED" for one in reports]

    # Some are about the same person.
    while left := reports.filter(erased_at=None).first():
        erase(api, str(left.pk))

    assert [one.status for one in reports.all()] == ended
    assert not reports.filter(Q(completed_at=None) | Q(subject__isnull=False)).exists()
    assert marked_rows() == []


def test_charges_of_checks_that_ran_stay(api: Api):
    ran = create_report_with_status(api, "PARTIAL on the way")

    erase(api, ran)

    kinds = [kind for kind, _, _ in movements(api)]
    assert kinds == ["CHARGE", "CHARGE", "REVERSAL"]


def test_rules_on_the_person_and_their_alerts_are_deleted(api: Api):
    create_rule(api, "IDENTITY")
    rule, run = Rule.objects.get(), Report.objects.get()
    raise_alert(api, rule, report_id=run.pk)

    erase(api, str(run.pk))

    assert not Alert.objects.exists()
    assert not Rule.objects.exists()
    assert launch_runs() == []
    assert not Report.objects.filter(erased_at=None).exists()


def test_hold_refuses_the_erasure_and_tells_no_reason(api: Api):
    report_id, other = api.create(person())["id"], api.create(person())["id"]
    hold = Hold.objects.create(
        report_id=other, reason="Case 7", ends_at=now() + timedelta(9), held_by="staff"
    )

    answer = erasing_api(api).delete(f"/reports/{report_id}/subject")

    assert (answer.status_code, answer.json()["code"]) == (409, "erasure-held")
    assert "Case 7" not in answer.content.decode()
    assert SubjectRequest.objects.get().outcome == "REFUSED"
    assert not Erasure.objects.exists()
    hold.released_at, hold.released_by = now(), "staff"
    hold.save()
    request_erasure(api, report_id)


@pytest.mark.django_db(transaction=True)
def test_two_requests_and_two_jobs_at_once_make_one_erasure(api: Api):
    reports = [api.create(person())["id"] for _ in range(2)]
    api.work()
    client = erasing_api(api)

    answers = run_at_once(
        2, lambda n: client.delete(f"/reports/{reports[n % 2]}/subject").json()["id"]
    )
    assert len(set(answers)) == 1, answers
    run_at_once(2, lambda n: erase_person(answers[0]))
    erase_person(answers[0])

    erasure = Erasure.objects.get()
    assert (erasure.report_count, erasure.counts["reports_report"]) == (2, 2)


def test_report_that_retention_erased_names_nobody(api: Api):
    report_id = api.create(person())["id"]
    api.work()
    report = Report.objects.get()
    erase_reports([report.pk], now())

    answer = erasing_api(api).delete(f"/reports/{report_id}/subject")

    assert (answer.status_code, answer.json()["code"]) == (410, "report-erased")


def test_sweep_erases_what_a_request_committed_late_and_leaves_later_orders(api: Api):
    erasure = erase(api, api.create(person())["id"])
    late, later = (api.create(person())["id"] for _ in range(2))
    # Its transaction began before the erasure ended.
    Report.objects.filter(pk=late).update(created_at=erasure.found_at)
    Erasure.objects.update(sweep_at=now())

    sweep_erasures()

    assert api.report(late)["erasedAt"] is not None
    assert api.report(later)["erasedAt"] is None
    assert {str(one.pk) for one in SearchEntry.objects.all()} == {later}
    erasure.refresh_from_db()
    assert erasure.sweeps == 1
    assert erasure.certificate.count(late) == 0
    # The last sweep is a month after the end.
    Erasure.objects.update(sweep_at=now(), sweeps=3)
    sweep_erasures()
    erasure.refresh_from_db()
    assert erasure.sweep_at == erasure.ended_at + timedelta(days=30)
    Erasure.objects.update(sweep_at=now())
    sweep_erasures()
    assert Erasure.objects.get().sweep_at is None


def test_lost_erasure_goes_on(api: Api):
    made = request_erasure(api, api.create(person())["id"])
    Erasure.objects.update(created_at=now() - timedelta(hours=1))

    resume_erasures()

    assert api.get(f"/erasures/{made['id']}").json()["status"] == "ENDED"


def one_check(**subject):
    return {**person(**subject), "checksRequested": ["IDENTITY"]}


def test_late_outcomes_of_a_source_leave_nothing(api: Api, log_lines: LogLines):
    made = api.create(*[one_check() for _ in range(3)])
    answered, refused, retried = claim(3)
    erase(api, made[0]["id"])

    outcomes = [
        (answered, found(5)),
        (refused, Failed("SOURCE_REFUSED", f"{MARK} is unknown", retryable=True)),
        (retried, Retry(now(), tries=1, why="SOURCE_TIMED_OUT", job="job-7")),
    ]
    record_outcomes(outcomes, definitions())
    let_time_pass()
    api.work()

    results = [CheckResult.objects.get(pk=one.result_id) for one, _ in outcomes]
    assert [one.status for one in results] == ["COMPLETED", "FAILED", "CANCELLED"]
    assert {(one.finding, one.score) for one in results} == {(None, None)}
    assert {one.failure_message for one in results} == {""}
    assert marked_rows() == []
    assert MARK not in str(log_lines())
    assert not Event.objects.filter(name__startswith="check.").exists()
    # The check that was answered stays billed.
    kinds = [kind for kind, _, _ in movements(api)]
    assert (kinds.count("CHARGE"), kinds.count("REVERSAL")) == (3, 2)


def test_answers_of_a_receiver_after_the_erasure_are_not_kept(api: Api):
    configure_receiver(api.workspace)
    report_id = api.create(person())["id"]
    (late,) = claim_deliveries(1)
    erase(api, report_id)

    answer = Answer(500, "", f"{MARK} is unknown", 20, None)
    record_attempts([(late, now(), answer)])

    assert not Attempt.objects.exists()
    (erased,) = claim_deliveries(10)
    assert erased.event.name == "report.erased"
    record_attempts([(erased, now(), answer)])
    attempt = Attempt.objects.get()
    assert (attempt.status_code, attempt.answer) == (500, None)


def erased_events() -> dict[str, dict]:
    """Return the data of the events that tell of erased reports, by report."""
    events = Event.objects.filter(name="report.erased")
    return {str(event.report_id): event.payload for event in events}


def test_client_gets_an_event_for_each_erased_report(api: Api):
    configure_receiver(api.workspace)
    reports = [api.create(person())["id"] for _ in range(2)]
    api.work()

    erasure = erase(api, reports[0])
    Erasure.objects.update(sweep_at=now())
    sweep_erasures()

    told = erased_events()
    assert told[reports[1]] == {
        "workspaceId": str(api.workspace.pk),
        "reportId": reports[1],
        "requestedBy": "CLIENT",
        "erasedAt": api.report(reports[1])["erasedAt"],
        "erasureId": str(erasure.pk),
    }
    read = EVENTS["report.erased"].model_validate_json(
        envelope(Event.objects.filter(name="report.erased").first())
    )
    assert read.event == "report.erased"
    assert set(told) == set(reports)
    waiting = Delivery.objects.filter(next_attempt_at__isnull=False)
    assert set(waiting.values_list("name", flat=True)) == {"report.erased"}
    assert waiting.count() == 2


def test_killed_erasure_tells_of_each_report_once(api: Api, monkeypatch):
    monkeypatch.setattr(erasure_module, "BATCH_SIZE", 1)
    beats = iter([True])
    monkeypatch.setattr(erasure_module, "beat", lambda: next(beats, False))
    reports = [api.create(person())["id"] for _ in range(2)]
    made = request_erasure(api, reports[0])
    erase_person(made["id"])
    assert len(erased_events()) == 1

    monkeypatch.undo()
    erase_person(made["id"])

    assert set(erased_events()) == set(reports)
    assert Event.objects.filter(name="report.erased").count() == 2


@pytest.mark.parametrize("moment", ["before the search", "after the search"])
def test_erasure_leaves_a_draft_that_names_another_person_by_now(
    api: Api, monkeypatch, moment: str
):
    first, draft = (api.create({**person(), "draft": True})["id"] for _ in range(2))
    made = request_erasure(api, first)

    def edit(*_):
        other = person(fullName="Otieno Ouma", idNumber="87654321")["subject"]
        api.post(f"/reports/{draft}/draft", {"subject": other})

    if moment == "before the search":
        edit()
    else:
        monkeypatch.setattr(erasure_module.journal, "write_erasure", edit)
    erase_person(made["id"])

    assert api.report(draft)["subject"]["fullName"] == "Otieno Ouma"
    assert api.report(first)["erasedAt"]
    assert Erasure.objects.get().report_ids == [UUID(first)]


def test_late_receipt_of_a_message_is_dropped(api: Api):
    report_id = api.create({**person(email="p1@kamau.test"), "consent": HOSTED})["id"]
    claimed = claim_notification()
    erase(api, report_id)

    assert not record_notification(claimed, Outcome(reference=MARK))

    assert not Notification.objects.exclude(provider_reference="").exists()
    assert claim_notification() is None


def test_late_payment_is_booked_and_given_back(api: Api):
    report_id = api.create(candidate_item())["id"]
    checkout = open_page(api.report(report_id))
    erase(api, report_id)
    # The open page of the payer has closed.
    assert api.report(report_id)["paymentState"]["status"] == "CANCELLED"
    event = ProviderEvent(event_id="e1", type="paid", reference=str(checkout.pk))
    assert record_provider_event(
        checkout.provider, event, json.dumps({"payer": MARK}).encode()
    )
    assert PaymentEvent.objects.get().body is None

    end_checkout(checkout, CheckoutState.PAID)
    send_refunds()

    checkout.refresh_from_db()
    assert (checkout.status, checkout.refunded) == ("PAID", checkout.paid_amount)
    assert (checkout.receipt, checkout.message, checkout.phone) == (None, "", None)
    assert Refund.objects.get().status == "DONE"
    assert payment_of({"id": report_id}).payer is None
    assert (
        not Notification.objects.filter(recipient__isnull=False)
        .exclude(report_id=None)
        .exists()
    )


def test_late_refusal_to_open_a_checkout_leaves_no_text(api: Api, monkeypatch):
    report_id = api.create(candidate_item())["id"]
    checkout = open_page(api.report(report_id))

    def refuse(self, request):
        erase(api, report_id)
        raise Unavailable("SOURCE_DOWN", f"{MARK} cannot pay")

    monkeypatch.setattr(type(provider_named(checkout.provider)), "begin", refuse)
    with pytest.raises(CheckoutNotOpened):
        open_at_provider(checkout, "en")

    checkout.refresh_from_db()
    assert checkout.message == ""


def test_refusal_to_open_a_checkout_is_kept_without_addresses(api: Api, monkeypatch):
    checkout = open_page(api.create(candidate_item()))

    def refuse(self, request):
        raise Unavailable("SOURCE_DOWN", "wanjiku@kamau.test cannot pay")

    monkeypatch.setattr(type(provider_named(checkout.provider)), "begin", refuse)
    with pytest.raises(CheckoutNotOpened):
        open_at_provider(checkout, "en")

    checkout.refresh_from_db()
    assert checkout.message == "[email] cannot pay"


def test_erased_report_starts_no_check_again(api: Api):
    report_id = create_report_with_status(api, "FAILED")
    erase_reports([UUID(report_id)], now())

    assert api.refused(f"/reports/{report_id}/retry")["code"] == "report-not-retryable"
    let_time_pass()
    api.work()
    assert api.report(report_id)["status"] == "FAILED"


@pytest.mark.slow
def test_person_with_a_thousand_reports_is_erased_within_two_seconds(api: Api):
    for _ in range(2):
        api.create(*[one_check() for _ in range(500)])
    with connection.cursor() as cursor:
        cursor.execute(
            """UPDATE checks_checkresult SET status = 'COMPLETED', completed_at = now(),
            next_attempt_at = NULL"""
        )
        cursor.execute(
            "UPDATE reports_report SET status = 'READY', completed_at = now()"
        )
        cursor.execute("ANALYZE")
    made = request_erasure(api, str(Report.objects.first().pk))

    # Of the processor, which a busy machine changes little
    begun_at = time.process_time()
    erase_person(made["id"])

    assert time.process_time() - begun_at < 2
    assert Erasure.objects.get().report_count == 1_000


PIN = "A123456789B"


@pytest.fixture
def chain(api: Api) -> list[str]:
    """Reports that only their numbers lead to, one after the other."""
    subjects: list[dict[str, Any]] = [
        {},
        {"kraPin": PIN},
        {"idNumber": None, "kraPin": PIN},
        {"idNumber": "33333333", "kraPin": PIN},
        {"idNumber": "33333333"},
    ]
    return [
        api.create(person(**each) | {"checksRequested": ["KRA_PIN"]})["id"]
        for each in subjects
    ]


def test_person_is_erased_by_every_number(api: Api, chain: list[str]):
    def order(**subject: Any) -> str:
        return api.create(person(**subject) | {"checksRequested": ["KRA_PIN"]})["id"]

    # Peter's reports have his own numbers, and one PIN of Wanjiku's.
    peter, other_pin = {"fullName": "Peter Otieno"}, "B987654321C"
    order(**peter, idNumber="22222222", kraPin=PIN)
    order(**peter, idNumber="22222222")
    order(**peter, idNumber=None, kraPin=PIN)
    # With her ID number his report is hers to the client, but his PIN leads no further.
    mistyped = order(**peter, kraPin=other_pin)
    order(idNumber=None, kraPin=other_pin)
    rule = store_rule(api, id_number="33333333")
    made = request_erasure(api, chain[0])
    # Until the job begins, the numbers count alone.
    late = order(**peter, idNumber=None, kraPin=PIN)

    erase_person(made["id"])

    erased = Report.objects.exclude(erased_at=None).values_list("pk", flat=True)
    assert {str(pk) for pk in erased} == {*chain, mistyped, late}
    erasure = Erasure.objects.get()
    assert {*erasure.report_ids} == {*erased}
    assert json.loads(erasure.certificate)["searchedBy"] == ["idNumber", "kraPin"]
    assert erasure.rule_ids == [rule.pk]
    assert not Rule.objects.exists()


def test_row_of_an_older_version_is_found_once_it_is_filled(api: Api, chain: list[str]):
    SearchEntry.objects.update(further_ids=None)
    fill_further_ids()
    fill_further_ids()

    assert not SearchEntry.objects.filter(further_ids=None).exists()
    found = Person.of(Report.objects.get(pk=chain[2])).find()
    assert {str(one.pk) for one in found.reports} == {*chain}


NO_NUMBER = {"idNumber": None}
BY_PHONE = {**NO_NUMBER, "phone": "+254712345678"}
NAMES = ["Wanjiku Kamau", "Otieno Ouma", "Amina Said"]
# People of one name. Before phone numbers took part, each tuple shared an id.
NAMESAKES = [
    ([BY_PHONE, BY_PHONE], [{**BY_PHONE, "phone": "+254712345679"}, NO_NUMBER]),
    ([NO_NUMBER], [NO_NUMBER, BY_PHONE]),
    (
        [{**BY_PHONE, "email": "w@kamau.test"}, {**NO_NUMBER, "email": "w@kamau.test"}],
        [{**BY_PHONE, "email": "w2@kamau.test"}],
    ),
]


@pytest.mark.parametrize("old", [False, True])
def test_erasure_of_a_person_without_a_number_leaves_namesakes(api: Api, old: bool):
    people = [
        [api.create(employment_item(fullName=name, **one))["id"] for one in theirs]
        for name, groups in zip(NAMES, NAMESAKES, strict=True)
        for theirs in groups
    ]
    if old:
        share_one_id()
        fill_further_ids()

    for own in people[::2]:
        found = Person.of(Report.objects.get(pk=own[0])).find()
        assert {str(one.pk) for one in found.reports} == {*own}
    erase(api, people[0][0])
    Erasure.objects.update(sweep_at=now())
    sweep_erasures()

    erased = Report.objects.exclude(erased_at=None).values_list("pk", flat=True)
    assert {str(pk) for pk in erased} == {*people[0]}


@pytest.mark.parametrize("old", [False, True])
def test_erasure_reaches_all_runs_about_a_person_with_a_name_alone(api: Api, old: bool):
    by_name = employment_item(**NO_NUMBER)
    create_rule(api, "EMPLOYER_VERIFICATION", subject=by_name["subject"])
    end_runs()
    launch_runs()
    if old:
        share_one_id()
        fill_further_ids()
    first, second = Report.objects.order_by("pk")
    assert first.subject_id == second.subject_id == Rule.objects.get().subject_id

    erasure = ask(first.pk, Origin.CLIENT, requested_by="key")

    assert erasure.report_ids == [first.pk, second.pk]
    assert erasure.rule_ids == [Rule.objects.get().pk]


def share_one_id() -> None:
    """Give all rows the id that an older version gave to people of one name."""
    shared = {"subject_id": uuid4()}
    for model in (Report, Rule, SubjectRequest):
        model.objects.update(**shared)
    SearchEntry.objects.update(further_ids=None)


def test_hold_under_another_number_refuses_the_erasure(api: Api, chain: list[str]):
    hold(UUID(chain[2]), "A court asks", now() + timedelta(days=1), by="staff grace")

    with pytest.raises(ErasureHeld):
        ask(chain[0], Origin.CLIENT, requested_by="key")


def test_erasure_reaches_findings_about_another_subject(api: Api):
    """The PIN of 90000002's holder was typed for Wanjiku, and later corrected."""
    wrong = create_wrong_report(api)
    correction = dispute(wrong)
    take(correction.pk, reviewer())
    rerun(correction.pk, reviewer(), {"idNumber": RIGHT})
    api.work()
    name = correction.result.finding["details"]["fullName"]
    correct(correction.pk, reviewer(), REASON)
    holder = api.create(person(fullName=name, idNumber=MISTYPED))["id"]

    erase(api, holder)

    assert api.report(wrong)["erasedAt"] is None
    old = CheckResult.every.get(pk=correction.result_id)
    assert old.finding["details"] == {"nameMatch": "NO_MATCH"}
    assert name not in str(old.finding)
    assert api.report(wrong)["checkResults"][0]["details"]["fullName"]


def test_later_finding_about_an_erased_holder_stays(api: Api):
    holder = api.create(person(idNumber=MISTYPED))["id"]
    erase(api, holder)
    later = create_wrong_report(api)

    Erasure.objects.update(sweep_at=now())
    sweep_erasures()

    assert api.report(later)["checkResults"][0]["details"]["fullName"]


def test_erasure_reaches_copies_of_findings_about_another_subject(api: Api):
    """A rule on Wanjiku has the number of 90000002's holder."""
    create_rule(api, id_number=MISTYPED)
    api.work()
    result = CheckResult.objects.get()
    run, name = result.report, result.finding["details"]["fullName"]
    compare_runs(str(run.pk))
    change = {"checkName": "IDENTITY", "field": "details.fullName", "new": name}
    rule = Rule.objects.get()
    told = raise_alert(api, rule, report_id=run.pk, changes=[{**change, "old": "W"}])
    other = raise_alert(api, rule, report_id=run.pk)
    both = person(fullName=name, idNumber=MISTYPED, kraPin=PIN)["subject"]
    by_pin = person(fullName=name, idNumber=None, kraPin=PIN)
    by_pin["checksRequested"] = ["KRA_PIN"]
    _, holder = api.create({**by_pin, "subject": both}, by_pin)

    erase(api, holder["id"])

    assert api.report(str(run.pk))["erasedAt"] is None
    copies = [
        *Event.objects.filter(report_id=run.pk).values_list("payload", flat=True),
        *(one.said for one in Baseline.objects.all()),
        *(one.changes for one in Alert.objects.all()),
    ]
    assert Baseline.objects.get().said["details"] == {"nameMatch": "NO_MATCH"}
    assert Alert.objects.get() == other != told
    # The figures of the day still count it.
    assert ErasedCount.objects.get(what="ALERT").count == 1
    assert name not in str(copies)
