"""The counts of `/metrics` of a web server with several processes."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from tests.web.test_metrics import samples
from tests.world.service import is_alive
from tests.world.waiting import until
from verification.web.server import COUNTS, MEMORY

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
REQUESTS = 200
PROCESSES = 3


@pytest.fixture
def several_processes(service):
    """Start a web server of several processes."""
    before = service.environment
    service.stop_web()
    service.set_environment(METRICS_TOKEN="t", WEB_WORKERS=str(PROCESSES))
    service.start_web()
    yield
    service.stop_web()
    service.environment = before
    service.start_web()


@pytest.mark.usefixtures("several_processes")
def test_counts_of_all_web_processes_add_up_and_stay(service):
    def ask(_number):
        # Each opens a connection of its own, which any of the processes takes.
        return requests.get(f"{service.url}/readyz", timeout=60).status_code

    with ThreadPoolExecutor(16) as threads:
        answered = [*threads.map(ask, range(REQUESTS))].count(200)

    counted = {
        int(file.stem.split("_")[1])
        for one in service.processes()
        for file in MEMORY.glob(f"{COUNTS}{one.pid}-*/counter_*.db")
    }
    # One is of the main process, which has counted nothing.
    assert len(counted) > 2
    assert answered > PROCESSES
    # A busy machine answers some with 503, and goes on with them.
    (count,) = until(lambda: equal_counts(service))
    assert answered <= count <= REQUESTS
    web = [one for one in service.processes() if one.pid in counted]
    killed = next(one for one in web if one.ppid() in counted)
    killed.kill()
    killed.wait(10)
    assert not is_alive(killed)
    assert count <= count_of_readyz(service) <= REQUESTS


def test_death_of_a_process_during_a_stop_is_no_failure(service):
    with service.changed(jobs=False, WEB_DRAIN_SECONDS="60"):
        server, worker, *_ = service.processes()
        server.terminate()
        health = f"{service.url}/healthz"
        until(lambda: requests.get(health, timeout=60).status_code == 503)
        worker.kill()
        until(lambda: not is_alive(server))

        service.stop_web()


def test_sessions_in_the_database_bear_the_names_of_their_programs(service):
    requests.get(f"{service.url}/readyz", timeout=60)

    with service.connect() as server:
        rows = server.execute(
            "SELECT DISTINCT application_name FROM pg_stat_activity WHERE datname = "
            "current_database() AND pid <> pg_backend_pid() "
            "AND backend_type = 'client backend'"
        ).fetchall()

    assert {name for (name,) in rows} == {"verification web", "verification jobs"}
    sql = "select 'named ' || current_setting('application_name')"
    assert "named verification dbshell" in service.manage("dbshell", "--", "-c", sql)


def equal_counts(service):
    """Return the set with the count, once all processes answer the same."""
    counts = {count_of_readyz(service) for _ in range(10)}
    return counts if len(counts) == 1 else None


def count_of_readyz(service):
    answer = requests.get(
        f"{service.url}/metrics", headers={"Authorization": "Bearer t"}, timeout=60
    )
    labels = ("method", "GET"), ("route", "readyz"), ("status", "200")
    return samples(answer.text)["verification_http_requests_total", *labels]
