"""Erasures by staff: who requests, who approves, and where the person is found."""

from typing import Any
from uuid import UUID

import pytest
from django.test import Client
from django.utils.timezone import now

from monitoring.models import Rule
from tests.world.clients import Api, erase, person, request_erasure
from tests.world.rules import store_rule
from tests.world.staff import change_url, list_url, take_messages
from tests.world.threads import run_at_once
from verification.backoffice.approvals import StaffActor
from verification.backoffice.model_admin import SENT_BEFORE
from verification.backoffice.models import AuditEvent
from verification.db.ids import uuid7
from verification.privacy import staff_erasures
from verification.privacy.erasure import erase_person
from verification.privacy.erasure import request_erasure as request_erasure_of
from verification.privacy.models import Erasure, Origin, StaffErasure, SubjectRequest
from verification.privacy.personal_data import erase_reports
from verification.privacy.staff_erasures import StaffErasureRefused

GRACE, WANGARI = StaffActor(1, "staff grace"), StaffActor(2, "staff wangari")
WANJIKU = {"subjectType": "INDIVIDUAL", "country": "KE", "idNumber": "12345678"}


def carry_out() -> None:
    for erasure in Erasure.objects.all():
        erase_person(str(erasure.pk))


def test_person_is_erased_in_all_workspaces(api: Api, another_api: Api):
    first = api.create(person())["id"]
    second = another_api.create(person())["id"]
    other = api.create(person(idNumber="22222222"))["id"]
    row = staff_erasures.request_for_person(WANJIKU, "A letter", by=GRACE)
    assert (row.report_count, row.workspace_count) == (2, 2)

    staff_erasures.approve(row.pk, by=WANGARI)
    carry_out()

    assert api.report(first)["erasedAt"] is not None
    assert another_api.report(second)["erasedAt"] is not None
    assert api.report(other)["erasedAt"] is None
    row.refresh_from_db()
    assert (row.status, row.person) == ("APPROVED", None)
    origins = Erasure.objects.values_list("request__origin", "staff_erasure")
    assert set(origins) == {("STAFF", row.pk)}


def test_workspaces_whose_erasure_had_begun_are_listed(
    api: Api, another_api: Api, superuser: Client
):
    first, _ = api.create(person()), another_api.create(person())
    begun = request_erasure(api, first["id"])
    row = staff_erasures.request_for_person(WANJIKU, "A letter", by=GRACE)

    staff_erasures.approve(row.pk, by=WANGARI)

    row.refresh_from_db()
    assert [str(pk) for pk in row.earlier_erasures] == [begun["id"]]
    page = superuser.get(change_url(row)).content.decode()
    assert "Begun by another request" in page
    assert f"{api.workspace} (sandbox)" in page


def test_subject_of_a_report_is_erased_in_its_workspace(api: Api, another_api: Api):
    first, _ = api.create(person())["id"], another_api.create(person())
    row = staff_erasures.request_for_report(first, "A letter", by=GRACE)

    staff_erasures.approve(row.pk, by=WANGARI)

    assert Erasure.objects.get().report_ids == [UUID(first)]


@pytest.mark.parametrize("by_number", [False, True])
def test_approval_erases_what_the_request_found_when_the_link_to_it_is_erased(
    api: Api, by_number: bool
):
    by_pin: dict[str, Any] = {"kraPin": "A123456789B", "idNumber": None}
    subjects = (person(kraPin="A123456789B"), person(**by_pin), person(**by_pin))
    link, other, edited = (
        api.create({**one, "checksRequested": ["KRA_PIN"], "draft": True})["id"]
        for one in subjects
    )
    rule = store_rule(api, "KRA_PIN", subject=person(**by_pin)["subject"])
    if by_number:
        row = staff_erasures.request_for_person(WANJIKU, "A letter", by=GRACE)
    else:
        row = staff_erasures.request_for_report(UUID(link), "A letter", by=GRACE)
    stranger = person(fullName="Peter Otieno", **by_pin)
    somebody = person(fullName="Otieno Ouma", idNumber="87654321")["subject"]
    api.post(f"/reports/{edited}/draft", {"subject": somebody})
    later = api.create(person(fullName="Wanjiku K."))["id"]
    left = api.create(stranger | {"checksRequested": ["KRA_PIN"]})["id"]
    narrow = request_erasure_of(link, Origin.SUBJECT, requested_by="subject")
    erase_person(str(narrow.pk))
    assert api.report(other)["erasedAt"] is None

    row = staff_erasures.approve(row.pk, by=WANGARI)
    carry_out()

    assert row.report_count == 3
    assert all(api.report(one)["erasedAt"] for one in (other, later))
    assert not any(api.report(one)["erasedAt"] for one in (edited, left))
    assert not Rule.objects.filter(pk=rule.pk).exists()
    assert (row.found_ids, row.subject_ids) == (None, None)


def test_approval_is_refused_when_everything_is_erased(api: Api):
    made = api.create(person())["id"]
    row = staff_erasures.request_for_report(made, "A letter", by=GRACE)
    erase(api, made)

    with pytest.raises(StaffErasureRefused, match="erased already"):
        staff_erasures.approve(row.pk, by=WANGARI)


def test_requester_cannot_approve(api: Api):
    row = staff_erasures.request_for_report(api.create(person())["id"], "x", by=GRACE)

    with pytest.raises(StaffErasureRefused, match="Another person"):
        staff_erasures.approve(row.pk, by=GRACE)

    assert not Erasure.objects.exists()


def test_rejected_request_erases_nothing_and_forgets_the_person(api: Api):
    api.create(person())
    row = staff_erasures.request_for_person(WANJIKU, "A letter", by=GRACE)

    staff_erasures.reject(row.pk, by=GRACE)

    row.refresh_from_db()
    assert (row.status, row.person) == ("REJECTED", None)
    assert not Erasure.objects.exists()
    with pytest.raises(StaffErasureRefused, match="REJECTED already"):
        staff_erasures.approve(row.pk, by=WANGARI)


def test_request_that_nobody_decides_forgets_the_person_after_a_month(api: Api):
    made = api.create(person())["id"]
    old = staff_erasures.request_for_person(WANJIKU, "A letter", by=GRACE)
    young = staff_erasures.request_for_report(made, "A letter", by=GRACE)
    before = now() - staff_erasures.TIME_TO_DECIDE
    StaffErasure.objects.filter(pk=old.pk).update(created_at=before)

    staff_erasures.erase_undecided()

    old.refresh_from_db()
    assert (old.status, old.person, old.decided_by) == ("REJECTED", None, "retention")
    event = AuditEvent.objects.get(action="staff-erasure.rejected")
    assert (event.object_id, event.actor_kind) == (str(old.pk), "SERVICE")
    entry = SubjectRequest.objects.get()
    assert (entry.kind, entry.requested_by) == ("ERASURE", GRACE.name)
    assert entry.details == {"request": "A letter", "staffErasure": str(old.pk)}
    assert entry.is_overdue
    young.refresh_from_db()
    assert young.status == "REQUESTED"


def test_undecided_request_is_no_entry_when_all_is_erased(api: Api):
    made = api.create(person())["id"]
    staff_erasures.request_for_person(WANJIKU, "A letter", by=GRACE)
    staff_erasures.request_for_report(made, "A letter", by=GRACE)
    erase(api, made)
    before = now() - staff_erasures.TIME_TO_DECIDE
    StaffErasure.objects.update(created_at=before)

    staff_erasures.erase_undecided()

    statuses = StaffErasure.objects.values_list("status", flat=True)
    assert [*statuses] == ["REJECTED"] * 2
    assert not SubjectRequest.objects.open().exists()


def test_undecided_request_of_1_0_0_is_an_entry_when_its_report_is_erased(api: Api):
    by_pin: dict[str, Any] = {"kraPin": "A123456789B", "idNumber": None}
    subjects = person(kraPin="A123456789B"), person(**by_pin)
    made = api.create(*({**one, "checksRequested": ["KRA_PIN"]} for one in subjects))
    api.work()
    link = UUID(made[0]["id"])
    rows = [
        staff_erasures.request_for_person(WANJIKU, "A letter", by=GRACE),
        staff_erasures.request_for_report(link, "A letter", by=GRACE),
    ]
    erase_reports([link], now())
    before = now() - staff_erasures.TIME_TO_DECIDE
    StaffErasure.objects.update(created_at=before, found_ids=None, subject_ids=None)

    staff_erasures.erase_undecided()

    entries = [one.details for one in SubjectRequest.objects.open().order_by("pk")]
    assert entries == [
        {"request": "A letter", "staffErasure": str(row.pk)} for row in rows
    ]


def test_ids_in_decided_requests_are_erased(api: Api):
    made = api.create(person())["id"]
    row = staff_erasures.request_for_report(made, "A letter", by=GRACE)
    staff_erasures.reject(row.pk, by=GRACE)
    ids = {"found_ids": row.found_ids, "subject_ids": row.subject_ids}
    StaffErasure.objects.update(**ids)
    waiting = staff_erasures.request_for_report(made, "A letter", by=GRACE)

    staff_erasures.erase_undecided()

    row.refresh_from_db()
    assert (row.found_ids, row.subject_ids) == (None, None)
    waiting.refresh_from_db()
    assert (waiting.found_ids, waiting.subject_ids) == tuple(ids.values())


@pytest.mark.django_db(transaction=True)
def test_double_press_requests_one_erasure_of_a_report(api: Api):
    made = api.create(person())["id"]

    def press(_: int):
        staff_erasures.request_for_report(made, "A letter", by=GRACE)

    results = run_at_once(2, press)

    assert StaffErasure.objects.count() == 1
    assert [type(one) for one in results if one] == [StaffErasureRefused]


def test_unknown_person_is_refused(api: Api):
    with pytest.raises(StaffErasureRefused, match="No report"):
        staff_erasures.request_for_person(WANJIKU, "A letter", by=GRACE)

    assert not StaffErasure.objects.exists()


def test_page_requests_the_erasure_of_a_person(api: Api, superuser: Client):
    url = list_url(StaffErasure) + "add/"
    typed = {
        "subject_type": "INDIVIDUAL",
        "country": "KE",
        "id_number": "12345678",
        "reason": "A letter",
        "page": str(uuid7()),
    }
    assert "No report or rule" in superuser.post(url, typed).content.decode()
    assert not StaffErasure.objects.exists()
    api.create(person())

    assert superuser.post(url, typed).status_code == 302

    row = StaffErasure.objects.get()
    assert (row.person, row.reason, row.report_count) == (WANJIKU, "A letter", 1)
    again = superuser.post(url, typed)
    assert take_messages(again)[-1] == SENT_BEFORE
    assert StaffErasure.objects.count() == 1
    page = superuser.get(change_url(row)).content.decode()
    assert "A letter" in page
    assert "12345678" not in page
