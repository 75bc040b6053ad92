import base64

import pytest
from pydantic import ValidationError

from tests.world.clients import Api, company, error_codes
from tests.world.deliveries import (
    ALL_EVENTS,
    CONFIG,
    SECRET,
    URL,
    configure_receiver,
    list_delivery_ids,
    put_configuration,
    record_delivery,
)
from verification.api.webhooks import (
    WebhookConfiguration,
    WebhookConfigurationRequest,
)
from verification.reports.request import MAX_FAULTS
from webhooks.models import Configuration


def whsec(raw: bytes) -> str:
    return f"whsec_{base64.b64encode(raw).decode()}"


def test_configuration_is_returned_and_read_back(api: Api):
    answer = put_configuration(api)

    found = Configuration.objects.get()
    assert set(answer) == {f.alias for f in WebhookConfiguration.model_fields.values()}
    assert answer["id"] == str(found.pk)
    assert (answer["url"], answer["enabled"]) == (URL, True)
    assert answer["enabledEvents"] == ["report.ready"]
    assert (answer["failuresInRow"], answer["disabledAt"]) == (0, None)
    assert (answer["disabledReason"], answer["previousSecretEndsAt"]) == (None, None)
    assert api.get("/webhooks/config").json() == answer


def test_secret_is_never_returned(api: Api):
    first = api.post("/webhooks/config", CONFIG)
    second = api.post("/webhooks/config", {**CONFIG, "secret": "another-secret-of-16"})

    for answer in (first, second, api.get("/webhooks/config")):
        assert SECRET not in answer.content.decode()
        assert "another-secret" not in answer.content.decode()
    assert second.json()["previousSecretEndsAt"]


def test_new_configuration_replaces_the_whole_old_one(api: Api):
    first = put_configuration(api, enabled=False, enabledEvents=ALL_EVENTS)

    second = put_configuration(api, enabledEvents=["check.failed"], secret=...)

    assert second["id"] == first["id"]
    assert second["enabled"] is True
    assert second["enabledEvents"] == ["check.failed"]
    assert Configuration.objects.get().secret == SECRET


def test_configuration_states_why_it_is_disabled(api: Api):
    configure_receiver(api.workspace)
    at = Configuration.objects.get().created_at
    Configuration.objects.update(
        enabled=False,
        disabled_at=at,
        disabled_reason="GONE",
        failures_in_row=1,
        failing_since=at,
    )

    body = api.get("/webhooks/config").json()

    assert (body["enabled"], body["disabledReason"]) == (False, "GONE")
    assert body["disabledAt"] == body["createdAt"]
    assert body["failuresInRow"] == 1


def test_repeated_event_is_stored_once(api: Api):
    events = ["report.ready", "check.failed", "report.ready"]

    answer = put_configuration(api, enabledEvents=events)

    assert answer["enabledEvents"] == ["report.ready", "check.failed"]


def test_empty_list_delivers_nothing(api: Api):
    put_configuration(api, enabledEvents=[])
    api.create(company(), draft=True)

    assert list_delivery_ids(api) == []


GOOD_SECRETS = [
    "x" * 16,
    "~ " * 64,
    whsec(b"k" * 24),
    whsec(b"\xff" * 64),
]


def test_secret_may_be_any_printable_text(api: Api):
    for secret in GOOD_SECRETS:
        put_configuration(api, secret=secret)

        assert Configuration.objects.get().secret == secret


BAD = [
    ({"secret": "x" * 15}, "#/secret", "invalid-format"),
    ({"secret": "x" * 129}, "#/secret", "invalid-format"),
    ({"secret": "sixteen letters\n"}, "#/secret", "invalid-format"),
    ({"secret": "schlüssel-mit-umlaut"}, "#/secret", "invalid-format"),
    ({"secret": ""}, "#/secret", "invalid-format"),
    ({"secret": 1234567890123456}, "#/secret", "invalid-type"),
    ({"secret": ...}, "#/secret", "required"),
    ({"secret": None}, "#/secret", "required"),
    ({"secret": whsec(b"k" * 23)}, "#/secret", "invalid-format"),
    ({"secret": whsec(b"k" * 65)}, "#/secret", "invalid-format"),
    ({"secret": whsec(b"k" * 25).rstrip("=")}, "#/secret", "invalid-format"),
    ({"secret": "whsec_" + "!" * 32}, "#/secret", "invalid-format"),
    ({"url": "http://hooks.acacia.test/"}, "#/url", "invalid-format"),
    ({"url": "https://127.0.0.1/"}, "#/url", "invalid-format"),
    ({"url": "https://hooks.acacia.test:22/"}, "#/url", "invalid-format"),
    ({"url": "https://user:pw@hooks.acacia.test/"}, "#/url", "invalid-format"),
    ({"url": "https://hooks.acacia.test/#x"}, "#/url", "invalid-format"),
    ({"url": "https://localhost/"}, "#/url", "invalid-format"),
    ({"url": "https://hooks.acacia.local/"}, "#/url", "invalid-format"),
    ({"url": f"https://hooks.acacia.test/{'x' * 2048}"}, "#/url", "invalid-format"),
    ({"url": ""}, "#/url", "invalid-format"),
    ({"url": None}, "#/url", "required"),
    ({"url": ...}, "#/url", "required"),
    ({"url": ["https://a.test"]}, "#/url", "invalid-type"),
    ({"enabled": "true"}, "#/enabled", "invalid-type"),
    ({"enabled": 1}, "#/enabled", "invalid-type"),
    ({"enabledEvents": ...}, "#/enabledEvents", "required"),
    ({"enabledEvents": "report.ready"}, "#/enabledEvents", "invalid-type"),
    ({"enabledEvents": [7]}, "#/enabledEvents/0", "invalid-type"),
    (
        {"enabledEvents": ["report.ready", "report.reedy"]},
        "#/enabledEvents/1",
        "invalid-choice",
    ),
    ({"enabledEvents": ["webhook.test"]}, "#/enabledEvents/0", "invalid-choice"),
    ({"enabledEvents": ["*"]}, "#/enabledEvents/0", "invalid-choice"),
    ({"events": []}, "#/events", "unknown-member"),
    ({"enabled_events": []}, "#/enabled_events", "unknown-member"),
]


def test_invalid_configuration_is_refused_with_its_place(api: Api):
    for wrong, pointer, code in BAD:
        body = {k: v for k, v in {**CONFIG, **wrong}.items() if v is not ...}

        problem = api.refused("/webhooks/config", body)

        assert problem["code"] == "validation-failed", wrong
        assert error_codes(problem) == {pointer: code}, wrong
        assert not Configuration.objects.exists(), wrong


def test_all_faults_are_listed_without_the_secret(api: Api):
    wrong = {"url": "http://a.test/", "enabledEvents": ["x"], "secret": "short-one"}

    answer = api.post("/webhooks/config", {**wrong, "name": "x"})

    assert error_codes(answer.json()).keys() == {
        "#/url",
        "#/enabledEvents/0",
        "#/secret",
        "#/name",
    }
    assert "short-one" not in answer.content.decode()


def test_reading_stops_after_the_wrong_events_that_an_answer_lists():
    events = [f"x{n}" for n in range(200_000)]

    with pytest.raises(ValidationError) as refused:
        WebhookConfigurationRequest.model_validate({**CONFIG, "enabledEvents": events})

    assert refused.value.error_count() == MAX_FAULTS + 1


def test_development_host_may_be_configured(api: Api, settings):
    settings.WEBHOOK_DEV_HOSTS = frozenset(["localhost:9443"])

    assert put_configuration(api, url="https://localhost:9443/hook")["enabled"]
    problem = api.refused("/webhooks/config", {**CONFIG, "url": "https://localhost/"})
    assert error_codes(problem) == {"#/url": "invalid-format"}


def test_missing_configuration_is_not_found(api: Api):
    assert api.get("/webhooks/config").status_code == 404
    assert api.delete("/webhooks/config").status_code == 404


def test_configuration_is_deleted(api: Api):
    configure_receiver(api.workspace)
    delivery = record_delivery(api)

    answer = api.delete("/webhooks/config")

    assert (answer.status_code, answer.content) == (204, b"")
    assert api.get("/webhooks/config").status_code == 404
    assert api.get(f"/webhooks/deliveries/{delivery.pk}").json()["status"] == "FAILED"


def test_each_environment_has_its_own_configuration(
    api: Api, live_api: Api, another_api: Api
):
    configure_receiver(api.workspace)
    record_delivery(api)

    for stranger in (live_api, another_api):
        assert stranger.get("/webhooks/config").status_code == 404
        assert stranger.delete("/webhooks/config").status_code == 404
        assert list_delivery_ids(stranger) == []
    assert Configuration.objects.exists()
