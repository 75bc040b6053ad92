import gzip
import socket
from email.utils import format_datetime

import pytest
from django.utils.timezone import now, timedelta

from tests.webhooks.senders import answer, collect, move_clock, send
from tests.world.receiver import HOST, Script, lookup_here
from tests.world.waiting import until
from webhooks.models import Attempt
from webhooks.sender import Sender, parse_retry_after

E = Attempt.Error


@pytest.mark.parametrize("status", [204, 404, 503])
def test_answer_has_the_status(receiver, post, status):
    receiver.scripts["/"] = Script(status=status, body=b"")

    answered = answer(post, receiver.url())

    assert (answered.status_code, answered.error) == (status, "")


def test_answer_has_the_first_kibibyte_as_text(receiver, post):
    receiver.scripts["/"] = Script(body=b"a\0b\xff" + "ü".encode() * 600)

    answered = answer(post, receiver.url())

    assert answered.text == "a\ufffdb\ufffd" + "ü" * 510


def test_compressed_answer_is_not_unpacked(receiver, post):
    packed = gzip.compress(b"x" * 1_000_000)
    receiver.scripts["/"] = Script(body=packed, headers={"Content-Encoding": "gzip"})

    answered = answer(post, receiver.url())

    assert (answered.status_code, answered.error) == (200, "")
    assert "xx" not in answered.text


UNENDING = {
    "/never": Script(hangs=True),
    "/dripping-head": Script(drip=0.2),
    "/dripping-body": Script(body=b"x" * 5000, at_once=100, drip=0.05),
    "/no-body": Script(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"),
    "/no-end": Script(raw=b"HTTP/1.1 200 OK\r\n\r\n"),
    "/continue": Script(raw=b"HTTP/1.1 100 Continue\r\n\r\n" * 50),
}


def test_requests_time_out_at_the_deadline(receiver, under_way, settings):
    settings.WEBHOOK_TIMEOUT_SECONDS = 50
    receiver.scripts.update(UNENDING)
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        Sender(lookup_here) as post,
    ):
        no_handshake = f"https://{HOST}:{silent.getsockname()[1]}/"
        send(post, *map(receiver.url, UNENDING), no_handshake)
        with silent.accept()[0]:
            receiver.wait_for(len(UNENDING))
            until(lambda: any(one.body for one in under_way))
            move_clock(post, 40)
            written = receiver.written
            # What arrives meanwhile moves no deadline.
            until(lambda: receiver.written > written + 2)
            assert post.answers(0) == []
            move_clock(post, 10)
            ended = collect(post, len(UNENDING) + 1)

    assert [one.error for one in ended] == [E.TIMED_OUT] * len(ended)
    # No request was sent twice.
    assert sorted(got.path for got in receiver.received) == sorted(UNENDING)
    dripping_body = ended[list(UNENDING).index("/dripping-body")]
    assert dripping_body.status_code == 200
    assert dripping_body.text.startswith("xx")


def test_huge_answer_is_cut(receiver, post):
    receiver.scripts["/"] = Script(body=b"x" * 30_000_000)

    answered = answer(post, receiver.url())
    again = answer(post, receiver.url("/small"))

    assert (answered.status_code, answered.error, len(answered.text)) == (200, "", 1024)
    assert answered.duration_ms < 2000
    assert receiver.written < 20_000_000
    # The rest of the huge answer is not read as the next answer.
    assert again.text == "ok"
    assert receiver.connections == 2


def test_answer_of_the_limit_keeps_the_connection_open(receiver, post):
    receiver.scripts["/"] = Script(body=b"x" * 16 * 1024)

    assert answer(post, receiver.url()).error == ""
    assert answer(post, receiver.url()).error == ""


@pytest.mark.parametrize("cut_after", [0, 5, 30, 45])
def test_incomplete_answer_does_not_count(receiver, post, cut_after):
    receiver.scripts["/"] = Script(body=b"x" * 100, cut_after=cut_after)

    answered = answer(post, receiver.url())

    assert answered.error == E.BROKEN
    assert answered.status_code == (200 if cut_after == 45 else None)
    assert len(receiver.received) == 1


def test_refusal_counts_without_its_body(receiver, post, under_way):
    receiver.scripts["/gone"] = Script(status=410, body=b"x" * 100, cut_after=60)
    receiver.scripts["/busy"] = Script(
        raw=b"HTTP/1.1 503 Busy\r\nRetry-After: 3\r\nContent-Length: 9\r\n\r\n"
    )

    send(post, receiver.url("/gone"), receiver.url("/busy"))
    until(lambda: 503 in [one.status_code for one in under_way])
    move_clock(post, 15)
    gone, busy = collect(post, 2)

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
def test_answer_that_is_not_http_does_not_count(receiver, post, raw):
    receiver.scripts["/"] = Script(raw=raw)

    assert answer(post, receiver.url()).error == E.BROKEN


def test_retry_after_is_read_as_seconds(receiver, post):
    receiver.scripts["/"] = Script(status=429, headers={"Retry-After": "120"})

    answered = answer(post, receiver.url())

    assert (answered.status_code, answered.error, answered.retry_after) == (
        429,
        "",
        120.0,
    )


def test_retry_after_is_read_as_a_date(receiver, post):
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
def test_invalid_or_past_retry_after_is_ignored(text, seconds):
    assert parse_retry_after(text) == seconds
