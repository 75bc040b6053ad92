import time
from typing import Any

from tests.world.receiver import Script, lookup_here
from webhooks import sender
from webhooks.models import Attempt
from webhooks.sender import Sender, WebhookRequest

E = Attempt.Error
HEADERS = {"webhook-id": "evt_1"}


def lane_of(url: str, letters: int):
    return [
        (n, WebhookRequest(url, b"{}", HEADERS, lane="one")) for n in range(letters)
    ]


def answers_of_lane(post: Sender, url: str, letters: int):
    post.send(lane_of(url, letters))
    return collected(post, letters)


def collected(post: Sender, letters: int):
    said: list[Any] = []
    deadline = time.monotonic() + 10
    while len(said) < letters and time.monotonic() < deadline:
        said += [one for _, one in post.answers(0.1)]
    return said


def test_lane_limits_requests_under_way(receiver):
    receiver.scripts["/slow"] = Script(body=b"12345", drip=0.001)
    with Sender(lookup_here, at_once=3) as post:
        said = answers_of_lane(post, receiver.url("/slow"), 12)

    assert {one.status_code for one in said} == {200}
    assert receiver.connections == 3


def test_waiting_requests_return_unsent_after_a_failure(receiver, settings):
    settings.WEBHOOK_TIMEOUT_SECONDS = 0.3
    receiver.scripts["/hangs"] = Script(hangs=True)
    with Sender(lookup_here, at_once=2) as post:
        said = answers_of_lane(post, receiver.url("/hangs"), 9)

    assert [one.error for one in said if one] == [E.TIMED_OUT] * 2
    assert said.count(None) == 7
    assert len(receiver.received) == 2


def test_waiting_requests_return_unsent_when_recalled(receiver):
    receiver.scripts["/slow"] = Script(body=b"12345", drip=0.005)
    with Sender(lookup_here, at_once=2) as post:
        post.send(lane_of(receiver.url("/slow"), 5))
        receiver.wait_for(2)
        post.recall()
        said = collected(post, 5)

    assert said.count(None) == 3
    assert [one.status_code for one in said if one] == [200, 200]


def test_request_returns_unsent_after_a_long_wait(receiver, monkeypatch):
    monkeypatch.setattr(sender, "WAIT_SECONDS", 0.2)
    receiver.scripts["/hangs"] = Script(hangs=True)
    with Sender(lookup_here, at_once=1) as post:
        post.send(lane_of(receiver.url("/hangs"), 2))
        assert collected(post, 1) == [None]


def test_failing_lane_delays_no_other(receiver, settings):
    settings.WEBHOOK_TIMEOUT_SECONDS = 0.5
    receiver.scripts["/hangs"] = Script(hangs=True)
    with Sender(lookup_here, at_once=1) as post:
        post.send(lane_of(receiver.url("/hangs"), 2))
        started = time.monotonic()
        post.send(
            [("other", WebhookRequest(receiver.url(), b"{}", HEADERS, lane="other"))]
        )
        ((key, said),) = post.answers(5)
        assert (key, said.status_code) == ("other", 200)

    assert time.monotonic() - started < 0.4
