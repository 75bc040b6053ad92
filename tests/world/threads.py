"""Run an action in many threads at once, each with its own connection."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.db import connection


def run_at_once(
    times: int, do: Callable[[int], Any], *, connected: bool = False
) -> list[Any]:
    """Return each thread's result or exception. Needs a transactional_db.

    With `connected`, no thread starts before all have their connections.
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
