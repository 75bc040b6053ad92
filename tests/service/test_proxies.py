"""nginx and Caddy in front of web servers that restart."""

import json
import subprocess
import threading
import time
from contextlib import ExitStack
from typing import Self

import pytest
import requests
from django.conf import settings

from tests.service.conftest import Client
from tests.world.clients import person
from tests.world.service import READY_SECONDS, Service, end_family, free_port
from tests.world.waiting import until
from tests.world.web_proxies import DEPLOY, Caddy, Nginx, WebProxy
from verification.api.problem_kinds import PROBLEM_KINDS
from verification.api.problems import MEDIA_TYPE
from verification.db.ids import uuid7
from verification.jobs.processes import parent_death_hook

pytestmark = pytest.mark.slow

AWAY_SECONDS = 1.5
MORE_SECONDS = 90
# Clients without a pause would slow the restart that they watch.
PAUSE_SECONDS = 0.1
# As in the unit of the web servers
DRAIN_SECONDS = 5
# Of two sites, with and without a body
CADDY_CHECKS = 4


class Orders(threading.Thread):
    """A client that orders through a proxy, and repeats each order answered by 503."""

    def __init__(self, proxy: WebProxy, key: str) -> None:
        super().__init__(daemon=True)
        self._url = f"{proxy.url}/api/v1/reports"
        self._authorization = {"Authorization": f"Bearer {key}"}
        self.stopping = False
        self.answers: list[requests.Response] = []
        self.failures: list[str] = []
        self.created: list[str] = []

    def run(self) -> None:
        while not self.stopping:
            try:
                self._order(str(uuid7()))
            except requests.RequestException as e:
                self.failures.append(repr(e))
            time.sleep(PAUSE_SECONDS)

    def _order(self, key: str) -> None:
        sent = {**self._authorization, "Idempotency-Key": key, "X-Request-Id": key}
        while True:
            answer = requests.post(
                self._url, json={"reports": [person()]}, headers=sent, timeout=60
            )
            self.answers.append(answer)
            if answer.status_code == 201:
                self.created += [report["id"] for report in answer.json()["reports"]]
            if answer.status_code != 503:
                return
            time.sleep(0.1)

    def statuses(self) -> set[int]:
        return {answer.status_code for answer in self.answers}


class Reads(threading.Thread):
    """A client that reads by way of a proxy until it is stopped."""

    def __init__(self, proxy: WebProxy) -> None:
        super().__init__(daemon=True)
        self._url = f"{proxy.url}/api/v1/schema"
        self.stopping = False
        self.statuses: set[int] = set()

    def run(self) -> None:
        while not self.stopping:
            answer = requests.get(self._url, timeout=90)
            self.statuses.add(answer.status_code)
            time.sleep(PAUSE_SECONDS)


# Without the time in which a busy machine starts the service.
@pytest.mark.timeout(400, func_only=True)
def test_orders_during_a_restart_get_201_or_503_with_retry_after(
    service: Service, unlimited_client: Client
):
    before = count_reports(service, unlimited_client)
    with ExitStack() as exits:
        nginx, caddy = (
            exits.enter_context(kind(service.port)) for kind in (Nginx, Caddy)
        )
        orders = [Orders(proxy, unlimited_client.key) for proxy in (nginx, caddy)]
        reads = Reads(caddy)
        threads = [*orders, reads]
        for thread in threads:
            thread.start()
        wait_for_more_created(orders)

        service.stop_web()
        try:
            time.sleep(AWAY_SECONDS)
            pages = [
                requests.post(f"{proxy.url}/c/x", {"a": "b"}, timeout=60)
                for proxy in (nginx, caddy)
            ]
        finally:
            service.start_web()
        wait_for_more_created(orders)
        for thread in threads:
            thread.stopping = True
        for thread in threads:
            thread.join(90)

    for order in orders:
        assert order.failures == []
        assert order.statuses() == {201, 503}
        assert len(order.created) == len(set(order.created))
        for answer in order.answers:
            if answer.status_code == 503:
                assert_problem(answer)
    # Requests without a body wait for the web server.
    assert reads.statuses == {200}
    stored = count_reports(service, unlimited_client) - before
    assert stored == sum(len(order.created) for order in orders)
    for page in pages:
        assert page.status_code == 503
        assert int(page.headers["Retry-After"]) > 0
        assert page.headers["Content-Type"].startswith("text/html")
        assert page.text == (DEPLOY / "away.html").read_text()


class WebServers:
    """Two web servers of the service on ports of their own, as the units run them."""

    def __init__(self, service: Service) -> None:
        self.ports = [free_port(), free_port()]
        self._service = service
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        for port in self.ports:
            self.start(port)
        return self

    def __exit__(self, *exc: object) -> None:
        for process in self._processes.values():
            end_family(process, kill=True)

    def start(self, port: int) -> None:
        self._processes[port] = subprocess.Popen(
            self._service.command("-m", "verification.web.server"),
            cwd=settings.BASE_DIR,
            env=self._service.environment
            | {"PORT": str(port), "WEB_DRAIN_SECONDS": str(DRAIN_SECONDS)},
            preexec_fn=parent_death_hook(),
        )
        deadline = time.monotonic() + READY_SECONDS
        while True:
            try:
                requests.get(f"http://127.0.0.1:{port}/healthz", timeout=5)
                return
            except requests.RequestException:
                assert time.monotonic() < deadline
                time.sleep(0.1)

    def restart(self, port: int) -> None:
        end_family(self._processes[port], kill=False)
        self.start(port)


@pytest.mark.timeout(500, func_only=True)
def test_restart_of_one_web_server_after_the_other_refuses_no_order(
    service: Service, unlimited_client: Client
):
    with ExitStack() as exits:
        servers = exits.enter_context(WebServers(service))
        _, caddy = proxies = [
            exits.enter_context(kind(*servers.ports)) for kind in (Nginx, Caddy)
        ]
        orders = [Orders(proxy, unlimited_client.key) for proxy in proxies]
        reads = [Reads(proxy) for proxy in proxies]
        threads = [*orders, *reads]
        for thread in threads:
            thread.start()
        for port in servers.ports:
            wait_for_more_created(orders)
            servers.restart(port)
            # nginx asks no server; Caddy asks each second.
            up = f'"msg":"host is up","host":"127.0.0.1:{port}"'
            until(lambda up=up: caddy.log().count(up) >= CADDY_CHECKS, caddy.log)
        wait_for_more_created(orders)
        for thread in threads:
            thread.stopping = True
        for thread in threads:
            thread.join(90)

    assert [order.failures for order in orders] == [[], []]
    assert [order.statuses() for order in orders] == [{201}, {201}]
    assert [read.statuses for read in reads] == [{200}, {200}]


@pytest.mark.parametrize("kind", [Nginx, Caddy])
def test_answer_to_a_large_body_without_a_key_comes_through_a_proxy(service, kind):
    service.start_web()
    with kind(service.port) as proxy:
        answers = [
            requests.post(f"{proxy.url}/api/v1/reports", b"x" * 9_900_000, timeout=60)
            for _ in range(10)
        ]

    assert {answer.status_code for answer in answers} == {401}


def count_reports(service: Service, client: Client) -> int:
    with service.connect() as connection:
        (number,) = connection.execute(
            "SELECT count(*) FROM reports_report WHERE workspace_id = %s",
            [client.workspace],
        ).fetchone() or (0,)
    return int(number)


def wait_for_more_created(orders: list[Orders]) -> None:
    """Wait until each client has had three more orders accepted."""
    wanted = [len(order.created) + 3 for order in orders]
    until(
        lambda: all(len(o.created) >= n for o, n in zip(orders, wanted, strict=True)),
        seconds=MORE_SECONDS,
    )


def assert_problem(answer: requests.Response) -> None:
    """Check that a proxy's own problem looks like those of the service."""
    kind = PROBLEM_KINDS["unavailable"]
    body = json.loads(answer.text)
    assert answer.headers["Content-Type"] == MEDIA_TYPE
    assert int(answer.headers["Retry-After"]) > 0
    assert (body["title"], body["status"], body["code"]) == (
        kind.title,
        kind.status,
        kind.code,
    )
    assert body["type"].endswith("/problems/unavailable")
    assert body["instance"] == "/api/v1/reports"
    sent = answer.request.headers["X-Request-Id"]
    assert body["requestId"] == answer.headers["X-Request-Id"] == sent


@pytest.mark.parametrize("kind", [Nginx, Caddy])
def test_log_of_a_proxy_holds_no_token_of_a_link(kind: type[WebProxy]):
    with kind(9) as proxy:
        for path in ("/c/t0ken", "/console/?next=t0ken"):
            answer = requests.post(
                proxy.url + path,
                data="{}",
                headers={"Referer": f"{proxy.url}/c/t0ken"},
                timeout=60,
            )
            assert answer.status_code == 503
    assert "t0ken" not in proxy.log()


@pytest.mark.parametrize("kind", [Nginx, Caddy])
def test_problem_of_a_proxy_holds_no_text_of_the_client(kind: type[WebProxy]):
    with kind(9) as proxy:
        for path in ("/api/v1/%22,%22x", '/api/v1/a"b\\', "/api/v1/x?a=%22"):
            answer = requests.post(
                proxy.url + path,
                data="{}",
                headers={"X-Request-Id": '"}, "x'},
                timeout=60,
            )

            body = json.loads(answer.text)
            assert body["code"] == "unavailable"
            assert set(body["instance"]) <= set("/apiv1x%22,bCQ5abc")
            assert '"' not in body["requestId"]
            assert len(body["requestId"]) > 20
