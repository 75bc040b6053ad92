"""kill -9 of random processes of the service, again and again, under load.

A client orders reports, a payer pays some of them, and a receiver gets every event. At
the end nothing that was acknowledged may be lost, done twice or late. BENCH_KILLS sets
the number of kills. The bench runs only if it is named.
"""

from __future__ import annotations

import json
import os
import random
import re
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Any

import psutil
import psycopg
import requests

from benchmarks import orders
from benchmarks.deliveries import SECRET, Receiver
from benchmarks.figures import Figure, bench
from benchmarks.recovery import Run, RunEnded
from benchmarks.service import Service
from verification.db import embedded

KILLS = int(os.environ.get("BENCH_KILLS") or 1_000)
# Between two kills
PAUSES = 0.3, 3.0
# The kills that hit the whole database, and the process that starts all others
POSTMASTER, RUN = 0.03, 0.02
MAX_LATE_SECONDS = 90
DONE_SECONDS = 180
EVENTS = ["report.created", "report.ready", "check.completed", "payment.paid"]

LEFT = """
SELECT status, count(*) FROM reports_report WHERE status <> 'READY' GROUP BY 1"""
UNDELIVERED = """
SELECT status, count(*) FROM webhooks_delivery WHERE status <> 'DELIVERED' GROUP BY 1"""
REPORTS = "SELECT id::text FROM reports_report"
# What has happened twice, or not at all
FAULTS = {
    "check results that are not complete": """
SELECT id FROM checks_checkresult WHERE status <> 'COMPLETED'""",
    "check results that were answered twice": """
SELECT id FROM checks_checkresult WHERE attempt > 1""",
    "check results without one charge": """
SELECT r.id FROM checks_checkresult r JOIN reports_report p ON p.id = r.report_id
LEFT JOIN workspaces_ledgerentry e ON e.result_id = r.id AND e.kind = 'CHARGE'
WHERE p.payment_mode = 'SELF'
GROUP BY r.id HAVING count(e.id) <> 1""",
    "events that were recorded twice": """
SELECT name FROM webhooks_event GROUP BY name, cause, workspace_id
HAVING count(*) > 1""",
    "reports without one event of each end": """
SELECT p.id FROM reports_report p
LEFT JOIN webhooks_event e ON e.report_id = p.id AND e.name = 'report.ready'
GROUP BY p.id HAVING count(e.id) <> 1""",
}
# From the order, or from its payment
LATEST_REPORT = """
SELECT coalesce(max(extract(epoch FROM
    r.completed_at - greatest(r.launched_at, c.paid_at))), 0)
FROM reports_report r
LEFT JOIN payments_payment p ON p.report_id = r.id
LEFT JOIN payments_checkout c ON c.payment_id = p.id AND c.status = 'PAID'"""
LATEST_DELIVERY = """
SELECT coalesce(max(extract(epoch FROM d.delivered_at - e.created_at)), 0)
FROM webhooks_delivery d JOIN webhooks_event e ON e.id = d.event_id"""


@bench(kills=0)
def kills(service: Service, kills: int = KILLS) -> Iterator[Figure]:
    if not kills:
        return
    service.close()
    receiver = Receiver(service)
    with (
        service.process(*receiver.command),
        TemporaryDirectory(prefix="bench-kills-") as folder,
    ):
        run = Run(
            Path(folder),
            WEBHOOK_DEV_HOSTS="localhost",
            WEBHOOK_CA_FILE=str(receiver.authority),
            CHECK_LEASE_SECONDS="20",
        )
        try:
            run.start()
            run.wait_until_ready()
            yield from _figures(run, Path(folder), receiver, kills)
        finally:
            run.close()


def _figures(
    run: Run, folder: Path, receiver: Receiver, kills: int
) -> Iterator[Figure]:
    client = Client(run, folder)
    client.configure(receiver.url())
    began = time.monotonic()
    threads = [Thread(target=client.order), Thread(target=client.pay)]
    for thread in threads:
        thread.start()
    killed: Counter[str] = Counter()
    while killed.total() < kills:
        killed[_kill(run)] += 1
        if killed.total() % 100 == 0:
            print(f"  {killed.total()} kills, {len(client.acknowledged)} reports")
    client.stopping.set()
    for thread in threads:
        # The last kills may end `run`, and both threads wait for answers.
        while thread.is_alive():
            _wait_until_ready(run)
            thread.join(1)
    seconds = time.monotonic() - began
    _wait_until_ready(run)

    ended = time.monotonic()
    _wait(client)
    late = time.monotonic() - ended
    print(f"  killed: {dict(killed)}")
    print(f"  answers other than 201: {dict(client.failures)}")
    client.require_everything(receiver)
    run.manage("audit_ledger")
    yield Figure("kills", [kills], "")
    yield Figure("seconds", [seconds], "s")
    yield Figure("reports, none lost or made twice", [len(client.acknowledged)], "")
    yield Figure("of these paid by a payer", [len(client.paid)], "")
    yield Figure("until all was done", [late], "s", target=MAX_LATE_SECONDS)
    for what, sql in (("report", LATEST_REPORT), ("delivery", LATEST_DELIVERY)):
        ((longest,),) = client.rows(sql)
        what = f"latest {what}"
        yield Figure(what, [float(longest)], "s", target=MAX_LATE_SECONDS)


def _kill(run: Run) -> str:
    """Kill a random process after a random time. Returns which one."""
    time.sleep(random.uniform(*PAUSES))
    chance = random.random()
    while True:
        if run.has_ended():
            # As an operator does: a part that is killed too often ends `run`.
            run.start()
        try:
            name, found = _candidates(run.processes(), chance)
            if found:
                victim = random.choice(found)
                victim.kill()
                break
        except psutil.NoSuchProcess:
            # It ended by itself, or because its parent was killed.
            continue
        time.sleep(0.1)
    if name == "run":
        victim.wait()
        run.start()
    if name in {"run", "postmaster"}:
        _wait_until_ready(run)
    return name


def _wait_until_ready(run: Run) -> None:
    """Wait until the service is ready; start it again if it has ended."""
    while True:
        if run.has_ended():
            run.start()
        with suppress(RunEnded):
            run.wait_until_ready()
            return


def _candidates(
    processes: list[psutil.Process], chance: float
) -> tuple[str, list[psutil.Process]]:
    databases = [p for p in processes if p.name() == "postgres"]
    others = [p for p in processes if p.name() != "postgres"]
    if chance < POSTMASTER:
        return "postmaster", databases[:1]
    if chance < POSTMASTER + RUN:
        return "run", others[:1]
    if chance < 0.25:
        return "process of the database", databases[1:]
    return "process of web or jobs", others[1:]


def _wait(client: Client) -> None:
    deadline = time.monotonic() + DONE_SECONDS
    while (left := [client.rows(LEFT), client.rows(UNDELIVERED)]) != [[], []]:
        if time.monotonic() > deadline:
            raise TimeoutError(f"not done: {left}")
        time.sleep(0.2)


class Client:
    """A client that orders, and the payers of its reports."""

    def __init__(self, run: Run, folder: Path) -> None:
        self._url = run.url
        self._database = embedded.url(folder)
        made = run.manage(
            "create_workspace", "Bench", "--owner=a@example.com", "--billing=postpaid"
        )
        workspace = json.loads(made)["workspaceId"]
        made = run.manage("create_key", workspace, "--environment=sandbox", "--force")
        self._headers = {"Authorization": f"Bearer {json.loads(made)['key']}"}
        self.rows(
            "UPDATE workspaces_apikey SET creates_per_minute = 1000000,"
            " requests_per_minute = 1000000"
        )
        self.acknowledged: list[str] = []
        self.failures: Counter[str] = Counter()
        self.to_pay: list[dict[str, Any]] = []
        self.paid: list[str] = []
        self.stopping = Event()

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self._database, autocommit=True) as db:
            cursor = db.execute(sql)
            return cursor.fetchall() if cursor.description else []

    def configure(self, url: str) -> None:
        body = {"url": url, "secret": SECRET, "enabledEvents": EVENTS}
        answer = requests.post(
            f"{self._url}/api/v1/webhooks/config",
            json=body,
            headers=self._headers,
            timeout=30,
        )
        assert answer.ok, answer.text

    def order(self) -> None:
        """Order reports; every tenth request asks a payer."""
        number = 0
        while not self.stopping.is_set():
            number += 1
            items = [orders.order() for _ in range(random.randint(1, 10))]
            if number % 10 == 0:
                items = [{**items[0], "paymentMode": "CANDIDATE"}]
            made = self._create(items)
            self.acknowledged += [report["id"] for report in made]
            if number % 10 == 0:
                self.to_pay += made
            self.stopping.wait(random.uniform(0, 1))

    def _create(self, items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Create reports; repeat the request until it is answered."""
        headers = {**self._headers, "Idempotency-Key": str(uuid.uuid4())}
        while True:
            try:
                answer = requests.post(
                    f"{self._url}/api/v1/reports",
                    json={"reports": items},
                    headers=headers,
                    timeout=30,
                )
            except requests.RequestException:
                self.failures["no answer"] += 1
            else:
                if answer.status_code == 201:
                    made: list[dict[str, Any]] = answer.json()["reports"]
                    return made
                assert answer.status_code in {409, 500, 502, 503}, answer.text
                self.failures[str(answer.status_code)] += 1
            time.sleep(0.2)

    def pay(self) -> None:
        """Pay each report that asks for it, and begin again if the service fails."""
        while self.to_pay or not self.stopping.is_set():
            if not self.to_pay:
                time.sleep(0.2)
                continue
            report = self.to_pay[0]
            try:
                if self._pay(report["paymentState"]["paymentUrl"]):
                    self.paid.append(report["id"])
                    del self.to_pay[0]
            except requests.RequestException:
                self.failures["no page"] += 1
            time.sleep(0.2)

    def _pay(self, url: str) -> bool:
        """Follow the pages of a payer. Returns True if the payment has arrived."""
        browser = requests.Session()
        page = browser.get(url, timeout=30)
        if page.status_code != 200:
            return False
        token = re.search(r'name="csrfmiddlewaretoken" value="(.*?)"', page.text)
        if token is None:
            # Nothing is to be paid any more.
            return True
        fields = {"csrfmiddlewaretoken": token[1]}
        page = browser.post(f"{page.url}pay", fields, timeout=30)
        if page.status_code != 200 or "/sandbox/checkout/" not in page.url:
            return False
        token = re.search(r'name="csrfmiddlewaretoken" value="(.*?)"', page.text)
        fields = {"choice": "pay"} | (
            {"csrfmiddlewaretoken": token[1]} if token else {}
        )
        return browser.post(page.url, fields, timeout=30).ok

    def require_everything(self, receiver: Receiver) -> None:
        """Raise AssertionError if anything is lost or was done twice."""
        stored = {report for (report,) in self.rows(REPORTS)}
        acknowledged = set(self.acknowledged)
        assert len(acknowledged) == len(self.acknowledged)
        assert stored == acknowledged, stored ^ acknowledged
        for what, sql in FAULTS.items():
            assert (found := self.rows(sql)) == [], f"{what}: {found[:5]}"
        events = {str(id) for (id,) in self.rows("SELECT id FROM webhooks_event")}
        received = {str(id) for id in receiver.received()}
        assert received == events, len(received ^ events)
