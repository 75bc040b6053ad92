"""Holds: who may hold a report, for how long, and what a hold keeps."""

from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction
from django.test import Client
from django.utils.timezone import localdate, now

from tests.privacy.test_retention import age
from tests.world.clients import Api, person, request_erasure
from tests.world.staff import change_url, press_button, read_page
from verification.backoffice.models import AuditEvent
from verification.privacy.holds import HoldRefused, hold, release
from verification.privacy.models import Hold
from verification.privacy.retention import erase_expired_reports
from verification.reports.models import Report
from verification.values.local_time import NAIROBI

DAY = timedelta(days=1)


@pytest.fixture
def ended(api: Api) -> Report:
    made = api.create(person())
    api.work()
    return Report.objects.get(pk=made["id"])


def test_staff_hold_and_release_a_report(api: Api, ended: Report, staff: Client):
    until = localdate(timezone=NAIROBI) + 30 * DAY

    said = press_button(staff, "hold", ended, reason="A court asks", ends_on=str(until))

    assert said == [f"The report is held until {until}."]
    page = read_page(staff, change_url(ended))
    assert "Kept until" in page
    assert "A court asks" in page
    held = Hold.objects.open(now()).get()

    press_button(staff, "release", held, reason="The case is over")

    assert not Hold.objects.open(now()).exists()
    trail = AuditEvent.objects.filter(action__in=["report.held", "hold.released"])
    assert [(e.action, e.reason, e.workspace_id) for e in trail.order_by("id")] == [
        ("report.held", "A court asks", api.workspace.pk),
        ("hold.released", "The case is over", api.workspace.pk),
    ]


def test_hold_needs_a_reason_and_ends_within_five_years(ended: Report, staff: Client):
    today = localdate(timezone=NAIROBI)
    for days, reason in [(-1, "A court asks"), (5 * 365 + 1, "A court asks"), (1, "")]:
        until = str(today + days * DAY)

        press_button(staff, "hold", ended, reason=reason, ends_on=until)

        assert not Hold.objects.exists(), days


def test_verb_refuses_a_hold_of_ten_years(ended: Report):
    with pytest.raises(HoldRefused, match="five years"):
        hold(ended.pk, "A court asks", now() + 3650 * DAY, by="staff grace")


def test_erased_report_cannot_be_held(ended: Report, staff: Client):
    age(str(ended.pk), 400)
    erase_expired_reports()

    with pytest.raises(HoldRefused, match="erased"):
        hold(ended.pk, "A court asks", now() + DAY, by="staff grace")
    given = {
        "reason": "A court asks",
        "ends_on": str(localdate(timezone=NAIROBI) + DAY),
    }
    press_button(staff, "hold", ended, **given)

    assert not Hold.objects.exists()


def test_report_whose_subject_is_being_erased_cannot_be_held(api: Api, ended: Report):
    other = api.create(person())["id"]
    request_erasure(api, other)

    with pytest.raises(HoldRefused, match="too late"):
        hold(ended.pk, "A court asks", now() + DAY, by="staff grace")


def test_held_report_cannot_be_held_again(ended: Report):
    first = hold(ended.pk, "A court asks", now() + DAY, by="staff grace")

    with pytest.raises(HoldRefused, match="held already"):
        hold(ended.pk, "Another court asks", now() + DAY, by="staff grace")

    release(first.pk, by="staff grace")
    hold(ended.pk, "Another court asks", now() + DAY, by="staff grace")


def test_released_hold_cannot_be_released_again(ended: Report):
    held = hold(ended.pk, "A court asks", now() + DAY, by="staff grace")
    release(held.pk, by="staff grace")

    with pytest.raises(HoldRefused, match="over"):
        release(held.pk, by="staff grace")


def test_held_draft_is_not_erased(api: Api):
    draft = api.create({**person(), "draft": True})["id"]
    Report.objects.filter(pk=draft).update(updated_at=now() - 400 * DAY)
    hold(draft, "A court asks", now() + DAY, by="staff grace")

    erase_expired_reports()

    assert api.report(draft)["status"] == "DRAFT"


def test_database_refuses_a_release_by_nobody(ended: Report):
    held = hold(ended.pk, "A court asks", now() + DAY, by="staff grace")

    named = pytest.raises(IntegrityError, match="released_holds_name_who")
    with named, transaction.atomic():
        Hold.objects.filter(pk=held.pk).update(released_at=now())
