"""Members see the notice of a decline with its proof, and hand it over."""

import io
import re

import pytest
from django.utils import translation
from django.utils.timezone import localdate
from pypdf import PdfReader

from tests.world.clients import Api
from tests.world.decisions import Officer
from tests.world.notices import create_report, decline, deliver, wait
from tests.world.threads import start_and_block, uncommitted
from verification.backoffice.models import AuditEvent
from verification.decisions.models import (
    AdverseNotice,
    Decision,
    NoticeRule,
    SecondMemberRule,
)
from verification.notifications.models import Notification
from verification.values.local_time import FULL_FORMAT, NAIROBI, format_nairobi

FIELDS = {"status": "DECLINED", "codes": ["OWN_CRITERIA"], "confirmed": "on"}


@pytest.fixture
def officer(api: Api) -> Officer:
    return Officer(api)


def test_page_shows_the_proof_of_service(owner, api: Api, officer: Officer):
    report = create_report(api)
    decline(officer, report)
    notice = deliver()

    html = owner.page("reports-detail", report=report)

    assert notice.number in html
    assert "Served" in html
    assert "w••••@kamau.test" in html
    assert "Sandbox Credit Bureau" in html


def test_page_and_proof_say_why_no_message_arrived(owner, api: Api, officer: Officer):
    report = create_report(api)
    decline(officer, report)
    Notification.objects.update(status="FAILED", error="REFUSED", next_attempt_at=None)
    notice = deliver()
    why = "the address or number was refused"

    html = owner.page("reports-detail", report=report)
    proof = owner.http.get(owner.url("notices-pdf", notice=notice.pk) + "?proof")

    assert re.search(rf"Not delivered by e-mail\s+w••••@kamau.test: {why}", html)
    text = PdfReader(io.BytesIO(proof.content)).pages[-1].extract_text()
    said = f"Not delivered by e-mail to w••••@kamau.test ({why})"
    assert said in " ".join(text.split())
    assert "REFUSED" not in html + text


def test_member_hands_the_notice_over(owner, api: Api, officer: Officer):
    report = create_report(api, email=None)
    decline(officer, report)
    notice = AdverseNotice.objects.get()
    page = owner.page("reports-detail", report=report)
    assert "No message reached the person." in page
    # The hand-over is the next job, so its button alone is filled.
    (primary,) = re.findall(r'<button class="primary[^>]*>([^<]*)', page)
    assert primary == "Record the hand-over"
    # The browser asks for what is missing or wrong, as the answer would lose the rest.
    action = owner.url("notices-hand-over", notice=notice.pk)
    assert re.search(f'action="{action}" class="gap">', page)
    made, today = (localdate(t, NAIROBI).isoformat() for t in (notice.created_at, None))
    day = re.search('<input type="date" [^>]*>', page)[0]
    assert f' min="{made}" max="{today}" required ' in day

    fields = {"by": "Peter Otieno", "on": today}
    # Sent twice, it is recorded once.
    for _ in range(2):
        said = owner.messages_after("notices-hand-over", fields, notice=notice.pk)
        assert said == ["The hand-over is recorded."]

    assert owner.page("reports-detail", report=report).count("Peter Otieno") == 1
    assert AuditEvent.objects.filter(action="notice.handed-over").count() == 1


def test_notices_to_hand_over_are_listed_until_they_are(
    owner, api: Api, another_api: Api, officer: Officer
):
    decline(officer, create_report(api))
    deliver()
    stranger = Officer(another_api, name="stranger")
    decline(stranger, create_report(another_api, email=None))
    decline(officer, create_report(api, email=None))
    AdverseNotice.objects.filter(workspace=api.workspace, state="UNDELIVERED").update(
        environment="production"
    )
    assert "Every notice has been delivered." in owner.page("queue-notices")
    assert owner.url("queue-notices") not in owner.page("dashboard")

    report = create_report(api, email=None)
    decline(officer, report)
    notice = AdverseNotice.objects.get(report=report)

    page = owner.page("dashboard")
    assert "1 notice of a decline to deliver" in page
    assert f'<a class="cover" href="{owner.url("queue-notices")}">' in page
    html = owner.page("queue-notices")
    assert re.findall(r">(N-[0-9A-Z-]+)<", html) == [notice.number]
    fields = {"by": "Peter Otieno", "on": localdate(timezone=NAIROBI).isoformat()}
    owner.messages_after("notices-hand-over", fields, notice=notice.pk)
    assert notice.number not in owner.page("queue-notices")


def test_hand_over_that_cannot_be_is_refused(owner, api: Api, officer: Officer):
    decline(officer, create_report(api))
    notice = AdverseNotice.objects.get()
    for fields, message in (
        ({}, "Say who handed it over, and when."),
        (
            {"by": "Peter", "on": "2020-01-01"},
            "The day of the hand-over cannot be before the decision.",
        ),
    ):
        said = owner.messages_after("notices-hand-over", fields, notice=notice.pk)

        assert said == [message]
    assert not notice.facts.exists()


def test_notice_is_sent_again_after_a_minute(owner, api: Api, officer: Officer):
    decline(officer, create_report(api))
    where = {"notice": AdverseNotice.objects.get().pk}

    said = owner.messages_after("notices-resend", {}, **where)
    assert said == [
        "A message with the notice is less than a minute old. Try again in a minute."
    ]
    AdverseNotice.objects.update(messaged_at="2026-01-01T00:00Z")
    assert owner.messages_after("notices-resend", {}, **where) == [
        "The notice is on its way."
    ]


def test_pdf_has_the_proof(owner, api: Api, officer: Officer):
    decline(officer, create_report(api))
    notice = deliver()

    answer = owner.http.get(owner.url("notices-pdf", notice=notice.pk) + "?proof")

    text = "".join(
        page.extract_text() for page in PdfReader(io.BytesIO(answer.content)).pages
    )
    assert "Proof of service" in text
    assert "w••••@kamau.test" in text
    plain = owner.http.get(owner.url("notices-pdf", notice=notice.pk) + "?in=sw")
    text = PdfReader(io.BytesIO(plain.content)).pages[0].extract_text()
    assert "Sababu kuu" in text
    assert "Uthibitisho" not in text
    with translation.override("sw"):
        assert format_nairobi(notice.decision.created_at, FULL_FORMAT) in text


def test_owner_sets_the_waiting_time(owner, api: Api):
    for typed in ("0", "31", "soon"):
        fields = {"waiting_days": typed}
        said = owner.messages_after("settings-notices", fields)
        assert said == ["Enter a number from 1 to 30"]

    assert owner.messages_after("settings-notices", {"waiting_days": "5"}) == ["Saved."]

    assert NoticeRule.objects.get().waiting_days == 5
    assert AuditEvent.objects.filter(action="notice-settings.changed").exists()


@pytest.mark.django_db(transaction=True)
def test_rules_that_two_members_save_at_once_are_kept(transactional_db, owner):
    def save(days: str) -> None:
        assert owner.post("settings-notices", {"waiting_days": days}).status_code == 303

    with uncommitted(lambda: save("5")):
        second = start_and_block(lambda: save("6"))
    second.result()
    assert NoticeRule.objects.get().waiting_days == 6


def test_member_takes_a_waiting_decline_back(owner, api: Api):
    wait(5, api)
    report = create_report(api)
    said = owner.messages_after("reports-decide", FIELDS, report=report)
    assert said == ["The person gets a notice. The decline counts once its time is up."]
    assert "A decline waits" in owner.page("reports-detail", report=report)

    where = {"decision": Decision.objects.get().pk}
    assert owner.messages_after("reports-withdraw", {}, **where) == [
        "The decline is taken back."
    ]

    assert "taken back" in owner.page("reports-detail", report=report)


def test_member_is_told_that_the_time_begins_with_the_hand_over(owner, api: Api):
    wait(5, api)
    report = create_report(api, email=None)

    (said,) = owner.messages_after("reports-decide", FIELDS, report=report)

    assert said.startswith("No message reaches the person.")
    assert "On its way" not in owner.page("reports-detail", report=report)


def test_second_member_reads_that_a_confirmed_decline_waits(owner, api: Api):
    wait(5, api)
    SecondMemberRule.objects.create(workspace=api.workspace, declines=True)
    decline(Officer(api), create_report(api))
    where = {"decision": Decision.objects.get().pk}

    said = owner.messages_after("reports-confirm", {"confirmed": "on"}, **where)

    (text,) = said
    assert text.startswith(
        "The person gets a notice. The decline counts once its time is up."
    )
    assert Decision.objects.get().state == "WAITING"


def test_form_asks_for_other_grounds_after_a_credit_check(owner, api: Api):
    report = create_report(api)
    fields = {**FIELDS, "codes": ["ADVERSE_CREDIT"], "not_on_bureau": "Forged"}

    html = owner.post("reports-decide", fields, report=report).content.decode()

    assert "A reason that you chose comes from a credit bureau" in html
    assert not Decision.objects.exists()
    owner.post("reports-decide", {**FIELDS, "not_on_bureau": "Forged"}, report=report)
    assert Decision.objects.get().not_on_bureau == "Forged"
    assert not AdverseNotice.objects.exists()
    other = create_report(api, "IDENTITY", idNumber="22222222")
    assert "not_on_bureau" not in owner.page("reports-detail", report=other)
