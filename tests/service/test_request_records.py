"""Records of requests of a running web server: when they are written."""

from typing import Any

from tests.world.service import Service
from tests.world.waiting import until


def number_of_records(service: Service, request_id: str) -> int:
    with service.connect() as connection:
        row: Any = connection.execute(
            "SELECT count(*) FROM workspaces_apirequest WHERE given_id LIKE %s",
            [request_id],
        ).fetchone()
    return int(row[0])


def test_request_is_recorded_within_seconds(service, client):
    client.post("/reports", X_Request_Id="soon")

    until(lambda: number_of_records(service, "soon"))


def test_requests_before_a_stop_are_recorded(service, client):
    for number in range(30):
        client.post("/reports", X_Request_Id=f"last-{number}")
    try:
        service.stop_web()

        assert number_of_records(service, "last-%") == 30
    finally:
        service.start_web()
