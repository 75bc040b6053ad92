"""kill -9 of workers between a call and the record of its answer; sources count."""

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.fakes.metropol import PRIVATE, PUBLIC, FakeMetropol
from tests.fakes.server import Faults
from tests.fakes.smile_id import KEY, PARTNER, FakeSmileId
from tests.fakes.smile_id_v3 import FakeSmileIdV3
from tests.fakes.smile_id_v3 import smile_id_v3 as smile_id_v3
from tests.service.conftest import Client
from tests.world.clients import person
from tests.world.service import Service
from tests.world.waiting import until

pytestmark = pytest.mark.slow
DONE_SECONDS = 240
# The bench `kills` has a thousand.
ORDERED, ROUNDS = 300, 3
CHECKS = ["IDENTITY", "CRB_SCORE"]
LEFT = """
SELECT count(*) FROM checks_checkresult r JOIN reports_report p ON p.id = r.report_id
WHERE p.workspace_id = %s AND r.next_attempt_at IS NOT NULL
"""
ENDED = """
SELECT r.name, r.status, r.failure_code, count(*)
FROM checks_checkresult r JOIN reports_report p ON p.id = r.report_id
WHERE p.workspace_id = %s GROUP BY 1, 2, 3
"""
DOUBTS = """
SELECT count(*) FROM sources_call c JOIN checks_checkresult r ON r.id = c.result_id
JOIN reports_report p ON p.id = r.report_id
WHERE p.workspace_id = %s AND c.source = 'metropol' AND c."end" = 'IN_DOUBT'
"""

OF_V3 = """
SELECT count(*) FROM sources_call c JOIN checks_checkresult r ON r.id = c.result_id
JOIN reports_report p ON p.id = r.report_id
WHERE p.workspace_id = %s AND c.source = 'smile_id_v3'
"""
LOST = f"{OF_V3} AND c.\"end\" = 'LOST'"
KEPT = f"""
{OF_V3.replace("count(*)", 'c."end", r.status')} AND c.answer IS NOT NULL
"""


@pytest.fixture(scope="module")
def sources():
    """Run both fakes for all tests, as the service is started with their addresses."""
    with FakeSmileId() as smile_id, FakeMetropol() as metropol:
        metropol.anybody = (700, "003")
        yield smile_id, metropol


@pytest.fixture
def smile_id(sources: tuple[FakeSmileId, FakeMetropol]) -> FakeSmileId:
    fake, _ = sources
    fake.faults = Faults()
    fake.jobs.clear()
    return fake


@pytest.fixture
def metropol(sources: tuple[FakeSmileId, FakeMetropol]) -> FakeMetropol:
    _, fake = sources
    fake.faults = Faults()
    fake.requests.clear()
    fake.seen.clear()
    return fake


@pytest.fixture(scope="module")
def asking(service: Service, sources: tuple[FakeSmileId, FakeMetropol]):
    """Run the service with both fakes as sources until the last test ends."""
    smile_id, metropol = sources
    variables = {
        "SMILE_ID_PARTNER_ID": PARTNER,
        "SMILE_ID_API_KEY": KEY,
        "SMILE_ID_URL": smile_id.url,
        "METROPOL_PUBLIC_KEY": PUBLIC,
        "METROPOL_PRIVATE_KEY": PRIVATE,
        "METROPOL_URL": f"{metropol.url}/v2_1",
        "SOURCE_DEV_HOSTS": f"{smile_id.host},{metropol.host}",
    }
    with service.changed(**variables):
        yield service


@pytest.fixture
def asking_v3(asking: Service, smile_id_v3: FakeSmileIdV3):
    """Run the service with Smile ID V3, whose callback comes before its 202."""
    smile_id_v3.webhook_url = f"{asking.url}/callbacks/smile-id-v3"
    hosts = f"{asking.environment['SOURCE_DEV_HOSTS']},{smile_id_v3.host}"
    variables = {
        "SMILE_ID_URL": smile_id_v3.url,
        "SMILE_ID_V3_POLICY_URL": "https://reports.test/privacy",
        "SMILE_ID_V3_ATTESTED_LANGUAGE": "EN",
        "SOURCES_IDENTITY": "smile_id_v3",
        "SOURCE_DEV_HOSTS": hosts,
    }
    with asking.changed(**variables):
        yield asking


def order(client, first, count, checks=CHECKS, **subject):
    items = [
        {**person(idNumber=str(number), **subject), "checksRequested": checks}
        for number in range(first, first + 10 * count, 10)
    ]
    client.order(*items)


def until_done(asked, service):
    until(asked, lambda: service.log()[-3000:], seconds=DONE_SECONDS)


def rows(service, client, sql):
    with service.connect() as connection:
        return connection.execute(sql, [client.workspace]).fetchall()


def assert_nothing_was_paid_twice(service, client, smile_id, metropol, ordered):
    jobs = Counter(job["IDNumber"] for job in smile_id.jobs.values())
    assert set(jobs.values()) == {1}
    assert len(jobs) == ordered
    paid = Counter(each.body for each in metropol.requests)
    assert set(paid.values()) == {1}
    ended = {row[:3]: row[3] for row in rows(service, client, ENDED)}
    ((doubts,),) = rows(service, client, DOUBTS)
    lost = ended.pop(("CRB_SCORE", "FAILED", "SOURCE_CALL_IN_DOUBT"), 0)
    assert lost == doubts
    wanted = {("IDENTITY", "COMPLETED", ""): ordered}
    if lost < ordered:
        wanted["CRB_SCORE", "COMPLETED", ""] = ordered - lost
    assert ended == wanted
    return lost


@pytest.mark.timeout(240)
def test_lost_paid_answer_is_not_paid_for_again(asking, smile_id, metropol):
    client = Client(asking, "production")
    smile_id.faults.slow = metropol.faults.slow = 4
    asking.manage(
        "top_up", client.workspace, "--environment=production", "--amount=100000"
    )
    order(client, 50000009, 2)
    # The source has done and charged the work, and its answers are on their way.
    until_done(lambda: len(smile_id.jobs) == len(metropol.seen) == 2, asking)

    asking.kill_jobs()
    smile_id.faults.slow = metropol.faults.slow = 0
    asking.start_jobs()
    until_done(lambda: rows(asking, client, LEFT) == [(0,)], asking)

    both = assert_nothing_was_paid_twice(asking, client, smile_id, metropol, 2)
    assert both == 2


@pytest.mark.timeout(240)
def test_stopping_cluster_waits_for_a_paid_answer_and_calls_nobody(asking, metropol):
    client = Client(asking, "production")
    asking.manage(
        "top_up", client.workspace, "--environment=production", "--amount=100000"
    )
    metropol.faults.slow = 13
    order(client, 51000009, 1, ["CRB_SCORE"])
    until_done(lambda: metropol.seen, asking)
    waits = "waits up to 40 seconds for verification.checks.engine.run_due_checks"
    before = asking.log().count(waits)

    with ThreadPoolExecutor(1) as operator:
        stopped = operator.submit(asking.stop_jobs)
        until_done(lambda: asking.log().count(waits) > before, asking)
        order(client, 51000019, 1, ["CRB_SCORE"])
        stopped.result()

    assert rows(asking, client, DOUBTS) == [(0,)]
    assert len(metropol.seen) == 1
    assert sorted(row[1] for row in rows(asking, client, ENDED)) == [
        "COMPLETED",
        "PENDING",
    ]
    metropol.faults.slow = 0
    asking.start_jobs()
    until_done(lambda: rows(asking, client, LEFT) == [(0,)], asking)
    assert rows(asking, client, ENDED) == [("CRB_SCORE", "COMPLETED", "", 2)]


@pytest.mark.timeout(900)
def test_killed_workers_make_no_paid_call_twice(asking, smile_id, metropol):
    client = Client(asking, "production")
    asking.manage(
        "top_up", client.workspace, "--environment=production", "--amount=10000000"
    )
    smile_id.faults.slow = metropol.faults.slow = 0.2

    def is_done():
        return rows(asking, client, LEFT) == [(0,)]

    order(client, 60000009, ORDERED)
    for _ in range(ROUNDS):
        # During the work, or before it; each kill interrupts up to 128 calls.
        paid = len(metropol.seen) + random.randint(0, 60)
        until_done(lambda paid=paid: len(metropol.seen) >= paid or is_done(), asking)
        asking.kill_jobs()
        asking.start_jobs()
    until_done(is_done, asking)

    assert_nothing_was_paid_twice(asking, client, smile_id, metropol, ORDERED)


@pytest.mark.timeout(400)
def test_killed_workers_begin_no_v3_job_twice(asking_v3, smile_id_v3):
    client, ordered = Client(asking_v3, "production"), 100
    asking_v3.manage(
        "top_up", client.workspace, "--environment=production", "--amount=1000000"
    )
    smile_id_v3.faults.path, smile_id_v3.faults.slow = "/v3/enhanced_kyc", 0.5
    order(client, 70000009, ordered, ["IDENTITY"], email="jane@example.com")

    def is_done():
        return rows(asking_v3, client, LEFT) == [(0,)]

    for _ in range(2):
        # During the calls of most, or before the work.
        begun = random.randint(60, 90)
        until_done(
            lambda begun=begun: len(smile_id_v3.jobs) >= begun or is_done(), asking_v3
        )
        asking_v3.kill_jobs()
        asking_v3.start_jobs()
    until_done(is_done, asking_v3)

    begun = Counter(job["id_number"] for job in smile_id_v3.jobs.values())
    assert set(begun.values()) == {1}
    ended = {row[1:3]: row[3] for row in rows(asking_v3, client, ENDED)}
    completed = ended.pop(("COMPLETED", ""))
    doubts = ended.pop(("FAILED", "SOURCE_CALL_IN_DOUBT"), 0)
    assert ended == {}
    assert completed + doubts == ordered
    # Their workers died before the call, or before the callback came.
    assert doubts < ordered / 2
    assert rows(asking_v3, client, KEPT) == []
    assert rows(asking_v3, client, LOST)[0][0] > 0
