"""Exports of a running web server: sent while they are made, to clients that may go."""

import json
from datetime import timedelta

import requests
from django.utils.timezone import now

from tests.world.clients import person
from tests.world.waiting import until

ORDERED = 450


def get_export(service, client, kind):
    # A day of UTC may end meanwhile.
    first, last = (now().date() + timedelta(days=days) for days in (-1, 1))
    query = {"from": str(first), "to": str(last), "format": "jsonl"}
    return requests.get(
        f"{service.url}/api/v1/exports/{kind}",
        params=query,
        headers={"Authorization": f"Bearer {client.key}"},
        timeout=60,
        stream=True,
    )


def last_event(service, client):
    with service.connect() as connection:
        return connection.execute(
            "SELECT action, reason FROM backoffice_auditevent"
            " WHERE workspace_id = %s ORDER BY id DESC LIMIT 1",
            [client.workspace],
        ).fetchone()


def test_export_has_every_row_in_pieces(service, unlimited_client):
    made = unlimited_client.order(*[person() for _ in range(ORDERED)])

    with get_export(service, unlimited_client, "reports") as answer:
        assert answer.headers["Transfer-Encoding"] == "chunked"
        found = [json.loads(line)["id"] for line in answer.iter_lines()]

    assert found[-ORDERED:] == [one["id"] for one in made]
    _, reason = last_event(service, unlimited_client)
    assert reason.endswith(f"{len(found)} rows")


def test_export_ends_when_its_client_leaves(service, unlimited_client):
    unlimited_client.order(*[person() for _ in range(ORDERED)])

    answer = get_export(service, unlimited_client, "reports")
    next(answer.iter_content(1))
    answer.close()

    until(lambda: last_event(service, unlimited_client)[0] == "export.ended")
