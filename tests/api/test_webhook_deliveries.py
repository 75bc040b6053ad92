from typing import Any

import pytest

from tests.world.clients import Api, error_codes
from tests.world.deliveries import (
    URL,
    configure_receiver,
    ended_fields,
    list_delivery_ids,
    record_delivery,
    update_delivery,
)
from verification.api.webhooks import DeliveryBody, DeliverySummary
from webhooks.models import Attempt, Delivery, Event


def create_attempt(delivery: Delivery, number: int, **fields: Any) -> Attempt:
    return Attempt.objects.create(
        delivery=delivery,
        number=number,
        url=URL,
        started_at=delivery.created_at,
        duration_ms=84,
        **fields,
    )


def test_test_event_is_queued(api: Api):
    configure_receiver(api.workspace, events=[])

    answer = api.post("/webhooks/test")

    body = answer.json()
    assert answer.status_code == 202
    assert (body["event"], body["status"]) == ("webhook.test", "PENDING")
    assert (body["attemptCount"], body["attempts"]) == (0, [])
    assert body["id"] == str(Event.objects.get(name="webhook.test").pk)
    assert list_delivery_ids(api, event="webhook.test") == [body["id"]]


@pytest.mark.usefixtures("new_minute")
def test_test_events_over_the_limit_get_retry_after(api: Api):
    configure_receiver(api.workspace)
    for _ in range(5):
        assert api.post("/webhooks/test").status_code == 202

    answer = api.post("/webhooks/test")

    assert (answer.status_code, answer.json()["code"]) == (429, "rate-limited")
    assert 0 < int(answer["Retry-After"]) <= 60
    assert Delivery.objects.count() == 5


def test_delivery_states_its_outcome(api: Api):
    configure_receiver(api.workspace)
    delivery = record_delivery(api)
    at = delivery.created_at
    update_delivery(
        delivery,
        **ended_fields("DELIVERED", attempts=2, status_code=204, delivered_at=at),
    )

    body = api.get(f"/webhooks/deliveries/{delivery.pk}").json()

    assert set(body) == {f.alias for f in DeliveryBody.model_fields.values()}
    assert body["id"] == str(delivery.event_id)
    assert body["reportId"] == str(delivery.event.report_id)
    assert (body["event"], body["status"]) == ("report.created", "DELIVERED")
    assert (body["attemptCount"], body["statusCode"]) == (2, 204)
    assert body["nextAttemptAt"] is None
    assert body["deliveredAt"] == body["createdAt"]
    (summary,) = api.get("/webhooks/deliveries").json()["content"]
    assert set(summary) == {f.alias for f in DeliverySummary.model_fields.values()}
    assert summary == {name: body[name] for name in summary}


def test_delivery_lists_attempts_in_order(api: Api):
    configure_receiver(api.workspace)
    delivery = record_delivery(api)
    create_attempt(delivery, 2, status_code=503, answer="Service Unavailable")
    create_attempt(delivery, 1, error="TIMED_OUT")

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
    configure_receiver(api.workspace)
    made = [str(record_delivery(api).pk) for _ in range(5)]

    pages = [api.get("/webhooks/deliveries", page=n, size=2).json() for n in range(4)]

    content = [delivery["id"] for page in pages for delivery in page["content"]]
    assert content == made[::-1]
    assert [len(page["content"]) for page in pages] == [2, 2, 1, 0]
    assert {(p["totalElements"], p["totalPages"]) for p in pages} == {(5, 3)}
    assert [page["last"] for page in pages] == [False, False, True, True]


def test_deliveries_are_found_by_event_status_and_report(api: Api):
    configure_receiver(api.workspace)
    failed = record_delivery(api, **ended_fields("FAILED"))
    pending = record_delivery(api)
    api.post("/webhooks/test")

    assert list_delivery_ids(api, status="FAILED") == [str(failed.pk)]
    created = {str(failed.pk), str(pending.pk)}
    assert set(list_delivery_ids(api, event="report.created")) == created
    assert list_delivery_ids(api, event="report.created", status="PENDING") == [
        str(pending.pk)
    ]
    assert list_delivery_ids(api, event="report.ready") == []
    Event.objects.filter(pk=failed.pk).update(report_id=failed.pk)
    assert list_delivery_ids(api, reportId=failed.pk) == [str(failed.pk)]


def test_invalid_filter_is_refused(api: Api):
    for query, code in [
        ({"event": "report.reedy"}, "invalid-choice"),
        ({"status": "pending"}, "invalid-choice"),
        ({"reportId": "R1"}, "invalid-format"),
        ({"size": 201}, "out-of-range"),
        ({"page": -1}, "out-of-range"),
        ({"state": "FAILED"}, "unknown-parameter"),
    ]:
        answer = api.get("/webhooks/deliveries", **query)

        assert answer.status_code == 400
        assert error_codes(answer.json()) == {next(iter(query)): code}


def test_list_reads_no_payloads_and_has_constant_cost(
    api: Api, django_assert_max_num_queries
):
    configure_receiver(api.workspace)
    for _ in range(6):
        record_delivery(api)

    # The key, its use, the rate; then the list, which tells its own total.
    with django_assert_max_num_queries(6) as asked:
        assert len(list_delivery_ids(api, event="report.created")) == 6

    # An index alone has the ids of the page, however many others the filter passes.
    ids = next(one["sql"] for one in asked if "webhooks_delivery" in one["sql"])
    assert ids.startswith('SELECT "webhooks_delivery"."event_id" AS "pk" FROM')
    assert "webhooks_event" not in ids
    assert not [query for query in asked if '"payload"' in query["sql"]]


def test_delivery_is_sent_again(api: Api):
    configure_receiver(api.workspace)
    delivery = record_delivery(api, **ended_fields("FAILED"))

    answer = api.post(f"/webhooks/deliveries/{delivery.pk}/redeliver")

    assert answer.status_code == 202
    assert (answer.json()["id"], answer.json()["status"]) == (
        str(delivery.pk),
        "PENDING",
    )
    assert answer.json()["nextAttemptAt"]


def test_recover_sends_what_failed_since_a_time(api: Api):
    configure_receiver(api.workspace)
    delivery = record_delivery(api, **ended_fields("FAILED"))

    later_on = api.post("/webhooks/recover", {"since": "9999-01-01T00:00:00Z"})
    answer = api.post("/webhooks/recover", {"since": "2026-01-01T03:00:00+03:00"})

    assert error_codes(later_on.json()) == {"#/since": "out-of-range"}
    assert (answer.status_code, answer.json()) == (202, {"count": 1})
    delivery.refresh_from_db()
    assert delivery.status == "PENDING"


INVALID_RECOVERIES = [
    ({}, "#/since", "required"),
    ({"since": None}, "#/since", "required"),
    ({"since": 1768464000}, "#/since", "invalid-type"),
    ({"since": "yesterday"}, "#/since", "invalid-format"),
    ({"since": "2026-01-01T00:00:00"}, "#/since", "invalid-format"),
    ({"since": "2026-01-01T00:00:00Z", "all": True}, "#/all", "unknown-member"),
]


def test_invalid_recovery_is_refused_with_its_place(api: Api):
    configure_receiver(api.workspace)
    for body, pointer, code in INVALID_RECOVERIES:
        assert error_codes(api.refused("/webhooks/recover", body)) == {pointer: code}


def test_operations_without_a_body_refuse_members(api: Api):
    configure_receiver(api.workspace)
    delivery = record_delivery(api)

    for path in ("/webhooks/test", f"/webhooks/deliveries/{delivery.pk}/redeliver"):
        problem = api.refused(path, {"force": True})
        assert error_codes(problem) == {"#/force": "unknown-member"}


def test_nothing_is_sent_without_a_configuration(api: Api):
    configure_receiver(api.workspace)
    delivery = record_delivery(api, **ended_fields("FAILED"))
    api.delete("/webhooks/config")

    for path, body in sending(delivery):
        problem = api.refused(path, body)
        assert (problem["status"], problem["code"]) == (409, "webhook-not-configured")


def test_nothing_is_sent_when_the_configuration_is_disabled(api: Api):
    configure_receiver(api.workspace)
    delivery = record_delivery(api, **ended_fields("FAILED"))
    configure_receiver(api.workspace, enabled=False)

    for path, body in sending(delivery):
        problem = api.refused(path, body)
        assert (problem["status"], problem["code"]) == (409, "webhook-disabled")


def test_purged_event_is_not_sent_again(api: Api):
    configure_receiver(api.workspace)
    delivery = record_delivery(api, **ended_fields("FAILED"))
    Event.objects.update(payload=None)

    problem = api.refused(f"/webhooks/deliveries/{delivery.pk}/redeliver")

    assert (problem["status"], problem["code"]) == (409, "event-purged")


def sending(delivery: Delivery) -> list[tuple[str, Any]]:
    return [
        ("/webhooks/test", None),
        ("/webhooks/recover", {"since": "2026-01-01T00:00:00Z"}),
        (f"/webhooks/deliveries/{delivery.pk}/redeliver", None),
    ]
