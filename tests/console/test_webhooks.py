import pytest

from tests.world.deliveries import SECRET, URL, configure_receiver, record_delivery
from verification.backoffice.models import AuditEvent
from webhooks.models import Configuration, Delivery, Event

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


@pytest.mark.parametrize(
    "wrong",
    [
        {"url": "http://hooks.acacia.test/"},
        {"url": "https://169.254.169.254/"},
        {"url": "https://localhost/"},
        {"url": "javascript:alert(1)"},
        {"secret": ""},
        {"secret": "short"},
        {"secret": "whsec_not base64 at all"},
        {"enabled_events": ["webhook.test"]},
    ],
)
def test_invalid_webhook_is_refused(owner, wrong):
    html = owner.post("webhooks-configure", {**HOOK, **wrong}).content.decode()

    assert "<title>Error:" in html
    assert not Configuration.objects.exists()


def test_webhook_form_never_shows_a_typed_secret(owner):
    html = owner.post("webhooks-configure", {**HOOK, "url": "x"}).content.decode()

    assert SECRET not in html


def test_test_event_is_sent_and_shown(owner, api):
    assert owner.messages_after("webhooks-test") == [
        "There is no address that events are sent to."
    ]
    configure_receiver(api.workspace)

    assert owner.messages_after("webhooks-test") == ["A test event is on its way."]
    delivery = Delivery.objects.get()
    assert "webhook.test" in owner.page("webhooks")
    assert "PENDING" in owner.page("webhooks-delivery", delivery=delivery.pk)


def test_delivery_is_sent_again(owner, api):
    configure_receiver(api.workspace)
    delivery = record_delivery(api, status="FAILED", next_attempt_at=None)

    owner.post("webhooks-redeliver", delivery=delivery.pk)

    delivery.refresh_from_db()
    assert delivery.status == "PENDING"


def test_delivery_page_shows_its_payload_after_a_reason(owner, api):
    configure_receiver(api.workspace)
    delivery = record_delivery(api)
    subject = delivery.event.payload["subject"]["id"]

    html = owner.page("webhooks-delivery", delivery=delivery.pk)
    assert "reportId" in html
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


def test_redelivering_asks_first_and_is_offered_where_it_can_work(owner, api):
    configure_receiver(api.workspace)
    delivery = record_delivery(api, status="FAILED", next_attempt_at=None)
    url = owner.url("webhooks-redeliver", delivery=delivery.pk)

    assert url in owner.page("webhooks-delivery", delivery=delivery.pk)
    assert "begins anew" in owner.page("webhooks-redeliver", delivery=delivery.pk)
    delivery.refresh_from_db()
    assert delivery.status == "FAILED"
    Event.objects.filter(pk=delivery.pk).update(payload=None)

    html = owner.page("webhooks-delivery", delivery=delivery.pk)
    assert url not in html
    assert "kept no longer" in html


def test_webhook_is_removed_after_a_confirmation(owner, api):
    configure_receiver(api.workspace)
    owner.get("webhooks-remove")
    assert Configuration.objects.exists()

    owner.post("webhooks-remove")
    assert not Configuration.objects.exists()
