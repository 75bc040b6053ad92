"""An integrator's day in CI: every person acts by the API, and no browser opens."""

import pytest

from tests.world.clients import HOSTED, person
from tests.world.orders import EMPLOYMENT
from tests.world.waiting import until


@pytest.fixture(autouse=True)
def whole_service(service):
    service.start()


@pytest.fixture(scope="module")
def client(unlimited_client):
    """Return a client of its own, whose play money runs out for nobody else."""
    return unlimited_client


def act(client, report_id, what, action, **more):
    """Act once the state takes it, as a job may have to run first."""

    def acted():
        path = f"/sandbox/reports/{report_id}/{what}"
        answer = client.post(path, {"action": action, **more})
        assert answer.status_code in {200, 409}, answer.text
        return answer.json() if answer.status_code == 200 else None

    return until(acted)


def ended(client, report_id, status):
    """Return the report once it has this status."""

    def read():
        report = client.get(f"/reports/{report_id}").json()
        return report if report["status"] == status else None

    return until(read)


def test_every_person_of_a_report_acts_by_the_api(client):
    subject = {"idNumber": "23456789", "email": "wanjiku@kamau.test"}
    referee = {**EMPLOYMENT, "refereeEmail": "referee@sandbox.test"}
    item = {
        **person(**subject, **referee),
        "checksRequested": ["EMPLOYER_VERIFICATION"],
        "consent": HOSTED,
        "paymentMode": "CANDIDATE",
    }
    ordered, declined = (made["id"] for made in client.order(item, item))

    state = act(client, ordered, "consent", "grant")
    assert state["status"] == "PENDING_PAYMENT"
    assert act(client, ordered, "payment", "pay")["paymentState"]["status"] == "PAID"
    act(client, ordered, "reference", "answer", answers={"wouldRehire": "NO"})
    report = ended(client, ordered, "READY")
    (result,) = report["checkResults"]
    assert [flag["code"] for flag in result["flags"]] == ["WOULD_NOT_REHIRE"]

    act(client, ordered, "payment", "refund")
    until(
        lambda: (
            client.get(f"/reports/{ordered}").json()["paymentState"]["status"]
            == "REFUNDED"
        )
    )

    assert act(client, declined, "consent", "decline")["status"] == "FAILED"


def test_failed_check_is_retried_and_play_money_runs_out(client):
    refused = {"check": "IDENTITY", "idNumber": "34567890", "outcome": "REFUSED"}
    assert client.post("/sandbox/results", refused).status_code == 200
    item = {**person(idNumber="34567890"), "checksRequested": ["IDENTITY"]}
    (made,) = client.order(item)
    assert ended(client, made["id"], "FAILED")["failure"]

    assert client.post(f"/reports/{made['id']}/retry").status_code == 200
    ended(client, made["id"], "READY")

    try:
        client.post("/sandbox/balance", {"available": 0})
        poor = client.post("/reports", {"reports": [item | {"reuse": False}]})
        assert (poor.status_code, poor.json()["code"]) == (402, "insufficient-balance")
    finally:
        client.post("/sandbox/balance", {"available": None})
    client.order(item | {"reuse": False})
