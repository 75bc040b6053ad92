"""The engine: claim due checks, call their sources, record the outcomes.

Calls to live sources wait on the network. They run outside any transaction, many at
once, in threads that touch no rows. `admit_calls` decides which checks may call their
source now; the others wait. The outcomes are recorded in batches.
"""

from __future__ import annotations

import logging
import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from queue import Empty, SimpleQueue
from typing import Any
from uuid import UUID

from cryptography.exceptions import InvalidTag
from django.conf import settings
from django.db import connection
from django.utils.timezone import now

from verification.checks.inquiries import (
    add_consent,
    call_provider,
    call_reference,
    find_route,
    outcome_of_unavailable,
)
from verification.checks.models import CheckDefinition
from verification.checks.queue import (
    Claim,
    claim,
    claim_queued,
    find_earlier_result,
    schedule_next_run,
    wake_up,
)
from verification.checks.results import (
    Cancelled,
    Completed,
    EndedCheck,
    Failed,
    Outcome,
    Retry,
    call_end_of,
    record_outcomes,
)
from verification.db.encryption import UnknownKey
from verification.jobs.processes import trim_memory
from verification.jobs.queue import beat, job, slot
from verification.providers.base import Provider, Unavailable
from verification.providers.registry import Route
from verification.reports.models import ReportStatus
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
    close_calls,
)
from verification.sources.health import Tally
from verification.sources.models import CallOutcome, Source

logger = logging.getLogger(__name__)
# A job ends after this time, so that the cluster can be stopped and watched.
JOB_SECONDS = 20.0
# A check that was claimed this often without an outcome kills its workers, or never
# ends.
MAX_CLAIMS = 5
SUSPENDED_PAUSE = timedelta(minutes=5)
# The threads of one job. Sources that hang cannot hold them all, as each has its own
# limit.
MAX_IN_FLIGHT = 256
CLAIM_BATCH_SIZE = 64
REFRESH_SECONDS = 1.0

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

Definitions = Mapping[Any, CheckDefinition]
Policy = Mapping[str, Any]


@job
def run_due_checks() -> None:
    """Run the checks that are due. Any number of these jobs may run at once.

    Checks take all workers but two, so that slow sources hold up no webhook.
    """
    with slot("checks", max(1, settings.JOB_WORKERS - 2)) as is_free:
        if not is_free:
            return
        is_idle = _run_checks()
    # Only after the slot is free again: a job that found no slot relies on this one.
    if is_idle:
        schedule_next_run()
    else:
        wake_up()


def _run_checks() -> bool:
    """Run due checks until there are none; return False if time was up before that."""
    definitions = _definitions()
    with CallPool() as flight:
        try:
            return _run_until_idle(flight, definitions)
        except Exception:
            _record_in_flight(flight)
            raise


def _record_in_flight(flight: CallPool) -> None:
    """Record the answers of calls under way, as they may have been paid for."""
    if not connection.is_usable():
        # The next statement opens another connection.
        connection.close()
    definitions = _definitions()
    while flight.under_way:
        record_outcomes(flight.collect(), definitions)


def _run_until_idle(flight: CallPool, definitions: Definitions) -> bool:
    stop_at = time.monotonic() + JOB_SECONDS
    helped = False
    while True:
        in_time = beat() and time.monotonic() < stop_at
        room = min(CLAIM_BATCH_SIZE, flight.room)
        claims = claim(room) if in_time and room else []
        if claims and len(claims) == room and not helped:
            # There is enough for another worker.
            helped = True
            wake_up()
        claims += _claim_queued(flight, len(claims)) if in_time else []
        if any(claimed.definition_id not in definitions for claimed in claims):
            definitions = _definitions()
        record_outcomes(_start_checks(claims, definitions, flight), definitions)
        landed = flight.collect()
        record_outcomes(landed, definitions)
        flight.tally.flush()
        # More checks may have become due while the last answers came in.
        if not (claims or flight.under_way or landed):
            return in_time


def _claim_queued(flight: CallPool, claimed: int) -> list[Claim]:
    """Claim checks that waited for sources, up to the room of sources and worker."""
    room = flight.room - claimed
    rooms = flight.queues.rooms(room) if flight.room >= CLAIM_BATCH_SIZE else {}
    claims = claim_queued(rooms) if rooms else []
    flight.queues.claimed(rooms, claims)
    return claims


def _definitions() -> Definitions:
    return {definition.pk: definition for definition in CheckDefinition.objects.all()}


def _start_checks(
    claims: Iterable[Claim], definitions: Definitions, flight: CallPool
) -> list[EndedCheck]:
    """Call the source of each claim; return checks that ended without the network."""
    at_once: list[EndedCheck] = []
    live: list[tuple[Claim, Route]] = []
    for claimed in claims:
        outcome = _outcome_without_call(claimed)
        if outcome is None:
            route = find_route(claimed)
            if route.is_live:
                live.append(add_consent(claimed, route))
                continue
            policy = definitions[claimed.definition_id].retry_policy
            claimed, outcome = call_provider(route.providers[0], claimed, policy)
        at_once.append((claimed, outcome))
    # A check that was claimed before may have left a call under way when its worker
    # died.
    unasked = [c for c, o in at_once if c.fence > 1 and not isinstance(o, Retry)]
    close_calls(claimed.result_id for claimed in unasked)
    return at_once + _start_calls(live, definitions, flight)


def _start_calls(
    live: list[tuple[Claim, Route]], definitions: Definitions, flight: CallPool
) -> list[EndedCheck]:
    """Start the calls that may be made now; return the outcomes of the other checks."""
    ended: list[EndedCheck] = []
    for claimed, then in admit_calls(live, definitions, flight.queues):
        if not isinstance(then, CallPermit):
            ended.append((claimed, then))
            continue
        policy = definitions[claimed.definition_id].retry_policy
        if then.provider.waits_on_network:
            flight.start(then.provider, claimed, policy)
        else:
            ended.append(flight.ask(then.provider, claimed, policy))
    return ended


def _outcome_without_call(claimed: Claim) -> Outcome | None:
    """Return the outcome of a check that may not or need not call a source, or None."""
    report = claimed.report
    if report.status not in {ReportStatus.RUNNING, ReportStatus.PARTIAL}:
        return Cancelled()
    consent = getattr(report, "consent", None)
    if consent and not consent.is_given:
        return Cancelled()
    if report.workspace.is_suspended:
        return Retry(now() + SUSPENDED_PAUSE, tries=claimed.tries)
    if claimed.claims > MAX_CLAIMS:
        logger.error("check %s was given up by the engine", claimed.result_id)
        return Failed(
            "ENGINE_GAVE_UP",
            "The check was started five times and never ended; staff can see it.",
            retryable=True,
        )
    if claimed.reused_from_id:
        return _reuse_finding(claimed.reused_from_id)
    return None


def _reuse_finding(result_id: UUID) -> Completed | None:
    """Return the earlier finding, or None if it was erased or cannot be read.

    Without it the source is called, for the promised price.
    """
    earlier = find_earlier_result(result_id)
    try:
        if earlier is None or earlier.finding is None:
            return None
    except (InvalidTag, UnknownKey) as e:
        logger.error("finding of %s: %s", result_id, type(e).__name__)
        return None
    return Completed(earlier.score, earlier.finding)


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
