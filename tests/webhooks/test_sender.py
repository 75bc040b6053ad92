import asyncio
import logging
import threading
import time

from tests.webhooks.letters import HEADERS, answer, answers
from tests.world.receiver import HOST, Script, lookup_here
from webhooks.models import Attempt
from webhooks.sender import Sender, WebhookRequest

E = Attempt.Error


def test_request_arrives_unchanged(receiver, post):
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


def test_requests_in_a_row_share_a_connection(receiver, post):
    for _ in range(3):
        assert answer(post, receiver.url()).status_code == 200

    assert [got.connection for got in receiver.received] == [1, 1, 1]


def test_many_requests_are_under_way_at_once(receiver, post):
    receiver.scripts["/slow"] = Script(body=b"12345", drip=0.005)
    started = time.monotonic()

    all_of_them = answers(post, *[receiver.url("/slow")] * 50)

    assert {said.text for said in all_of_them} == {"12345"}
    assert time.monotonic() - started < 5
    assert receiver.connections == 50


def test_cookies_are_not_kept(receiver, post):
    receiver.scripts["/"] = Script(headers={"Set-Cookie": "a=b; Path=/"})

    answer(post, receiver.url())
    answer(post, receiver.url())

    assert "cookie" not in receiver.received[1].headers


def test_proxies_of_the_environment_are_ignored(receiver, monkeypatch, connects):
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")

    with Sender(lookup_here) as post:
        assert answer(post, receiver.url()).error == ""
    assert connects == [("127.0.0.1", receiver.port)]


def test_passwords_of_the_environment_are_not_sent(receiver, monkeypatch, tmp_path):
    netrc = tmp_path / "netrc"
    netrc.write_text(f"machine {HOST} login ada password secret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))

    with Sender(lookup_here) as post:
        answer(post, receiver.url())

    assert "authorization" not in receiver.received[0].headers


def test_exit_does_not_wait_for_receivers(receiver):
    receiver.scripts["/"] = Script(hangs=True)
    with Sender(lookup_here) as post:
        post.send(
            (n, WebhookRequest(receiver.url(), b"{}", HEADERS, lane=n))
            for n in range(20)
        )
        receiver.wait_for(20)
        started = time.monotonic()

    assert time.monotonic() - started < 2
    left = post.answers(0)
    assert sorted(number for number, _ in left) == list(range(20))
    assert {said.error for _, said in left} == {E.BROKEN}


def test_exit_does_not_wait_for_lookups(receiver):
    go_on = threading.Event()

    async def lookup(host, port, **options):
        await asyncio.get_running_loop().run_in_executor(None, go_on.wait, 20)

    try:
        with Sender(lookup) as post:
            post.send([(1, WebhookRequest(receiver.url(), b"{}", HEADERS))])
            time.sleep(0.1)
            started = time.monotonic()
        assert time.monotonic() - started < 2
    finally:
        go_on.set()


def test_waiting_for_answers_ends_after_the_timeout(post):
    started = time.monotonic()

    assert post.answers(0.1) == []
    assert 0.09 < time.monotonic() - started < 1


def test_unexpected_error_is_an_answer(receiver, post, caplog):
    with caplog.at_level(logging.ERROR):
        said = answer(post, receiver.url(), body=17)

    assert said.error == E.BROKEN
    [record] = caplog.records
    assert record.getMessage() == "a delivery raised TypeError"
    assert record.exc_info is None


def test_requests_of_many_threads_are_all_answered(receiver, post):
    def send(start):
        post.send(
            (start + n, WebhookRequest(receiver.url(), b"{}", HEADERS))
            for n in range(25)
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
