"""The gate in front of Django, with small WSGI applications behind it."""

import asyncio
import threading
import time

import pytest

from verification.web import gateway
from verification.web.gateway import REFUSAL, Gateway, build_environ

REFUSED = {"request-timeout": "408", "unavailable": "503"}


def told(environ, start_response):
    """Answers with the body, or with the refusal that Django would render."""
    code = environ.get(REFUSAL)
    start_response(f"{REFUSED.get(code, 400) if code else 200} x", [("X-A", "b")])
    return [code.encode() if code else environ["wsgi.input"].read()]


def scope(path="/b/x", headers=(), method="POST"):
    return {
        "type": "http",
        "method": method,
        "raw_path": path.encode(),
        "query_string": b"",
        "http_version": "1.1",
        "scheme": "http",
        "server": ("127.0.0.1", "8000"),
        "client": ("192.0.2.1", "1"),
        "headers": [(b"host", b"localhost"), *headers],
    }


async def asked(gate, pieces=(b"",), pause=0.0, **about):
    """Status and body of the answer to these pieces; None is one that never comes."""
    waiting, sent = list(pieces), []

    async def receive():
        await asyncio.sleep(pause)
        piece = waiting.pop(0)
        if piece is None:
            await asyncio.Event().wait()
        if piece is Gone:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": piece, "more_body": bool(waiting)}

    async def send(message):
        sent.append(message)

    await gate(scope(**about), receive, send)
    if not sent:
        return None
    return sent[0]["status"], b"".join(m.get("body", b"") for m in sent)


class Gone:
    pass


def length(size):
    return [(b"content-length", str(size).encode())]


CHUNKED = [(b"transfer-encoding", b"chunked")]


def run(coroutine):
    return asyncio.run(coroutine)


@pytest.mark.parametrize("headers", [length(6), CHUNKED])
def test_a_body_is_handed_on_whole(headers):
    answer = run(asked(Gateway(told), [b"abc", b"def"], headers=headers))

    assert answer == (200, b"abcdef")


@pytest.mark.parametrize("headers", [length(5000), CHUNKED])
def test_a_body_that_stops_is_refused_at_its_deadline(headers):
    gate = Gateway(told, body_seconds=0.1)

    assert run(asked(gate, [b"ab", None], headers=headers)) == (408, b"request-timeout")
    assert gate.held == 0


def test_a_slow_body_may_take_longer_the_more_of_it_came(monkeypatch):
    monkeypatch.setattr(gateway, "SLOWEST_RATE", 20)
    gate = Gateway(told, body_seconds=0.1)
    pieces = [b"x" * 10] * 10

    status, body = run(asked(gate, pieces, pause=0.03, headers=length(100)))

    assert (status, len(body)) == (200, 100)


def test_a_client_that_leaves_is_not_answered():
    gate = Gateway(told)

    assert run(asked(gate, [b"ab", Gone], headers=length(5))) is None
    assert gate.held == 0


def test_no_more_bodies_are_held_than_the_limit():
    async def both():
        gate = Gateway(told, bodies_bytes=10)
        slow = asyncio.create_task(asked(gate, [b"x" * 8, None], headers=length(9)))
        await asyncio.sleep(0.05)
        refused = await asked(gate, [b"abc"], headers=length(3))
        slow.cancel()
        await asyncio.gather(slow, return_exceptions=True)
        return refused, await asked(gate, [b"abc"], headers=length(3))

    assert run(both()) == ((503, b"unavailable"), (200, b"abc"))


def test_of_a_chunked_body_no_more_is_read_than_django_refuses(settings):
    settings.MAX_UPLOAD_BYTES = 4
    unread = [b"abc", b"def", None]

    assert run(asked(Gateway(told), unread, headers=CHUNKED)) == (200, b"abcdef")


def test_a_body_that_says_it_is_too_large_is_not_waited_for(settings):
    settings.MAX_UPLOAD_BYTES = 4

    assert run(asked(Gateway(told), [None], headers=length(5))) == (200, b"")


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ([(b"transfer-encoding", b"gzip, chunked")], b"unsupported-media-type"),
        (CHUNKED + length(3), b"malformed-body"),
        (length("x"), b"malformed-body"),
    ],
)
def test_a_body_of_no_clear_length_is_refused(headers, code):
    assert run(asked(Gateway(told), headers=headers)) == (400, code)


def test_what_no_thread_takes_in_time_is_refused_and_never_run():
    free, ran = threading.Event(), []

    def held(environ, start_response):
        if environ["PATH_INFO"].startswith("/busy") and REFUSAL not in environ:
            ran.append(environ["PATH_INFO"])
            free.wait(10)
        return told(environ, start_response)

    async def many():
        gate = Gateway(held, threads=2, wait_seconds=0.1)
        begun = [asyncio.create_task(asked(gate, path=f"/busy/{n}")) for n in range(2)]
        await asyncio.sleep(0.05)
        begun_at = time.monotonic()
        late = await asyncio.gather(
            *(asked(gate, path="/busy/late") for _ in range(20))
        )
        seconds = time.monotonic() - begun_at
        health = await asked(gate, path="/healthz", method="GET")
        free.set()
        return set(late), seconds, health, await asyncio.gather(*begun)

    late, seconds, health, begun = run(many())

    assert late == {(503, b"unavailable")}
    assert seconds < 1
    assert health == (200, b"")
    assert begun == [(200, b""), (200, b"")]
    assert sorted(ran) == ["/busy/0", "/busy/1"]


def test_an_answer_in_pieces_is_sent_as_it_is_made():
    class Pieces(list):
        streaming = True
        is_closed = False

        def close(self):
            self.is_closed = True

    pieces = Pieces([b"one,", b"two"])

    def streamed(environ, start_response):
        start_response("200 OK", [])
        return pieces

    assert run(asked(Gateway(streamed), method="GET")) == (200, b"one,two")
    assert pieces.is_closed


def test_a_header_with_an_underscore_does_not_pass_for_one_with_a_hyphen():
    headers = [
        (b"x_forwarded_for", b"203.0.113.9"),
        (b"x-forwarded-for", b"192.0.2.7"),
        (b"x_forwarded_proto", b"https"),
        (b"content_length", b"7"),
    ]

    environ = build_environ(scope(headers=headers))

    assert environ["HTTP_X_FORWARDED_FOR"] == "192.0.2.7"
    assert not {"HTTP_X_FORWARDED_PROTO", "CONTENT_LENGTH"} & environ.keys()


def test_the_environ_keeps_bytes_that_are_no_text():
    headers = [(b"cookie", b"a=1"), (b"cookie", b"b=2"), (b"x-name", b"\xc3\xa9\xff")]

    environ = build_environ(scope("/a%00%ff/%2F", headers=headers))

    assert environ["PATH_INFO"] == "/a\x00\xff//"
    assert environ["HTTP_COOKIE"] == "a=1; b=2"
    assert environ["HTTP_X_NAME"].encode("latin-1") == b"\xc3\xa9\xff"
