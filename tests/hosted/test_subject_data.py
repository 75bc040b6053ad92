"""The subject's own page: who may see it."""

from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.utils.timezone import now

from tests.world.clients import Api
from tests.world.subject import BORN, Visitor, newest_code
from verification.consents.links import MAX_WRONG_CODES, TRIES
from verification.consents.models import Consent
from verification.notifications.models import Block, Channel, Kind, Notification
from verification.notifications.recipients import block
from verification.privacy.personal_data import erase_reports
from verification.reports.links import RESEND_INTERVAL
from verification.reports.models import Report

pytestmark = pytest.mark.django_db

EMAIL = "wanjiku@kamau.test"
FOUND = "What was found about you"
CHALLENGE = "Confirm that it is you"
CODE = "Enter the code that we sent you"


@pytest.fixture
def granted(ask: Any) -> Visitor:
    return grant(ask())


@pytest.fixture
def live_granted(live_ask: Any) -> Visitor:
    return grant(live_ask(subject={"email": EMAIL}))


def grant(visitor: Visitor) -> Visitor:
    """Let the subject consent, and come again with another browser."""
    visitor.enter()
    assert visitor.grant().status_code == 303
    again = Visitor(visitor.link)
    again.report_id, again.consent = visitor.report_id, visitor.consent
    return again


def data_page(visitor: Visitor) -> str:
    visitor.open()
    visitor.page += "data/"
    return visitor.text()


def codes() -> list[Notification]:
    return list(Notification.objects.filter(kind=Kind.ACCESS_CODE).order_by("id"))


def test_subject_sees_the_data_after_the_challenge(granted: Visitor):
    page = data_page(granted)
    assert CHALLENGE in page
    assert FOUND not in page

    granted.confirm()

    assert FOUND in granted.text()


def test_page_of_the_decision_leads_to_the_data(granted: Visitor):
    granted.open()
    granted.confirm()

    assert f'href="{granted.page}data/"' in granted.text()


def test_address_gets_a_fresh_code(live_granted: Visitor):
    data_page(live_granted)
    live_granted.confirm()
    page = live_granted.text()
    assert CODE in page
    assert FOUND not in page
    assert [one.recipient for one in codes()] == [EMAIL]

    live_granted.post("code", answer=newest_code())

    assert FOUND in live_granted.text()


def test_code_is_not_shown_for_a_wrong_code(live_granted: Visitor):
    data_page(live_granted)
    live_granted.confirm()
    live_granted.post("code", answer="wrong")

    page = live_granted.text()
    assert CODE in page
    assert FOUND not in page


def test_subject_who_blocked_the_client_gets_the_code(live_granted: Visitor):
    workspace = live_granted.consent.report.workspace_id
    block(workspace, [(Channel.EMAIL, EMAIL)], Block.Reason.UNWANTED)

    assert FOUND in live_granted.see_data().content.decode()


def test_request_that_is_open_shows_no_data(ask: Any):
    visitor = ask()
    visitor.open()
    visitor.confirm()

    answer = visitor.get("data/")

    assert (answer.status_code, answer["Location"]) == (303, visitor.page)
    assert visitor.post("data/confirm", **BORN)["Location"].endswith("data/")


def test_stranger_without_the_link_sees_nothing(granted: Visitor):
    stranger = Visitor("")
    stranger.page = f"/c/v/{granted.consent.pk}/data/"

    assert stranger.get().status_code == 403
    assert stranger.post("confirm", **BORN).status_code == 403


def test_link_of_somebody_else_opens_no_other_data(granted: Visitor, ask: Any):
    other = ask(subject={"idNumber": "87654321", "email": "otieno@kamau.test"})
    other.open()
    other.confirm()
    other.page = f"/c/v/{granted.consent.pk}/data/"

    assert other.get().status_code == 403


def test_500_wrong_answers_are_harmless(granted: Visitor):
    at = now()
    for nth in range(100):
        with time_machine.travel(at + timedelta(days=2 * nth)):
            granted.open()
            granted.page += "data/"
            for _ in range(TRIES):
                granted.confirm(day="1", month="1", year="1980")
    with time_machine.travel(at + timedelta(days=2 * nth, minutes=1)):
        page = granted.get()
        assert page.status_code == 429
        assert FOUND not in page.content.decode()

    granted.consent.refresh_from_db()
    assert not granted.consent.is_locked_for_good
    with time_machine.travel(at + timedelta(days=2 * nth + 2)):
        assert FOUND in granted.see_data().content.decode()


def test_wrong_codes_lock_the_data_for_a_day(live_granted: Visitor):
    data_page(live_granted)
    live_granted.confirm()
    moment = codes()[-1].created_at
    for tried in range(MAX_WRONG_CODES):
        with time_machine.travel(moment + tried // TRIES * 2 * RESEND_INTERVAL):
            if tried and tried % TRIES == 0:
                live_granted.post("send-code", channel="EMAIL")
            live_granted.post("code", answer="wrong")

    assert live_granted.get().status_code == 429
    live_granted.post("code", answer=newest_code())
    assert live_granted.get().status_code == 429
    with time_machine.travel(moment + timedelta(days=1, hours=1)):
        assert FOUND in live_granted.see_data().content.decode()


def test_link_that_is_locked_for_good_stays_locked(ask: Any):
    visitor = ask()
    Consent.objects.filter(pk=visitor.consent.pk).update(
        status="EXPIRED", locks=4, expires_at=now() + timedelta(days=1)
    )

    visitor.open()
    page = visitor.get("data/")

    assert page.status_code == 410
    assert "This link is locked" in page.content.decode()
    visitor.page += "data/"
    visitor.confirm()
    assert visitor.get().status_code == 410


def test_old_link_opens_no_data(granted: Visitor):
    data_page(granted)
    granted.confirm()
    Consent.objects.filter(pk=granted.consent.pk).update(
        generation=2, token_digest=b"another link"
    )

    page = granted.get()

    assert page.status_code == 410
    assert FOUND not in page.content.decode()
    assert granted.confirm().status_code == 303
    assert FOUND not in granted.text()


def test_subject_who_was_not_meant_sees_no_data(live_ask: Any):
    visitor = live_ask(subject={"email": EMAIL})
    visitor.open()
    visitor.post("not-me")

    assert visitor.get("data/").status_code == 303


def test_report_without_any_proof_shows_nothing(granted: Visitor):
    report = Report.objects.get(pk=granted.report_id)
    report.subject = {"subjectType": "INDIVIDUAL", "fullName": "Wanjiku Kamau"}
    report.save()

    page = data_page(granted)

    assert "We cannot tell that it is you" in page
    assert FOUND not in page


def test_company_has_no_such_page(ask_company: Any):
    visitor = ask_company()
    Consent.objects.update(status="GRANTED")
    visitor.open()

    assert visitor.get("data/").status_code == 303


def test_link_of_an_erased_report_says_what_was_erased(granted: Visitor, api: Api):
    api.work()
    with time_machine.travel("2026-11-20 09:00:00+00:00"):
        erase_reports([granted.report_id], now())

    page = data_page(granted)

    assert "Your details were deleted" in page
    assert "On 20 November 2026" in page
    assert "Wanjiku" not in page


def test_page_in_kiswahili_has_no_english(granted: Visitor):
    granted.see_data()

    assert "Yaliyopatikana kukuhusu" in granted.get(lang="sw").content.decode()
