import gzip
import os
import socket
import time
from collections.abc import Callable, Iterator
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
import requests

from tests.world.receiver import HOST, Authority, Receiver, Script
from tests.world.receiver import authority as authority
from verification.jobs.worker import GRACE_SECONDS
from verification.outbound import client
from verification.outbound.targets import Blocked
from verification.providers.base import Cause
from verification.providers.http_api import to_provider_error

PUBLIC = "93.184.215.14"


class Names:
    """A resolver with fixed addresses that counts its look-ups."""

    def __init__(self) -> None:
        self.addresses = ["127.0.0.1"]
        self.asked: list[str] = []

    def getaddrinfo(self, host: str, port: int, *args: Any, **kwargs: Any) -> Any:
        self.asked.append(host)
        if not self.addresses:
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return [
            (
                socket.AF_INET6 if ":" in address else socket.AF_INET,
                socket.SOCK_STREAM,
                socket.IPPROTO_TCP,
                "",
                (address, port),
            )
            for address in self.addresses
        ]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    names = Names()
    monkeypatch.setattr(socket, "getaddrinfo", names.getaddrinfo)
    return names


@pytest.fixture
def server(authority: Authority, names: Names) -> Iterator[Receiver]:
    with Receiver(authority.context(HOST)) as server:
        yield server


Session = Callable[..., requests.Session]


@pytest.fixture
def session(authority: Authority) -> Session:
    def session(*opened: str, **options: Any) -> requests.Session:
        made = client.create_session(opened, **options)
        made.verify = str(authority.file)
        return made

    return session


def test_opened_host_gets_a_call_over_tls(server: Receiver, session: Session):
    server.scripts["/a?b=c"] = Script(status=418, body=b"short and stout")

    answer = session(HOST).post(server.url("/a?b=c"), json={"d": 1})

    assert (answer.status_code, answer.text) == (418, "short and stout")
    assert server.received[0].body == b'{"d": 1}'


def test_next_call_reuses_the_connection(
    server: Receiver, session: Session, names: Names
):
    calls = session(HOST)

    assert [calls.get(server.url()).status_code for _ in range(3)] == [200] * 3

    assert (server.connections, names.asked) == (1, [HOST])


@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1"],
        [PUBLIC, "10.0.0.1"],
        ["169.254.169.254", PUBLIC],
        [PUBLIC, "::1"],
        ["::ffff:127.0.0.1"],
    ],
)
def test_one_private_address_blocks_a_name(
    server: Receiver, session: Session, names: Names, addresses: list[str]
):
    names.addresses = addresses

    with pytest.raises(Blocked):
        session().get(server.url())

    assert server.connections == 0


def test_address_in_the_url_is_checked(server: Receiver, session: Session):
    with pytest.raises(Blocked):
        session().get(server.url(host="127.0.0.1"))

    assert server.connections == 0


def test_connection_goes_to_the_checked_address(
    server: Receiver,
    session: Session,
    names: Names,
    monkeypatch: pytest.MonkeyPatch,
):
    connected = []

    class Rerouted(socket.socket):
        def connect(self, address: Any) -> None:
            connected.append(address)
            super().connect(("127.0.0.1", server.port))

    names.addresses = [PUBLIC]
    monkeypatch.setattr(socket, "socket", Rerouted)

    assert session().get(server.url()).status_code == 200

    assert connected == [(PUBLIC, server.port)]
    assert names.asked == [HOST]


def test_certificate_must_fit_the_name(server: Receiver, session: Session):
    with pytest.raises(requests.exceptions.SSLError):
        session("other.test").get(server.url(host="other.test"))

    assert server.received == []


@pytest.mark.parametrize(
    ("before", "was_sent"),
    [
        (None, False),
        (b"", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n", True),
    ],
    ids=["handshake", "head", "body"],
)
def test_call_was_sent_unless_the_handshake_failed(
    authority: Authority, session: Session, names: Names, before: Any, *, was_sent: bool
):
    def answer() -> None:
        connection, _ = listening.accept()
        if before is not None:
            connection = authority.context(HOST).wrap_socket(connection, True)
        # A close before the request is read would reset the connection.
        connection.recv(65536)
        if before:
            connection.sendall(before)
        # A record that nobody has sealed.
        os.write(connection.fileno(), b"\x17\x03\x03\x00\x20" + bytes(32))
        connection.close()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = Thread(target=answer)
        thread.start()
        with pytest.raises(requests.exceptions.SSLError) as raised:
            session(HOST).get(f"https://{HOST}:{listening.getsockname()[1]}/")
        thread.join()

    assert client.was_sent(raised.value) is was_sent
    error = to_provider_error("It", raised.value)
    assert (error.cause == Cause.TLS) is not was_sent


def test_client_tries_the_next_address(
    server: Receiver, session: Session, names: Names
):
    names.addresses = ["127.0.0.2", "127.0.0.1"]

    assert session(HOST).get(server.url()).status_code == 200


def test_unknown_name_is_a_connection_error(
    server: Receiver, session: Session, names: Names
):
    names.addresses = []

    with pytest.raises(requests.ConnectionError):
        session().get(server.url())


@pytest.mark.parametrize("opened", [(), ("other.test",), (f"{HOST}:1",)])
def test_plain_http_is_blocked(session: Session, names: Names, opened: Any):
    with Receiver(None) as server, pytest.raises(Blocked, match="https"):
        session(*opened).get(f"http://{HOST}:{server.port}/")

    assert server.connections == 0


def test_plain_http_reaches_an_opened_host(session: Session, names: Names):
    with Receiver(None) as server:
        named = f"{HOST}:{server.port}"

        assert session(named).get(f"http://{named}/").status_code == 200


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_redirects_are_not_followed(server: Receiver, session: Session, status: int):
    server.scripts["/"] = Script(status=status, headers={"Location": "/elsewhere"})

    assert session(HOST).post(server.url()).status_code == status

    assert [received.path for received in server.received] == ["/"]


def test_broken_answer_logs_no_path(
    server: Receiver, session: Session, caplog: pytest.LogCaptureFixture
):
    server.scripts["/?q=Wanjiku"] = Script(headers={"X-A": "b\r\nWanjiku"})

    session(HOST).get(server.url("/?q=Wanjiku"))

    assert "Wanjiku" not in caplog.text


def test_client_ignores_proxy_and_netrc_of_the_environment(
    server: Receiver, session: Session, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
):
    netrc = tmp_path / "netrc"
    netrc.write_text(f"machine {HOST} login a password b\n")
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")

    session(HOST).get(server.url())

    assert "authorization" not in server.received[0].headers


def test_client_drops_cookies(server: Receiver, session: Session):
    server.scripts["/"] = Script(headers={"Set-Cookie": f"a=b; Domain={HOST}"})
    calls = session(HOST)

    calls.get(server.url())
    calls.get(server.url())

    assert all("cookie" not in received.headers for received in server.received)


@pytest.mark.parametrize(
    "script",
    [
        Script(hangs=True),
        # Each byte comes in time, but the whole answer takes 30 seconds.
        Script(drip=0.1, body=b"x" * 300),
        Script(drip=0.1, headers={"X-Long": "x" * 300}),
    ],
    ids=["never", "dripping", "dripping head"],
)
def test_call_ends_at_its_deadline(server: Receiver, session: Session, script: Script):
    server.scripts["/"] = script
    begun = time.monotonic()

    with pytest.raises((requests.Timeout, requests.ConnectionError)):
        session(HOST, seconds=0.2).get(server.url(), timeout=60)

    assert time.monotonic() - begun < 2


def test_handshake_ends_at_the_deadline(session: Session, names: Names):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        begun = time.monotonic()

        with pytest.raises((requests.Timeout, requests.ConnectionError)):
            session(HOST, seconds=0.2).get(f"https://{HOST}:{silent.getsockname()[1]}/")

    assert time.monotonic() - begun < 2


def test_call_may_set_a_shorter_timeout(server: Receiver, session: Session):
    server.scripts["/"] = Script(hangs=True)
    begun = time.monotonic()

    with pytest.raises(requests.Timeout):
        session(HOST).get(server.url(), timeout=0.2)

    assert time.monotonic() - begun < 2


def test_next_call_has_its_own_deadline(
    server: Receiver, session: Session, monkeypatch: pytest.MonkeyPatch
):
    calls = session(HOST)

    calls.get(server.url())
    later = SimpleNamespace(monotonic=lambda: time.monotonic() + client.SECONDS)
    monkeypatch.setattr(client, "time", later)

    assert calls.get(server.url()).status_code == 200
    assert server.connections == 1


def test_no_call_may_outlast_the_stop_of_a_job_cluster():
    client.create_session(seconds=GRACE_SECONDS - 10)
    with pytest.raises(ValueError, match="30 seconds at most"):
        client.create_session(seconds=GRACE_SECONDS)


BOMB = gzip.compress(bytes(10_000_000))


@pytest.mark.parametrize(
    "script",
    [
        Script(body=b"x" * 1001),
        Script(body=BOMB, headers={"Content-Encoding": "gzip"}),
        Script(body=b"x" * 5_000_000),
    ],
    ids=["one byte", "bomb", "large"],
)
def test_too_large_answer_is_an_error(
    server: Receiver, session: Session, script: Script
):
    server.scripts["/"] = script
    calls = session(HOST, limit=1000)

    with pytest.raises(client.TooLarge):
        calls.get(server.url(), stream=True)

    server.scripts["/"] = Script(body=b"x" * 1000)
    assert len(calls.get(server.url()).content) == 1000


@pytest.mark.parametrize("cut", [0, 5, 44, 45, 143])
def test_half_an_answer_is_an_error(server: Receiver, session: Session, cut: int):
    server.scripts["/"] = Script(body=b"x" * 100, cut_after=cut)

    with pytest.raises(requests.RequestException):
        session(HOST).get(server.url())
