from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils.timezone import now

from tests.api.small import bearer, new_key, new_suspended_workspace
from tests.api.small import small_api as small_api
from verification.settings.connections import proxy_addresses
from workspaces.models import ApiKey

pytestmark = pytest.mark.django_db

UNKNOWN = "vrf_test_0123456789ABCDEFGHIJKLMNOPQRSTUV0SEUbx"


def ask(client: Client, authorization: str | None, **headers: str) -> Any:
    if authorization is not None:
        headers["Authorization"] = authorization
    return client.get("/api/v1/things", headers=headers)


def outcome(response: Any) -> tuple[int, str, str | None]:
    challenge = response.headers.get("WWW-Authenticate")
    return response.status_code, response.json()["code"], challenge


INVALID = (401, "invalid-api-key", 'Bearer error="invalid_token"')


UNREADABLE = [
    None,
    "",
    "Bearer",
    "Bearer ",
    "Basic dXNlcjpwYXNz",
    UNKNOWN,
    f"Token {UNKNOWN}",
    f"Bearer {UNKNOWN} {UNKNOWN}",
    f"Bearer {UNKNOWN},{UNKNOWN}",
]


def test_request_without_a_readable_key_is_refused(client: Client) -> None:
    for authorization in UNREADABLE:
        assert outcome(ask(client, authorization)) == (
            401,
            "authentication-required",
            "Bearer",
        )


UNKNOWN_KEYS = [
    UNKNOWN,
    UNKNOWN[:-1] + "y",
    UNKNOWN[:-1],
    UNKNOWN + "x",
    UNKNOWN.upper(),
    "vrf_test_",
    "vrf_prod_0123",
    "ключ",
    "x" * 5000,
]


def test_unknown_and_misspelt_keys_get_the_same_answer(client: Client) -> None:
    for text in UNKNOWN_KEYS:
        response = ask(client, f"Bearer {text}")

        assert outcome(response) == INVALID
        assert response.json()["detail"] == ask(client, "Bearer no").json()["detail"]


@pytest.mark.parametrize("member", ["revoked_at", "expires_at"])
def test_ended_key_gets_the_answer_of_an_unknown_one(
    client: Client, member: str
) -> None:
    _, text = new_key(**{member: now() - timedelta(seconds=1)})

    ended, unknown = ask(client, f"Bearer {text}"), ask(client, f"Bearer {UNKNOWN}")

    assert outcome(ended) == INVALID
    assert ended.json()["detail"] == unknown.json()["detail"]


@pytest.mark.parametrize("member", ["revoked_at", "expires_at"])
def test_key_works_until_it_ends(client: Client, member: str) -> None:
    _, text = new_key(**{member: now() + timedelta(minutes=1)})

    assert ask(client, f"Bearer {text}").status_code == 200


def test_authorization_scheme_works_in_any_case(client: Client) -> None:
    _, text = new_key()

    assert ask(client, f"bEARER {text}").status_code == 200


@pytest.mark.parametrize("live", [False, True])
def test_key_is_refused_at_the_host_of_the_other_environment(
    client: Client, settings: Any, live: bool
) -> None:
    settings.SANDBOX_HOST = "sandbox.example.com"
    settings.PRODUCTION_HOST = "api.example.com"
    _, text = new_key(live=live)
    hosts = ["api.example.com", "sandbox.example.com"]
    own, other = hosts if live else reversed(hosts)

    refused = ask(client, f"Bearer {text}", Host=f"{other.upper()}:8443")

    assert outcome(refused) == (
        401,
        "wrong-environment",
        'Bearer error="invalid_token"',
    )
    assert ask(client, f"Bearer {text}", Host=own).status_code == 200
    assert ask(client, f"Bearer {text}", Host="10.0.0.7").status_code == 200


@pytest.mark.parametrize("live", [False, True])
def test_every_host_serves_both_when_no_host_is_set(client: Client, live: bool) -> None:
    _, text = new_key(live=live)

    assert ask(client, f"Bearer {text}", Host="anything.example").status_code == 200


def test_suspended_workspace_is_refused(client: Client) -> None:
    _, text = new_key(new_suspended_workspace())

    assert outcome(ask(client, f"Bearer {text}")) == (403, "workspace-suspended", None)


def test_problem_names_the_missing_scope(client: Client) -> None:
    _, text = new_key(scopes=["reports:create"])

    response = ask(client, f"Bearer {text}")

    challenge = 'Bearer error="insufficient_scope", scope="reports:read"'
    assert outcome(response) == (403, "insufficient-scope", challenge)
    assert response.json()["requiredScope"] == "reports:read"
    assert "reports:read" in response.json()["detail"]


def test_each_action_needs_its_own_scope(client: Client) -> None:
    _, text = new_key(scopes=["reports:create"])

    created = client.post(
        "/api/v1/things", {}, content_type="application/json", headers=bearer(text)
    )

    assert created.status_code == 201
    assert client.head("/api/v1/things", headers=bearer(text)).status_code == 403


def test_action_without_a_scope_accepts_any_valid_key(client: Client) -> None:
    _, text = new_key(scopes=[])

    response = client.get("/api/v1/things/away", headers=bearer(text))

    assert response.status_code == 503


def test_action_without_a_declaration_cannot_be_used(client: Client) -> None:
    _, text = new_key()

    with pytest.raises(AssertionError, match=r"Unscoped\.list declares no operation"):
        client.get("/api/v1/unscoped", headers=bearer(text))


@pytest.mark.usefixtures("new_minute")
def test_wrong_keys_are_limited_by_address_and_valid_keys_work(
    client: Client, settings: Any
) -> None:
    settings.FAILED_AUTHENTICATIONS_PER_MINUTE = 3
    _, text = new_key()

    guesses = [ask(client, f"Bearer {UNKNOWN}") for _ in range(5)]

    assert [r.status_code for r in guesses] == [401, 401, 401, 429, 429]
    assert guesses[-1].json()["code"] == "rate-limited"
    assert 0 < int(guesses[-1]["Retry-After"]) <= 60
    assert ask(client, f"Bearer {text}").status_code == 200


@pytest.mark.usefixtures("new_minute")
def test_forwarded_address_counts_only_from_a_trusted_proxy(
    client: Client, settings: Any
) -> None:
    settings.FAILED_AUTHENTICATIONS_PER_MINUTE = 1

    def guess(forwarded: str) -> int:
        headers = {"X-Forwarded-For": forwarded}
        return int(ask(client, f"Bearer {UNKNOWN}", **headers).status_code)

    assert [guess("198.51.100.1"), guess("198.51.100.2")] == [401, 429]

    settings.TRUSTED_PROXIES = ["127.0.0.0/8", "10.0.0.1"]
    assert [guess("198.51.100.1"), guess("198.51.100.2")] == [401, 401]
    # The client itself wrote the addresses left of the nearest untrusted one.
    assert guess("203.0.113.9, 198.51.100.1, 10.0.0.1") == 429
    assert guess("203.0.113.9, 198.51.100.3, 10.0.0.1") == 401


@pytest.mark.parametrize(
    "entry", ["::ffff:10.0.0.1", "::ffff:10.0.0.0/120", "::ffff:a00:1", " 10.0.0.1"]
)
def test_mapped_address_of_a_trusted_proxy_is_its_ipv4_address(
    client: Client, settings: Any, entry: str
) -> None:
    settings.TRUSTED_PROXIES = ["127.0.0.0/8", *proxy_addresses([entry])]
    _, text = new_key()
    ApiKey.objects.update(networks=["192.0.2.0/24"])
    for proxy in ("10.0.0.1", "::ffff:10.0.0.1"):
        headers = {"X-Forwarded-For": f"192.0.2.7, {proxy}"}
        assert ask(client, f"Bearer {text}", **headers).status_code == 200, proxy


def test_request_from_another_network_is_refused_with_its_address(
    client: Client, settings: Any
) -> None:
    settings.TRUSTED_PROXIES = ["127.0.0.1"]
    _, text = new_key()
    ApiKey.objects.update(networks=["192.0.2.0/24", "2001:db8::/32"])

    def answer(address: str) -> Any:
        return ask(client, f"Bearer {text}", **{"X-Forwarded-For": address})

    for address in ("192.0.2.255", "::ffff:192.0.2.1", "2001:db8::1"):
        assert answer(address).status_code == 200, address
    for address in ("192.0.3.0", "2001:db9::1", "nonsense"):
        refused = answer(address)
        assert outcome(refused)[:2] == (403, "network-not-allowed")
        shown = refused.json()["detail"]
        # The proxy passes on what it cannot read, so the address is its own.
        assert (address if address != "nonsense" else "127.0.0.1") in shown
        assert "192.0.2" not in shown


@pytest.mark.usefixtures("new_minute")
def test_requests_from_another_network_leave_the_rate_of_the_key(
    client: Client, settings: Any
) -> None:
    settings.TRUSTED_PROXIES = ["127.0.0.1"]
    settings.FAILED_AUTHENTICATIONS_PER_MINUTE = 1
    _, text = new_key(requests_per_minute=1)
    ApiKey.objects.update(networks=["192.0.2.0/24"])

    def answer(address: str) -> int:
        return ask(client, f"Bearer {text}", **{"X-Forwarded-For": address}).status_code

    assert [answer("198.51.100.1") for _ in range(2)] == [403, 429]
    assert [answer("192.0.2.1") for _ in range(2)] == [200, 429]


def test_use_of_a_key_is_recorded_at_most_once_a_minute(
    client: Client, django_assert_num_queries: Any
) -> None:
    key, text = new_key()

    with django_assert_num_queries(3):
        ask(client, f"Bearer {text}")
    noted = ApiKey.objects.get(pk=key.pk).last_used_at
    with django_assert_num_queries(2):
        ask(client, f"Bearer {text}")

    assert noted is not None
    assert ApiKey.objects.get(pk=key.pk).last_used_at == noted
