"""`GET /events`: pages, filters, refusals, and who reads what."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.utils.timezone import now

from tests.reports.test_statement_counts import cost
from tests.world.clients import Api, error_codes, person
from tests.world.deliveries import configure_receiver, record_events
from verification.privacy.models import Disclosure
from verification.values.local_time import utc_text
from webhooks.events import envelope
from webhooks.feed import Cursor, Place
from webhooks.models import Event


def pull(api: Api, **query: Any) -> dict[str, Any]:
    answer = api.get("/events", **query)
    assert answer.status_code == 200, answer.content
    return answer.json()


def pull_ids(api: Api, **query: Any) -> list[str]:
    return [event["id"] for event in pull(api, **query)["content"]]


def test_events_are_what_a_receiver_gets(api: Api):
    api.create(person())
    api.work()

    content = pull(api)["content"]

    assert {"report.created", "report.ready"} < {event["event"] for event in content}
    for event in content:
        sent = json.loads(envelope(Event.objects.get(pk=event["id"])))
        assert event == {"id": event["id"], **sent}
        assert list(event) == ["id", *sent]


def test_cursor_leads_through_pages_and_to_what_follows(api: Api):
    made = [str(one) for one in record_events(api.workspace, 5)]

    first = pull(api, size=3)
    second = pull(api, size=3, cursor=first["nextCursor"])
    later = [str(one) for one in record_events(api.workspace)]

    assert [event["id"] for event in first["content"]] == made[:3]
    assert [event["id"] for event in second["content"]] == made[3:]
    assert (first["hasMore"], second["hasMore"]) == (True, False)
    assert pull_ids(api, cursor=second["nextCursor"]) == later
    assert pull_ids(api, size=3, cursor=first["nextCursor"]) == made[3:] + later


def test_feed_begins_empty_and_goes_on(api: Api):
    page = pull(api)
    made = [str(one) for one in record_events(api.workspace)]

    assert (page["content"], page["hasMore"]) == ([], False)
    assert pull_ids(api, cursor=page["nextCursor"]) == made


def test_types_and_since_choose_events(api: Api):
    ready = record_events(api.workspace, 2)
    failed = record_events(api.workspace, name=Event.Name.REPORT_FAILED)
    Event.objects.filter(pk=ready[0]).update(created_at=now() - timedelta(days=1))
    hour_ago = utc_text(now() - timedelta(hours=1))

    assert pull_ids(api, types="report.failed") == [str(failed[0])]
    assert len(pull_ids(api, types="report.failed,report.ready")) == 3
    assert pull_ids(api, since=hour_ago) == [str(ready[1]), str(failed[0])]
    # What was left out once is behind the cursor.
    assert pull_ids(api, cursor=pull(api, since=hour_ago)["nextCursor"]) == []


def test_wrong_parameter_is_refused(api: Api):
    for query, code in [
        ({"types": "report.reedy"}, "invalid-choice"),
        ({"types": "report.ready,"}, "invalid-choice"),
        ({"since": "yesterday"}, "invalid-format"),
        ({"size": 201}, "out-of-range"),
        ({"cursor": "next"}, "invalid-format"),
        ({"cursor": ""}, "invalid-format"),
        ({"page": 0}, "unknown-parameter"),
    ]:
        answer = api.get("/events", **query)

        assert answer.status_code == 400
        assert error_codes(answer.json()) == {next(iter(query)): code}


def test_expired_cursor_is_refused_with_its_reason(api: Api):
    then = now() - timedelta(days=31)
    cursor = Cursor(Place(then, record_events(api.workspace)[0]), then)

    answer = api.get("/events", cursor=str(cursor))

    assert (answer.status_code, answer.json()["code"]) == (410, "cursor-expired")


def test_workspaces_and_environments_are_apart(
    api: Api, another_api: Api, live_api: Api
):
    assert api.workspace == live_api.workspace
    record_events(api.workspace)

    assert len(pull_ids(api)) == 1
    assert pull_ids(another_api) == pull_ids(live_api) == []


def test_key_needs_the_scope_of_webhooks(api: Api):
    reader = Api(api.workspace, "sandbox", scopes=["reports:read"])

    problem = reader.get("/events").json()

    assert problem["code"] == "insufficient-scope"
    assert problem["requiredScope"] == "webhooks:manage"


def test_who_pulls_events_has_read_their_reports(api: Api):
    made = api.create(person())

    pull(api)

    (row,) = Disclosure.objects.values_list("report", "channel", "recipient")
    assert (str(row[0]), row[1], row[2]) == (made["id"], "API", f"key {api.key}")


def test_receiver_and_follower_get_the_same_ids(api: Api):
    configure_receiver(api.workspace)
    assert api.post("/webhooks/test").status_code == 202

    (event,) = pull(api)["content"]

    assert event["event"] == "webhook.test"
    assert api.get(f"/webhooks/deliveries/{event['id']}").status_code == 200


@pytest.mark.django_db(transaction=True)
def test_polling_costs_few_statements(api: Api):
    record_events(api.workspace, 30)
    first = pull(api, size=10)
    idle = pull(api, cursor=pull(api, size=200)["nextCursor"])["nextCursor"]

    # The key, the count of the minute, the state of the feed
    assert cost(lambda: pull(api, cursor=idle)) == 3
    # and the page
    assert cost(lambda: pull(api, size=20, cursor=first["nextCursor"])) == 4
