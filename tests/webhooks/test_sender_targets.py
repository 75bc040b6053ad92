import asyncio
import socket
import ssl
import threading
from contextlib import ExitStack

import pytest

from tests.webhooks.senders import HEADERS, answer, answers, at, move_clock
from tests.world.receiver import HOST, Receiver, Script, lookup_here
from verification.outbound.client import trusting
from webhooks.models import Attempt
from webhooks.sender import Sender, WebhookRequest

E = Attempt.Error


@pytest.fixture
def impostor(receiver):
    """Run a receiver with another certificate under the usual name."""
    with ExitStack() as stack:
        yield lambda context: stack.enter_context(Receiver(context))


def test_certificate_of_another_name_is_not_trusted(authority, impostor, post):
    other = impostor(authority.context("other.acacia.test"))

    assert answer(post, other.url()).error == E.NOT_TRUSTED
    assert other.received == []


def test_expired_certificate_is_not_trusted(authority, impostor, post):
    other = impostor(authority.expired_context(HOST))

    assert answer(post, other.url()).error == E.NOT_TRUSTED
    assert other.received == []


def test_certificate_of_an_unknown_authority_is_not_trusted(
    receiver, settings, authority
):
    settings.WEBHOOK_CA_FILE = ""

    with Sender(lookup_here) as post:
        assert answer(post, receiver.url()).error == E.NOT_TRUSTED
    assert receiver.received == []


def test_receiver_without_tls_is_not_connected(impostor, post):
    plain = impostor(None)

    assert answer(post, plain.url()).error == E.NOT_CONNECTED
    assert plain.received == []


def test_old_tls_is_refused(authority, impostor, post):
    context = authority.context(HOST)
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    old = impostor(context)

    assert answer(post, old.url()).error == E.NOT_CONNECTED
    assert old.received == []


def test_certificates_are_read_once():
    assert trusting() is trusting()


def test_closed_port_is_not_connected(post):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

        answered = answer(post, f"https://{HOST}:{port}/")

    assert (answered.status_code, answered.error) == (None, E.NOT_CONNECTED)


@pytest.mark.parametrize("status", [302, 308])
def test_redirect_is_not_followed(receiver, post, connects, status):
    receiver.scripts["/"] = Script(
        status=status, headers={"Location": "https://127.0.0.1:8443/admin"}, body=b""
    )

    answered = answer(post, receiver.url())

    assert (answered.status_code, answered.error) == (status, "")
    assert connects == [("127.0.0.1", receiver.port)]


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1/",
        "http://hooks.example.com/",
        f"http://{HOST}/",
        "nonsense",
    ],
)
def test_forbidden_url_is_blocked(post, connects, url):
    answered = answer(post, url)

    assert (answered.status_code, answered.error, answered.text) == (
        None,
        E.TARGET_BLOCKED,
        "",
    )
    assert connects == []


@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1"],
        ["8.8.8.8", "127.0.0.1"],
        ["127.0.0.1", "8.8.8.8"],
    ],
)
def test_name_of_private_addresses_is_blocked(receiver, connects, addresses):
    lookup, asked = at(addresses)

    with Sender(lookup) as post:
        answered = answer(post, "https://hooks.example.com:8443/")

    assert answered.error == E.TARGET_BLOCKED
    assert asked == ["hooks.example.com"]
    assert connects == []


def test_connection_uses_the_checked_address(receiver, connects):
    lookup, asked = at(["8.8.8.8"], ["127.0.0.1"])

    with Sender(lookup) as post:
        answered = answer(post, "https://hooks.example.com:8443/")

    assert answered.error == E.NOT_CONNECTED
    assert asked == ["hooks.example.com"]
    assert connects == [("8.8.8.8", 8443)]


def test_changed_name_is_checked_again(receiver, connects):
    lookup, _ = at(["8.8.8.8"], ["127.0.0.1"])
    url = "https://hooks.example.com:8443/"

    errors = []
    for _ in range(2):
        with Sender(lookup) as post:
            errors.append(answer(post, url).error)

    assert errors == [E.NOT_CONNECTED, E.TARGET_BLOCKED]
    assert connects == [("8.8.8.8", 8443)]


def test_unknown_name_is_an_error_of_its_own(receiver):
    async def lookup(host, port, **options):
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    with Sender(lookup) as post:
        assert answer(post, receiver.url()).error == E.NAME_UNKNOWN


def test_requests_to_one_name_share_its_lookup(receiver):
    lookup, asked = at(["127.0.0.1"])

    with Sender(lookup) as post:
        assert {a.error for a in answers(post, *[receiver.url()] * 5)} == {""}

    assert asked == [HOST]


def test_slow_lookup_delays_no_other_name(receiver, settings):
    settings.WEBHOOK_DEV_HOSTS = frozenset({HOST, "slow.test"})
    go_on = threading.Event()

    async def lookup(host, port, **options):
        if host == "slow.test":
            await asyncio.get_running_loop().run_in_executor(None, go_on.wait, 20)
        return await lookup_here(host, port, **options)

    with Sender(lookup) as post:
        for url in (receiver.url(host="slow.test"), receiver.url()):
            post.send([(url, WebhookRequest(url, b"{}", HEADERS))])
        ((first, quick),) = post.answers(60)
        move_clock(post, 15)
        ((_, slow),) = post.answers(60)
        go_on.set()

    assert first == receiver.url()
    assert (quick.error, slow.error) == ("", E.TIMED_OUT)
