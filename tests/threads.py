"""Doing the same thing in many threads at once, each with its own connection."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.db import connection


def at_once(times: int, do: Callable[[int], Any]) -> list[Any]:
    """What each answered, or the exception it raised. Needs a transactional_db."""
    ready = threading.Barrier(times)

    def one(number: int) -> Any:
        ready.wait()
        try:
            return do(number)
        except Exception as e:
            return e
        finally:
            connection.close()

    with ThreadPoolExecutor(times) as pool:
        return list(pool.map(one, range(times)))
