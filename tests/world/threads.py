"""Run actions in threads, each with its own connection. Needs a transactional_db."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from django.db import connection, transaction

from tests.world.waiting import until

SECONDS = 90


def run_at_once(
    times: int, do: Callable[[int], Any], *, connected: bool = False
) -> list[Any]:
    """Return each thread's result or exception.

    `connected` lets no thread start before all have their connections.
    """
    ready = threading.Barrier(times)

    def connect() -> None:
        try:
            connection.ensure_connection()
        except Exception:
            # The others would wait for this one.
            ready.abort()
            raise

    def one(number: int) -> Any:
        try:
            if connected:
                connect()
            ready.wait()
            return do(number)
        except Exception as e:
            return e
        finally:
            connection.close()

    with ThreadPoolExecutor(times) as pool:
        return list(pool.map(one, range(times)))


@contextmanager
def uncommitted(action: Callable[[], Any]) -> Iterator[Any]:
    """Run an action in a thread; its transaction commits after the block.

    Yields what the action returns.
    """
    done, commit = threading.Event(), threading.Event()
    returned: list[Any] = []

    def run() -> None:
        try:
            with transaction.atomic():
                returned.append(action())
                done.set()
                assert commit.wait(SECONDS)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(run)
        assert done.wait(SECONDS)
        try:
            yield returned[0]
        finally:
            commit.set()
        future.result(SECONDS)


def start(action: Callable[[], Any]) -> Future[Any]:
    """Run an action in a thread."""

    def run() -> Any:
        try:
            return action()
        finally:
            connection.close()

    pool = ThreadPoolExecutor(1)
    future = pool.submit(run)
    pool.shutdown(wait=False)
    return future


def start_and_block(action: Callable[[], Any]) -> Future[Any]:
    """Run an action in a thread; return when it waits for a lock, as others may do."""
    before = count_waiting()
    future = start(action)
    until(lambda: future.done() or count_waiting() > before)
    assert not future.done(), f"waited for nothing, and returned {future.result()}"
    return future


def count_waiting() -> int:
    """Return how many sessions of this database wait for a lock."""
    with connection.cursor() as cursor:
        # A transaction sees the sessions as it saw them first.
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute(
            """SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND wait_event_type = 'Lock'"""
        )
        return int(cursor.fetchone()[0])
