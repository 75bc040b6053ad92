"""Two hosts, and a PostgreSQL with its synchronous standby, each on its own machine.

The tests may run in any order; after the failover the former standby serves the others.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
import pytest
import requests
from urllib3.exceptions import NewConnectionError

from tests.fakes.metropol import PRIVATE, PUBLIC, FakeMetropol
from tests.fakes.smile_id import KEY, PARTNER, FakeSmileId
from tests.service.conftest import Client
from tests.service.test_paid_calls import assert_nothing_was_paid_twice
from tests.world.clients import person
from tests.world.database import dump_as_migrated
from tests.world.machines import (
    PORT,
    DatabaseServer,
    Host,
    Network,
    database_folder,
    missing_tools,
)
from verification.db.ids import uuid7

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(500),
]

FAKETIME = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
BATCH = 20
log = logging.getLogger(__name__).warning
# Work goes on within this time after each fault.
GOES_ON_SECONDS = 90
DONE_SECONDS = 180
# Workers run the schedules every 30 seconds.
HANGING_SECONDS = 38
ENDED = """
SELECT count(*) FROM checks_checkresult r JOIN reports_report p ON p.id = r.report_id
WHERE p.workspace_id = %s AND r.completed_at IS NOT NULL
"""
REPORTS = "SELECT id::text FROM reports_report WHERE workspace_id = %s"
CHARGES = """
SELECT count(*), count(DISTINCT result_id) FROM workspaces_ledgerentry
JOIN workspaces_account a ON a.id = account_id
WHERE a.workspace_id = %s AND kind = 'CHARGE'
"""
# Rows whose times lie in the future, and messages to receivers.
AHEAD = """
SELECT
    (SELECT count(*) FROM reports_report
        WHERE workspace_id = %s AND greatest(created_at, completed_at) > now()),
    (SELECT count(*) FROM webhooks_event WHERE workspace_id = %s AND created_at > now())
"""
# An event for each report that has ended, whether or not all its checks succeeded.
ENDS = """
SELECT report_id::text FROM webhooks_event
WHERE workspace_id = %s AND name IN ('report.ready', 'report.failed')
"""


class Machines:
    """The machines of this test, and the sources, which count their requests."""

    def __init__(self, folder: Path, exits: ExitStack) -> None:
        dump = folder / "migrated.sql"
        dump_as_migrated(dump)
        network = exits.enter_context(Network())
        self.primary, self.standby = (
            DatabaseServer(network.add(), database_folder(folder, name))
            for name in ("primary", "standby")
        )
        exits.callback(self.standby.kill)
        exits.callback(self.primary.kill)
        self.primary.create()
        self.primary.start()
        self.standby.copy(self.primary)
        self.standby.start()
        self.metropol, self.smile_id = FakeMetropol(), FakeSmileId()
        self.metropol.anybody = (700, "003")
        for fake in (self.metropol, self.smile_id):
            fake.address = network.address
            exits.enter_context(fake)
        servers = (
            f"{self.primary.machine.address}:{PORT},{self.standby.machine.address}"
        )
        self.database_url = f"postgresql://postgres@{servers}:{PORT}/postgres"
        self.hosts = [Host(network.add(), folder, self.database_url) for _ in range(2)]
        for host in self.hosts:
            exits.callback(host.kill_web)
            exits.callback(host.kill_jobs)
            host.set_environment(
                SMILE_ID_PARTNER_ID=PARTNER,
                SMILE_ID_API_KEY=KEY,
                SMILE_ID_URL=self.smile_id.url,
                METROPOL_PUBLIC_KEY=PUBLIC,
                METROPOL_PRIVATE_KEY=PRIVATE,
                METROPOL_URL=f"{self.metropol.url}/v2_1",
                SOURCE_DEV_HOSTS=f"{self.smile_id.host},{self.metropol.host}",
            )
        first = self.hosts[0]
        self.primary.fill(dump)
        first.manage("setup_checks")
        first.manage("setup_schedules")
        # From here on the primary acknowledges only what the standby has.
        self.await_standby("standby")
        for host in self.hosts:
            host.start()

    def promote(self) -> None:
        """Promote the standby; the two servers change their names."""
        self.standby.promote()
        self.primary, self.standby = self.standby, self.primary

    def replicate(self) -> None:
        """Let commits wait for a standby, which is rebuilt if it follows no more."""
        if not self._is_followed():
            self.await_standby("")
            self.standby.kill()
            self.standby.clear()
            self.standby.copy(self.primary)
            self.standby.start()
        self.await_standby("standby")

    def await_standby(self, names: str) -> None:
        """Let commits wait for standbys of these names; setting it commits nothing."""
        with self.primary.connect() as server:
            server.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
            server.execute("SELECT pg_reload_conf()")

    def _is_followed(self) -> bool:
        with self.primary.connect() as server:
            return bool(
                server.execute(
                    "SELECT FROM pg_stat_replication WHERE state = 'streaming'"
                ).fetchone()
            )

    def log(self) -> str:
        return self.hosts[0].log()

    def rows(self, statement: str, workspace: str) -> list[Any]:
        with self.hosts[0].connect() as connection:
            return connection.execute(statement, [workspace]).fetchall()


@pytest.fixture(scope="module")
def machines(database_server: None) -> Iterator[Machines]:
    if reason := missing_tools():
        pytest.skip(reason)
    # The user that PostgreSQL runs as cannot open pytest's folder.
    with TemporaryDirectory() as folder, ExitStack() as exits:
        yield Machines(Path(folder), exits)


class Load(threading.Thread):
    """A client that orders reports, and repeats what was not answered elsewhere.

    It behaves like a proxy in front of the hosts: after a refused connection, or an
    answer 503, the next host gets the same request with the same key.
    """

    def __init__(self, machines: Machines, first: int, count: int) -> None:
        super().__init__(daemon=True)
        self._machines = machines
        self.stopping = False
        self._client = Client(machines.hosts[0], "production")
        self.workspace = self._client.workspace
        amount = f"--amount={1000 * count}"
        environment = "--environment=production"
        machines.hosts[0].manage("top_up", self.workspace, environment, amount)
        with machines.hosts[0].connect() as connection:
            connection.execute(
                "UPDATE workspaces_apikey SET creates_per_minute = 1000000,"
                " requests_per_minute = 1000000"
            )
        self._numbers = [str(first + 10 * n) for n in range(count)]
        self.count = count
        self.acknowledged: list[str] = []
        # What the client saw besides success.
        self.seen: Counter[str] = Counter()
        # The requests whose connection ended before an answer.
        self.broken: list[tuple[Host, str]] = []
        self.wrong: list[str] = []

    def run(self) -> None:
        while not self.stopping and (
            left := self._numbers[len(self.acknowledged) :][:BATCH]
        ):
            checks = {"checksRequested": ["IDENTITY", "CRB_SCORE"]}
            self._order([{**person(idNumber=n), **checks} for n in left])

    def _order(self, items: list[Any]) -> None:
        key, host = str(uuid7()), len(self.acknowledged) // BATCH
        while not self.stopping:
            answer = self._post(self._machines.hosts[host % 2], items, key)
            if answer is not None and answer.status_code == 201:
                ordered = [report["id"] for report in answer.json()["reports"]]
                self.acknowledged += ordered
                # An answer can be read on any host at once.
                self._read(self._machines.hosts[(host + 1) % 2], ordered[0])
                return
            time.sleep(0.1)
            host += 1

    def _post(self, host: Host, items: list[Any], key: str) -> Any:
        headers = {"Idempotency-Key": key}
        return self._request(host, "POST", "/reports", {"reports": items}, headers)

    def _read(self, host: Host, report: str) -> None:
        self._request(host, "GET", f"/reports/{report}")

    def _request(
        self,
        host: Host,
        method: str,
        path: str,
        body: Any = None,
        headers: dict[str, str] | None = None,
    ) -> Any:
        sent = {"Authorization": f"Bearer {self._client.key}", **(headers or {})}
        sent["Connection"], sent["X-Request-Id"] = "close", str(uuid7())
        url = f"{host.url}/api/v1{path}"
        try:
            answer = requests.request(
                method, url, json=body, headers=sent, timeout=(2, 15)
            )
        except requests.ConnectionError as e:
            refused = isinstance(getattr(e.args[0], "reason", None), NewConnectionError)
            if not refused:
                self.broken.append((host, sent["X-Request-Id"]))
            self.seen["refused" if refused else f"broken by {host.machine.name}"] += 1
            return None
        except requests.Timeout:
            self.seen[f"silence of {host.machine.name}"] += 1
            return None
        if answer.status_code == 503:
            self.seen["503"] += 1
            if not answer.headers.get("Retry-After"):
                self.wrong.append("503 without Retry-After")
        elif answer.status_code == 409 and "in-progress" in answer.text:
            self.seen["409 in progress"] += 1
        elif not answer.ok:
            said = f"{answer.status_code} {answer.text[:300]}"
            self.wrong.append(f"{said} {host.log()}")
        return answer


def wait_until(
    condition: Callable[[], bool], seconds: float, machines: Machines
) -> float:
    """Wait for the condition, and return the seconds that it took."""
    began = time.monotonic()
    while not condition():
        waited = time.monotonic() - began
        assert waited < seconds, machines.log()[-3000:]
        time.sleep(0.1)
    return time.monotonic() - began


def ended_checks(machines: Machines, load: Load) -> int:
    """Return how many checks have ended, or -1 while the server does not answer."""
    try:
        with machines.primary.connect() as server:
            found = server.execute(ENDED, [load.workspace]).fetchall()
            return int(found[0][0])
    except psycopg.OperationalError:
        return -1


def wait_for_progress(
    machines: Machines, load: Load, before: int | None = None
) -> float:
    """Wait until more checks have ended than `before`, by default than now."""
    if before is None:
        before = max(ended_checks(machines, load), 0)
    return wait_until(
        lambda: ended_checks(machines, load) > before, GOES_ON_SECONDS, machines
    )


def assert_nothing_is_lost_or_twice(machines: Machines, load: Load) -> int:
    """Check everything about the load's reports; return how many calls are in doubt."""
    load.join(DONE_SECONDS)
    checks = 2 * load.count
    wait_until(lambda: ended_checks(machines, load) == checks, DONE_SECONDS, machines)
    assert load.wrong == []
    assert len(set(load.acknowledged)) == len(load.acknowledged) == load.count
    stored = {report for (report,) in machines.rows(REPORTS, load.workspace)}
    assert stored == set(load.acknowledged)
    assert machines.rows(CHARGES, load.workspace) == [(checks, checks)]
    told = [report for (report,) in machines.rows(ENDS, load.workspace)]
    assert sorted(told) == sorted(load.acknowledged)
    machines.hosts[0].manage("audit_ledger")
    return assert_nothing_was_paid_twice(
        machines.hosts[0], load, machines.smile_id, machines.metropol, load.count
    )


@pytest.fixture
def order(machines: Machines) -> Iterator[Callable[[int, int], Load]]:
    """Start a load of reports, whose sources answer slowly enough to be interrupted."""
    machines.smile_id.jobs.clear()
    machines.metropol.requests.clear()
    machines.smile_id.faults.slow = machines.metropol.faults.slow = 0.2
    loads = []

    def start(first: int, count: int) -> Load:
        load = Load(machines, first, count)
        loads.append(load)
        load.start()
        wait_until(lambda: ended_checks(machines, load) > 20, DONE_SECONDS, machines)
        return load

    yield start
    for load in loads:
        load.stopping = True
        load.join()


def test_host_that_is_cut_off_costs_nothing(machines, order):
    load = order(50_000_009, 200)
    cut, other = machines.hosts

    cut.machine.cut()
    took = wait_for_progress(machines, load)
    # Longer than its leases, so that the other host has taken over its checks.
    time.sleep(10)
    cut.machine.connect()

    doubts = assert_nothing_is_lost_or_twice(machines, load)
    log(f"went on after {took:.1f} s; {doubts} calls in doubt; {load.seen}")
    assert not any(other.machine.name in seen for seen in load.seen)


@pytest.fixture(scope="class")
def patient(machines: Machines) -> Iterator[None]:
    """Run the hosts with the default lease of checks; that of other tests is shorter.

    A check whose worker is silent for longer counts as dead, and its call as in doubt.
    """
    with ExitStack() as exits:
        for host in machines.hosts:
            changed = host.changed(web=False, CHECK_LEASE_SECONDS="60")
            exits.enter_context(changed)
        yield


@pytest.fixture
def wrong_clock(machines: Machines) -> Iterator[Host]:
    """Run the second host with a clock that is five minutes fast."""
    host = machines.hosts[1]
    wrong = {
        "LD_PRELOAD": str(FAKETIME),
        "FAKETIME": "+300",
        "DONT_FAKE_MONOTONIC": "1",
    }
    for variables in (wrong, {"LD_PRELOAD": ""}):
        # Killed, because libfaketime breaks the sleep of an orderly stop.
        host.kill_web()
        host.kill_jobs()
        host.set_environment(**variables)
        host.start()
        if variables is wrong:
            yield host


@pytest.mark.usefixtures("patient")
class TestPatientHosts:
    def test_commits_that_hang_interrupt_no_call(self, machines, order):
        """The only synchronous standby is cut off for longer than schedules pause.

        The remedy is that of the runbook: commits no longer wait for it.
        """
        machines.replicate()
        load = order(55_000_009, 200)
        killed = restarts(machines)

        machines.standby.machine.cut()
        time.sleep(HANGING_SECONDS)
        ready = [readiness(host) for host in machines.hosts]
        hung = ended_checks(machines, load)
        machines.await_standby("")
        took = wait_for_progress(machines, load, before=hung)
        ready_again = [readiness(host) for host in machines.hosts]
        machines.standby.machine.connect()

        doubts = assert_nothing_is_lost_or_twice(machines, load)
        log(f"{hung} of {2 * load.count} checks had ended; went on after {took:.1f} s")
        assert hung < 2 * load.count
        assert doubts == 0
        assert restarts(machines) == killed
        # Nothing is ready that no commit comes through. A host whose threads all wait
        # for one cannot ask the database.
        assert {code for code, _ in ready} == {503}
        assert {database for _, database in ready} <= {"writes wait", "does not answer"}
        assert ready_again == [(200, "ok")] * 2

    def test_primary_server_that_vanishes_is_replaced_by_its_standby(
        self, machines, order
    ):
        """Its machine sends no packet any more; nobody learns of ended connections."""
        machines.replicate()
        load = order(65_000_009, 200)
        killed = restarts(machines)

        machines.primary.machine.cut()
        # Statements are on their way to it.
        time.sleep(2)
        machines.promote()
        took = wait_for_progress(machines, load)
        # The former primary server must not come back as one.
        machines.standby.kill()
        machines.standby.machine.connect()

        doubts = assert_nothing_is_lost_or_twice(machines, load)
        log(f"went on after {took:.1f} s; {doubts} calls in doubt; {load.seen}")
        assert took < 60
        assert set(load.seen) <= {"503", "409 in progress"}
        assert doubts == 0
        assert restarts(machines) == killed

    def test_web_servers_restart_one_after_another_unnoticed(self, machines, order):
        load = order(70_000_009, 200)

        for host in machines.hosts * 2:
            host.stop_web()
            host.start_web()

        assert assert_nothing_is_lost_or_twice(machines, load) == 0
        log(load.seen)
        # A stopping server closes connections whose request it has not read yet.
        assert not [id for host, id in load.broken if id in host.log()]
        unread = {f"broken by {host.machine.name}" for host, _ in load.broken}
        assert set(load.seen) - unread <= {"503", "refused"}

    @pytest.mark.skipif(FAKETIME is None, reason="needs libfaketime")
    def test_clock_that_is_wrong_by_five_minutes_changes_nothing(
        self, machines, wrong_clock, order
    ):
        load = order(80_000_009, 200)

        assert assert_nothing_is_lost_or_twice(machines, load) == 0
        assert set(load.seen) == set()
        assert "this machine's clock is +300 s off" in wrong_clock.log()
        with machines.hosts[0].connect() as connection:
            ahead = connection.execute(AHEAD, [load.workspace] * 2).fetchone()
        assert ahead == (0, 0)


def readiness(host: Host) -> tuple[int, str]:
    answer = requests.get(f"{host.url}/readyz", timeout=60)
    return answer.status_code, answer.json()["database"]


def restarts(machines: Machines) -> int:
    return sum(host.log().count("it is killed") for host in machines.hosts)


def test_primary_server_is_replaced_by_its_standby(machines, order):
    machines.replicate()
    load = order(60_000_009, 200)

    machines.primary.kill()
    # A load that has ordered all before sees no fault.
    wait_until(
        lambda: bool(load.seen) or not load.is_alive(), GOES_ON_SECONDS, machines
    )
    machines.promote()
    took = wait_for_progress(machines, load)

    doubts = assert_nothing_is_lost_or_twice(machines, load)
    log(f"went on after {took:.1f} s; {doubts} calls in doubt; {load.seen}")
    assert set(load.seen) <= {"503", "409 in progress"}
