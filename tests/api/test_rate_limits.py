import re
from typing import Any

import pytest
import time_machine
from django.test import Client

from tests.api.small import bearer, new_key, new_suspended_workspace, new_workspace
from tests.api.small import small_api as small_api
from workspaces.models import RateCount

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def within_one_minute() -> Any:
    with time_machine.travel("2026-11-21T08:15:30Z", tick=False):
        yield


def read(client: Client, text: str) -> Any:
    return client.get("/api/v1/things", headers=bearer(text))


def create(client: Client, text: str) -> Any:
    return client.post(
        "/api/v1/things", {}, content_type="application/json", headers=bearer(text)
    )


def test_every_answer_to_a_key_states_limit_and_remainder(client: Client) -> None:
    _, text = new_key()

    response = read(client, text)

    assert response["RateLimit-Policy"] == '"rest";q=3000;w=60'
    assert response["RateLimit"] == '"rest";r=2999;t=30'


def test_create_has_its_own_limit(client: Client) -> None:
    _, text = new_key(creates_per_minute=1, requests_per_minute=1)

    assert create(client, text)["RateLimit"] == '"create";r=0;t=30'
    assert read(client, text)["RateLimit"] == '"rest";r=0;t=30'
    assert create(client, text).status_code == read(client, text).status_code == 429


def test_requests_over_the_limit_are_refused_for_the_minute(
    client: Client,
) -> None:
    _, text = new_key(requests_per_minute=2)

    with time_machine.travel("2026-11-21T08:20:10Z", tick=False):
        statuses = [read(client, text).status_code for _ in range(3)]
        refused = read(client, text)
    with time_machine.travel("2026-11-21T08:21:00Z", tick=False):
        after = read(client, text)

    assert statuses == [200, 200, 429]
    assert refused.json()["code"] == "rate-limited"
    assert refused["Retry-After"] == "50"
    assert refused["RateLimit"] == '"rest";r=0;t=50'
    assert after.status_code == 200


def test_keys_of_one_workspace_have_separate_counts(client: Client) -> None:
    workspace = new_workspace()
    _, one = new_key(workspace, requests_per_minute=1)
    _, other = new_key(workspace, requests_per_minute=1)

    assert read(client, one).status_code == read(client, other).status_code == 200


def test_request_counts_once_when_it_fails_too(client: Client) -> None:
    key, text = new_key(scopes=[])

    refused = read(client, text)
    client.get("/api/v1/things/away", headers=bearer(text))

    assert refused.status_code == 403
    assert re.fullmatch(r'"rest";r=2999;t=\d+', refused["RateLimit"])
    assert RateCount.objects.get(subject=f"rest:{key.id}").count == 2


def test_requests_of_a_suspended_workspace_count(client: Client) -> None:
    _, text = new_key(new_suspended_workspace(), requests_per_minute=1)

    assert [read(client, text).status_code for _ in range(2)] == [403, 429]


def test_answer_to_a_request_without_a_key_states_no_limit(client: Client) -> None:
    assert "RateLimit" not in client.get("/api/v1/things").headers
