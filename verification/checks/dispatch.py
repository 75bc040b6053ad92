"""Calls to live sources: threads wait for the answers and touch no rows.

`admit_calls` decides which checks may call their source now; the others wait.
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
from verification.checks.inquiries import (
    call_provider,
    call_reference,
    outcome_of_unavailable,
)
from verification.checks.models import CheckDefinition
from verification.checks.outcomes import Failed, Outcome, Retry, call_end_of
from verification.checks.results import EndedCheck
from verification.jobs.processes import trim_memory
from verification.providers.base import Provider, Unavailable
from verification.providers.registry import Route
from verification.sources.calls import (
    CallDecision,
    CallDelay,
    CallPermit,
    CallRequest,
    CallsExhausted,
    InDoubt,
    NoSourceAvailable,
    SourceFull,
    begin_calls,
)
from verification.sources.health import Tally
from verification.sources.models import CallOutcome, Source

# The threads of one job. Sources that hang cannot hold them all, as each has its own
# limit.
MAX_IN_FLIGHT = 256
CLAIM_BATCH_SIZE = 64
REFRESH_SECONDS = 1.0

Policy = Mapping[str, Any]


class CallPool:
    """The calls of one job that are under way, each in its own thread."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(MAX_IN_FLIGHT, thread_name_prefix="ask")
        self._landed: SimpleQueue[Future[_FinishedCall]] = SimpleQueue()
        self._has_started = False
        self.under_way = 0
        self.tally = Tally()
        self.queues = SourceQueues()

    def __enter__(self) -> CallPool:
        return self

    def __exit__(self, *exc: object) -> None:
        self._pool.shutdown()
        self.tally.flush(at_last=True)
        if self._has_started:
            trim_memory()

    @property
    def room(self) -> int:
        return MAX_IN_FLIGHT - self.under_way

    def start(self, provider: Provider, claimed: Claim, policy: Policy) -> None:
        asked = self._pool.submit(_call, provider, claimed, policy)
        self._has_started = True
        self.under_way += 1
        asked.add_done_callback(self._landed.put)

    def ask(self, provider: Provider, claimed: Claim, policy: Policy) -> EndedCheck:
        """Call an in-memory provider synchronously."""
        return self._note(_call(provider, claimed, policy))

    def collect(self) -> list[EndedCheck]:
        """Return the answers that have come; wait a little for the first one."""
        ended: list[EndedCheck] = []
        while self.under_way:
            try:
                future = self._landed.get(not ended, timeout=0.1)
            except Empty:
                break
            self.under_way -= 1
            ended.append(self._note(future.result()))
        return ended

    def _note(self, asked: _FinishedCall) -> EndedCheck:
        name = asked.provider.name
        self.tally.note(name, call_end_of(asked.outcome).how, asked.seconds)
        self.queues.ended(name)
        return asked.claimed, asked.outcome


class SourceQueues:
    """A worker's knowledge of the checks that wait for each source, and of its room.

    It is read again once a second, because other workers queue checks and end calls,
    too.
    """

    def __init__(self) -> None:
        self._room: dict[str, int] = {}
        self._waiting: set[str] = set()
        self._look_at = 0.0

    def rooms(self, left: int) -> dict[str, int]:
        """Return how many waiting checks to claim for each source, `left` at most in
        all.

        A check without a thread would use up its lease before its call.
        """
        if time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + REFRESH_SECONDS
            # Include sources that are no longer configured, so that their checks do not
            # wait for ever.
            self._waiting = set(Source.objects.values_list("name", flat=True))
            self._room = dict.fromkeys(self._waiting, CLAIM_BATCH_SIZE)
        rooms = {}
        for name in sorted(
            self._waiting, key=lambda name: (self._room.get(name, 0), name)
        ):
            if (room := min(self._room.get(name, 0), CLAIM_BATCH_SIZE, left)) > 0:
                rooms[name] = room
                left -= room
        return rooms

    def claimed(self, rooms: Mapping[str, int], claims: Iterable[Claim]) -> None:
        got = Counter(claimed.queued_source for claimed in claims)
        for name, room in rooms.items():
            self._room[name] -= got[name]
            if got[name] < room:
                self._waiting.discard(name)

    def mark_waiting(self, name: str) -> None:
        self._waiting.add(name)

    def ended(self, name: str) -> None:
        self._room[name] = self._room.get(name, 0) + 1

    def update_rooms(self, rooms: Mapping[str, int]) -> None:
        """Remember the rooms that the sources have just reported."""
        self._room |= rooms


@dataclass(frozen=True, slots=True)
class _FinishedCall:
    provider: Provider
    claimed: Claim
    outcome: Outcome
    seconds: float


def _call(provider: Provider, claimed: Claim, policy: Policy) -> _FinishedCall:
    begun = time.monotonic()
    claimed, outcome = call_provider(provider, claimed, policy)
    return _FinishedCall(provider, claimed, outcome, time.monotonic() - begun)


NO_SOURCE_AVAILABLE = Unavailable(
    "SOURCE_UNAVAILABLE", "The sources did not answer, and are left alone for a while."
)
CALLS_SPENT = Failed(
    "SOURCE_UNAVAILABLE",
    "The source did not answer. It may charge for that, and is not asked again.",
    retryable=True,
    end=CallOutcome.UNAVAILABLE,
)
CALL_IN_DOUBT = Failed(
    "SOURCE_CALL_IN_DOUBT",
    "It is not known what the source answered; staff can see it.",
    retryable=True,
)


def admit_calls(
    live: Sequence[tuple[Claim, Route]],
    definitions: Mapping[Any, CheckDefinition],
    queues: SourceQueues,
) -> Iterator[tuple[Claim, CallPermit | Outcome]]:
    """Yield each claim with its permitted call, or with its outcome."""
    if not live:
        return
    wishes = [_call_request(claimed, route) for claimed, route in live]
    decisions, rooms = begin_calls(wishes)
    queues.update_rooms(rooms)
    for (claimed, _), decision in zip(live, decisions, strict=True):
        if isinstance(decision, SourceFull):
            queues.mark_waiting(decision.source)
        if isinstance(decision, CallPermit):
            yield _with_call(claimed, decision), decision
        else:
            policy = definitions[claimed.definition_id].retry_policy
            yield claimed, _outcome_of_decision(claimed, decision, policy)


def _with_call(claimed: Claim, go: CallPermit) -> Claim:
    return replace(
        claimed,
        call_id=go.call,
        more=go.more,
        asked_at=go.asked_at,
        begun=go.begun,
    )


def _call_request(claimed: Claim, route: Route) -> CallRequest:
    return CallRequest(
        claimed.result_id,
        claimed.attempt,
        claimed.tries,
        is_new=claimed.fence == 1,
        reference=call_reference(claimed),
        route=route,
    )


def _outcome_of_decision(
    claimed: Claim, decision: CallDecision, policy: Mapping[str, Any]
) -> Outcome:
    match decision:
        case SourceFull(source):
            return Retry(now(), claimed.tries, waits_for=source)
        case CallDelay(at):
            # At different times, so that they do not all come back together.
            late = timedelta(seconds=random.random())  # noqa: S311
            return Retry(at + late, claimed.tries)
        case NoSourceAvailable(until):
            return outcome_of_unavailable(
                NO_SOURCE_AVAILABLE, claimed, policy, not_before=until
            )
        case InDoubt():
            return CALL_IN_DOUBT
        case CallsExhausted():
            return CALLS_SPENT
    raise AssertionError(f"{decision} is none that ends a wish")
