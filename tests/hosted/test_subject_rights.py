"""The subject objects, and has everything deleted, on pages behind the proof."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.utils.timezone import now

from tests.world.clients import Api, person
from tests.world.subject import Visitor
from verification.privacy.erasure import erase_person
from verification.privacy.models import Erasure, Hold, SubjectRequest
from verification.privacy.personal_data import erase_reports
from verification.reports.models import Report

pytestmark = pytest.mark.django_db


@pytest.fixture
def subject(ask: Any) -> Visitor:
    """A subject who has consented, and proved it on the page of the data."""
    visitor: Visitor = ask()
    visitor.enter()
    assert visitor.grant().status_code == 303
    assert b"Delete everything about me" in visitor.see_data().content
    return visitor


def run_job() -> None:
    erase_person(str(Erasure.objects.get().pk))


def test_subject_has_everything_deleted(subject: Visitor, api: Api):
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


def test_link_leads_to_the_certificate_later(subject: Visitor):
    subject.post("delete")
    run_job()

    again = Visitor(subject.link)
    again.open()
    again.page += "data/"

    assert "Save the certificate (PDF)" in again.text("deletion")


def test_second_press_leads_to_the_same_erasure(subject: Visitor):
    for _ in range(2):
        assert subject.post("delete")["Location"] == f"{subject.page}deletion"
    assert subject.get("delete")["Location"] == f"{subject.page}deletion"
    run_job()

    assert subject.post("delete")["Location"] == f"{subject.page}deletion"
    assert Erasure.objects.count() == 1


@pytest.mark.parametrize("name", ["delete", "objection"])
def test_visitor_without_proof_can_do_nothing(subject: Visitor, name: str):
    stranger = Visitor(subject.link)
    stranger.open()
    stranger.page += "data/"

    for answer in (stranger.get(name), stranger.post(name)):
        assert (answer.status_code, answer["Location"]) == (303, stranger.page)
    assert not SubjectRequest.objects.exclude(kind="ACCESS").exists()


def test_hold_is_told_without_its_reason(subject: Visitor):
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
    assert SubjectRequest.objects.get(kind="ERASURE").outcome == "REFUSED"
    Hold.objects.update(released_at=now(), released_by="staff")
    assert subject.get("held")["Location"] == subject.page


def test_subject_objects(subject: Visitor, api: Api):
    second = api.create(person(dateOfBirth="1990-03-27"))["id"]
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


@pytest.mark.parametrize("name", ["", "delete", "objection", "objected"])
@pytest.mark.parametrize("language", ["en", "sw"])
def test_pages_are_small(subject: Visitor, name: str, language: str):
    page = subject.get(f"{name}?lang={language}")

    assert page.status_code == 200
    assert len(page.content) < 40_000
