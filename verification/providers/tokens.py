"""Access tokens of sources: one for all threads, made anew before it expires."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future


class TokenCache:
    """Asks the source once for all threads that wait; they share a failure as well.

    `ask` returns a token and how many seconds to use it, within `seconds`.
    """

    def __init__(self, ask: Callable[[], tuple[str, float]], seconds: float) -> None:
        self._ask, self._seconds = ask, seconds
        self._lock = threading.Lock()
        self._made: Future[str] | None = None
        self._until = 0.0

    def bearer(self) -> str:
        mine: Future[str] | None = None
        with self._lock:
            made = self._made
            if made is None or (made.done() and time.monotonic() >= self._until):
                self._made = made = mine = Future()
        if mine:
            self._make(mine)
        return made.result(timeout=2 * self._seconds)

    def drop(self, bearer: str) -> None:
        """This one is no longer taken; another thread may have replaced it."""
        with self._lock:
            made = self._made
            usable = made and made.done() and not made.exception()
            if made and usable and made.result() == bearer:
                self._made = None

    def _make(self, made: Future[str]) -> None:
        try:
            bearer, life = self._ask()
        except BaseException as e:
            self._until = 0.0
            made.set_exception(e)
        else:
            self._until = time.monotonic() + life
            made.set_result(bearer)
