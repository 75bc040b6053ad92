"""Calls and webhooks leave through OUTBOUND_PROXY, and its rules stay as strict."""

import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from tests.webhooks.senders import answer, at
from tests.world.logs import LogLines
from tests.world.logs import log_lines as log_lines
from tests.world.proxy import Proxy
from tests.world.receiver import HOST, Authority, Receiver, Script
from tests.world.receiver import authority as authority
from verification.outbound import client
from verification.outbound.proxy import Proxy as ProxySetting
from verification.outbound.targets import Blocked
from verification.providers.base import Unavailable
from verification.providers.http_api import Api
from webhooks.models import Attempt
from webhooks.sender import Sender

E = Attempt.Error
PUBLIC, OTHER = "93.184.215.14", "93.184.215.15"
# Credentials with letters that a URL has to encode
CREDENTIALS, BASIC = "acacia:s%40fe@", "Basic YWNhY2lhOnNAZmU="
SECRETS = "s@fe", "s%40fe", BASIC


@pytest.fixture
def server(authority: Authority, settings: Any) -> Iterator[Receiver]:
    """A system outside; its certificate is of OUTBOUND_CA_FILE's authority."""
    settings.OUTBOUND_CA_FILE = str(authority.file)
    settings.WEBHOOK_DEV_HOSTS = frozenset()
    with Receiver(authority.context(HOST)) as server:
        yield server


@pytest.fixture
def proxy(server: Receiver, settings: Any) -> Iterator[Proxy]:
    here = ("127.0.0.1", server.port)
    targets = f"{HOST}:{server.port}", f"{PUBLIC}:8443", f"{HOST}:443"
    with Proxy(dict.fromkeys(targets, here)) as proxy:
        settings.OUTBOUND_PROXY = proxy.setting()
        yield proxy


@pytest.fixture
def lookups(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the names that this process resolves."""
    asked: list[str] = []
    getaddrinfo = socket.getaddrinfo

    def record(host: str, *args: Any, **kwargs: Any) -> Any:
        asked.append(host)
        return getaddrinfo(host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", record)
    return asked


def hook(*addresses: str, path: str = "/") -> Any:
    """Send a webhook to HOST, which has these addresses; return the answer."""
    lookup, _ = at(list(addresses))
    with Sender(lookup) as post:
        return answer(post, f"https://{HOST}:8443{path}")


def test_call_goes_through_the_proxy_by_name(
    server: Receiver, proxy: Proxy, lookups: list[str]
):
    server.scripts["/a?b=c"] = Script(status=418, body=b"short and stout")
    session = client.create_session()

    answers = [session.post(server.url("/a?b=c"), json={"d": 1}) for _ in range(2)]

    assert [(a.status_code, a.text) for a in answers] == [(418, "short and stout")] * 2
    assert proxy.asked == [f"{HOST}:{server.port}"]
    assert server.received[0].headers["host"] == f"{HOST}:{server.port}"
    # The proxy resolves the name: this machine may have no resolver for it.
    assert set(lookups) == {"127.0.0.1"}


def test_certificate_behind_the_proxy_must_fit_the_name(server: Receiver, proxy: Proxy):
    proxy.routes["other.test:443"] = ("127.0.0.1", server.port)

    with pytest.raises(requests.exceptions.SSLError):
        client.create_session().get("https://other.test/")

    assert server.received == []


def test_certificate_of_an_unknown_authority_is_refused(
    server: Receiver, proxy: Proxy, settings: Any
):
    settings.OUTBOUND_CA_FILE = ""

    with pytest.raises(requests.exceptions.SSLError):
        client.create_session().get(server.url())
    assert hook(PUBLIC).error == E.NOT_TRUSTED

    assert server.received == []


def test_private_host_is_reached_without_the_proxy(
    server: Receiver, proxy: Proxy, authority: Authority
):
    with Receiver(authority.context("localhost")) as inside:
        named = f"localhost:{inside.port}"

        answer = client.create_session([named]).get(f"https://{named}/")

    assert (answer.status_code, proxy.asked) == (200, [])


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "[::1]", "localhost"]
)
def test_private_address_is_blocked_before_the_proxy(proxy: Proxy, host: str):
    with pytest.raises(Blocked):
        client.create_session().get(f"https://{host}:8443/")

    assert proxy.asked == []


def test_plain_http_is_blocked_with_a_proxy(proxy: Proxy):
    with pytest.raises(Blocked, match="https"):
        client.create_session().get(f"http://{HOST}/")

    assert proxy.asked == []


def test_proxy_gets_its_credentials(server: Receiver, proxy: Proxy, settings: Any):
    proxy.authorization = BASIC
    settings.OUTBOUND_PROXY = proxy.setting(CREDENTIALS)

    assert client.create_session().get(server.url()).status_code == 200
    assert hook(PUBLIC).status_code == 200

    assert all("proxy-authorization" not in one.headers for one in server.received)


@pytest.mark.parametrize(
    "says",
    [
        b"HTTP/1.1 502 Bad Gateway\r\n\r\n",
        b"HTTP/1.1 407 Who are you\r\nContent-Length: 2\r\n\r\nno",
        b"",
        b"nonsense\r\n\r\n",
        b"x" * 20_000,
        # Bytes of a tunnel, which nobody asked for.
        b"HTTP/1.1 200 OK\r\n\r\n\x16\x03",
    ],
    ids=["502", "407", "closed", "nonsense", "endless", "hasty"],
)
def test_refusal_of_the_proxy_is_retryable_and_logged_without_secrets(
    server: Receiver, proxy: Proxy, settings: Any, log_lines: LogLines, says: bytes
):
    proxy.says = says
    settings.OUTBOUND_PROXY = proxy.setting(CREDENTIALS)

    with pytest.raises(Unavailable) as raised:
        Api("Acacia Bureau", f"https://{HOST}").call("GET", "/")
    answered = hook(PUBLIC)

    assert raised.value.message == (
        "Acacia Bureau could not be reached through the operator's proxy."
    )
    assert not raised.value.may_be_charged
    assert answered.error == E.NOT_CONNECTED
    assert server.connections == 0
    written = str(log_lines())
    assert written.count("OUTBOUND_PROXY: The proxy") == 2
    assert not any(secret in written for secret in SECRETS)
    assert not any(secret in repr(settings.OUTBOUND_PROXY) for secret in SECRETS)


def test_proxy_that_is_away_is_retryable(
    server: Receiver, proxy: Proxy, settings: Any, log_lines: LogLines
):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    settings.OUTBOUND_PROXY = ProxySetting.parse(
        f"http://{CREDENTIALS}127.0.0.1:{port}"
    )

    with pytest.raises(Unavailable, match="through the operator's proxy"):
        Api("Acacia Bureau", f"https://{HOST}").call("GET", "/")
    assert hook(PUBLIC).error == E.NOT_CONNECTED

    assert not any(secret in str(log_lines()) for secret in SECRETS)


def test_next_address_of_the_proxy_is_tried(
    server: Receiver, proxy: Proxy, settings: Any, monkeypatch: pytest.MonkeyPatch
):
    addresses = [
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, proxy.port))
        for address in ("127.0.0.2", "127.0.0.1")
    ]
    getaddrinfo = socket.getaddrinfo
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda host, *args, **kwargs: (
            addresses if host == "proxy.test" else getaddrinfo(host, *args, **kwargs)
        ),
    )
    settings.OUTBOUND_PROXY = ProxySetting.parse(f"http://proxy.test:{proxy.port}")

    assert client.create_session().get(server.url()).status_code == 200
    assert hook(PUBLIC).status_code == 200


def test_silent_proxy_ends_with_the_deadline(settings: Any):
    settings.WEBHOOK_TIMEOUT_SECONDS = 0.2
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        settings.OUTBOUND_PROXY = ProxySetting.parse(f"http://127.0.0.1:{port}")
        begun = time.monotonic()

        with pytest.raises(requests.ConnectionError):
            client.create_session(seconds=0.2).get(f"https://{HOST}/")
        assert hook(PUBLIC).error == E.TIMED_OUT

    assert time.monotonic() - begun < 10


def test_webhook_goes_through_the_proxy_to_the_checked_address(
    server: Receiver, proxy: Proxy
):
    answered = hook(PUBLIC, path="/hook")

    assert (answered.status_code, answered.error) == (200, "")
    # The proxy cannot resolve the name to another address.
    assert proxy.asked == [f"{PUBLIC}:8443"]
    (received,) = server.received
    assert (received.path, received.headers["host"]) == ("/hook", f"{HOST}:8443")


def test_webhook_tries_the_next_address_through_the_proxy(
    server: Receiver, proxy: Proxy
):
    assert hook(OTHER, PUBLIC).status_code == 200

    assert proxy.asked == [f"{OTHER}:8443", f"{PUBLIC}:8443"]


@pytest.mark.parametrize(
    "addresses", [["10.0.0.1"], ["127.0.0.1"], [PUBLIC, "::1"], ["169.254.169.254"]]
)
def test_proxy_is_no_way_to_a_private_address(proxy: Proxy, addresses: list[str]):
    assert hook(*addresses).error == E.TARGET_BLOCKED

    assert proxy.asked == []


def test_webhook_through_the_proxy_must_have_the_names_certificate(
    authority: Authority, server: Receiver, proxy: Proxy
):
    with Receiver(authority.context("other.test")) as other:
        proxy.routes[f"{PUBLIC}:8443"] = ("127.0.0.1", other.port)

        assert hook(PUBLIC).error == E.NOT_TRUSTED

    assert other.received == []


@pytest.mark.parametrize(
    "url",
    [
        "proxy.acacia.test:3128",
        "https://proxy.acacia.test:3128",
        "socks5://proxy.acacia.test:1080",
        "http://proxy.acacia.test",
        "http://:3128",
        "http://proxy.acacia.test:many",
        "http://proxy.acacia.test:3128/path",
        "http://s@fe:hunter2@[::",
    ],
)
def test_wrong_url_of_a_proxy_is_refused_without_its_text(url: str):
    with pytest.raises(ValueError, match="must be http://host:port") as raised:
        ProxySetting.parse(url)

    assert "acacia" not in str(raised.value)
    assert "hunter2" not in str(raised.value)
