import asyncio
import logging
import threading
import time
from typing import Any

from tests.webhooks.senders import HEADERS, answer, answers, move_clock
from tests.world.receiver import HOST, Script, lookup_here
from webhooks import sender
from webhooks.models import Attempt
from webhooks.sender import Sender, WebhookRequest

E = Attempt.Error


def test_request_arrives_unchanged(receiver, post):
    answered = answer(post, receiver.url("/hooks?a=%20b"), body=b'{"a": 1}')

    assert (answered.status_code, answered.error, answered.text) == (200, "", "ok")
    assert answered.retry_after is None
    assert 0 <= answered.duration_ms < 5000
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

    all_of_them = answers(post, *[receiver.url("/slow")] * 20)

    assert {answered.text for answered in all_of_them} == {"12345"}
    assert receiver.connections == 20


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
    assert {answered.error for _, answered in left} == {E.BROKEN}


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
    assert 0.09 < time.monotonic() - started < 5


def test_unexpected_error_is_an_answer(receiver, post, caplog):
    with caplog.at_level(logging.ERROR):
        answered = answer(post, receiver.url(), body=17)

    assert answered.error == E.BROKEN
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


def lane_requests(url: str, requests: int):
    return [
        (n, WebhookRequest(url, b"{}", HEADERS, lane="one")) for n in range(requests)
    ]


def send_to_lane(post: Sender, url: str, requests: int):
    post.send(lane_requests(url, requests))
    return collect_answers(post, requests)


def collect_answers(post: Sender, requests: int):
    answered: list[Any] = []
    deadline = time.monotonic() + 60
    while len(answered) < requests and time.monotonic() < deadline:
        answered += [one for _, one in post.answers(0.1)]
    return answered


def test_lane_limits_requests_under_way(receiver):
    receiver.scripts["/slow"] = Script(body=b"12345", drip=0.001)
    with Sender(lookup_here, at_once=3) as post:
        answered = send_to_lane(post, receiver.url("/slow"), 12)

    assert {one.status_code for one in answered} == {200}
    assert receiver.connections == 3


def test_waiting_requests_return_unsent_after_a_failure(receiver):
    receiver.scripts["/hangs"] = Script(hangs=True)
    with Sender(lookup_here, at_once=2) as post:
        post.send(lane_requests(receiver.url("/hangs"), 9))
        receiver.wait_for(2)
        receiver.drop_connections()
        answered = collect_answers(post, 9)

    assert [one.error for one in answered if one] == [E.BROKEN] * 2
    assert answered.count(None) == 7
    assert len(receiver.received) == 2


def test_waiting_requests_return_unsent_when_recalled(receiver):
    receiver.scripts["/slow"] = Script(body=b"12345", drip=0.005)
    with Sender(lookup_here, at_once=2) as post:
        post.send(lane_requests(receiver.url("/slow"), 5))
        receiver.wait_for(2)
        post.recall()
        answered = collect_answers(post, 5)

    assert answered.count(None) == 3
    assert [one.status_code for one in answered if one] == [200, 200]


def test_request_returns_unsent_after_a_long_wait(receiver, monkeypatch):
    monkeypatch.setattr(sender, "WAIT_SECONDS", 0.2)
    receiver.scripts["/hangs"] = Script(hangs=True)
    with Sender(lookup_here, at_once=1) as post:
        post.send(lane_requests(receiver.url("/hangs"), 2))
        assert collect_answers(post, 1) == [None]


def test_failing_lane_delays_no_other(receiver, settings):
    settings.WEBHOOK_TIMEOUT_SECONDS = 60
    receiver.scripts["/hangs"] = Script(hangs=True)
    with Sender(lookup_here, at_once=1) as post:
        post.send(lane_requests(receiver.url("/hangs"), 2))
        post.send(
            [("other", WebhookRequest(receiver.url(), b"{}", HEADERS, lane="other"))]
        )
        ((key, answered),) = post.answers(20)
        assert (key, answered.status_code) == ("other", 200)


def test_closed_kept_connection_is_no_failure(receiver, post):
    assert answer(post, receiver.url()).error == ""
    receiver.drop_connections()

    assert answer(post, receiver.url()).error == ""
    assert [got.connection for got in receiver.received] == [1, 2]


def closes_the_second_time(received):
    return Script(cut_after=0) if received.connection == 1 else Script()


def test_request_on_a_stale_connection_is_sent_again(receiver, post):
    receiver.scripts["/again"] = closes_the_second_time
    assert answer(post, receiver.url()).error == ""

    assert answer(post, receiver.url("/again")).error == ""
    assert [got.connection for got in receiver.received] == [1, 1, 2]


def test_second_request_uses_a_new_connection(receiver, post):
    receiver.scripts["/slow"] = Script(drip=0.002)
    receiver.scripts["/again"] = lambda received: (
        Script(cut_after=0) if received.connection <= 2 else Script()
    )
    answers(post, receiver.url("/slow"), receiver.url("/slow"))
    assert receiver.connections == 2

    assert answer(post, receiver.url("/again")).error == ""
    assert receiver.connections == 3


def test_request_is_sent_at_most_twice(receiver, post):
    receiver.scripts["/never"] = Script(cut_after=0)
    answers(post, *[receiver.url()] * 5)

    assert answer(post, receiver.url("/never")).error == E.BROKEN
    assert sum(got.path == "/never" for got in receiver.received) == 2


def test_request_with_a_begun_answer_is_not_sent_again(receiver, post):
    receiver.scripts["/begun"] = Script(cut_after=45, body=b"x" * 100)
    answer(post, receiver.url())

    assert answer(post, receiver.url("/begun")).error == E.BROKEN
    assert sum(got.path == "/begun" for got in receiver.received) == 1


def test_second_request_does_not_move_the_deadline(receiver, settings):
    settings.WEBHOOK_TIMEOUT_SECONDS = 600
    receiver.scripts["/late"] = Script(hangs=True)
    with Sender(lookup_here) as post:
        answer(post, receiver.url())
        post.send([(1, WebhookRequest(receiver.url("/late"), b"{}", HEADERS))])
        receiver.wait_for(2)
        move_clock(post, 400)
        receiver.drop_connections()
        receiver.wait_for(3)
        move_clock(post, 200)
        ((_, answered),) = post.answers(60)

    assert answered.error == E.TIMED_OUT
