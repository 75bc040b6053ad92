import re
import socket
import statistics
import time
from itertools import count

import pytest
import requests

from tests.world.clients import person

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# At rest a tenth
ANSWER_SECONDS = 60


@pytest.fixture(autouse=True)
def whole_service(service):
    """Start both parts, because tests of other modules stop them."""
    service.start()


def order(number, **members):
    return person(idNumber=str(30000000 + number)) | members


def seconds_until(client, report_id, status):
    started_at = time.monotonic()
    while client.status(report_id) != status:
        assert time.monotonic() - started_at < ANSWER_SECONDS
        time.sleep(0.005)
    return time.monotonic() - started_at


def test_report_is_ordered_run_and_read_over_http(client):
    (made,) = client.order(person(idNumber="90000000"))

    seconds_until(client, made["id"], "READY")

    report = client.get(f"/reports/{made['id']}").json()
    assert [result["status"] for result in report["checkResults"]] == ["COMPLETED"] * 3
    assert report["riskLevel"] in {"LOW", "MEDIUM"}
    listed = client.get("/reports", status="READY").json()["content"]
    assert made["id"] in {entry["id"] for entry in listed}


def test_idle_service_answers_soon(client):
    numbers = count()

    def is_soon():
        read, answered = [], []
        for _ in range(15):
            began = time.monotonic()
            (made,) = client.order(order(next(numbers)))
            client.status(made["id"])
            read.append(time.monotonic() - began)
            answered.append(seconds_until(client, made["id"], "READY"))
        # Workers that nobody notifies look for jobs once a second. A busy machine needs
        # longer for all, and a busy moment does not count.
        return statistics.median(answered) < min(0.8, 0.4 + 5 * statistics.median(read))

    assert any(is_soon() for _ in range(5))


def test_source_that_is_down_is_retried_before_the_sweep(client):
    recovers = person(idNumber="90000004") | {"checksRequested": ["IDENTITY"]}
    (made,) = client.order(recovers)

    # Two pauses, of up to 1 s and up to 3 s; the sweep comes once a minute.
    assert seconds_until(client, made["id"], "READY") < 30


def test_live_check_without_a_source_is_refused_and_costs_nothing(service, live_client):
    service.manage(
        "top_up", live_client.workspace, "--environment=production", "--amount=1000"
    )

    answer = live_client.post("/reports", {"reports": [order(100)]})

    assert answer.status_code == 400
    codes = {error["code"] for error in answer.json()["errors"]}
    assert codes == {"check-not-available"}
    with service.connect() as connection:
        (balance,) = connection.execute(
            "SELECT balance FROM workspaces_account"
            " WHERE workspace_id = %s AND environment = 'production'",
            [live_client.workspace],
        ).fetchone()
    assert balance == 1000


def test_answer_has_the_request_id(client, service):
    given = client.get("/reports", page=0)
    kept = client.post("/reports", {}, X_Request_Id="my-own.request_1")
    health = requests.get(f"{service.url}/healthz", timeout=60)
    nowhere = requests.get(f"{service.url}/nowhere", timeout=60)

    assert UUID.fullmatch(given.headers["X-Request-Id"])
    assert kept.headers["X-Request-Id"] == "my-own.request_1"
    assert kept.json()["requestId"] == "my-own.request_1"
    for answer in (health, nowhere):
        assert UUID.fullmatch(answer.headers["X-Request-Id"])


def test_only_answers_to_test_keys_are_marked_as_sandbox(client, live_client, service):
    for answer in (client.get("/reports"), client.post("/reports", {})):
        assert answer.headers["X-Service-Sandbox"] == "true"
    for answer in (
        live_client.get("/reports"),
        requests.get(f"{service.url}/healthz", timeout=60),
    ):
        assert "X-Service-Sandbox" not in answer.headers


def test_too_large_body_is_refused(client, service):
    body = b'{"reports": "' + b"x" * (2 * 1024 * 1024) + b'"}'

    answer = requests.post(
        f"{service.url}/api/v1/reports",
        body,
        headers={
            "Authorization": f"Bearer {client.key}",
            "Content-Type": "application/json",
        },
        timeout=ANSWER_SECONDS,
    )

    assert answer.status_code == 413
    assert answer.json()["code"] == "body-too-large"
    assert answer.headers["X-Request-Id"]


def test_endless_body_is_refused(client, service):
    head = [
        "POST /api/v1/reports HTTP/1.1",
        "Host: localhost",
        f"Authorization: Bearer {client.key}",
        "Content-Type: application/json",
        "Transfer-Encoding: chunked",
    ]
    with socket.create_connection(("127.0.0.1", service.port), 5) as s:
        s.settimeout(ANSWER_SECONDS)
        s.sendall("\r\n".join([*head, "", ""]).encode())
        # The server closes the connection instead of reading 100 MB.
        with pytest.raises(ConnectionError):
            s.sendall((b"2710\r\n" + b"x" * 10_000 + b"\r\n") * 10_000)
        try:
            answer = s.recv(1000)
        except ConnectionResetError:
            answer = b""

    assert answer == b"" or answer.startswith(b"HTTP/1.1 413")


def test_header_of_10_mb_is_refused_or_cut(service):
    with socket.create_connection(("127.0.0.1", service.port), 5) as s:
        s.settimeout(ANSWER_SECONDS)
        try:
            s.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: ")
            s.sendall(b"x" * 10_000_000)
            s.sendall(b"\r\n\r\n")
            answer = s.recv(1000)
        except (BrokenPipeError, ConnectionResetError):
            answer = b""

    assert answer == b"" or answer.startswith(b"HTTP/1.1 4")
    assert requests.get(f"{service.url}/healthz", timeout=60).status_code == 200


def test_silent_client_delays_no_other(service):
    silent = [
        socket.create_connection(("127.0.0.1", service.port), 5) for _ in range(20)
    ]
    for s in silent:
        s.sendall(b"POST /api/v1/reports HTTP/1.1\r\nHost: localhost\r\n")
    try:
        assert requests.get(f"{service.url}/healthz", timeout=60).status_code == 200
    finally:
        for s in silent:
            s.close()


def test_stop_ends_every_process_and_start_continues(service, client):
    service.stop_jobs()
    (made,) = client.order(order(200))
    assert client.status(made["id"]) == "RUNNING"

    service.stop_web()

    assert service.everything() == []
    service.start()
    seconds_until(client, made["id"], "READY")


def test_no_line_of_the_log_holds_a_subject(service, client):
    unmistakable = order(300, purpose="Audit of Zebulon")
    unmistakable["subject"] |= {"fullName": "Zebulon Quixote", "idNumber": "77665544"}
    (made,) = client.order(unmistakable)
    seconds_until(client, made["id"], "READY")

    log = service.log()
    assert client.workspace in log
    for secret in ("Zebulon", "77665544", client.key):
        assert secret not in log
