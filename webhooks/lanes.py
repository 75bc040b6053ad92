"""Few requests to a receiver at once; the others wait, and can be had back unsent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

WAIT_SECONDS = 30.0


class Recalled(Exception):
    """The place did not come free in time, or nobody should wait for it any more."""


class Lane:
    def __init__(self, at_once: int) -> None:
        self._free = asyncio.Semaphore(at_once)
        self._waiting: set[asyncio.Task[None] | None] = set()

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Wait for one of the places, up to 30 seconds; raises Recalled."""
        if self._free.locked():
            await self._wait()
        else:
            await self._free.acquire()
        try:
            yield
        finally:
            self._free.release()

    def recall(self) -> None:
        """Those that wait give up; those that have a place keep it."""
        for task in self._waiting:
            if task:
                task.cancel()

    async def _wait(self) -> None:
        task = asyncio.current_task()
        self._waiting.add(task)
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await self._free.acquire()
        except (TimeoutError, asyncio.CancelledError) as e:
            raise Recalled from e
        finally:
            self._waiting.discard(task)
