"""Calls that are under way: sources are waited for by threads, which touch no rows.

Which checks may ask their source now, and what becomes of those that may not.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from queue import Empty, SimpleQueue
from typing import Any

from django.utils.timezone import now

from verification.checks.claims import Claim
from verification.checks.inquiries import after_unavailable, ask, reference_of
from verification.checks.models import CheckDefinition
from verification.checks.outcomes import Again, Failed, Outcome, end_of
from verification.checks.results import Ended
from verification.jobs.processes import give_back_memory
from verification.providers.base import Provider, Unavailable
from verification.providers.registry import Route
from verification.sources.gate import (
    Decision,
    Go,
    InDoubt,
    Later,
    Nobody,
    Queue,
    Spent,
    Wish,
    begin,
)
from verification.sources.health import Tally
from verification.sources.models import End, Source

# Of one job: more than sources that hang can hold, each of which gets no more than its
# limit.
IN_FLIGHT = 256
AT_A_TIME = 64
LOOK_SECONDS = 1.0

Policy = Mapping[str, Any]


class Flight:
    """The calls of one job that are under way, each in a thread of its own."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(IN_FLIGHT, thread_name_prefix="ask")
        self._landed: SimpleQueue[Future[_Asked]] = SimpleQueue()
        self._has_started = False
        self.under_way = 0
        self.tally = Tally()
        self.queues = Queues()

    def __enter__(self) -> Flight:
        return self

    def __exit__(self, *exc: object) -> None:
        self._pool.shutdown()
        self.tally.flush(at_last=True)
        if self._has_started:
            give_back_memory()

    @property
    def room(self) -> int:
        return IN_FLIGHT - self.under_way

    def start(self, provider: Provider, claimed: Claim, policy: Policy) -> None:
        asked = self._pool.submit(_asked, provider, claimed, policy)
        self._has_started = True
        self.under_way += 1
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
        self.tally.note(name, end_of(asked.outcome).how, asked.seconds)
        self.queues.ended(name)
        return asked.claimed, asked.outcome


class Queues:
    """What this worker knows of the checks that wait for a source, and of its room.

    Others queue checks and end calls as well, so it looks anew once a second.
    """

    def __init__(self) -> None:
        self._room: dict[str, int] = {}
        self._waiting: set[str] = set()
        self._look_at = 0.0

    def rooms(self, left: int) -> dict[str, int]:
        """How many to claim of those that wait for each source, `left` in all.

        One without a thread would use up its lease before it is asked.
        """
        if time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + LOOK_SECONDS
            # Also of those that are not configured any more: nobody is left waiting.
            self._waiting = set(Source.objects.values_list("name", flat=True))
            self._room = dict.fromkeys(self._waiting, AT_A_TIME)
        rooms = {}
        for name in sorted(
            self._waiting, key=lambda name: (self._room.get(name, 0), name)
        ):
            if (room := min(self._room.get(name, 0), AT_A_TIME, left)) > 0:
                rooms[name] = room
                left -= room
        return rooms

    def claimed(self, rooms: Mapping[str, int], claims: Iterable[Claim]) -> None:
        got = Counter(claimed.waited_for for claimed in claims)
        for name, room in rooms.items():
            self._room[name] -= got[name]
            if got[name] < room:
                self._waiting.discard(name)

    def queued(self, name: str) -> None:
        self._waiting.add(name)

    def ended(self, name: str) -> None:
        self._room[name] = self._room.get(name, 0) + 1

    def is_known(self, rooms: Mapping[str, int]) -> None:
        """What the gate has just said."""
        self._room |= rooms


@dataclass(frozen=True, slots=True)
class _Asked:
    provider: Provider
    claimed: Claim
    outcome: Outcome
    seconds: float


def _asked(provider: Provider, claimed: Claim, policy: Policy) -> _Asked:
    begun = time.monotonic()
    claimed, outcome = ask(provider, claimed, policy)
    return _Asked(provider, claimed, outcome, time.monotonic() - begun)


LEFT_ALONE = Unavailable(
    "SOURCE_UNAVAILABLE", "The sources did not answer, and are left alone for a while."
)
SPENT = Failed(
    "SOURCE_UNAVAILABLE",
    "The source did not answer. It may charge for that, and is not asked again.",
    retryable=True,
    end=End.UNAVAILABLE,
)
IN_DOUBT = Failed(
    "SOURCE_CALL_IN_DOUBT",
    "It is not known what the source answered; staff can see it.",
    retryable=True,
)


def let_begin(
    live: Sequence[tuple[Claim, Route]],
    definitions: Mapping[Any, CheckDefinition],
    queues: Queues,
) -> Iterator[tuple[Claim, Go | Outcome]]:
    """Each with the call that may be made now, or with how it ends or waits."""
    if not live:
        return
    wishes = [_wish(claimed, route) for claimed, route in live]
    decisions, rooms = begin(wishes)
    queues.is_known(rooms)
    for (claimed, _), decision in zip(live, decisions, strict=True):
        if isinstance(decision, Queue):
            queues.queued(decision.source)
        if isinstance(decision, Go):
            yield _called(claimed, decision), decision
        else:
            policy = definitions[claimed.definition_id].retry_policy
            yield claimed, _outcome(claimed, decision, policy)


def _called(claimed: Claim, go: Go) -> Claim:
    return replace(
        claimed,
        call_id=go.call,
        more=go.more,
        asked_at=go.asked_at,
        begun=go.begun,
    )


def _wish(claimed: Claim, route: Route) -> Wish:
    return Wish(
        claimed.result_id,
        claimed.attempt,
        claimed.tries,
        is_new=claimed.fence == 1,
        reference=reference_of(claimed),
        route=route,
    )


def _outcome(claimed: Claim, decision: Decision, policy: Mapping[str, Any]) -> Outcome:
    match decision:
        case Queue(source):
            return Again(now(), claimed.tries, waits_for=source)
        case Later(at):
            # Not all of them at once.
            late = timedelta(seconds=random.random())  # noqa: S311
            return Again(at + late, claimed.tries)
        case Nobody(until):
            return after_unavailable(LEFT_ALONE, claimed, policy, not_before=until)
        case InDoubt():
            return IN_DOUBT
        case Spent():
            return SPENT
    raise AssertionError(f"{decision} is none that ends a wish")
