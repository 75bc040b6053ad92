import asyncio
import gzip
import logging
import socket
import sys
import threading
import time
from contextlib import ExitStack
from email.utils import format_datetime

import pytest
from django.utils.timezone import now, timedelta

from tests.webhooks.receiver import HOST, Receiver, Script, lookup_here
from webhooks.letters import Letter
from webhooks.models import Attempt
from webhooks.posting import Post, _trust

E = Attempt.Error
HEADERS = {"webhook-id": "evt_1"}


@pytest.fixture
def post(receiver):
    with Post(lookup_here) as post:
        yield post


def answers(post, *urls, body=b"{}", seconds=10):
    """The answers to letters to these, in their order."""
    post.send(
        (number, Letter(url, body, HEADERS, lane=number))
        for number, url in enumerate(urls)
    )
    found = {}
    end = time.monotonic() + seconds
    while len(found) < len(urls):
        assert time.monotonic() < end, "not answered in time"
        found |= post.answers(0.2)
    assert post.answers(0) == []
    return [found[number] for number in range(len(urls))]


def answer(post, url, **options):
    [only] = answers(post, url, **options)
    return only


def at(*addresses):
    """A lookup that answers with the next of these each time; and how often it did."""
    rest = list(addresses)
    asked = []

    async def lookup(host, port, **options):
        asked.append(host)
        found = rest.pop(0) if len(rest) > 1 else rest[0]
        return [
            (socket.AF_INET6 if ":" in one else socket.AF_INET, 1, 6, "", (one, port))
            for one in found
        ]

    return lookup, asked


# Where sockets were connected to while it is a list. A hook stays for ever.
_connects = None


def _note_connect(event, args):
    if event == "socket.connect" and _connects is not None:
        host, port, *_ = args[1]
        _connects.append((host, port))
        if host != "127.0.0.1":
            raise ConnectionRefusedError("tests stay on this machine")


sys.addaudithook(_note_connect)


@pytest.fixture
def connects():
    """The addresses that were connected to; those elsewhere refuse."""
    global _connects
    _connects = []
    yield _connects
    _connects = None


def test_a_letter_is_delivered_as_it_was_given(receiver, post):
    said = answer(post, receiver.url("/hooks?a=%20b"), body=b'{"a": 1}')

    assert (said.status_code, said.error, said.text) == (200, "", "ok")
    assert said.retry_after is None
    assert 0 <= said.duration_ms < 5000
    [got] = receiver.received
    assert (got.path, got.body) == ("/hooks?a=%20b", b'{"a": 1}')
    assert got.headers == {
        "host": f"{HOST}:{receiver.port}",
        "content-type": "application/json",
        "content-length": "8",
        "user-agent": "verification-webhooks/1",
        "accept": "*/*",
        "accept-encoding": "identity",
        "webhook-id": "evt_1",
    }


def test_letters_in_a_row_share_a_connection(receiver, post):
    for _ in range(3):
        assert answer(post, receiver.url()).status_code == 200

    assert [got.connection for got in receiver.received] == [1, 1, 1]


def test_many_letters_are_under_way_at_once(receiver, post):
    receiver.scripts["/slow"] = Script(body=b"12345", drip=0.005)
    started = time.monotonic()

    all_of_them = answers(post, *[receiver.url("/slow")] * 50)

    assert {said.text for said in all_of_them} == {"12345"}
    assert time.monotonic() - started < 5
    assert receiver.connections == 50


@pytest.mark.parametrize("status", [201, 204, 299, 400, 404, 410, 500, 503])
def test_the_status_is_kept(receiver, post, status):
    receiver.scripts["/"] = Script(status=status, body=b"")

    said = answer(post, receiver.url())

    assert (said.status_code, said.error) == (status, "")


def test_the_text_is_the_first_kibibyte_whatever_the_bytes(receiver, post):
    receiver.scripts["/"] = Script(body=b"a\0b\xff" + "ü".encode() * 600)

    said = answer(post, receiver.url())

    assert said.text == "a\ufffdb\ufffd" + "ü" * 510


def test_a_packed_answer_is_not_unpacked(receiver, post):
    packed = gzip.compress(b"x" * 1_000_000)
    receiver.scripts["/"] = Script(body=packed, headers={"Content-Encoding": "gzip"})

    said = answer(post, receiver.url())

    assert (said.status_code, said.error) == (200, "")
    assert "xx" not in said.text


@pytest.fixture
def impostor(receiver):
    """A receiver with another certificate, known under the usual name."""
    with ExitStack() as stack:
        yield lambda context: stack.enter_context(Receiver(context))


def test_a_certificate_of_another_name_is_not_trusted(authority, impostor, post):
    other = impostor(authority.context("other.acacia.test"))

    assert answer(post, other.url()).error == E.NOT_TRUSTED
    assert other.received == []


def test_an_expired_certificate_is_not_trusted(authority, impostor, post):
    other = impostor(authority.expired_context(HOST))

    assert answer(post, other.url()).error == E.NOT_TRUSTED
    assert other.received == []


def test_a_certificate_of_an_unknown_authority_is_not_trusted(
    receiver, settings, authority
):
    settings.WEBHOOK_CA_FILE = ""

    with Post(lookup_here) as post:
        assert answer(post, receiver.url()).error == E.NOT_TRUSTED
    assert receiver.received == []


def test_a_receiver_without_tls_is_not_connected(impostor, post):
    plain = impostor(None)

    assert answer(post, plain.url()).error == E.NOT_CONNECTED
    assert plain.received == []


def test_old_tls_is_refused(authority, impostor, post):
    context = authority.context(HOST)
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.maximum_version = context.maximum_version.TLSv1_1
    old = impostor(context)

    assert answer(post, old.url()).error == E.NOT_CONNECTED
    assert old.received == []


def test_certificates_are_read_once():
    assert _trust("") is _trust("")


def test_a_closed_port_is_not_connected(post):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

        said = answer(post, f"https://{HOST}:{port}/")

    assert (said.status_code, said.error) == (None, E.NOT_CONNECTED)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(receiver, post, connects, status):
    receiver.scripts["/"] = Script(
        status=status, headers={"Location": "https://127.0.0.1:8443/admin"}, body=b""
    )

    said = answer(post, receiver.url())

    assert (said.status_code, said.error) == (status, "")
    assert connects == [("127.0.0.1", receiver.port)]


@pytest.mark.parametrize(
    "url",
    [
        "https://127.1:8443/",
        "https://0x7f.1:8443/",
        "https://2130706433/",
        "https://127.0.0.1/",
        "https://[::1]/",
        "https://[::ffff:127.0.0.1]/",
        "https://ada@hooks.example.com/",
        "https://hooks.example.com:22/",
        "http://hooks.example.com/",
        f"http://{HOST}/",
        "https://printer.local/",
        "nonsense",
    ],
)
def test_a_url_that_may_not_be_called_is_blocked(post, connects, url):
    said = answer(post, url)

    assert (said.status_code, said.error, said.text) == (None, E.TARGET_BLOCKED, "")
    assert connects == []


@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1"],
        ["10.0.0.1"],
        ["169.254.169.254"],
        ["::1"],
        ["::ffff:127.0.0.1"],
        ["8.8.8.8", "127.0.0.1"],
        ["127.0.0.1", "8.8.8.8"],
    ],
)
def test_a_name_of_private_addresses_is_blocked(receiver, connects, addresses):
    lookup, asked = at(addresses)

    with Post(lookup) as post:
        said = answer(post, "https://hooks.example.com:8443/")

    assert said.error == E.TARGET_BLOCKED
    assert asked == ["hooks.example.com"]
    assert connects == []


def test_a_name_that_changes_is_connected_to_where_it_was_vetted(receiver, connects):
    lookup, asked = at(["8.8.8.8"], ["127.0.0.1"])

    with Post(lookup) as post:
        said = answer(post, "https://hooks.example.com:8443/")

    assert said.error == E.NOT_CONNECTED
    assert asked == ["hooks.example.com"]
    assert connects == [("8.8.8.8", 8443)]


def test_a_name_that_changed_is_vetted_anew(receiver, connects):
    lookup, _ = at(["8.8.8.8"], ["127.0.0.1"])
    url = "https://hooks.example.com:8443/"

    errors = []
    for _ in range(2):
        with Post(lookup) as post:
            errors.append(answer(post, url).error)

    assert errors == [E.NOT_CONNECTED, E.TARGET_BLOCKED]
    assert connects == [("8.8.8.8", 8443)]


def test_an_unknown_name_says_so(receiver):
    async def lookup(host, port, **options):
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    with Post(lookup) as post:
        assert answer(post, receiver.url()).error == E.NAME_UNKNOWN


def test_letters_to_one_name_share_its_lookup(receiver):
    lookup, asked = at(["127.0.0.1"])

    with Post(lookup) as post:
        assert {a.error for a in answers(post, *[receiver.url()] * 20)} == {""}

    assert asked == [HOST]


def test_a_slow_lookup_holds_up_no_other_name(receiver, settings):
    settings.WEBHOOK_DEV_HOSTS = frozenset({HOST, "slow.test"})
    settings.WEBHOOK_TIMEOUT_SECONDS = 1
    go_on = threading.Event()

    async def lookup(host, port, **options):
        if host == "slow.test":
            await asyncio.get_running_loop().run_in_executor(None, go_on.wait, 20)
        return await lookup_here(host, port, **options)

    with Post(lookup) as post:
        slow, quick = answers(post, receiver.url(host="slow.test"), receiver.url())
        go_on.set()

    assert (quick.error, slow.error) == ("", E.TIMED_OUT)
    assert quick.duration_ms < 900 <= slow.duration_ms


@pytest.fixture
def hurried(receiver, settings):
    settings.WEBHOOK_TIMEOUT_SECONDS = 0.5
    with Post(lookup_here) as post:
        yield post


@pytest.mark.parametrize(
    "script",
    [
        Script(hangs=True),
        # The head.
        Script(drip=0.05),
        # The body.
        Script(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"),
        Script(raw=b"HTTP/1.1 200 OK\r\n\r\n"),
        Script(raw=b"HTTP/1.1 100 Continue\r\n\r\n" * 50),
    ],
    ids=["never", "drip", "no body", "no end", "continue"],
)
def test_an_answer_is_waited_for_until_the_deadline(receiver, hurried, script):
    receiver.scripts["/"] = script

    said = answer(hurried, receiver.url())

    assert said.error == E.TIMED_OUT
    assert 450 <= said.duration_ms < 1500
    assert len(receiver.received) == 1


def test_a_body_that_drips_is_cut_at_the_deadline(receiver, hurried):
    receiver.scripts["/"] = Script(body=b"x" * 5000, drip=0.001)

    said = answer(hurried, receiver.url())

    assert (said.status_code, said.error) == (200, E.TIMED_OUT)
    assert said.text.startswith("xx")


def test_a_handshake_that_never_comes_is_cut_at_the_deadline(hurried):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]

        said = answer(hurried, f"https://{HOST}:{port}/")

    assert said.error == E.TIMED_OUT


def test_a_huge_answer_is_cut(receiver, post):
    receiver.scripts["/"] = Script(body=b"x" * 100_000_000)

    said = answer(post, receiver.url())
    again = answer(post, receiver.url("/small"))

    assert (said.status_code, said.error, len(said.text)) == (200, "", 1024)
    assert said.duration_ms < 2000
    assert receiver.written < 20_000_000
    # What was left of it is not taken for the next answer.
    assert again.text == "ok"
    assert receiver.connections == 2


def test_an_answer_of_just_the_limit_leaves_the_connection_open(receiver, post):
    receiver.scripts["/"] = Script(body=b"x" * 16 * 1024)

    assert answer(post, receiver.url()).error == ""
    assert answer(post, receiver.url()).error == ""


@pytest.mark.parametrize("cut_after", [0, 5, 30, 45])
def test_an_answer_that_breaks_off_does_not_count(receiver, post, cut_after):
    receiver.scripts["/"] = Script(body=b"x" * 100, cut_after=cut_after)

    said = answer(post, receiver.url())

    assert said.error == E.BROKEN
    assert said.status_code == (200 if cut_after == 45 else None)
    assert len(receiver.received) == 1


def test_a_refusal_counts_without_its_body(receiver, hurried):
    receiver.scripts["/gone"] = Script(status=410, body=b"x" * 100, cut_after=60)
    receiver.scripts["/busy"] = Script(
        raw=b"HTTP/1.1 503 Busy\r\nRetry-After: 3\r\nContent-Length: 9\r\n\r\n"
    )

    gone, busy = answers(hurried, receiver.url("/gone"), receiver.url("/busy"))

    assert (gone.status_code, gone.error) == (410, "")
    assert (busy.status_code, busy.error, busy.retry_after) == (503, "", 3.0)


@pytest.mark.parametrize(
    "raw",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
        b"HTTP/1.1 999999 What\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 10_000 + b"\r\n",
    ],
    ids=["ssh", "status", "lengths", "chunk", "header", "headers"],
)
def test_what_is_not_http_does_not_count(receiver, post, raw):
    receiver.scripts["/"] = Script(raw=raw)

    assert answer(post, receiver.url()).error == E.BROKEN


def test_retry_after_in_seconds(receiver, post):
    receiver.scripts["/"] = Script(status=429, headers={"Retry-After": "120"})

    said = answer(post, receiver.url())

    assert (said.status_code, said.error, said.retry_after) == (429, "", 120.0)


def test_retry_after_as_a_date(receiver, post):
    date = format_datetime(now() + timedelta(seconds=90), usegmt=True)
    receiver.scripts["/"] = Script(status=429, headers={"Retry-After": date})

    assert 85 < answer(post, receiver.url()).retry_after <= 90


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        ("Wed, 21 Oct 2015 07:28:00 -0000", 0.0),
        ("-5", None),
        ("1.5", None),
        ("soon", None),
        ("9" * 400, None),
        ("Wed, 99 Oct 2015 07:28:00 GMT", None),
        ("Wed, 21 Oct 99999 07:28:00 GMT", None),
        ("", None),
    ],
)
def test_retry_after_is_never_negative_and_never_trusted(receiver, post, text, seconds):
    receiver.scripts["/"] = Script(status=503, headers={"Retry-After": text})

    assert answer(post, receiver.url()).retry_after == seconds


def test_a_kept_connection_that_was_closed_is_no_failure(receiver, post):
    assert answer(post, receiver.url()).error == ""
    receiver.drop_connections()

    assert answer(post, receiver.url()).error == ""
    assert [got.connection for got in receiver.received] == [1, 2]


def closes_the_second_time(received):
    return Script(cut_after=0) if received.connection == 1 else Script()


def test_a_letter_on_a_kept_connection_is_sent_once_again(receiver, post):
    receiver.scripts["/again"] = closes_the_second_time
    assert answer(post, receiver.url()).error == ""

    assert answer(post, receiver.url("/again")).error == ""
    assert [got.connection for got in receiver.received] == [1, 1, 2]


def test_it_is_sent_again_on_a_new_connection(receiver, post):
    receiver.scripts["/slow"] = Script(drip=0.002)
    receiver.scripts["/again"] = lambda received: (
        Script(cut_after=0) if received.connection <= 2 else Script()
    )
    answers(post, receiver.url("/slow"), receiver.url("/slow"))
    assert receiver.connections == 2

    assert answer(post, receiver.url("/again")).error == ""
    assert receiver.connections == 3


def test_a_letter_is_sent_again_once_only(receiver, post):
    receiver.scripts["/never"] = Script(cut_after=0)
    answers(post, *[receiver.url()] * 5)

    assert answer(post, receiver.url("/never")).error == E.BROKEN
    assert sum(got.path == "/never" for got in receiver.received) == 2


def test_a_letter_that_was_begun_to_be_answered_is_not_sent_again(receiver, post):
    receiver.scripts["/begun"] = Script(cut_after=45, body=b"x" * 100)
    answer(post, receiver.url())

    assert answer(post, receiver.url("/begun")).error == E.BROKEN
    assert sum(got.path == "/begun" for got in receiver.received) == 1


def test_sending_again_does_not_move_the_deadline(receiver, hurried):
    def late(received):
        return Script(cut_after=0) if received.connection == 1 else Script(hangs=True)

    answer(hurried, receiver.url())
    receiver.scripts["/late"] = late

    said = answer(hurried, receiver.url("/late"))

    assert said.error == E.TIMED_OUT
    assert said.duration_ms < 900


def test_cookies_are_not_kept(receiver, post):
    receiver.scripts["/"] = Script(headers={"Set-Cookie": "a=b; Path=/"})

    answer(post, receiver.url())
    answer(post, receiver.url())

    assert "cookie" not in receiver.received[1].headers


def test_proxies_of_the_environment_are_ignored(receiver, monkeypatch, connects):
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")

    with Post(lookup_here) as post:
        assert answer(post, receiver.url()).error == ""
    assert connects == [("127.0.0.1", receiver.port)]


def test_passwords_of_the_environment_are_not_sent(receiver, monkeypatch, tmp_path):
    netrc = tmp_path / "netrc"
    netrc.write_text(f"machine {HOST} login ada password secret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))

    with Post(lookup_here) as post:
        answer(post, receiver.url())

    assert "authorization" not in receiver.received[0].headers


def test_the_end_does_not_wait_for_receivers(receiver):
    receiver.scripts["/"] = Script(hangs=True)
    with Post(lookup_here) as post:
        post.send(
            (n, Letter(receiver.url(), b"{}", HEADERS, lane=n)) for n in range(20)
        )
        receiver.wait_for(20)
        started = time.monotonic()

    assert time.monotonic() - started < 2
    left = post.answers(0)
    assert sorted(number for number, _ in left) == list(range(20))
    assert {said.error for _, said in left} == {E.BROKEN}


def test_the_end_does_not_wait_for_lookups(receiver):
    go_on = threading.Event()

    async def lookup(host, port, **options):
        await asyncio.get_running_loop().run_in_executor(None, go_on.wait, 20)

    try:
        with Post(lookup) as post:
            post.send([(1, Letter(receiver.url(), b"{}", HEADERS))])
            time.sleep(0.1)
            started = time.monotonic()
        assert time.monotonic() - started < 2
    finally:
        go_on.set()


def test_waiting_for_answers_ends_after_the_timeout(post):
    started = time.monotonic()

    assert post.answers(0.1) == []
    assert 0.09 < time.monotonic() - started < 1


def test_what_nobody_expected_is_an_answer_too(receiver, post, caplog):
    with caplog.at_level(logging.ERROR):
        said = answer(post, receiver.url(), body=17)

    assert said.error == E.BROKEN
    [record] = caplog.records
    assert record.getMessage() == "a delivery raised TypeError"
    assert record.exc_info is None


def test_letters_of_many_threads_are_all_answered(receiver, post):
    def send(start):
        post.send(
            (start + n, Letter(receiver.url(), b"{}", HEADERS)) for n in range(25)
        )

    threads = [threading.Thread(target=send, args=(n * 25,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    found = []
    while len(found) < 100:
        found += [number for number, _ in post.answers(5)]
    assert sorted(found) == list(range(100))
