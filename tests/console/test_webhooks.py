import re
from datetime import timedelta

from django.utils.timezone import now

from tests.world.clients import person
from tests.world.deliveries import (
    SECRET,
    URL,
    configure_receiver,
    record_delivery,
    record_events,
    update_delivery,
)
from verification.backoffice.models import AuditEvent
from verification.console.templatetags.console import coloured
from verification.console.words import WORDS
from verification.db.ids import number_of_id
from verification.values.masking import DOTS
from webhooks.events import masked_members
from webhooks.models import Attempt, Configuration, Delivery, Event

HOOK = {
    "url": URL,
    "enabled": "on",
    "enabled_events": ["report.ready"],
    "secret": SECRET,
}


def test_webhook_is_configured_and_its_secret_never_shown(owner):
    owner.post("webhooks-configure", HOOK)

    found = Configuration.objects.get()
    assert (found.url, found.enabled_events) == (URL, ["report.ready"])
    assert found.secret == SECRET
    for page in ("webhooks", "webhooks-configure"):
        assert SECRET not in owner.page(page)
    owner.post("webhooks-configure", {**HOOK, "secret": "", "enabled": ""})
    found.refresh_from_db()
    assert (found.secret, found.enabled) == (SECRET, False)


INVALID = [
    {"url": "http://hooks.acacia.test/"},
    {"url": "https://localhost/"},
    {"secret": ""},
    {"secret": "short"},
    {"secret": "whsec_not base64 at all"},
    {"enabled_events": ["webhook.test"]},
]


def test_saved_webhook_promises_events_only_if_it_gets_some(owner):
    promise = ["Events go to this address from now on."]

    assert owner.messages_after("webhooks-configure", HOOK) == promise
    for change in ({"enabled": ""}, {"enabled_events": []}):
        said = owner.messages_after("webhooks-configure", {**HOOK, **change})
        assert said == ["Saved."], change


def test_invalid_webhook_is_refused(owner):
    for wrong in INVALID:
        html = owner.post("webhooks-configure", {**HOOK, **wrong}).content.decode()

        assert "<title>Error:" in html, wrong
        assert not Configuration.objects.exists(), wrong


def test_webhook_form_never_shows_a_typed_secret(owner):
    html = owner.post("webhooks-configure", {**HOOK, "url": "x"}).content.decode()

    assert SECRET not in html


def test_test_event_is_sent_and_shown(owner, api):
    assert owner.messages_after("webhooks-test") == [
        "There is no address that events are sent to."
    ]
    configure_receiver(api.workspace, enabled=False)
    off = ["Sending events is switched off."]
    assert owner.messages_after("webhooks-test") == off
    Configuration.objects.update(enabled=True)

    assert owner.messages_after("webhooks-test") == ["A test event is on its way."]
    delivery = Delivery.objects.get()
    assert "webhook.test" in owner.page("webhooks")
    assert "Waiting" in owner.page("webhooks-delivery", delivery=delivery.pk)


def test_delivery_is_sent_again(owner, api):
    configure_receiver(api.workspace)
    delivery = record_delivery(api, status="FAILED", next_attempt_at=None)

    owner.post("webhooks-redeliver", delivery=delivery.pk)

    delivery.refresh_from_db()
    assert delivery.status == "PENDING"


def test_delivery_is_not_sent_again_while_it_is_being_sent(owner, api):
    configure_receiver(api.workspace)
    delivery = record_delivery(api)
    update_delivery(delivery, leased_until=now() + timedelta(minutes=1))

    said = owner.messages_after("webhooks-redeliver", delivery=delivery.pk)

    assert said == ["Nothing was done: the event is being sent at this moment."]
    assert not AuditEvent.objects.filter(action="delivery.redelivered").exists()


def test_delivery_page_shows_its_payload_after_a_reason(owner, api):
    configure_receiver(api.workspace)
    delivery = record_delivery(api)
    subject = delivery.event.payload["subject"]["id"]

    html = owner.page("webhooks-delivery", delivery=delivery.pk)
    assert subject not in html
    empty = owner.post("webhooks-delivery", {"reason": " "}, delivery=delivery.pk)
    assert subject not in empty.content.decode()
    assert not AuditEvent.objects.filter(action="delivery.revealed").exists()

    asked = {"reason": "Our receiver lost it"}
    answer = owner.post("webhooks-delivery", asked, delivery=delivery.pk)

    assert subject in answer.content.decode()
    assert answer["Cache-Control"] == "no-store"
    event = AuditEvent.objects.get(action="delivery.revealed")
    assert (event.fields, event.reason) == (["payload"], "Our receiver lost it")
    assert subject not in owner.page("webhooks-delivery", delivery=delivery.pk)


def test_masked_payload_shows_the_words_of_the_service_and_no_finding(api):
    configure_receiver(api.workspace)
    api.create({**person(), "reference": "loan-4711"})
    api.work()
    event = Event.objects.filter(name="check.completed")[0]
    event.payload["check"]["details"] = {"status": "ACTIVE", "idNumber": "12345678"}
    event.payload["reference"] = {"refereeName": "Otieno"}

    shown = masked_members(event)

    check = shown["data"]["check"]
    assert shown["event"] == "check.completed"
    report, referee = shown["data"]["report"], shown["data"]["reference"]
    assert (report["id"], report["reference"]) == (str(event.report_id), "loan-4711")
    assert referee == {"refereeName": f"O{DOTS}"}
    assert (check["status"], check["riskLevel"]) == ("COMPLETED", "LOW")
    assert check["details"] == {"status": DOTS, "idNumber": f"{DOTS}5678"}
    assert [check["summary"], shown["data"]["subject"]["id"]] == [DOTS, DOTS]


def test_redelivering_is_offered_where_it_can_work(owner, viewer, api):
    configure_receiver(api.workspace)
    delivery = record_delivery(api, status="FAILED", next_attempt_at=None)
    url = owner.url("webhooks-redeliver", delivery=delivery.pk)

    assert url in owner.page("webhooks-delivery", delivery=delivery.pk)
    assert url not in viewer.page("webhooks-delivery", delivery=delivery.pk)
    Event.objects.filter(pk=delivery.pk).update(payload=None)

    html = owner.page("webhooks-delivery", delivery=delivery.pk)
    assert url not in html
    assert "no longer kept" in html


def test_webhook_is_removed_after_a_confirmation(owner, api):
    configure_receiver(api.workspace)
    owner.get("webhooks-remove")
    assert Configuration.objects.exists()

    owner.post("webhooks-remove")
    assert not Configuration.objects.exists()


def test_failed_deliveries_are_sent_again_after_a_confirmation(owner, viewer, api):
    configure_receiver(api.workspace)
    for _ in range(2):
        record_delivery(api, status="FAILED", next_attempt_at=None)
    record_delivery(api)
    url = owner.url("webhooks-recover")
    assert f'href="{url}"' in owner.page("webhooks")
    assert f'href="{url}"' not in viewer.page("webhooks")
    assert "with the same ids" in owner.page("webhooks-recover")
    assert Delivery.objects.filter(status="FAILED").count() == 2

    assert owner.messages_after("webhooks-recover") == ["2 events are sent again."]

    assert not Delivery.objects.filter(status="FAILED").exists()
    assert AuditEvent.objects.filter(action="deliveries.recovered").count() == 1
    assert f'href="{url}"' not in owner.page("webhooks")


def test_delivery_page_says_what_each_attempt_came_to(owner, api):
    configuration = configure_receiver(api.workspace)
    delivery = record_delivery(api, attempts=3, failures=2)
    Configuration.objects.update(failures_in_row=2, failing_since=now())
    outcomes = [{"error": "TIMED_OUT"}, {"status_code": 502}, {"status_code": 599}]
    for number, outcome in enumerate(outcomes, 1):
        Attempt.objects.create(
            delivery=delivery,
            number=number,
            url=configuration.url,
            started_at=now(),
            duration_ms=15_000,
            **outcome,
        )

    html = owner.page("webhooks-delivery", delivery=delivery.pk)

    for words in (
        "No answer in time",
        "502 Bad Gateway",
        "599",
        "15 s",
        "2 of 10 failed",
    ):
        assert words in html
    # Ids in the page may have the other digits.
    places = [html.index(words) for words in ("502 Bad Gateway", "No answer in time")]
    assert places == sorted(places)
    assert "has not accepted an event 2 times in a row" in html
    assert "Wanjiku Kamau" in html

    update_delivery(delivery, status_code=502)
    Attempt.objects.filter(number=3).update(error="NOT_TRUSTED", status_code=None)
    row = owner.page("webhooks").split("<tbody")[1]
    report = delivery.event.report_id
    link = f'href="{owner.url("reports-detail", report=report)}">'
    assert f"{link}{number_of_id('R', report)}</a>" in row
    # The page shows the newest attempt, not an older answer.
    assert ">502<" not in row
    assert str(WORDS["attempt"]["NOT_TRUSTED"]) in row


def test_report_leads_to_its_deliveries(owner, api):
    configure_receiver(api.workspace)
    mine, other = (record_delivery(api) for _ in range(2))
    report = mine.event.report_id

    link = f'/webhooks/?report_id={report}"'
    assert link in owner.page("reports-detail", report=report)
    html = owner.page("webhooks", query={"report_id": report})
    assert f"Report number or ID: {report}" in re.sub("</?bdi>", "", html)
    assert owner.url("webhooks-delivery", delivery=mine.pk) in html
    assert owner.url("webhooks-delivery", delivery=other.pk) not in html


def test_deliveries_are_found_by_the_number_of_their_report(owner, stranger, api):
    configure_receiver(api.workspace)
    mine, other = (record_delivery(api) for _ in range(2))
    number = number_of_id("R", mine.event.report_id)

    for typed in (number, f" {number.lower()} "):
        html = owner.page("webhooks", query={"report_id": typed})
        assert owner.url("webhooks-delivery", delivery=mine.pk) in html
        assert owner.url("webhooks-delivery", delivery=other.pk) not in html
    for visitor, typed in ((owner, "R-0000-0000-0000"), (stranger, number)):
        html = visitor.page("webhooks", query={"report_id": typed})
        assert "Nothing matches these filters." in html


def test_delivery_page_names_no_next_attempt_in_the_past(owner, api):
    configure_receiver(api.workspace)
    delivery = record_delivery(api, next_attempt_at=now() - timedelta(minutes=31))
    update_delivery(delivery, failures=1)

    page = owner.page("webhooks-delivery", delivery=delivery.pk)

    assert "1 of 10 failed" in page
    assert "31 min ago" not in page
    update_delivery(delivery, next_attempt_at=now() + timedelta(minutes=31))
    assert "next <time" in owner.page("webhooks-delivery", delivery=delivery.pk)


def test_disabled_receiver_says_why(owner, api):
    configure_receiver(api.workspace)
    Configuration.objects.update(
        enabled=False, disabled_at=now(), disabled_reason="GONE"
    )

    html = owner.page("webhooks")
    assert "Your server answered 410 Gone." in html
    assert "Status: off" in html


def test_payload_cannot_bring_markup():
    found = coloured('{"a\\"<b>": "<script>", "n": -1.5}')

    assert "<script>" not in found
    assert "<b>" not in found
    assert '<span class="n">-1.5</span>' in found
    assert found.count('class="k"') == 2


def test_deliveries_are_counted_up_to_a_limit(owner, api, monkeypatch):
    monkeypatch.setattr("verification.console.webhooks.COUNTED_DELIVERIES", 20)
    configure_receiver(api.workspace)
    record_events(api.workspace, 22)

    assert "of more than 20" in owner.page("webhooks")
