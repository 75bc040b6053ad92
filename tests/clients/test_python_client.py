"""The Python client against small servers that answer well, badly and newly.

Each test that sends runs with both clients: one is made of the other.
"""

import ast
import asyncio
import inspect
import os
import random
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from copy import deepcopy
from datetime import UTC, date, datetime, timedelta
from importlib import import_module
from io import StringIO
from itertools import islice
from operator import attrgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import standardwebhooks

from tests.clients.answering_server import Answer, AnsweringServer
from tests.clients.python_client import generate_client
from tests.world.receiver import Authority
from tests.world.receiver import authority as authority
from verification.api import reference
from verification.api.docs import document

KEY = "vrf_test_" + "0" * 38
PATH = "/api/v1/reports"
ORDER = {"subject": {"dateOfBirth": date(1990, 1, 31)}, "purpose": "Loan"}
SENT = {"subject": {"dateOfBirth": "1990-01-31"}, "purpose": "Loan"}


@pytest.fixture(scope="session")
def package() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(generate_client()))
        import verification_reports

        yield verification_reports


@pytest.fixture(autouse=True)
def _trusts_one_authority(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spare each client the reading of all authorities, which takes 25 ms."""
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))


@pytest.fixture
def pauses(package: Any, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Collect the seconds that clients would wait, and let no time pass."""
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    for module, name, sleep in (
        ("_client", "time", pauses.append),
        ("_async_client", "asyncio", pause),
    ):
        replaced = import_module(f"{package.__name__}.{module}")
        monkeypatch.setattr(replaced, name, SimpleNamespace(sleep=sleep))
    return pauses


@pytest.fixture(params=["sync", "async"])
def call(
    package: Any,
    pauses: list[float],
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., Any]:
    """Call something of a client, which adds no random time to its pauses."""
    monkeypatch.setattr(random, "uniform", lambda *limits: 0)

    def call(
        url: str, use: Callable[[Any], Any], limit: int | None = None, **options: Any
    ) -> Any:
        if request.param == "sync":
            with package.Client(KEY, url, **options) as client:
                found = use(client)
                items = hasattr(found, "__next__")
                return list(islice(found, limit)) if items else found

        async def run() -> Any:
            async with package.AsyncClient(KEY, url, **options) as client:
                found = use(client)
                if isinstance(found, Awaitable):
                    return await found
                items = []
                async for item in found:
                    items.append(item)
                    if len(items) == limit:
                        break
                return items

        return asyncio.run(run())

    return call


def example(method: str, path: str, status: str) -> Any:
    operation = document()["paths"][path][method]
    content = operation["responses"][status]["content"]["application/json"]
    answer = content["examples"]["Answer"]
    if "$ref" in answer:
        name = answer["$ref"].rpartition("/")[2]
        answer = document()["components"]["examples"][name]
    return deepcopy(answer["value"])


def wait(client: Any) -> Any:
    return client.reports.wait_until_completed("1")


def a_report(**members: Any) -> dict[str, Any]:
    return example("get", PATH + "/{reportId}", "200") | members


def problem(code: str, status: int, **members: Any) -> Answer:
    body = {"type": f"https://verify.test/problems/{code}", "title": "Refused"}
    body |= {"status": status, "detail": "No.", "instance": PATH, "code": code}
    body["requestId"] = "request-1"
    return Answer(body | members, status)


def test_reference_shows_calls_that_the_client_has(package):
    client = package.Client(KEY, "http://localhost:1")
    shown = [o for o in reference.operations().values() if reference.has_call(o)]

    assert len(shown) > 50
    for operation in shown:
        (line,) = ast.parse(reference.call(operation, "python")).body
        method = attrgetter(ast.unparse(line.value.func).removeprefix("client."))
        inspect.signature(method(client)).bind(*line.value.args)


def test_lost_answers_to_one_order_are_asked_for_with_one_key(call):
    created = Answer(example("post", PATH, "201"), 201)
    lost = [
        problem("rate-limited", 429),
        problem("unavailable", 503),
        Answer(created.body, 201, cut_at=40),
        problem("idempotency-in-progress", 409),
    ]
    with AnsweringServer(*lost, created) as server:
        report = call(server.url, lambda client: client.reports.create(ORDER))
        call(server.url, lambda client: client.reports.create(ORDER))

    assert report.status == "RUNNING"
    keys = [each.headers["idempotency-key"] for each in server.received]
    assert len(set(keys[:5])) == 1
    assert keys[5:] != keys[:1]
    assert len(keys) == 6
    assert server.received[0].body == {"reports": [SENT]}
    assert server.received[0].headers["authorization"] == f"Bearer {KEY}"


def test_answer_without_the_order_is_asked_for_again(call):
    nothing = Answer({"count": 0, "reports": []}, 201)
    with AnsweringServer(nothing, Answer(example("post", PATH, "201"), 201)) as server:
        report = call(server.url, lambda client: client.reports.create(ORDER))

    assert report.status == "RUNNING"
    assert len({each.headers["idempotency-key"] for each in server.received}) == 1


@pytest.mark.parametrize(
    "answer",
    [
        Answer({"id": "1"}, cut_at=5),
        problem("internal-error", 500),
        problem("unavailable", 503),
        Answer("<h1>Gateway</h1>", 502),
    ],
)
def test_request_without_a_key_is_not_sent_again_when_it_may_have_happened(
    call, package, answer: Answer
):
    with (
        AnsweringServer(answer) as server,
        pytest.raises((package.ConnectionFailed, package.Problem)) as failed,
    ):
        call(server.url, lambda client: client.reports.launch("1"))

    assert failed.value.may_have_happened
    assert len(server.received) == 1


@pytest.mark.parametrize("code", ["overloaded", "rate-limited"])
def test_launch_is_sent_again_when_nothing_has_happened(call, package, code: str):
    busy = problem(code, 503 if code == "overloaded" else 429)
    with AnsweringServer(busy, Answer(a_report()), busy) as server:
        report = call(server.url, lambda client: client.reports.launch("a/b"))
        with pytest.raises(package.Problem) as refused:
            call(server.url, lambda client: client.reports.launch("1"), max_retries=0)

    assert report.status == "READY"
    assert [each.path for each in server.received[:2]] == [PATH + "/a%2Fb/launch"] * 2
    assert not refused.value.may_have_happened


def test_refused_retry_says_that_an_earlier_attempt_may_have_happened(call, package):
    answers = [problem("unavailable", 503), problem("rate-limited", 429)]
    with AnsweringServer(*answers) as server, pytest.raises(package.Problem) as refused:
        call(server.url, lambda client: client.reports.create(ORDER), max_retries=1)

    assert refused.value.status == 429
    assert refused.value.may_have_happened


@pytest.mark.parametrize(
    ("before", "delete", "is_done"),
    [
        ([Answer("<h1>Gateway</h1>", 502)], "webhooks.delete_configuration", True),
        ([], "webhooks.delete_configuration", False),
        ([problem("overloaded", 503)], "webhooks.delete_configuration", False),
        ([Answer("<h1>Gateway</h1>", 502)], "reports.erase_subject", False),
    ],
)
def test_404_ends_a_delete_when_an_earlier_attempt_may_have_happened(
    call, package, before: list[Answer], delete: str, is_done: bool
):
    arguments = ["1"] if delete.startswith("reports") else []
    refused = nullcontext() if is_done else pytest.raises(package.Problem, match="404")
    with AnsweringServer(*before, problem("not-found", 404)) as server, refused:
        call(server.url, lambda client: attrgetter(delete)(client)(*arguments))

    assert len(server.received) == len(before) + 1


def test_retry_after_is_waited_for_unless_it_is_long(call, package, pauses):
    soon = problem("rate-limited", 429)
    soon.headers["Retry-After"] = "1"
    late = problem("rate-limited", 429)
    late.headers["Retry-After"] = "3600"
    with (
        AnsweringServer(soon, late) as server,
        pytest.raises(package.Problem) as refused,
    ):
        call(server.url, lambda client: client.reports.get("1"))

    assert pauses == [1]
    assert refused.value.retry_after == 3600
    assert len(server.received) == 2


@pytest.mark.parametrize("zone", ["GMT", "-0000", ""])
def test_retry_after_may_be_a_date(call, package, zone: str):
    late = problem("rate-limited", 429)
    late.headers["Retry-After"] = f"Fri, 01 Jan 2100 00:00:00 {zone}".strip()
    with (
        AnsweringServer(late) as server,
        pytest.raises(package.Problem) as refused,
    ):
        call(server.url, lambda client: client.reports.get("1"))

    assert refused.value.retry_after > 3600


@pytest.mark.parametrize("value", ["soon", "Fri, 01 Jan 2100 00:00:00 +" + "9" * 20])
def test_retry_after_that_is_neither_number_nor_date_is_none(call, package, value: str):
    refusal = problem("validation-failed", 400)
    refusal.headers["Retry-After"] = value
    with (
        AnsweringServer(refusal) as server,
        pytest.raises(package.Problem) as refused,
    ):
        call(server.url, lambda client: client.reports.create(ORDER))

    assert refused.value.retry_after is None


def test_problem_has_its_members_and_pointers(call, package):
    pointer = "#/reports/0/subject/idNumber"
    errors = [
        {"pointer": pointer, "code": "required", "detail": "Missing."},
        {"parameter": "size", "code": "of-a-newer-server", "detail": "No."},
    ]
    refusal = problem("validation-failed", 400, errors=errors)
    with (
        AnsweringServer(refusal) as server,
        pytest.raises(package.Problem) as refused,
    ):
        call(server.url, lambda client: client.reports.create(ORDER))

    error = refused.value
    assert (error.status, error.code) == (400, "validation-failed")
    assert error.type == "https://verify.test/problems/validation-failed"
    assert error.request_id == "request-1"
    assert error.pointers == [pointer, "size"]
    assert "request-1" in str(error)
    assert KEY not in str(error)


@pytest.mark.parametrize("status", [200, 407, 502])
def test_page_of_a_proxy_is_no_answer(call, package, status: int):
    with (
        AnsweringServer(Answer("<h1>Gateway</h1>", status)) as server,
        pytest.raises(package.VerificationError) as failed,
    ):
        call(server.url, lambda client: client.reports.get("1"), max_retries=1)

    assert str(status) in str(failed.value) or status == 200
    assert len(server.received) == (1 if status == 407 else 2)


def test_silent_and_absent_servers_are_connection_failures(call, package):
    with (
        AnsweringServer(Answer(silent=True)) as server,
        pytest.raises(package.ConnectionFailed, match="Timeout") as silent,
    ):
        call(
            server.url,
            lambda client: client.reports.launch("1"),
            timeout=httpx.Timeout(60, read=0.2),
        )
    with pytest.raises(package.ConnectionFailed, match=server.url) as absent:
        call(server.url, lambda client: client.reports.launch("1"))

    assert silent.value.may_have_happened
    assert not absent.value.may_have_happened


def test_proxy_of_the_environment_is_used(
    call, package, monkeypatch: pytest.MonkeyPatch
):
    with AnsweringServer(Answer(a_report())) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("NO_PROXY", "")
        report = call("http://verify.test", lambda client: client.reports.get("1"))

    assert report.status == "READY"
    assert proxy.received[0].path == f"http://verify.test{PATH}/1"


def test_answer_of_a_newer_server_is_read(call):
    newer = a_report(status="ARCHIVED", riskLevel="NONE", colour={"red": 1})
    newer["checkResults"][0] |= {"checkName": "PASSPORT", "status": "PAUSED", "new": []}
    newer["checkResults"][0]["flags"] = [
        {"code": "NEW", "severity": "SEVERE", "message": "New.", "shade": "dark"}
    ]
    newer["consentState"]["status"] = "SHARED"
    newer["checksRequested"] = ["PASSPORT"]
    with AnsweringServer(Answer(newer)) as server:
        report = call(server.url, lambda client: client.reports.get("1"))

    assert report.status == "ARCHIVED"
    assert report["colour"] == {"red": 1}
    assert report.checks_requested == ["PASSPORT"]
    assert report.check_results[0].flags[0].severity == "SEVERE"
    # Members are sorted otherwise; nothing is lost.
    assert report.to_dict()["checkResults"][0]["new"] == []


def test_pages_are_iterated_without_repeating_a_shifted_report(call):
    page = example("get", PATH, "200")
    first, second = ({**page["content"][0], "id": each} for each in "ab")
    pages = [
        Answer(page | {"content": [first], "last": False}),
        Answer(page | {"content": [first, second], "last": True}),
    ]
    with AnsweringServer(*pages) as server:
        found = call(server.url, lambda client: client.reports.iterate(status="READY"))

    assert [report.id for report in found] == ["a", "b"]
    assert server.received[1].path == f"{PATH}?page=1&size=20&status=READY"


def test_page_is_no_iterator(package):
    models = import_module(f"{package.__name__}.models")
    page = models.ReportPage.from_dict(example("get", PATH, "200"))

    with pytest.raises(TypeError, match="not iterable"):
        list(page)


def test_events_are_followed_from_page_to_page(call, package):
    stored = []

    async def store(cursor: str) -> None:
        stored.append(cursor)

    def follow(client: Any) -> Any:
        is_async = isinstance(client, package.AsyncClient)
        return client.events.follow(
            cursor="start",
            types=["a", "b"],
            store=store if is_async else stored.append,
        )

    page = example("get", "/api/v1/events", "200")
    first, second, third = ({**page["content"][0], "id": each} for each in "abc")
    pages = [
        page | {"content": [first, second], "nextCursor": "after-b", "hasMore": True},
        page | {"content": [], "nextCursor": "after-none", "hasMore": True},
        page | {"content": [third | {"event": "of.a.newer.server"}]},
    ]
    with AnsweringServer(*map(Answer, pages)) as server:
        found = call(server.url, follow, limit=3)

    assert [event.id for event in found] == ["a", "b", "c"]
    assert [event.cursor for event in found] == ["start", "after-b", page["nextCursor"]]
    assert found[2].name == "of.a.newer.server"
    assert found[0].timestamp == first["timestamp"]
    assert found[0].data == first["data"]
    cursors = [each.path.split("?")[1].split("&")[0] for each in server.received]
    assert cursors == ["cursor=start", "cursor=after-b", "cursor=after-none"]
    assert all("size=200" in each.path for each in server.received)
    assert stored == ["after-b", "after-none"]


@pytest.mark.parametrize("cursor", [None, "start"])
def test_follower_without_a_cursor_sends_since_with_each_page(call, cursor):
    since = datetime(2026, 1, 31, tzinfo=UTC)
    page = example("get", "/api/v1/events", "200")
    empty = Answer(page | {"content": [], "nextCursor": "middle", "hasMore": True})
    with AnsweringServer(empty, Answer(page)) as server:
        call(
            server.url,
            lambda client: client.events.follow(cursor=cursor, since=since),
            limit=1,
        )

    first, second = (each.path for each in server.received)
    assert ("since=2026-01-31" in first) == (cursor is None)
    assert "cursor=middle" in second
    assert ("since=2026-01-31" in second) == (cursor is None)


@pytest.mark.parametrize("status", ["READY", "FAILED", "CANCELLED", "PARTIAL"])
def test_wait_ends_with_every_end_of_a_report(call, status: str):
    with AnsweringServer(Answer(a_report(status=status))) as server:
        report = call(server.url, wait)

    assert report.status == status


def test_wait_goes_on_while_a_check_runs(call):
    running = a_report(status="NEW", completedAt=None)
    running["checkResults"][0]["status"] = "RUNNING"
    with AnsweringServer(Answer(running), Answer(a_report())) as server:
        report = call(server.url, wait)

    assert report.status == "READY"


def employment(**members: Any) -> dict[str, Any]:
    running = a_report(status="RUNNING", completedAt=None, **members)
    changes = {"checkName": "EMPLOYER_VERIFICATION", "status": "RUNNING"}
    running["checkResults"][0] |= changes
    return running


@pytest.mark.parametrize(
    ("kind", "members"),
    [
        ("launch", {"status": "DRAFT", "completedAt": None}),
        ("consent", {"status": "PENDING_CONSENT", "completedAt": None}),
        ("payment", {"status": "PENDING_PAYMENT", "completedAt": None}),
        ("reference", {}),
    ],
)
def test_wait_names_who_must_act(call, package, kind: str, members: dict[str, Any]):
    report = a_report(**members) if members else employment()
    report["consentState"]["consentUrl"] = "https://verify.test/consent"
    report["paymentState"]["paymentUrl"] = "https://verify.test/payment"
    timeline = example("get", PATH + "/{reportId}/events", "200")
    timeline["messages"][0]["kind"] = "REFERENCE_REQUEST"
    with (
        AnsweringServer(Answer(report), Answer(timeline)) as server,
        pytest.raises(package.ActionRequired) as required,
    ):
        call(server.url, wait)

    assert required.value.kind == kind
    if kind in {"consent", "payment"}:
        assert required.value.url == f"https://verify.test/{kind}"
        assert required.value.url in str(required.value)


def test_wait_for_a_decision_names_the_second_member(call, package):
    example_of = example("get", PATH + "/{reportId}/decisions", "200")["content"][0]
    proposed = Answer(a_report(proposedDecision=example_of))
    decided = Answer(a_report(decision=example_of))
    with (
        AnsweringServer(Answer(a_report()), proposed, decided) as server,
        pytest.raises(package.ActionRequired) as required,
    ):
        call(
            server.url,
            lambda client: client.reports.wait_until_completed("1", decided=True),
        )
    assert required.value.kind == "decision"


def test_wait_gives_up_with_the_last_state(call, package):
    running = a_report(status="RUNNING", completedAt=None)
    running["checkResults"] = []
    with (
        AnsweringServer(Answer(running)) as server,
        pytest.raises(package.WaitTimeout) as timeout,
    ):
        call(
            server.url,
            lambda client: client.reports.wait_until_completed("1", timeout=0.01),
        )

    assert timeout.value.report.status == "RUNNING"


def test_key_tells_the_environment_and_is_never_shown(package):
    with package.Client(KEY, "https://verify.test/api/v1/") as client:
        assert client.environment == "sandbox"
        assert repr(client) == "Client(https://verify.test, sandbox)"
    for key, url in [("sk_live_1", "https://verify.test"), (KEY, "verify.test")]:
        with pytest.raises(ValueError, match="must be"):
            package.Client(key, url)


def test_client_has_every_resource_of_the_document(package):
    operations = [o for path in document()["paths"].values() for o in path.values()]
    tags = {tag for operation in operations for tag in operation["tags"]}

    with package.Client(KEY, "https://verify.test") as client:
        assert {tag for tag in tags if not hasattr(client, tag)} == set()


SECRETS = ["correct-horse-battery-staple", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]
BODY = b'{"event": "report.new", "timestamp": "2026-11-27T08:00:00Z", "data": {"a": 1}}'


def signed(secret: str, moment: datetime) -> dict[str, str]:
    """Return the headers of a delivery, signed by the official library."""
    key = secret if secret.startswith("whsec_") else secret.encode()
    signature = standardwebhooks.Webhook(key).sign("event-1", moment, BODY.decode())
    return {
        "Webhook-Id": "event-1",
        "Webhook-Timestamp": str(int(moment.timestamp())),
        "Webhook-Signature": f"v1a,of-another-kind {signature}",
    }


@pytest.mark.parametrize("secret", SECRETS)
def test_webhook_is_verified_with_either_kind_of_secret(package, secret: str):
    headers = signed(secret, datetime.now(UTC))

    with package.Client(KEY, "https://verify.test") as client:
        for secrets in (secret, ["the-secret-before", secret]):
            event = client.webhooks.verify(BODY, headers, secrets)
            assert (event.id, event.name, event.data) == (
                "event-1",
                "report.new",
                {"a": 1},
            )


@pytest.mark.parametrize(
    ("body", "minutes", "change"),
    [
        (BODY + b" ", 0, {}),
        (BODY, -6, {}),
        (BODY, 6, {}),
        (BODY, 0, {"Webhook-Id": "event-2"}),
        (BODY, 0, {"Webhook-Signature": "v1,AAAA"}),
        (BODY, 0, {"Webhook-Signature": "v1,\u00e4"}),
        (BODY, 0, {"Webhook-Timestamp": "soon"}),
        (BODY, 0, {"Webhook-Timestamp": "9" * 5000}),
        (BODY, 0, {"Webhook-Id": ""}),
        (BODY, 0, {"Webhook-Id": "\udcff"}),
        (BODY, 0, {"Webhook-Signature": "v1,\ud800"}),
        ("\udcff", 0, {}),
    ],
)
def test_webhook_that_is_forged_or_old_is_refused(
    package, body: bytes | str, minutes: int, change: dict[str, str]
):
    headers = signed(SECRETS[0], datetime.now(UTC) + timedelta(minutes=minutes))

    with (
        package.Client(KEY, "https://verify.test") as client,
        pytest.raises(package.InvalidSignature),
    ):
        client.webhooks.verify(body, headers | change, SECRETS)


@pytest.mark.parametrize("secrets", ["", [], [SECRETS[0], ""], "whsec_"])
def test_webhook_is_not_verified_with_an_empty_secret(package, secrets: Any):
    with (
        package.Client(KEY, "https://verify.test") as client,
        pytest.raises(ValueError, match="empty"),
    ):
        client.webhooks.verify(BODY, signed(SECRETS[0], datetime.now(UTC)), secrets)


@pytest.mark.parametrize(
    "url",
    [
        "http://acacia.test",
        "http://localhost@acacia.test",
        "ftp://localhost",
        "http://localhost:port",
    ],
)
def test_events_are_forwarded_to_this_machine_alone(package, url: str):
    listening = import_module(f"{package.__name__}._listener")

    with pytest.raises(ValueError, match="localhost"):
        listening.local_url(url)
    assert listening.local_url("localhost:3000/hook") == "http://localhost:3000/hook"


@pytest.fixture
def stored(package: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What `vrf` keeps in files, in a home of its own."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return import_module(f"{package.__name__}._stored")


@pytest.mark.parametrize("content", ["", "[]", '{"api_key": '])
def test_damaged_file_of_vrf_is_named(stored, content: str, tmp_path: Path):
    stored.write_key(KEY, "https://verify.test")
    (file,) = tmp_path.glob("*/login.json")
    file.write_text(content)

    with pytest.raises(ValueError, match="is damaged"):
        stored.read_key()


def test_key_and_address_come_from_one_place(stored, monkeypatch: pytest.MonkeyPatch):
    stored.write_key(KEY, "https://stored.test")
    assert stored.read_key() == (KEY, "https://stored.test")

    given = {"API_KEY": "vrf_live_0", "BASE_URL": "https://given.test"}
    for name, value in given.items():
        with monkeypatch.context() as patch:
            patch.setenv(f"VERIFICATION_{name}", value)
            with pytest.raises(ValueError, match="both"):
                stored.read_key()
    for name, value in given.items():
        monkeypatch.setenv(f"VERIFICATION_{name}", value)
    assert stored.read_key() == tuple(given.values())


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize("typed", ["{url}\n\n", "\n{key}\n"])
def test_login_takes_nothing_of_the_environment(
    package, typed: str, monkeypatch: pytest.MonkeyPatch
):
    command = import_module(f"{package.__name__}.command")
    with AnsweringServer(Answer(example("get", "/api/v1/me", "200"))) as server:
        monkeypatch.setenv("VERIFICATION_API_KEY", KEY)
        monkeypatch.setenv("VERIFICATION_BASE_URL", server.url)
        lines = StringIO(typed.format(url=server.url, key=KEY))
        monkeypatch.setattr("sys.stdin", lines)
        assert command.main(["login"]) == 1

    assert server.received == []


def test_listener_stores_the_cursor_of_empty_pages(package, stored):
    listening = import_module(f"{package.__name__}._listener")
    empty = {"content": [], "nextCursor": "after-none", "hasMore": True}
    answers = [Answer(empty), problem("invalid-api-key", 401)]
    with AnsweringServer(*answers) as server, package.Client(KEY, server.url) as client:
        stored.Place(client.settings).move("start")
        with pytest.raises(package.Problem):
            listening.listen(client, "localhost:3000", ["report.failed"])

        assert stored.Place(client.settings).cursor == "after-none"


@pytest.mark.parametrize("status", [429, 500, 503])
def test_listener_goes_on_after_a_refusal_that_passes(
    package, stored, status: int, monkeypatch: pytest.MonkeyPatch
):
    listening = import_module(f"{package.__name__}._listener")
    monkeypatch.setattr(listening, "PAUSE_SECONDS", 0)
    answers = [problem("unavailable", status), problem("invalid-api-key", 401)]
    with (
        AnsweringServer(*answers) as server,
        package.Client(KEY, server.url, max_retries=0) as client,
    ):
        stored.Place(client.settings).move("start")
        with pytest.raises(package.Problem, match="invalid-api-key"):
            listening.listen(client, "localhost:3000", [])


def test_listener_begins_at_the_end_by_the_clock_of_the_service(package):
    listening = import_module(f"{package.__name__}._listener")
    date_of_service = {"Date": "Fri, 01 Jan 2021 00:00:00 GMT"}
    me = Answer(example("get", "/api/v1/me", "200"), headers=date_of_service)
    page = example("get", "/api/v1/events", "200")
    pages = [
        Answer(page | {"nextCursor": cursor, "hasMore": cursor != "end"})
        for cursor in ("middle", "end")
    ]
    with (
        AnsweringServer(me, *pages) as server,
        package.Client(KEY, server.url) as client,
    ):
        assert listening.newest_cursor(client) == "end"

    _, first, second = (each.path for each in server.received)
    assert "since=2020-12-31T23%3A59%3A00" in first
    assert "cursor=middle" in second


def test_vrf_lists_the_actions_of_the_sandbox(package, capsys):
    command = import_module(f"{package.__name__}.command")

    with pytest.raises(SystemExit):
        command.main(["trigger", "--help"])

    assert {"consent.grant,", "payment.dispute,", "reference.answer,"} <= {
        *capsys.readouterr().out.split()
    }


def test_vrf_refuses_a_negative_limit(package, capsys: pytest.CaptureFixture[str]):
    command = import_module(f"{package.__name__}.command")

    assert command.main(["reports", "list", "--limit", "-1"]) == 1
    assert capsys.readouterr().err == "vrf: --limit must be 0 or more\n"


@pytest.mark.slow
@pytest.mark.parametrize("command", ["list", "get 1"])
def test_vrf_ends_quietly_when_its_reader_has_enough(command: str):
    program = "import sys; from verification_reports.command import main; "
    program += f"sys.exit(main('reports {command}'.split()))"
    reading, writing = os.pipe()
    os.close(reading)
    page = example("get", PATH, "200") | {"last": True}
    answer = Answer(page if command == "list" else a_report())

    with AnsweringServer(answer) as server, os.fdopen(writing, "wb") as output:
        environment = {
            "PYTHONPATH": str(generate_client()),
            "VERIFICATION_API_KEY": KEY,
            "VERIFICATION_BASE_URL": server.url,
        }
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=environment,
            stdout=output,
            stderr=subprocess.PIPE,
            check=False,
        )

    assert (done.returncode, done.stderr) == (141, b"")


def test_assistant_prices_a_check_that_companies_need_another_input_for(package):
    server = import_module(f"{package.__name__}.mcp_server")
    definition = example("get", "/api/v1/checks/definitions/{checkName}", "200")
    number = {**definition["requiredInputs"][0], "required": False}
    definition["requiredInputs"] = [
        {**number, "key": "kraPin", "requiredFor": ["COMPANY"]},
        {**number, "key": "idNumber", "requiredFor": ["INDIVIDUAL"]},
    ]
    check = package.models.CheckDefinition.from_dict(definition)

    company = server.sample_subject([check], "COMPANY")
    assert company["kraPin"] == "A900000000Z"
    assert "idNumber" not in company
    assert server.sample_subject([check], "INDIVIDUAL")["idNumber"] == "90000000"


@pytest.mark.slow
def test_package_passes_strict_type_checks():
    strict = ["--strict", "--config-file=", "--cache-dir=/dev/null"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *strict, "verification_reports"],
        cwd=generate_client(),
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout
