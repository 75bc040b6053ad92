import base64
from typing import Any

import pytest

from tests.clients import Api, codes, company
from tests.webhooks.deliveries import ALL, SECRET, URL, configured, ended, put, recorded
from verification.api import webhook_examples as examples
from verification.api.docs import document
from verification.api.event_shapes import EVENTS
from verification.api.webhook_shapes import (
    DeliveryBody,
    DeliverySummary,
    WebhookConfiguration,
)
from webhooks.models import Attempt, Configuration, Delivery, Event

CONFIG = {"url": URL, "enabledEvents": ["report.ready"], "secret": SECRET}


def whsec(raw: bytes) -> str:
    return f"whsec_{base64.b64encode(raw).decode()}"


def configure(api: Api, **changes: Any) -> dict[str, Any]:
    body = {k: v for k, v in {**CONFIG, **changes}.items() if v is not ...}
    answer = api.post("/webhooks/config", body)
    assert answer.status_code == 200, answer.content
    return answer.json()


def listed(api: Api, **query: Any) -> list[str]:
    answer = api.get("/webhooks/deliveries", **query)
    assert answer.status_code == 200, answer.content
    return [delivery["id"] for delivery in answer.json()["content"]]


def attempted(delivery: Delivery, number: int, **fields: Any) -> Attempt:
    return Attempt.objects.create(
        delivery=delivery,
        number=number,
        url=URL,
        started_at=delivery.created_at,
        duration_ms=84,
        **fields,
    )


def test_what_is_configured_is_answered_and_read_back(api: Api):
    answer = configure(api)

    found = Configuration.objects.get()
    assert set(answer) == {f.alias for f in WebhookConfiguration.model_fields.values()}
    assert answer["id"] == str(found.pk)
    assert (answer["url"], answer["enabled"]) == (URL, True)
    assert answer["enabledEvents"] == ["report.ready"]
    assert (answer["failuresInRow"], answer["disabledAt"]) == (0, None)
    assert (answer["disabledReason"], answer["previousSecretEndsAt"]) == (None, None)
    assert api.get("/webhooks/config").json() == answer


def test_the_secret_is_never_returned(api: Api):
    first = api.post("/webhooks/config", CONFIG)
    second = api.post("/webhooks/config", {**CONFIG, "secret": "another-secret-of-16"})

    for answer in (first, second, api.get("/webhooks/config")):
        assert SECRET not in answer.content.decode()
        assert "another-secret" not in answer.content.decode()
    assert second.json()["previousSecretEndsAt"]


def test_a_configuration_is_replaced_wholesale(api: Api):
    first = configure(api, enabled=False, enabledEvents=ALL)

    second = configure(api, enabledEvents=["check.failed"], secret=...)

    assert second["id"] == first["id"]
    assert second["enabled"] is True
    assert second["enabledEvents"] == ["check.failed"]
    assert Configuration.objects.get().secret == SECRET


def test_why_the_service_disabled_it_is_told(api: Api):
    configured(api.workspace)
    at = Configuration.objects.get().created_at
    Configuration.objects.update(
        enabled=False,
        disabled_at=at,
        disabled_reason="GONE",
        failures_in_row=1,
        failing_since=at,
    )

    told = api.get("/webhooks/config").json()

    assert (told["enabled"], told["disabledReason"]) == (False, "GONE")
    assert told["disabledAt"] == told["createdAt"]
    assert told["failuresInRow"] == 1


def test_an_event_named_twice_is_kept_once(api: Api):
    events = ["report.ready", "check.failed", "report.ready"]

    answer = configure(api, enabledEvents=events)

    assert answer["enabledEvents"] == ["report.ready", "check.failed"]


def test_an_empty_list_delivers_nothing(api: Api):
    configure(api, enabledEvents=[])
    api.create(company(), draft=True)

    assert listed(api) == []


GOOD_SECRETS = [
    "x" * 16,
    "~ " * 64,
    whsec(b"k" * 24),
    whsec(b"\xff" * 64),
]


@pytest.mark.parametrize("secret", GOOD_SECRETS)
def test_a_secret_may_be_any_printable_text(api: Api, secret: str):
    configure(api, secret=secret)

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


@pytest.mark.parametrize(("wrong", "pointer", "code"), BAD)
def test_what_is_wrong_with_a_configuration_is_named(
    api: Api, wrong: dict, pointer: str, code: str
):
    body = {k: v for k, v in {**CONFIG, **wrong}.items() if v is not ...}

    problem = api.refused("/webhooks/config", body)

    assert problem["code"] == "validation-failed"
    assert codes(problem) == {pointer: code}
    assert not Configuration.objects.exists()


def test_all_that_is_wrong_is_told_together_and_repeats_no_secret(api: Api):
    wrong = {"url": "http://a.test/", "enabledEvents": ["x"], "secret": "short-one"}

    answer = api.post("/webhooks/config", {**wrong, "name": "x"})

    assert codes(answer.json()).keys() == {
        "#/url",
        "#/enabledEvents/0",
        "#/secret",
        "#/name",
    }
    assert "short-one" not in answer.content.decode()


def test_an_opened_host_may_be_configured(api: Api, settings):
    settings.WEBHOOK_DEV_HOSTS = frozenset(["localhost:9443"])

    assert configure(api, url="https://localhost:9443/hook")["enabled"]
    problem = api.refused("/webhooks/config", {**CONFIG, "url": "https://localhost/"})
    assert codes(problem) == {"#/url": "invalid-format"}


def test_a_configuration_that_is_not_there_is_not_found(api: Api):
    assert api.get("/webhooks/config").status_code == 404
    assert api.delete("/webhooks/config").status_code == 404


def test_a_configuration_is_deleted(api: Api):
    configured(api.workspace)
    delivery = recorded(api)

    answer = api.delete("/webhooks/config")

    assert (answer.status_code, answer.content) == (204, b"")
    assert api.get("/webhooks/config").status_code == 404
    assert api.get(f"/webhooks/deliveries/{delivery.pk}").json()["status"] == "FAILED"


def test_environments_have_configurations_of_their_own(
    api: Api, live_api: Api, another_api: Api
):
    configured(api.workspace)
    recorded(api)

    for stranger in (live_api, another_api):
        assert stranger.get("/webhooks/config").status_code == 404
        assert stranger.delete("/webhooks/config").status_code == 404
        assert listed(stranger) == []
    assert Configuration.objects.exists()


def test_a_test_event_is_on_its_way(api: Api):
    configured(api.workspace, events=[])

    answer = api.post("/webhooks/test")

    told = answer.json()
    assert answer.status_code == 202
    assert (told["event"], told["status"]) == ("webhook.test", "PENDING")
    assert (told["attemptCount"], told["attempts"]) == (0, [])
    assert told["id"] == str(Event.objects.get(name="webhook.test").pk)
    assert listed(api, event="webhook.test") == [told["id"]]


def test_too_many_test_events_are_told_when_to_go_on(api: Api):
    configured(api.workspace)
    for _ in range(5):
        assert api.post("/webhooks/test").status_code == 202

    answer = api.post("/webhooks/test")

    assert (answer.status_code, answer.json()["code"]) == (429, "rate-limited")
    assert 0 < int(answer["Retry-After"]) <= 60
    assert Delivery.objects.count() == 5


def test_a_delivery_says_what_became_of_it(api: Api):
    configured(api.workspace)
    delivery = recorded(api)
    at = delivery.created_at
    put(
        delivery,
        **ended("DELIVERED", attempts=2, status_code=204, delivered_at=at),
    )

    told = api.get(f"/webhooks/deliveries/{delivery.pk}").json()

    assert set(told) == {f.alias for f in DeliveryBody.model_fields.values()}
    assert told["id"] == str(delivery.event_id)
    assert told["reportId"] == str(delivery.event.report_id)
    assert (told["event"], told["status"]) == ("report.created", "DELIVERED")
    assert (told["attemptCount"], told["statusCode"]) == (2, 204)
    assert told["nextAttemptAt"] is None
    assert told["deliveredAt"] == told["createdAt"]
    (summary,) = api.get("/webhooks/deliveries").json()["content"]
    assert set(summary) == {f.alias for f in DeliverySummary.model_fields.values()}
    assert summary == {name: told[name] for name in summary}


def test_every_attempt_is_shown_in_its_order(api: Api):
    configured(api.workspace)
    delivery = recorded(api)
    attempted(delivery, 2, status_code=503, answer="Service Unavailable")
    attempted(delivery, 1, error="TIMED_OUT")

    first, second = api.get(f"/webhooks/deliveries/{delivery.pk}").json()["attempts"]

    assert first == {
        "number": 1,
        "attemptedAt": second["attemptedAt"],
        "url": URL,
        "statusCode": None,
        "durationMs": 84,
        "answer": None,
        "error": {
            "code": "TIMED_OUT",
            "message": "The answer was not complete in time.",
        },
    }
    assert (second["number"], second["statusCode"]) == (2, 503)
    assert (second["answer"], second["error"]) == ("Service Unavailable", None)


def test_deliveries_come_newest_first_in_pages(api: Api):
    configured(api.workspace)
    made = [str(recorded(api).pk) for _ in range(5)]

    pages = [api.get("/webhooks/deliveries", page=n, size=2).json() for n in range(4)]

    content = [delivery["id"] for page in pages for delivery in page["content"]]
    assert content == made[::-1]
    assert [len(page["content"]) for page in pages] == [2, 2, 1, 0]
    assert {(p["totalElements"], p["totalPages"]) for p in pages} == {(5, 3)}
    assert [page["last"] for page in pages] == [False, False, True, True]


def test_deliveries_are_found_by_event_and_status(api: Api):
    configured(api.workspace)
    failed = recorded(api, **ended("FAILED"))
    pending = recorded(api)
    api.post("/webhooks/test")

    assert listed(api, status="FAILED") == [str(failed.pk)]
    created = {str(failed.pk), str(pending.pk)}
    assert set(listed(api, event="report.created")) == created
    assert listed(api, event="report.created", status="PENDING") == [str(pending.pk)]
    assert listed(api, event="report.ready") == []


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"event": "report.reedy"}, "invalid-choice"),
        ({"status": "pending"}, "invalid-choice"),
        ({"size": 201}, "out-of-range"),
        ({"page": -1}, "out-of-range"),
        ({"state": "FAILED"}, "unknown-parameter"),
    ],
)
def test_a_filter_that_is_not_understood_is_refused(api: Api, query: dict, code: str):
    answer = api.get("/webhooks/deliveries", **query)

    assert answer.status_code == 400
    assert codes(answer.json()) == {next(iter(query)): code}


def test_a_list_reads_no_payloads_and_costs_the_same_for_many(
    api: Api, django_assert_max_num_queries
):
    configured(api.workspace)
    for _ in range(6):
        recorded(api)

    # The key, its use, the rate; then the list, which tells its own total.
    with django_assert_max_num_queries(5) as asked:
        assert len(listed(api)) == 6

    assert not [query for query in asked if '"payload"' in query["sql"]]


def test_a_delivery_is_sent_again(api: Api):
    configured(api.workspace)
    delivery = recorded(api, **ended("FAILED"))

    answer = api.post(f"/webhooks/deliveries/{delivery.pk}/redeliver")

    assert answer.status_code == 202
    assert (answer.json()["id"], answer.json()["status"]) == (
        str(delivery.pk),
        "PENDING",
    )
    assert answer.json()["nextAttemptAt"]


def test_what_failed_since_a_time_is_sent_again(api: Api):
    configured(api.workspace)
    delivery = recorded(api, **ended("FAILED"))

    later_on = api.post("/webhooks/recover", {"since": "9999-01-01T00:00:00Z"})
    answer = api.post("/webhooks/recover", {"since": "2026-01-01T03:00:00+03:00"})

    assert codes(later_on.json()) == {"#/since": "out-of-range"}
    assert (answer.status_code, answer.json()) == (202, {"count": 1})
    delivery.refresh_from_db()
    assert delivery.status == "PENDING"


@pytest.mark.parametrize(
    ("body", "pointer", "code"),
    [
        ({}, "#/since", "required"),
        ({"since": None}, "#/since", "required"),
        ({"since": 1768464000}, "#/since", "invalid-type"),
        ({"since": "yesterday"}, "#/since", "invalid-format"),
        ({"since": "2026-01-01T00:00:00"}, "#/since", "invalid-format"),
        ({"since": "2026-01-01T00:00:00Z", "all": True}, "#/all", "unknown-member"),
    ],
)
def test_what_is_wrong_with_a_recovery_is_named(api: Api, body, pointer, code):
    configured(api.workspace)

    assert codes(api.refused("/webhooks/recover", body)) == {pointer: code}


def test_operations_without_a_body_refuse_members(api: Api):
    configured(api.workspace)
    delivery = recorded(api)

    for path in ("/webhooks/test", f"/webhooks/deliveries/{delivery.pk}/redeliver"):
        problem = api.refused(path, {"force": True})
        assert codes(problem) == {"#/force": "unknown-member"}


def test_without_a_configuration_nothing_is_sent(api: Api):
    configured(api.workspace)
    delivery = recorded(api, **ended("FAILED"))
    api.delete("/webhooks/config")

    for path, body in sending(delivery):
        problem = api.refused(path, body)
        assert (problem["status"], problem["code"]) == (409, "webhook-not-configured")


def test_to_a_disabled_configuration_nothing_is_sent(api: Api):
    configured(api.workspace)
    delivery = recorded(api, **ended("FAILED"))
    configured(api.workspace, enabled=False)

    for path, body in sending(delivery):
        problem = api.refused(path, body)
        assert (problem["status"], problem["code"]) == (409, "webhook-disabled")


def test_what_is_kept_no_longer_is_not_sent_again(api: Api):
    configured(api.workspace)
    delivery = recorded(api, **ended("FAILED"))
    Event.objects.update(payload=None)

    problem = api.refused(f"/webhooks/deliveries/{delivery.pk}/redeliver")

    assert (problem["status"], problem["code"]) == (409, "event-purged")


def sending(delivery: Delivery) -> list[tuple[str, Any]]:
    return [
        ("/webhooks/test", None),
        ("/webhooks/recover", {"since": "2026-01-01T00:00:00Z"}),
        (f"/webhooks/deliveries/{delivery.pk}/redeliver", None),
    ]


def test_every_event_is_described_with_its_envelope_and_an_example():
    webhooks = document()["webhooks"]
    components = document()["components"]["schemas"]

    assert list(webhooks) == list(Event.Name.values)
    for name, shape in EVENTS.items():
        operation = webhooks[name]["post"]
        assert operation["summary"] == Event.Name(name).label.removesuffix(".")
        content = operation["requestBody"]["content"]["application/json"]
        assert content["schema"]["$ref"].endswith(f"/{shape.__name__}")
        described = components[shape.__name__]
        assert set(described["required"]) == {"event", "timestamp", "data"}
        assert described["properties"]["event"]["const"] == name
        (example,) = content["examples"].values()
        assert example["value"] == examples.EVENTS[name]
        assert "2XX" in operation["responses"]


@pytest.mark.parametrize("name", EVENTS)
def test_the_example_of_an_event_has_its_shape(name: str):
    example = examples.EVENTS[name]

    read = EVENTS[name].model_validate(example)

    assert read.model_dump(mode="json", by_alias=True) == example


def test_examples_are_what_requests_and_answers_look_like(api: Api):
    answer = configure(api, **examples.CONFIGURE)

    assert answer.keys() == examples.CONFIGURATION.keys()
    for shape, example in (
        (WebhookConfiguration, examples.CONFIGURATION),
        (DeliveryBody, examples.DELIVERY),
        (DeliveryBody, examples.WAITING),
        (DeliveryBody, examples.TEST_DELIVERY),
        (DeliverySummary, examples.SUMMARY),
    ):
        read = shape.model_validate(example)
        assert read.model_dump(mode="json", by_alias=True) == example
