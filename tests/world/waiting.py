"""Waiting for events of other threads and processes."""

import time
from collections.abc import Callable
from typing import Any, TypeVar

Value = TypeVar("Value")
# On a busy machine an event takes many times longer. Only a failing test waits so long.
PATIENCE_SECONDS = 90


def until(
    condition: Callable[[], Value],
    explain: Callable[[], Any] = lambda: "",
    seconds: float = PATIENCE_SECONDS,
) -> Value:
    """Return the first value of the condition that is true. Raises AssertionError."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, explain()
        time.sleep(0.01)
    return value
