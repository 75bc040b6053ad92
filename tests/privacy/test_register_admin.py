"""The register in the admin: what staff see, enter, answer and export."""

import csv
import io
from datetime import datetime, time, timedelta

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import reverse
from django.utils.timezone import localdate, now

from tests.world.clients import Api, person
from tests.world.decisions import Officer, demand_second
from tests.world.notices import create_report, decline_by_policy, deliver, wait
from tests.world.staff import (
    admin_url,
    assert_read_only,
    change_url,
    enter_request,
    list_url,
    listed_ids,
    log_in,
    press_button,
    read_page,
    take_messages,
)
from verification.backoffice.model_admin import SENT_BEFORE
from verification.backoffice.models import AuditEvent
from verification.backoffice.widgets import NOT_OFFERED
from verification.db.ids import uuid7
from verification.decisions.decide import withdraw
from verification.decisions.models import Case, Decision
from verification.notifications.models import Kind, Notification
from verification.privacy.admin.request_admin import RequestForm
from verification.privacy.disclosures import record_disclosures
from verification.privacy.models import (
    Channel,
    Correction,
    Disclosure,
    Origin,
    Outcome,
    RequestKind,
    SubjectRequest,
)
from verification.privacy.objections import object_to_use
from verification.privacy.requests import AlreadyAnswered, answer_request
from verification.privacy.reviews import answer_reviews, request_review
from verification.reports.models import Report
from verification.values.local_time import NAIROBI
from workspaces.models import Workspace

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)
EXPORT = "admin:privacy_subjectrequest_export"
TYPED = {
    "kind": "ACCESS",
    "received_on": "",
    "report": "",
    "workspace": "",
    "text": "Wanjiku Kamau, by letter: what do you know of me?",
}


@pytest.fixture
def officer(db: None) -> Client:
    user = User.objects.create_user("wairimu", is_staff=True)
    user.groups.add(Group.objects.get(name="Privacy officer"))
    client = Client()
    log_in(client, user)
    return client


@pytest.fixture
def report(api: Api) -> Report:
    return Report.objects.get(pk=api.create(person())["id"])


def enter(client: Client, **typed: str):
    data = {**TYPED, "received_on": str(localdate(timezone=NAIROBI)), **typed}
    return client.post(admin_url(SubjectRequest, "add"), data)


def exported(client: Client, **query: str) -> list[dict[str, str]]:
    answer = client.get(reverse(EXPORT), query)
    assert answer.status_code == 200
    text = b"".join(answer.streaming_content).decode("utf-8-sig")
    return list(csv.DictReader(io.StringIO(text)))


def test_officer_enters_a_request_that_came_by_letter(officer: Client, report: Report):
    came = localdate(timezone=NAIROBI) - 2 * DAY

    answer = enter(officer, report=report.number, received_on=str(came))

    assert answer.status_code == 302
    row = SubjectRequest.objects.get()
    midnight = datetime.combine(came, time(), NAIROBI)
    assert (row.kind, row.origin, row.received_at) == ("ACCESS", "STAFF", midnight)
    assert row.due_at - row.received_at == 7 * DAY
    assert (row.report, row.workspace) == (report, report.workspace)
    assert row.subject_id == report.subject_id
    assert row.requested_by == "staff wairimu"
    event = AuditEvent.objects.get(action="subject-request.created")
    assert (event.object_id, event.actor) == (str(row.pk), "wairimu")


def test_review_that_came_by_letter_enters_the_queue_of_the_client(
    api: Api, officer: Client
):
    declined = decline_by_policy(api, create_report(api))
    came = str(localdate(timezone=NAIROBI) - DAY)

    enter(officer, kind="REVIEW", report=declined.report.number, received_on=came)

    row = SubjectRequest.objects.get()
    assert (row.origin, row.details["request"]) == ("STAFF", TYPED["text"])
    case = Case.objects.get()
    assert (case.cause, case.due_at) == ("REQUESTED", row.due_at)
    declined.notice.refresh_from_db()
    assert declined.notice.review_asked_at
    Officer(api).decide(declined.report_id, "APPROVED", replaces=declined.pk)
    answer_reviews(declined.report_id)
    assert Notification.objects.filter(kind=Kind.REVIEW_ANSWER).exists()


def test_request_without_a_client_has_none(officer: Client):
    enter(officer)

    row = SubjectRequest.objects.get()
    assert (row.workspace, row.environment, row.subject_id) == (None, "", None)


WRONG_ENTRIES = [
    {"received_on": str(localdate(timezone=NAIROBI) + 2 * DAY)},
    {"received_on": str(localdate(timezone=NAIROBI) - 400 * DAY)},
    {"report": "R-0000-0000-0000"},
    {"report": "nothing"},
    {"text": ""},
    {"kind": "GOSSIP"},
]


def test_wrong_entry_is_refused(db: None):
    today = str(localdate(timezone=NAIROBI))
    for typed in WRONG_ENTRIES:
        form = RequestForm({**TYPED, "received_on": today, **typed})

        assert form.errors.keys() == typed.keys()


def test_details_are_masked_until_they_are_revealed(officer: Client):
    row = enter_request(details={"request": "Wanjiku Kamau wants to know"})

    assert "Wanjiku" not in read_page(officer, change_url(row))

    press_button(officer, "reveal", row, reason="To answer her")
    assert "Wanjiku" in read_page(officer, change_url(row))


def test_request_that_is_entered_twice_stands_once(officer: Client):
    page = str(uuid7())
    enter(officer, page=page)

    again = enter(officer, page=page)

    assert str(SubjectRequest.objects.get().pk) == page
    assert take_messages(again)[-1] == SENT_BEFORE


def test_officer_answers_once(officer: Client):
    row = enter_request()

    said = press_button(officer, "answer", row, outcome="DONE", reason="")

    row.refresh_from_db()
    assert said == [f"{row.number} is answered: Done."]
    assert (row.outcome, row.answered_at is not None) == ("DONE", True)
    assert AuditEvent.objects.filter(action="subject-request.answered").count() == 1
    again = press_button(officer, "answer", row, outcome="REFUSED", reason="Not here")
    assert again == [NOT_OFFERED]
    with pytest.raises(AlreadyAnswered):
        answer_request(row, Outcome.REFUSED, reason="Not here")


def test_refusal_needs_a_reason(officer: Client):
    row = enter_request()

    press_button(officer, "answer", row, outcome="REFUSED", reason="")
    row.refresh_from_db()
    assert row.answered_at is None

    press_button(officer, "answer", row, outcome="REFUSED", reason="Not the person")
    row.refresh_from_db()
    assert (row.outcome, row.reason) == ("REFUSED", "Not the person")


def test_correction_is_not_answered_by_hand(api: Api, officer: Client, report: Report):
    api.work()
    row = enter_request(report, kind=RequestKind.CORRECTION, origin=Origin.SUBJECT)
    result = report.results.first()
    Correction.objects.create(
        request=row, report=report, result=result, check_name=result.name
    )

    press_button(officer, "answer", row, outcome="DONE", reason="")

    row.refresh_from_db()
    assert row.answered_at is None


def test_review_of_a_decline_is_not_answered_by_hand(api: Api, officer: Client):
    declined = decline_by_policy(api, create_report(api))
    request_review(declined.notice.pk)
    row = SubjectRequest.objects.get()
    answer = {"outcome": "DONE", "reason": ""}

    press_button(officer, "answer", row, **answer)
    row.refresh_from_db()
    assert row.answered_at is None

    # Its members cannot decide any more.
    api.workspace.suspend("Unpaid")
    press_button(officer, "answer", row, **answer)
    row.refresh_from_db()
    declined.notice.refresh_from_db()
    assert row.answered_at
    assert declined.notice.reviewed_at


def end_review(officer: Client, declined: Decision, outcome: str) -> SubjectRequest:
    """Let the subject ask for a review, and staff answer it once it is overdue."""
    request_review(declined.notice.pk)
    requests = SubjectRequest.objects.filter(kind="REVIEW")
    if outcome != "WITHDRAWN":
        # The sandbox has no deadline.
        late = {"received_at": now() - 30 * DAY, "due_at": now() - DAY}
        requests.update(**late, environment="production")
    row = requests.get()
    press_button(officer, "answer", row, outcome=outcome, reason="By telephone")
    row.refresh_from_db()
    assert row.outcome == outcome
    return row


@pytest.mark.parametrize(("outcome", "objects"), [("DONE", False), ("WITHDRAWN", True)])
def test_staff_end_a_review_that_is_overdue_or_withdrawn(
    api: Api, officer: Client, outcome: str, objects: bool
):
    declined = decline_by_policy(api, create_report(api))
    if objects:
        object_to_use(declined.report_id, Origin.SUBJECT, requested_by="subject")

    end_review(officer, declined, outcome)

    declined.notice.refresh_from_db()
    # Until a person has looked at the decline, the subject can ask again.
    assert bool(declined.notice.reviewed_at) == (outcome == "DONE")
    assert declined.notice.can_be_reviewed == (outcome != "DONE")
    assert Case.objects.get().closed_at
    report = Report.objects.get(pk=declined.report_id)
    last = report.status_changes.latest("id")
    assert (last.trigger, last.actor) == ("review by a person ended", "staff wairimu")
    assert report.updated_at == last.created_at


@pytest.mark.parametrize(
    ("outcome", "ends"),
    [
        ("DONE", "withdraw"),
        ("WITHDRAWN", "REVIEW"),
        ("WITHDRAWN", "objection"),
    ],
)
def test_person_hears_of_a_withdrawal_after_staff_ended_the_review(
    api: Api, officer: Client, outcome: str, ends: str
):
    wait(5, api)
    declined = decline_by_policy(api, create_report(api))
    deliver()
    member = Officer(api)
    if ends == "objection":
        request_review(declined.notice.pk)
        object_to_use(declined.report_id, Origin.SUBJECT, requested_by="subject")

    row = end_review(officer, declined, outcome)
    if ends == "withdraw":
        withdraw(member.client, declined.pk, member.member, member.actor)
    elif ends == "REVIEW":
        member.decide(declined.report_id, "REVIEW", replaces=declined.pk)
    answer_reviews(declined.report_id)

    declined.refresh_from_db()
    assert (declined.state, row.outcome) == ("WITHDRAWN", outcome)
    told = Notification.objects.get(kind=Kind.REVIEW_ANSWER)
    assert told.context["isTakenBack"]
    assert bool(Case.objects.get().closed_at) == (ends == "objection")


def test_proposal_keeps_the_case_of_a_review_that_staff_end(api: Api, officer: Client):
    declined = decline_by_policy(api, create_report(api))
    demand_second(api, score_from=0)
    Officer(api).decide(declined.report_id, "APPROVED", replaces=declined.pk)

    end_review(officer, declined, "WITHDRAWN")

    case = Case.objects.get()
    assert (case.cause, case.closed_at) == ("PROPOSED", None)


def test_case_waits_for_a_decision_of_review_after_staff_end_the_subjects(
    api: Api, officer: Client
):
    declined = decline_by_policy(api, create_report(api))
    request_review(declined.notice.pk)
    member = Officer(api)
    left = member.decide(declined.report_id, "REVIEW", replaces=declined.pk)
    demand_second(api, score_from=0)
    proposed = member.decide(declined.report_id, "APPROVED", replaces=left.pk)
    member.refuse(proposed)
    assert Case.objects.get().cause == "REQUESTED"

    end_review(officer, declined, "WITHDRAWN")

    case = Case.objects.get()
    assert (case.cause, case.closed_at) == ("REVIEW", None)


def test_review_that_was_entered_twice_waits_on_when_staff_end_one(
    api: Api, officer: Client
):
    declined = decline_by_policy(api, create_report(api))
    request_review(declined.notice.pk)
    enter(officer, kind="REVIEW", report=declined.report.number)
    letter = SubjectRequest.objects.get(origin="STAFF")

    press_button(officer, "answer", letter, outcome="WITHDRAWN", reason="Came twice")

    letter.refresh_from_db()
    assert letter.outcome == "WITHDRAWN"
    case = Case.objects.get()
    assert (case.cause, case.closed_at) == ("REQUESTED", None)


def test_review_that_came_by_page_and_letter_has_one_answer(api: Api, officer: Client):
    declined = decline_by_policy(api, create_report(api))
    request_review(declined.notice.pk)
    enter(officer, kind="REVIEW", report=declined.report.number)

    Officer(api).decide(declined.report_id, "APPROVED", replaces=declined.pk)
    answer_reviews(declined.report_id)

    assert Notification.objects.filter(kind=Kind.REVIEW_ANSWER).count() == 1
    assert not SubjectRequest.objects.open().exists()


def test_list_says_how_many_days_are_left_or_overdue(officer: Client):
    enter_request(received_at=now() - 2 * DAY)
    enter_request(received_at=now() - 30 * DAY)

    html = read_page(officer, list_url(SubjectRequest))

    assert "4 d left" in html
    assert html.count("OVERDUE since") == 1


def test_filters_find_open_overdue_and_a_workspace(
    officer: Client, report: Report, workspace: Workspace
):
    late = enter_request(received_at=now() - 30 * DAY)
    early = enter_request(kind=RequestKind.ERASURE)
    done = enter_request(report)
    answer_request(done, Outcome.DONE)

    def found(**query: str) -> set[str]:
        return listed_ids(officer, SubjectRequest, **query)

    assert found(state="open") == {str(late.pk), str(early.pk)}
    assert found(state="overdue") == {str(late.pk)}
    assert found(state="answered") == {str(done.pk)}
    assert found(kind__exact="ERASURE") == {str(early.pk)}
    assert found(workspace_id=str(workspace.pk)) == {str(done.pk)}


def test_search_finds_by_the_number_of_request_or_report(
    officer: Client, report: Report
):
    row, _ = enter_request(report), enter_request()

    for typed in (row.number, report.number, str(report.pk)):
        assert listed_ids(officer, SubjectRequest, q=typed) == {str(row.pk)}
    assert listed_ids(officer, SubjectRequest, q="D-0000-0000-0000") == set()


def test_officer_finds_who_has_read_a_report(
    another_api: Api, officer: Client, report: Report
):
    other = Report.objects.get(pk=another_api.create(person())["id"])
    record_disclosures([report.pk], Channel.API, "key vrf_test_1")
    record_disclosures([report.pk], Channel.PDF, "key vrf_test_1")
    record_disclosures([other.pk], Channel.API, "key vrf_test_2")
    read, printed, by_another = list(Disclosure.objects.order_by("id"))
    all_ids = [str(one.pk) for one in (read, printed, by_another)]

    assert_read_only(officer, read)
    for query, found in (
        ({"q": report.number}, {read.pk, printed.pk}),
        ({"channel__exact": "PDF"}, {printed.pk}),
        ({"recipient": by_another.recipient}, {by_another.pk}),
        ({"report__workspace_id": str(other.workspace_id)}, {by_another.pk}),
        ({"last_at_from_0": str(localdate(timezone=NAIROBI) + DAY)}, set()),
    ):
        # The list leads to the reports as well.
        ids = {*listed_ids(officer, Disclosure, **query)} & {*all_ids}
        assert ids == {str(pk) for pk in found}, query


def test_search_of_the_back_office_finds_a_request(officer: Client, report: Report):
    row = enter_request(report)

    for typed in (row.number, str(row.pk), str(report.pk)):
        html = officer.post(reverse("office:search"), {"q": typed}).content.decode()
        assert change_url(row) in html


def test_sandbox_has_no_deadlines(officer: Client, report: Report):
    at = now() - 30 * DAY
    row = enter_request(report, kind=RequestKind.CORRECTION, received_at=at)
    result = report.results.first()
    correction = Correction.objects.create(
        request=row, report=report, result=result, check_name=result.name
    )

    assert not SubjectRequest.objects.overdue().exists()
    assert not listed_ids(officer, Correction, state="overdue")
    assert "OVERDUE" not in read_page(officer, list_url(Correction))
    SubjectRequest.objects.update(environment="production")
    assert listed_ids(officer, Correction, state="overdue") == {str(correction.pk)}


def test_export_has_the_rows_of_the_filtered_list(officer: Client, report: Report):
    Workspace.objects.update(name="=1+1")
    late = enter_request(received_at=now() - 30 * DAY)
    done = enter_request(report)
    answer_request(done, Outcome.REFUSED, reason="=HYPERLINK(1)")

    everything = exported(officer)
    (one,) = exported(officer, state="overdue")

    assert [row["number"] for row in everything] == [done.number, late.number]
    done_row = everything[0]
    assert (done_row["reason"], done_row["overdue"]) == ("'=HYPERLINK(1)", "no")
    assert done_row["workspace"] == "'=1+1"
    assert (one["number"], one["overdue"], one["workspace"]) == (late.number, "yes", "")
    assert not any("Wanjiku" in cell for row in everything for cell in row.values())
    first, second = AuditEvent.objects.filter(action="register.exported").order_by("id")
    assert (first.fields, second.fields) == ([], ["state"])


def test_export_is_for_those_who_may_see_the_register(db: None):
    user = User.objects.create_user("finance", is_staff=True)
    user.groups.add(Group.objects.get(name="Finance"))
    client = Client()
    log_in(client, user)

    assert client.get(reverse(EXPORT)).status_code == 403
    assert not AuditEvent.objects.filter(action="register.exported").exists()


def test_export_of_an_unknown_filter_shows_the_list(officer: Client):
    answer = officer.get(reverse(EXPORT), {"details__contains": "x"})

    assert answer.status_code in {302, 400}
