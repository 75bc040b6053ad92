from typing import Any
from uuid import UUID

import pytest
from django.test import Client

from tests.api.small import bearer, new_key, new_workspace
from tests.api.small import small_api as small_api
from workspaces.models import Environment

pytestmark = pytest.mark.django_db

PATHS = ["/", "/healthz", "/problems/", "/nothing", "/api/v1/nothing", "/api/v1/things"]
UNKNOWN_TEST_KEY = "vrf_test_0123456789ABCDEFGHIJKLMNOPQRSTUV0SEUbx"
UNKNOWN_LIVE_KEY = "vrf_live_0123456789ABCDEFGHIJKLMNOPQRSTUV35Llxk"


def test_every_answer_has_a_request_id(client: Client) -> None:
    for path in [*PATHS, "/static/verification/hosted.css", "/docs"]:
        response = client.get(path)

        UUID(response["X-Request-Id"])
        response.close()


def test_request_id_of_the_client_is_used(client: Client) -> None:
    for given in ("a", "Order.17_b-2", "x" * 128):
        response = client.get("/api/v1/nothing", headers={"X-Request-Id": given})

        assert response["X-Request-Id"] == response.json()["requestId"] == given


def test_invalid_request_id_is_replaced(client: Client) -> None:
    for given in ("", "x" * 129, "a b", "a/b", "a\nb", "é", "a;b", "*"):
        UUID(client.get("/healthz", headers={"X-Request-Id": given})["X-Request-Id"])


def test_refused_host_and_crash_have_a_request_id(settings: Any) -> None:
    client = Client(raise_request_exception=False)
    _, text = new_key()
    crash = client.get("/api/v1/things/crash", headers=bearer(text))
    settings.ALLOWED_HOSTS = ["verify.example.com"]
    refused = client.get("/", headers={"Host": "evil.example"})

    assert crash.status_code == 500
    assert refused.status_code == 400
    assert crash["X-Request-Id"] != refused["X-Request-Id"]


def test_every_answer_to_a_test_key_names_the_sandbox() -> None:
    client = Client(raise_request_exception=False)
    _, text = new_key(scopes=["reports:create"])

    for path in [*PATHS, "/api/v1/things/crash", "/api/v1/schema"]:
        response = client.get(path, headers=bearer(text))

        assert response["X-Service-Sandbox"] == "true", path


def test_refusals_of_a_test_key_name_the_sandbox(client: Client, settings: Any) -> None:
    workspace = new_workspace()
    _, limited = new_key(workspace, requests_per_minute=0)
    settings.SANDBOX_HOST, settings.PRODUCTION_HOST = "sandbox.example", "testserver"

    unknown = client.get("/api/v1/things", headers=bearer(UNKNOWN_TEST_KEY))
    exceeded = client.get(
        "/api/v1/things", headers=bearer(limited) | {"Host": "sandbox.example"}
    )
    wrong_host = client.get("/api/v1/things", headers=bearer(new_key()[1]))
    misspelt = [
        client.get("/api/v1/things", headers={"Authorization": header})
        for header in (
            f"Bearer {UNKNOWN_TEST_KEY[:-1]}y",
            "Bearer vrf_test_",
            f"bearer  {UNKNOWN_TEST_KEY}",
            UNKNOWN_TEST_KEY,
        )
    ]

    assert [r.status_code for r in (unknown, exceeded, wrong_host)] == [401, 429, 401]
    assert {r.status_code for r in misspelt} == {401}
    for response in (unknown, exceeded, wrong_host, *misspelt):
        assert response["X-Service-Sandbox"] == "true"


def test_other_answers_do_not_name_the_sandbox(client: Client) -> None:
    key, live = new_key(live=True)
    assert key.environment == Environment.PRODUCTION

    for headers in (
        {},
        bearer(live),
        bearer(UNKNOWN_LIVE_KEY),
        {"Authorization": f"Basic {UNKNOWN_TEST_KEY}"},
    ):
        response = client.get("/api/v1/things", headers=headers)
        assert "X-Service-Sandbox" not in response.headers
