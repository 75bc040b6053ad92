"""Concurrent requests with one key, each on its own connection."""

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest
from django.db import connection

from tests.world.clients import Api, company
from tests.world.orders import count_rows
from tests.world.threads import run_at_once
from verification.reports.models import Report

BODY = {"reports": [company()]}

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


@pytest.fixture
def other() -> Iterator[psycopg.Connection]:
    """Open another connection to the database."""
    with psycopg.connect(**_parameters()) as elsewhere:
        yield elsewhere


def _parameters() -> dict:
    parameters = connection.get_connection_params()
    known = ("host", "port", "dbname", "user", "password")
    return {name: parameters[name] for name in known if parameters.get(name)}


def post_with_key(api: Api):
    try:
        return api.post("/reports", BODY, Idempotency_Key="k-1")
    finally:
        connection.close()


@contextmanager
def request_under_way(api: Api, other: psycopg.Connection) -> Iterator:
    """Run a request that waits for its account, which `other` has locked."""
    other.execute(
        "SELECT 1 FROM workspaces_account WHERE id = %s FOR UPDATE", [api.account.pk]
    )
    with ThreadPoolExecutor(1) as pool:
        request = pool.submit(post_with_key, api)
        while not waiting_processes(other):
            assert not request.done(), request.result().content
            time.sleep(0.01)
        try:
            yield request
        finally:
            other.rollback()


def waiting_processes(other: psycopg.Connection) -> list[int]:
    """Return the processes that wait for a lock of this connection."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pid FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid))",
            [other.info.backend_pid],
        )
        return [pid for (pid,) in cursor.fetchall()]


def test_repeat_is_refused_while_the_first_is_under_way(api, other):
    with request_under_way(api, other) as first:
        started = time.monotonic()
        second = post_with_key(api)
        took = time.monotonic() - started

    assert first.result().status_code == 201
    assert (second.status_code, second["Retry-After"]) == (409, "1")
    assert second.json()["code"] == "idempotency-in-progress"
    assert took < 2
    assert post_with_key(api).content == first.result().content
    assert Report.objects.count() == 1


def test_key_of_another_client_does_not_wait(api, another_api, other):
    with request_under_way(api, other):
        assert post_with_key(another_api).status_code == 201

    assert Report.objects.count() == 2


def test_request_that_dies_half_way_leaves_nothing(api, other):
    api.create(company())
    before = count_rows()

    with request_under_way(api, other) as first:
        (pid,) = waiting_processes(other)
        other.execute("SELECT pg_terminate_backend(%s)", [pid])
        assert first.result().status_code == 503

    assert count_rows() == before
    again = post_with_key(api)
    assert again.status_code == 201
    assert "Idempotent-Replayed" not in again


def test_one_of_many_concurrent_requests_creates(api: Api):
    answers = run_at_once(8, lambda _: post_with_key(api))

    kinds = Counter(
        (a.status_code, a.get("Idempotent-Replayed"), a.get("Retry-After"))
        for a in answers
    )
    assert kinds.pop((201, None, None)) == 1
    assert set(kinds) <= {(201, "true", None), (409, None, "1")}
    assert Report.objects.count() == 1
    assert api.account.entries.count() == 1
