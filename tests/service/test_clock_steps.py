"""The clock of the database is set back and forward by two hours while all runs."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.service.conftest import Client
from tests.world.clients import person
from tests.world.database import dump_as_migrated
from tests.world.machines import (
    DatabaseServer,
    Host,
    Network,
    database_folder,
    missing_tools,
)
from tests.world.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

FAKETIME = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
# Processes read the clock again within ten seconds.
ORDERED_FOR_SECONDS = 12
CHARGES = """
SELECT count(*), count(DISTINCT result_id) FROM workspaces_ledgerentry
WHERE kind = 'CHARGE'
"""


@pytest.fixture
def clock() -> Iterator[Path]:
    """The file whose text is the offset of the database's clock, as in `-7200`."""
    if reason := missing_tools() or (not FAKETIME and "needs libfaketime"):
        pytest.skip(reason)
    # The user that PostgreSQL runs as cannot open pytest's folder.
    with TemporaryDirectory() as folder:
        offset = Path(folder) / "clock"
        offset.write_text("+0")
        yield offset


@pytest.fixture
def host(database_server: None, clock: Path) -> Iterator[Host]:
    """Start a service whose database has the clock of the test."""
    with ExitStack() as exits:
        dump = clock.parent / "migrated.sql"
        dump_as_migrated(dump)
        network = exits.enter_context(Network())
        server = DatabaseServer(network.add(), database_folder(clock.parent, "primary"))
        server.environment = {
            "LD_PRELOAD": str(FAKETIME),
            "FAKETIME_TIMESTAMP_FILE": str(clock),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DISABLE_SHM": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }
        exits.callback(server.kill)
        server.create()
        server.start()
        host = Host(network.add(), clock.parent, server.url)
        exits.callback(host.kill_web)
        exits.callback(host.kill_jobs)
        server.fill(dump)
        host.manage("setup_checks")
        host.manage("setup_schedules")
        host.start()
        yield host


def test_new_orders_run_within_seconds_when_the_clock_is_set(clock: Path, host: Host):
    client = Client(host, "sandbox")
    numbers = count(20_000_000)
    orders = [order(client, next(numbers))]
    await_ready(client, orders[0])

    # Two hours back, and then two hours forward
    for offset in ("-7200", "+0"):
        clock.write_text(offset)
        end = time.monotonic() + ORDERED_FOR_SECONDS
        while time.monotonic() < end:
            orders.append(order(client, next(numbers)))
            time.sleep(1)
        for made in orders:
            await_ready(client, made)

    with host.connect() as connection:
        charges = connection.execute(CHARGES).fetchone()
    assert charges == (2 * len(orders), 2 * len(orders))
    host.manage("audit_ledger")


def order(client: Client, id_number: int) -> str:
    item = person(idNumber=str(id_number))
    return client.order({**item, "checksRequested": ["IDENTITY", "CRB_SCORE"]})[0]["id"]


def await_ready(client: Client, report: str) -> None:
    until(lambda: client.status(report) == "READY", lambda: client.status(report))
