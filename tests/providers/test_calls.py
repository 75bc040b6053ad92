from collections.abc import Iterator
from typing import Any

import pytest

from tests.providers.checkout_contract import traceback_text
from tests.world.receiver import Receiver, Script
from verification.outbound.proxy import Proxy
from verification.providers.base import Cause, ProviderError, Refused, Unavailable
from verification.providers.http_api import Api, RequestRejected


@pytest.fixture
def server() -> Iterator[Receiver]:
    with Receiver(None) as server:
        yield server


def create_api(server: Receiver, seconds: float) -> Api:
    host = f"127.0.0.1:{server.port}"
    headers = {"Authorization": "Bearer sk_secret"}
    url = f"http://{host}/"
    return Api("Acme", url, opened=[host], headers=headers, seconds=seconds)


@pytest.fixture
def api(server: Receiver) -> Api:
    return create_api(server, seconds=10)


def test_call_sends_and_returns_json(server: Receiver, api: Api):
    server.scripts["/orders"] = Script(status=201, body=b'{"id": 7}')

    assert api.call("POST", "/orders", json={"amount": 1}) == {"id": 7}

    received = server.received[0]
    assert received.body == b'{"amount": 1}'
    assert received.headers["content-type"] == "application/json"
    assert received.headers["authorization"] == "Bearer sk_secret"


def test_call_sends_a_form(server: Receiver, api: Api):
    server.scripts["/orders"] = Script(body=b"[]")

    assert api.call("POST", "/orders", form={"name": "Wanjikũ & co"}) == []

    assert server.received[0].body == b"name=Wanjik%C5%A9+%26+co"


def test_call_puts_parameters_in_the_url(server: Receiver, api: Api):
    server.scripts["/orders?page=2"] = Script(body=b"{}")

    assert api.call("GET", "/orders", params={"page": 2}) == {}


HTML = b"<!doctype html><title>Sign in</title>"


HALF = b'{"id": "half'
SCRIPTS = {
    Cause.UNUSABLE_ANSWER: [
        Script(body=HTML),
        Script(status=404, body=HTML),
        Script(body=b""),
        Script(body=HALF),
        Script(body=b"\xff\xfe"),
        Script(body=b"[" * 100_000),
        Script(body=b"x" * 3_000_000),
    ],
    Cause.CONNECTION_BROKEN: [
        Script(body=HALF, headers={"Content-Length": "99"}, closes=True),
        Script(cut_after=0),
    ],
    Cause.TIMEOUT: [
        Script(hangs=True),
        Script(drip=0.1),
        Script(body=HALF, headers={"Content-Length": "99"}),
    ],
    **{
        f"HTTP_{status}": [Script(status=status, body=b"{}")]
        for status in (408, 425, 429, 500, 502, 503, 504)
    },
    **{
        f"HTTP_{status}": [Script(status=status, headers={"Location": "/"})]
        for status in (301, 302, 307)
    },
}


@pytest.mark.parametrize(
    ("cause", "script"), [(c, script) for c, each in SCRIPTS.items() for script in each]
)
def test_temporary_failure_is_unavailable_with_its_cause(
    server: Receiver, script: Script, cause: str
):
    server.scripts["/"] = script
    api = create_api(server, seconds=0.2 if cause == Cause.TIMEOUT else 10)

    with pytest.raises(Unavailable) as error:
        api.call("GET", "/")

    assert (error.value.code, error.value.cause) == ("SOURCE_UNAVAILABLE", cause)
    assert error.value.message.startswith("Acme ")


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 409, 422])
def test_other_4xx_is_rejected_with_its_answer(server: Receiver, api: Api, status: int):
    server.scripts["/"] = Script(status=status, body=b'{"code": "no_such_order"}')

    with pytest.raises(RequestRejected) as error:
        api.call("GET", "/")

    assert (error.value.status, error.value.answer) == (
        status,
        {"code": "no_such_order"},
    )


@pytest.mark.parametrize(
    ("url", "cause"),
    [
        ("https://source.invalid", Cause.DNS),
        ("http://127.0.0.1:1", Cause.CONNECTION_REFUSED),
        # A port of TLS on which somebody speaks plain HTTP.
        ("https://127.0.0.1:{port}", Cause.TLS),
    ],
)
def test_missing_connection_is_unavailable_with_its_cause(
    server: Receiver, url: str, cause: Cause
):
    server.scripts["/"] = Script(body=b"plain")
    url = url.format(port=server.port)
    api = Api("Acme", url, opened=[url.partition("//")[2]], seconds=5)

    with pytest.raises(Unavailable) as error:
        api.call("GET", "/")

    assert error.value.cause == cause
    assert not error.value.may_be_charged


def test_proxy_that_is_away_is_the_cause(settings: Any):
    settings.OUTBOUND_PROXY = Proxy("127.0.0.1", 1)

    with pytest.raises(Unavailable) as error:
        Api("Acme", "https://source.invalid").call("GET", "/")

    assert error.value.cause == Cause.PROXY


@pytest.mark.parametrize("opened", [[], ["127.0.0.1:1"]])
def test_forbidden_target_is_refused(server: Receiver, opened: Any):
    for scheme in ("http", "https"):
        url = f"{scheme}://127.0.0.1:{server.port}"

        with pytest.raises(Refused, match="may not be called"):
            Api("Acme", url, opened=opened).call("GET", "/")

    assert server.connections == 0


@pytest.mark.parametrize(
    "script",
    [
        Script(status=400, body=b'{"message": "Wanjiku 12345678"}'),
        Script(status=500, body=b"Wanjiku 12345678"),
        Script(body=b"Wanjiku 12345678"),
        Script(cut_after=0),
    ],
)
def test_errors_hide_request_and_answer(server: Receiver, api: Api, script: Script):
    server.scripts["/people/Wanjiku?id=12345678"] = script

    with pytest.raises(ProviderError) as error:
        api.call("GET", "/people/Wanjiku", params={"id": "12345678"})

    told = traceback_text(error.value)
    assert not any(word in told for word in ("Wanjiku", "12345678", "sk_secret"))


def test_error_of_a_closed_port_hides_the_request():
    api = Api("Acme", "http://127.0.0.1:1", opened=["127.0.0.1:1"])

    with pytest.raises(Unavailable) as error:
        api.call("GET", "/people/Wanjiku", params={"id": "12345678"})

    told = traceback_text(error.value)
    assert not any(word in told for word in ("Wanjiku", "12345678"))
