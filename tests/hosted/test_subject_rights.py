"""The subject objects, and has everything deleted, on pages behind the proof."""

import json
import re
from datetime import timedelta
from typing import Any

import pytest
from django.utils.timezone import now

from monitoring.models import Rule
from tests.hosted.test_pages import PAGE_BYTES, size_of
from tests.world.clients import Api, person
from tests.world.console import ConsoleVisitor
from tests.world.members import create_member
from tests.world.rules import create_rule
from tests.world.subject import Visitor
from verification.backoffice.models import AuditEvent
from verification.checks.models import CheckResult
from verification.notifications.models import Notification
from verification.privacy.erasure import erase_person
from verification.privacy.models import Erasure, Hold, SubjectRequest
from verification.privacy.personal_data import erase_reports
from verification.reports.models import Report

pytestmark = pytest.mark.django_db

BORN = {"dateOfBirth": "1990-03-27"}
EMAIL = "wanjiku@kamau.test"
LIVE = "production"


@pytest.fixture
def subject(ask: Any) -> Visitor:
    """A subject who has consented, and proved it on the page of the data."""
    visitor: Visitor = ask(subject={"email": EMAIL})
    visitor.agree()
    visitor.prove("data/")
    return visitor


def run_job() -> None:
    erase_person(str(Erasure.objects.get().pk))


def test_subject_has_everything_deleted(subject: Visitor, api: Api):
    assert "Delete everything about me" in subject.text()
    asked = subject.text("delete")
    assert "Delete everything about you?" in asked
    assert not Erasure.objects.exists()

    answer = subject.post("delete")

    assert answer["Location"] == f"{subject.page}deletion"
    assert "We are deleting your details" in subject.text("deletion")
    run_job()
    done = subject.text("deletion")
    assert "Your details were deleted" in done
    assert api.report(subject.report_id)["erasedAt"] is not None
    request = SubjectRequest.objects.get(kind="ERASURE")
    assert (request.origin, request.requested_by) == ("SUBJECT", "subject")
    assert subject.get("certificate.pdf").content.startswith(b"%PDF")
    signed = json.loads(subject.get("certificate.json").content)
    facts = json.loads(signed["certificate"])
    assert facts["requestedBy"] == "the data subject"


def test_second_press_and_the_link_lead_to_the_same_erasure(subject: Visitor):
    for _ in range(2):
        assert subject.post("delete")["Location"] == f"{subject.page}deletion"
    assert subject.get("delete")["Location"] == f"{subject.page}deletion"
    run_job()

    assert subject.post("delete")["Location"] == f"{subject.page}deletion"
    assert Erasure.objects.count() == 1
    again = Visitor(subject.link)
    again.open()
    answer = again.browser.get(f"{again.page}data/", follow=True)
    assert "Save the certificate (PDF)" in answer.content.decode()


def test_visitor_without_proof_can_do_nothing(subject: Visitor):
    stranger = Visitor(subject.link)
    stranger.open()
    stranger.page += "data/"

    for name in ("delete", "objection"):
        for answer in (stranger.get(name), stranger.post(name)):
            assert (answer.status_code, answer["Location"]) == (303, stranger.page)
    assert not SubjectRequest.objects.exclude(kind="ACCESS").exists()


def test_erasure_that_a_hold_refuses_restricts_the_reports(subject: Visitor):
    Hold.objects.create(
        report_id=subject.report_id,
        reason="Case 7",
        ends_at=now() + timedelta(9),
        held_by="staff",
    )

    answer = subject.post("delete")

    assert answer["Location"] == f"{subject.page}held"
    page = subject.text("held")
    assert "We cannot delete your details now" in page
    assert "Case 7" not in page
    assert "The request counts as an objection, too" in page
    outcomes = dict(SubjectRequest.objects.values_list("kind", "outcome"))
    assert outcomes["ERASURE"] == "REFUSED"
    assert outcomes["OBJECTION"] == "DONE"
    assert Report.objects.get(pk=subject.report_id).restricted_at
    Hold.objects.update(released_at=now(), released_by="staff")
    assert subject.get("held")["Location"] == subject.page


def test_subject_objects(subject: Visitor, api: Api):
    second = api.create(person(**BORN, email=EMAIL))["id"]
    assert "Object to further use?" in subject.text("objection")

    answer = subject.post("objection")

    assert answer["Location"] == f"{subject.page}objected"
    assert "You objected" in subject.text("objected")
    for report_id in (subject.report_id, second):
        assert api.report(report_id)["restrictedAt"] is not None
    request = SubjectRequest.objects.get(kind="OBJECTION")
    assert (request.origin, request.outcome) == ("SUBJECT", "DONE")


def test_report_that_retention_erased_has_no_certificate(subject: Visitor):
    report = Report.objects.get(pk=subject.report_id)
    Report.objects.update(status="READY", completed_at=now())
    erase_reports([report.pk], now())

    page = subject.text("deletion")

    assert "Your details were deleted" in page
    assert "Save the certificate" not in page
    assert subject.get("certificate.pdf").status_code == 404
    assert subject.post("objection")["Location"] == subject.page


def test_deletion_that_nobody_requested_leads_to_the_data(subject: Visitor):
    assert subject.get("deletion")["Location"] == subject.page


def test_pages_are_small(subject: Visitor):
    for name in ("", "delete", "objection", "objected"):
        page = subject.get(f"{name}?lang=sw")

        assert page.status_code == 200, name
        assert size_of(page) < PAGE_BYTES, name


@pytest.fixture
def victim(paying_api: Api) -> Any:
    """A report and a rule without an address, about the holder of a stolen ID card."""
    report = paying_api.create(person(**BORN))["id"]
    create_rule(paying_api, subject=person(**BORN)["subject"])
    paying_api.work()
    return Report.objects.get(pk=report)


@pytest.fixture
def thief(live_ask: Any, victim: Report) -> Visitor:
    """A visitor of a second report about the victim, with the thief's address."""
    visitor: Visitor = live_ask(subject={"email": "thief@kamau.test"})
    visitor.agree()
    visitor.prove("data/")
    return visitor


def test_link_proves_no_report_without_an_address(
    thief: Visitor, victim: Report, paying_api: Api
):
    finding = victim.results.get(name="IDENTITY")

    (shown,) = thief.get("my-data.json").json()["reports"]
    assert shown["id"] == thief.report_id
    assert thief.get(f"wrong/{finding.pk}")["Location"] == thief.page
    assert "Object" in thief.text("objection")
    thief.post("objection")
    assert paying_api.report(str(victim.pk))["restrictedAt"] is None
    # As after a withdrawal, it pauses until the client has a newer consent.
    assert Rule.objects.get().pause_reason == "OBJECTION"
    thief.post("delete")
    run_job()
    assert paying_api.report(thief.report_id)["erasedAt"] is not None
    assert paying_api.report(str(victim.pk))["erasedAt"] is None
    assert Rule.objects.exists()


def test_address_that_the_visitor_has_not_proved_joins_nothing(
    live_ask: Any, paying_api: Api
):
    """The thief may add the address of the victim to their own."""
    phone = {"phone": "+254722000111"}
    hidden = paying_api.create(person(**BORN, **phone))["id"]
    again = paying_api.create(person(**BORN, email="thief@kamau.test"))["id"]
    visitor = live_ask(subject={"email": "thief@kamau.test", **phone})
    visitor.agree()

    visitor.prove("data/")

    shown = {one["id"] for one in visitor.get("my-data.json").json()["reports"]}
    assert shown == {visitor.report_id, again}
    assert hidden not in shown


def test_member_confirms_the_person_before_reports_join(
    thief: Visitor, victim: Report, paying_api: Api
):
    owner = ConsoleVisitor(create_member(paying_api.workspace, "OWNER"))
    CheckResult.objects.filter(report=victim).update(disputed_at=now())
    thief.post("others")
    thief.post("others")

    (asked,) = SubjectRequest.objects.filter(proved_address__isnull=False)
    assert (asked.kind, asked.outcome) == ("ACCESS", "")
    assert asked.number in thief.text("others")
    (message,) = Notification.objects.filter(kind="REQUESTS_DUE")
    assert asked.number in str(message.context)
    page = owner.page("corrections-join", LIVE, asked=asked.pk)
    assert str(victim.pk) in page
    assert "Under correction" in page
    assert str(Rule.objects.get().pk) in page
    rows = re.findall(r'<a class="cover"[^>]*>(.*?)</a>', page)
    assert set(rows) == {f"<bdi>{victim.subject_name}</bdi>"}
    assert "thief@kamau.test" not in page

    owner.post("corrections-join", {"decision": "DONE"}, LIVE, asked=asked.pk)

    shown = {one["id"] for one in thief.get("my-data.json").json()["reports"]}
    assert str(victim.pk) in shown
    assert "It is confirmed" in thief.text("others")
    assert AuditEvent.objects.filter(action="person.confirmed").exists()
    thief.post("delete")
    run_job()
    assert paying_api.report(str(victim.pk))["erasedAt"] is not None
    assert not Rule.objects.exists()


def test_erasure_of_the_page_ends_its_request_for_further_reports(
    thief: Visitor, victim: Report, paying_api: Api
):
    thief.post("others")
    thief.post("delete")

    run_job()

    asked = SubjectRequest.objects.get(proved_address__isnull=False)
    assert (asked.outcome, asked.reason) == ("WITHDRAWN", "The data was erased.")
    assert paying_api.report(str(victim.pk))["erasedAt"] is None


def test_refused_person_reads_why_and_sees_nothing_more(
    thief: Visitor, victim: Report, paying_api: Api
):
    owner = ConsoleVisitor(create_member(paying_api.workspace, "OWNER"))
    thief.post("others")
    asked = SubjectRequest.objects.get(proved_address__isnull=False)

    def refuse(reason: str) -> str:
        fields = {"decision": "REFUSED", "reason": reason}
        answer = owner.post("corrections-join", fields, LIVE, asked=asked.pk)
        return str(answer.content.decode())

    assert "Say why you refuse" in refuse("")
    refuse("Come to our office.")

    assert "Come to our office." in thief.text("others")
    assert len(thief.get("my-data.json").json()["reports"]) == 1


@pytest.fixture
def asking(live_ask: Any, paying_api: Api) -> Visitor:
    """A person who asked for further reports, of which there are none."""
    visitor: Visitor = live_ask(subject={"email": EMAIL})
    visitor.agree()
    visitor.prove("data/")
    visitor.post("others")
    return visitor


def test_person_does_not_learn_that_there_are_no_further_reports(asking: Visitor):
    first = SubjectRequest.objects.get(proved_address__isnull=False)
    assert first.outcome == "NOTHING_FOUND"
    assert f"(number {first.number})" in asking.text("others")
    assert "Ask for these reports" not in asking.text("others")
    # A request that waits for the client takes no second one, either.
    asking.post("others")
    assert f"(number {first.number})" in asking.text("others")

    # After the deadline the person can ask again.
    SubjectRequest.objects.update(
        received_at=first.received_at - timedelta(days=8),
        due_at=first.due_at - timedelta(days=8),
    )
    late = asking.text("others")
    # A client that has not answered in time makes no difference.
    SubjectRequest.objects.update(outcome="", answered_at=None)
    for page in (late, asking.text("others")):
        assert f"(number {first.number})" in page
        assert "You see the reports" not in page
        assert "Ask for these reports" in page
    asking.post("others")
    page = asking.text("others")
    assert f"(number {first.number})" not in page
    assert "Ask for these reports" not in page


def test_page_says_that_a_report_with_another_number_is_not_shown(
    subject: Visitor, api: Api
):
    """A passport and an identity card have no number in common."""
    passport = api.create(person(**BORN, email=EMAIL, idNumber="87654321"))["id"]

    shown = {one["id"] for one in subject.get("my-data.json").json()["reports"]}

    assert passport not in shown
    assert "We do not show a report here that has another number" in subject.text()
