"""The gate in front of Django, with small WSGI applications behind it."""

import asyncio
import gc
import json
import threading
import time
import weakref

import pytest

from verification.web import gateway
from verification.web.gateway import (
    REFUSAL,
    UNREAD,
    BodyLimit,
    Gateway,
    Room,
    build_environ,
)
from verification.web.middleware import refuse_briefly

REFUSED = {"request-timeout": "408", "overloaded": "503"}


def echo(environ, start_response):
    """Answer with the body, or with the code of the refusal."""
    code = environ.get(REFUSAL)
    start_response(f"{REFUSED.get(code, 400) if code else 200} x", [("X-A", "b")])
    return [code.encode() if code else environ["wsgi.input"].read()]


LIMIT = BodyLimit(10_000, Room.STRANGERS, "a")


def make_gate(app=echo, *, limit=LIMIT, **options):
    return Gateway(app, limit_body=lambda environ: limit, **options)


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


async def send_request(gate, pieces=(b"",), pause=0.0, **about):
    """Return the status and body of the answer; the client stops at a piece of None."""
    waiting, sent = list(pieces), []

    async def receive():
        await asyncio.sleep(pause)
        piece = waiting.pop(0) if waiting else None
        if piece is None:
            await asyncio.Event().wait()
        if piece is Disconnect:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": piece, "more_body": bool(waiting)}

    async def send(message):
        sent.append(message)

    await gate(scope(**about), receive, send)
    if not sent:
        return None
    return sent[0]["status"], b"".join(m.get("body", b"") for m in sent)


class Disconnect:
    pass


def length(size):
    return [(b"content-length", str(size).encode())]


CHUNKED = [(b"transfer-encoding", b"chunked")]


def run(coroutine):
    return asyncio.run(coroutine)


@pytest.mark.parametrize("headers", [length(6), CHUNKED])
def test_gateway_passes_the_whole_body_on(headers):
    answer = run(send_request(make_gate(echo), [b"abc", b"def"], headers=headers))

    assert answer == (200, b"abcdef")


@pytest.mark.parametrize("headers", [length(5000), CHUNKED])
def test_body_that_stops_is_refused_at_its_deadline(headers):
    gate = make_gate(echo, body_seconds=0.1)

    assert run(send_request(gate, [b"ab", None], headers=headers)) == (
        408,
        b"request-timeout",
    )
    assert not gate.held[Room.STRANGERS]


def test_large_body_gets_more_time(monkeypatch):
    monkeypatch.setattr(gateway, "SLOWEST_RATE", 20)
    gate = make_gate(echo, body_seconds=0.1)
    pieces = [b"x" * 10] * 5

    status, body = run(send_request(gate, pieces, pause=0.03, headers=length(50)))

    assert (status, len(body)) == (200, 50)


def test_deadline_of_a_body_has_a_ceiling(monkeypatch):
    monkeypatch.setattr(gateway, "MAX_BODY_SECONDS", 0.1)
    gate = make_gate()

    # Its size alone would give it 9 seconds more.
    answer = run(
        asyncio.wait_for(
            send_request(gate, [b"x" * 9000, None], headers=length(9001)), 5
        )
    )

    assert answer == (408, b"request-timeout")


@pytest.mark.parametrize("headers", [length(5), CHUNKED])
def test_body_that_breaks_off_is_malformed(headers):
    gate = make_gate()

    answer = run(send_request(gate, [b"ab", Disconnect], headers=headers))

    assert answer == (400, b"malformed-body")
    assert not gate.held[Room.STRANGERS]


@pytest.mark.parametrize(
    ("limit", "status"),
    [
        (LIMIT, 503),
        (BodyLimit(100, Room.STRANGERS, "b"), 503),
        (BodyLimit(100, Room.KEYS, "a"), 200),
    ],
)
def test_unfinished_bodies_fill_their_own_room_only(monkeypatch, limit, status):
    bytes_of = dict.fromkeys(Room, (10, 10))
    monkeypatch.setattr(gateway, "ROOM_BYTES", bytes_of)

    async def both():
        gate = Gateway(echo, limit_body=lambda environ: limits.pop(0))
        slow = asyncio.create_task(
            send_request(gate, [b"x" * 8, None], headers=length(9))
        )
        await asyncio.sleep(0.05)
        second = await send_request(gate, [b"abc"], headers=length(3))
        slow.cancel()
        await asyncio.gather(slow, return_exceptions=True)
        return second[0], (await send_request(gate, [b"abc"], headers=length(3)))[0]

    limits = [LIMIT, limit, limit]
    assert run(both()) == (status, 200)


def test_one_client_gets_a_share_of_its_room(monkeypatch):
    monkeypatch.setattr(gateway, "ROOM_BYTES", dict.fromkeys(Room, (100, 10)))

    assert run(send_request(make_gate(), [b"x" * 11], headers=length(11))) == (
        503,
        b"overloaded",
    )


@pytest.mark.parametrize(
    ("headers", "pieces", "size"),
    [(length(5), [None], b"5"), (CHUNKED, [b"abc", b"def", None], b"6")],
)
def test_body_is_not_read_above_its_limit(headers, pieces, size):
    def tell(environ, start_response):
        start_response("200 x", [])
        body, told = environ["wsgi.input"].read(), environ["CONTENT_LENGTH"]
        return [body, told.encode(), b" unread" if environ.get(UNREAD) else b""]

    gate = make_gate(tell, limit=BodyLimit(4, Room.STRANGERS), body_seconds=0.1)

    assert run(send_request(gate, pieces, headers=headers))[1] == size + b" unread"


@pytest.mark.parametrize("headers", [length(12), CHUNKED])
def test_rest_of_an_unread_body_is_discarded_after_the_answer(headers):
    pieces, left = [b"abc", b"def", b"ghi", b"jkl"], []

    async def receive():
        return {
            "type": "http.request",
            "body": pieces.pop(0),
            "more_body": bool(pieces),
        }

    async def send(message):
        left.append(len(pieces))

    gate = make_gate(limit=BodyLimit(4, Room.STRANGERS))
    run(gate(scope(headers=headers), receive, send))

    assert min(left) >= 2
    assert pieces == []


def test_limit_is_found_in_a_thread_when_it_needs_the_database():
    def find():
        found.append(threading.current_thread())
        return BodyLimit(10, Room.KEYS)

    found = []
    gate = make_gate(limit=find)

    assert run(send_request(gate, [b"abc"], headers=length(3))) == (200, b"abc")
    assert found != [threading.main_thread()]


@pytest.mark.slow
def test_garbage_that_holds_bodies_is_collected_after_some_bytes(monkeypatch):
    class Form:
        def __init__(self, body):
            self.body, self.itself = body, self

    def read(environ, start_response):
        forms.add(Form(environ["wsgi.input"].read()))
        start_response("200 x", [])
        return []

    async def send_all():
        for _ in range(10):
            await send_request(gate, [b"x" * 40], headers=length(40))

    monkeypatch.setattr(gateway, "GARBAGE_BYTES", 100)
    forms, gate = weakref.WeakSet(), make_gate(read)
    gc.disable()
    try:
        run(send_all())
        assert len(forms) < 3
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ([(b"transfer-encoding", b"gzip, chunked")], b"unsupported-media-type"),
        (CHUNKED + length(3), b"malformed-body"),
        (length("x"), b"malformed-body"),
    ],
)
def test_body_without_a_clear_length_is_refused(headers, code):
    assert run(send_request(make_gate(echo), headers=headers)) == (400, code)


class Busy:
    """An application whose answers to `/busy` wait until `free` is set."""

    def __init__(self):
        self.free = threading.Event()
        self.ran = []

    def __call__(self, environ, start_response):
        if environ["PATH_INFO"].startswith("/busy") and REFUSAL not in environ:
            self.ran.append(environ["PATH_INFO"])
            self.free.wait(10)
        return echo(environ, start_response)


async def begin(gate, busy, paths, *, held):
    """Start requests. The first ones hold this number of threads; the others wait."""
    begun = []
    for path in paths:
        begun.append(asyncio.create_task(send_request(gate, path=path)))
        await asyncio.sleep(0)
        while len(busy.ran) < min(len(begun), held):
            await asyncio.sleep(0.001)
    return begun


async def send_many(gate, paths):
    """Send requests together. Returns them, and the seconds until all were refused."""
    begun_at = time.monotonic()
    answers = await asyncio.gather(*(send_request(gate, path=path) for path in paths))
    return answers, time.monotonic() - begun_at


def test_request_is_refused_when_no_thread_is_free_in_time():
    busy = Busy()

    async def many():
        gate = make_gate(busy, threads=2, wait_seconds=0.1)
        begun = await begin(gate, busy, ["/busy/0", "/busy/1"], held=2)
        late, seconds = await send_many(gate, ["/busy/late"] * 8)
        busy.free.set()
        return {status for status, _ in late}, seconds, await asyncio.gather(*begun)

    late, seconds, begun = run(many())

    assert late == {503}
    assert seconds < 5
    assert begun == [(200, b""), (200, b"")]
    assert sorted(busy.ran) == ["/busy/0", "/busy/1"]


def test_request_is_refused_at_once_when_many_wait():
    busy = Busy()

    async def many():
        gate = make_gate(busy, threads=2, max_waiting=3, wait_seconds=10)
        begun = await begin(gate, busy, ["/busy"] * 5, held=2)
        late, seconds = await send_many(gate, ["/late"] * 8)
        busy.free.set()
        begun = await asyncio.gather(*begun)
        statuses = {status for status, _ in late}
        return statuses, seconds, begun, await send_request(gate, path="/later")

    late, seconds, begun, later = run(many())

    assert late == {503}
    assert seconds < 5
    assert begun == [(200, b"")] * 5
    assert later == (200, b"")


def test_request_that_goes_first_is_answered_while_others_are_refused():
    busy = Busy()

    async def many():
        first = {"/busy/c/x", "/c/x"}
        gate = make_gate(
            busy,
            threads=2,
            max_waiting=1,
            goes_first=first.__contains__,
            limit=lambda: LIMIT,
        )
        # The first of them uses a thread that all others may use.
        paths = ["/busy/c/x", "/busy/1", "/busy/2"]
        begun = await begin(gate, busy, paths, held=2)
        refused = await send_request(gate, [b"order"], path="/x", headers=length(5))
        answered = await send_request(gate, [b"form"], path="/c/x", headers=length(4))
        busy.free.set()
        return refused, answered, await asyncio.gather(*begun)

    refused, answered, begun = run(many())

    assert refused == (503, b"overloaded")
    assert answered == (200, b"form")
    assert begun == [(200, b"")] * 3


def test_logins_by_identity_providers_hold_no_thread_of_others():
    busy = Busy()

    async def many():
        gate = make_gate(
            busy,
            threads=1,
            max_waiting=1,
            calls_identity_provider=lambda path: path.startswith("/busy"),
        )
        begun = await begin(gate, busy, ["/busy"] * 3, held=2)
        answers = (
            await send_request(gate, path="/x"),
            await send_request(gate, path="/busy"),
        )
        busy.free.set()
        return *answers, await asyncio.gather(*begun)

    other, late, begun = run(many())

    assert other == (200, b"")
    assert late == (503, b"overloaded")
    assert begun == [(200, b"")] * 3


def test_refusal_comes_before_the_body_and_its_client_are_looked_at():
    asked = []

    async def refuse():
        gate = Gateway(echo, limit_body=asked.append, max_waiting=0, body_seconds=0.1)
        # The second piece never arrives.
        return await send_request(gate, [b"a", None], headers=length(2))

    assert run(refuse()) == (503, b"overloaded")
    assert asked == []


def test_fewer_requests_wait_when_requests_are_slow(monkeypatch):
    def sleep(environ, start_response):
        if environ["PATH_INFO"] == "/slow" and REFUSAL not in environ:
            time.sleep(0.02)
        return echo(environ, start_response)

    async def count_served(path):
        gate = make_gate(sleep, threads=2, wait_seconds=10)
        # These show how long a request takes.
        await send_many(gate, [path] * 16)
        answers, _ = await send_many(gate, [path] * 100)
        return answers.count((200, b""))

    assert run(count_served("/quick")) == 100
    # In this time two threads work on 5 of these, beside the two that run.
    monkeypatch.setattr(gateway, "MAX_DELAY_SECONDS", 0.05)
    assert 4 <= run(count_served("/slow")) <= 14


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
def test_watchers_are_answered_when_no_thread_is_free(path):
    busy = Busy()

    async def watch():
        gate = make_gate(busy, threads=1, max_waiting=1)
        begun = await begin(gate, busy, ["/busy"] * 2, held=1)
        answer = await send_request(gate, path=path, method="GET")
        busy.free.set()
        await asyncio.gather(*begun)
        return answer

    assert run(watch()) == (200, b"")


def test_readyz_is_answered_while_figures_are_read():
    reads = threading.Event()
    ended = threading.Event()

    def application(environ, start_response):
        if environ["PATH_INFO"] == "/metrics":
            reads.set()
            ended.wait(10)
        return echo(environ, start_response)

    async def watch():
        gate = make_gate(application)
        figures = asyncio.create_task(send_request(gate, path="/metrics", method="GET"))
        await asyncio.to_thread(reads.wait, 10)
        answer = await send_request(gate, path="/readyz", method="GET")
        ended.set()
        await figures
        return answer

    assert run(watch()) == (200, b"")


def test_refusals_that_are_slow_end_in_answers():
    def slow(environ, start_response):
        time.sleep(0.02)
        return echo(environ, start_response)

    async def refuse_many():
        gate = make_gate(slow, max_waiting=0)
        statuses = []

        async def send(message):
            statuses.extend([message["status"]] if "status" in message else [])

        for _ in range(2):
            visits = (gate(scope("/", method="GET"), None, send) for _ in range(8))
            await asyncio.gather(*visits)
        return statuses

    assert len(run(refuse_many())) == 16


@pytest.mark.parametrize(
    ("path", "content_type"),
    [
        ("/api/v1/reports", "application/problem+json"),
        ("/c/secret", "text/plain; charset=utf-8"),
    ],
)
def test_many_refusals_are_brief(monkeypatch, path, content_type):
    monkeypatch.setattr(gateway, "MAX_OVERLOAD_REFUSALS", 0)
    sent = []

    async def send(message):
        sent.append(message)

    async def refuse():
        gate = make_gate(echo, refuse_briefly=refuse_briefly, max_waiting=0)
        key = [(b"authorization", b"Bearer vrf_test_x")]
        await gate(scope(path, key, "GET"), None, send)

    run(refuse())

    start, body = sent
    headers = {name.decode(): value.decode() for name, value in start["headers"]}
    assert start["status"] == 503
    assert headers["content-type"] == content_type
    assert 1 <= int(headers["retry-after"]) <= 10
    assert "default-src 'none'" in headers["content-security-policy"]
    assert b"secret" not in body["body"]
    if path.startswith("/api/"):
        problem = json.loads(body["body"])
        assert (problem["code"], problem["instance"]) == ("overloaded", path)
        assert headers["x-request-id"] == problem["requestId"]
        assert headers["x-service-sandbox"] == "true"


@pytest.mark.parametrize(
    ("language", "words"),
    [("en", "it did not arrive"), ("sw", "haikufika")],
)
def test_refused_page_says_that_a_form_did_not_arrive(client, language, words):
    page = client.post(
        "/c/x", headers={"Accept-Language": language}, **{REFUSAL: "overloaded"}
    )

    assert page.status_code == 503
    assert words in page.content.decode()
    assert 1 <= int(page["Retry-After"]) <= 10


def test_refused_call_of_the_api_is_a_problem(client):
    answer = client.get("/api/v1/reports", **{REFUSAL: "overloaded"})

    assert (answer.status_code, answer.json()["code"]) == (503, "overloaded")
    assert 1 <= int(answer["Retry-After"]) <= 10


def test_streamed_answer_is_sent_piece_by_piece():
    class Pieces(list):
        streaming = True
        is_closed = False

        def close(self):
            self.is_closed = True

    pieces = Pieces([b"one,", b"two"])

    def streamed(environ, start_response):
        start_response("200 OK", [])
        return pieces

    assert run(send_request(make_gate(streamed), method="GET")) == (200, b"one,two")
    assert pieces.is_closed


class Numbers:
    """An endless answer."""

    streaming = True
    is_long = True

    def __init__(self):
        self.made, self.is_closed = 0, False

    def __iter__(self):
        return self

    def __next__(self):
        self.made += 1
        return b"%d," % self.made

    def close(self):
        self.is_closed = True


def endless(numbers):
    def answer(environ, start_response):
        if environ["PATH_INFO"] != "/numbers":
            return echo(environ, start_response)
        start_response("200 OK", [])
        return numbers

    return answer


def test_answers_are_made_while_slow_clients_read_long_ones(monkeypatch):
    monkeypatch.setattr(gateway, "PIECE_SECONDS", 0.2)
    reading = []

    async def read_nothing():
        async def receive():
            await asyncio.Event().wait()

        async def send(message):
            if message["type"] == "http.response.body":
                reading.append(message)
                await asyncio.Event().wait()

        await gate(scope("/numbers", method="GET"), receive, send)

    async def with_readers():
        readers = [asyncio.create_task(read_nothing()) for _ in range(20)]
        while len(reading) < len(readers):
            await asyncio.sleep(0.001)
        answer = await send_request(gate)
        ends = await asyncio.gather(*readers, return_exceptions=True)
        return answer, ends

    numbers = Numbers()
    gate = make_gate(endless(numbers), threads=1)
    answer, ends = run(with_readers())

    assert answer[0] == 200
    # A client that stops reading loses the rest.
    assert {type(end) for end in ends} == {TimeoutError}
    assert numbers.is_closed


def test_long_answer_ends_when_its_client_has_gone():
    async def leave():
        left = asyncio.Event()

        async def receive():
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(message):
            if numbers.made == 3:
                left.set()
                await asyncio.sleep(0)

        await asyncio.wait_for(gate(scope("/numbers", method="GET"), receive, send), 5)

    numbers = Numbers()
    gate = make_gate(endless(numbers))
    run(leave())

    assert numbers.is_closed
    assert numbers.made < 10


def test_header_with_an_underscore_is_dropped():
    headers = [
        (b"x_forwarded_for", b"203.0.113.9"),
        (b"x-forwarded-for", b"192.0.2.7"),
        (b"x_forwarded_proto", b"https"),
        (b"content_length", b"7"),
    ]

    environ = build_environ(scope(headers=headers))

    assert environ["HTTP_X_FORWARDED_FOR"] == "192.0.2.7"
    assert not {"HTTP_X_FORWARDED_PROTO", "CONTENT_LENGTH"} & environ.keys()


def test_environ_keeps_bytes_that_are_not_utf_8():
    headers = [(b"cookie", b"a=1"), (b"cookie", b"b=2"), (b"x-name", b"\xc3\xa9\xff")]

    environ = build_environ(scope("/a%00%ff/%2F", headers=headers))

    assert environ["PATH_INFO"] == "/a\x00\xff//"
    assert environ["HTTP_COOKIE"] == "a=1; b=2"
    assert environ["HTTP_X_NAME"].encode("latin-1") == b"\xc3\xa9\xff"
