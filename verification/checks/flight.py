"""Calls that are under way: sources are waited for by threads, which touch no rows."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from verification.checks.asking import ask
from verification.checks.claiming import Claim
from verification.checks.outcomes import Outcome, end_of
from verification.checks.recording import Ended
from verification.providers.base import Provider
from verification.providers.registry import live_sources
from verification.sources.health import Tally

# Of one job: more than sources that hang can hold, each of which gets no more than its
# limit.
IN_FLIGHT = 256
AT_FIRST = 64

Policy = Mapping[str, Any]


class Flight:
    """The calls of one job that are under way, each in a thread of its own."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(IN_FLIGHT, thread_name_prefix="ask")
        self._landed: SimpleQueue[Future[_Asked]] = SimpleQueue()
        self.under_way = 0
        self.tally = Tally()
        # Of those that wait for a source, how many to claim: as many as calls of it
        # have ended; and some at first, in case nobody else has a call of it.
        self.rooms = dict.fromkeys(live_sources(), AT_FIRST)

    def __enter__(self) -> Flight:
        return self

    def __exit__(self, *exc: object) -> None:
        self._pool.shutdown()
        self.tally.flush(at_last=True)

    @property
    def room(self) -> int:
        return IN_FLIGHT - self.under_way

    def take_rooms(self) -> dict[str, int]:
        rooms, self.rooms = self.rooms, {}
        return rooms

    def start(self, provider: Provider, claimed: Claim, policy: Policy) -> None:
        self.under_way += 1
        asked = self._pool.submit(_asked, provider, claimed, policy)
        asked.add_done_callback(self._landed.put)

    def ask(self, provider: Provider, claimed: Claim, policy: Policy) -> Ended:
        """At once: of who answers from memory."""
        return self._note(_asked(provider, claimed, policy))

    def landed(self) -> list[Ended]:
        """Answers that have come; waits a little for the first of them."""
        ended: list[Ended] = []
        while self.under_way:
            try:
                future = self._landed.get(not ended, timeout=0.1)
            except Empty:
                break
            self.under_way -= 1
            ended.append(self._note(future.result()))
        return ended

    def _note(self, asked: _Asked) -> Ended:
        name = asked.provider.name
        self.tally.note(name, end_of(asked.outcome)[0], asked.seconds)
        self.rooms[name] = self.rooms.get(name, 0) + 1
        return asked.claimed, asked.outcome


@dataclass(frozen=True, slots=True)
class _Asked:
    provider: Provider
    claimed: Claim
    outcome: Outcome
    seconds: float


def _asked(provider: Provider, claimed: Claim, policy: Policy) -> _Asked:
    begun = time.monotonic()
    outcome = ask(provider, claimed, policy)
    return _Asked(provider, claimed, outcome, time.monotonic() - begun)
