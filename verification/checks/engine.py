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
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from queue import Empty, SimpleQueue
from typing import Any
from uuid import UUID

from cryptography.exceptions import InvalidTag
from django.conf import settings
from django.db import connection
from django.db.models import Exists, OuterRef

from verification import tracing
from verification.checks.due_checks import (
    GAVE_UP,
    Claim,
    claim,
    claim_queued,
    schedule_next_run,
    wake_up,
)
from verification.checks.models import CheckDefinition, CheckResult
from verification.checks.next_results import with_next_outcome
from verification.checks.results import (
    RECONNECT_SECONDS,
    Cancelled,
    Completed,
    Definitions,
    EndedCheck,
    Failed,
    Outcome,
    Retry,
    call_end_of,
    completed_with,
    record_outcomes,
)
from verification.consents.models import load_given_consent
from verification.consents.notices import consented_route
from verification.db.base import reconnect
from verification.db.encryption import UnknownKey
from verification.jobs.processes import trim_memory
from verification.jobs.queue import beat, job, slot
from verification.providers.base import (
    AnswerPending,
    Cause,
    ConsentAware,
    Inquiry,
    Provider,
    ProviderError,
    Unavailable,
)
from verification.providers.registry import Route, asks_referee
from verification.references.requests import run_reference_check
from verification.reports.models import ReportStatus
from verification.reports.objections import withdrew_from_monitoring
from verification.sources.calls import (
    ARE_AT_SOURCE,
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
from verification.values.clock import now
from workspaces.models import Environment

logger = logging.getLogger(__name__)
# A job ends after this time, so that the cluster can be stopped and watched.
JOB_SECONDS = 20.0
# A check with more claims than this and no outcome probably kills its workers.
MAX_CLAIMS = 5
SUSPENDED_PAUSE = timedelta(minutes=5)
# The threads of one job. No source that hangs can hold all of them, because each source
# has its own limit.
MAX_CALLS = 256
CLAIM_BATCH_SIZE = 64
REFRESH_SECONDS = 1.0
MIN_POLL_INTERVAL = timedelta(seconds=1)
# After a source's rest, its checks come back spread over this time.
RECOVERY_JITTER_SECONDS = 5.0

NO_SOURCE_AVAILABLE = Unavailable(
    "SOURCE_UNAVAILABLE", "The sources did not answer, so calls to them are paused."
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
    """Run due checks until there are none; return False if the time ended before."""
    definitions = _definitions()
    with CallPool() as pool:
        try:
            return _run_until_idle(pool, definitions)
        except Exception:
            # The answers of calls under way may have been paid for.
            if connection.is_usable() or reconnect(RECONNECT_SECONDS):
                definitions = _definitions()
                while pool.under_way:
                    record_outcomes(pool.collect(), definitions)
            raise


def _run_until_idle(pool: CallPool, definitions: Definitions) -> bool:
    stop_at = time.monotonic() + JOB_SECONDS
    has_woken_worker = False
    while True:
        in_time = beat() and time.monotonic() < stop_at
        room = min(CLAIM_BATCH_SIZE, pool.room)
        claims = claim(room) if in_time and room else []
        if claims and len(claims) == room and not has_woken_worker:
            # There is enough for another worker.
            has_woken_worker = True
            wake_up()
        claims += _claim_queued(pool, len(claims)) if in_time else []
        if any(claimed.definition_id not in definitions for claimed in claims):
            definitions = _definitions()
        record_outcomes(_start_checks(claims, definitions, pool), definitions)
        answered = pool.collect()
        record_outcomes(answered, definitions)
        pool.tally.flush()
        # More checks may have become due while the last answers came in.
        if not (claims or pool.under_way or answered):
            return in_time


def _claim_queued(pool: CallPool, claimed: int) -> list[Claim]:
    """Claim checks that wait for sources, up to the room of the sources and the job."""
    rooms = (
        pool.queues.rooms(pool.room - claimed) if pool.room >= CLAIM_BATCH_SIZE else {}
    )
    claims = claim_queued(rooms) if rooms else []
    pool.queues.subtract_claims(rooms, claims)
    return claims


def _definitions() -> Definitions:
    return {definition.pk: definition for definition in CheckDefinition.objects.all()}


def _start_checks(
    claims: Iterable[Claim], definitions: Definitions, pool: CallPool
) -> list[EndedCheck]:
    """Start the calls of the claims; return the checks that ended without a thread."""
    ended: list[EndedCheck] = []
    live: list[tuple[Claim, Route]] = []
    for claimed in claims:
        outcome = _outcome_without_call(claimed)
        if outcome is None:
            # A call is made, so the result will not be the earlier one.
            claimed = replace(claimed, reused_from_id=None)
            route = find_route(claimed)
            if route.is_live:
                live.append(add_consent(claimed, route))
                continue
            policy = definitions[claimed.definition_id].retry_policy
            claimed = with_next_outcome(claimed)
            claimed, outcome = call_provider(route.providers[0], claimed, policy)
        ended.append((claimed, outcome))
    # An earlier worker may have died and left a call of the check under way.
    reclaimed = [c for c, o in ended if c.fence > 1 and not isinstance(o, Retry)]
    close_calls(claimed.result_id for claimed in reclaimed)
    return ended + _start_calls(live, definitions, pool)


def _start_calls(
    live: list[tuple[Claim, Route]], definitions: Definitions, pool: CallPool
) -> list[EndedCheck]:
    """Start the calls that may be made now; return the outcomes of the other checks."""
    ended: list[EndedCheck] = []
    for claimed, decision in admit_calls(live, definitions, pool.queues):
        policy = definitions[claimed.definition_id].retry_policy
        if not isinstance(decision, CallPermit):
            ended.append((claimed, decision))
        elif decision.provider.waits_on_network:
            pool.start(decision.provider, claimed, policy)
        else:
            ended.append(pool.call(decision.provider, claimed, policy))
    return ended


def _outcome_without_call(claimed: Claim) -> Outcome | None:
    """Return the outcome of a check whose call is forbidden or unneeded, or None."""
    report = claimed.report
    if not (_is_disputed(claimed) if claimed.is_rerun else _is_under_way(claimed)):
        return Cancelled()
    consent = getattr(report, "consent", None)
    if consent and not consent.is_given:
        return Cancelled()
    # A cancelled report waits for a billed answer, which that of a re-run is not.
    is_cancelled = report.status == ReportStatus.CANCELLED and not claimed.is_rerun
    if report.workspace.is_suspended and not is_cancelled:
        return Retry(now() + SUSPENDED_PAUSE, tries=claimed.tries)
    if claimed.claims > MAX_CLAIMS:
        logger.error("check %s was given up by the engine", claimed.result_id)
        return Failed(
            GAVE_UP,
            "The check was started five times and never ended; staff can see it.",
            retryable=True,
        )
    if claimed.reused_from_id:
        return _reuse_finding(claimed.reused_from_id)
    return None


def _is_under_way(claimed: Claim) -> bool:
    """Return whether the report runs, or its client cancelled it during an inquiry.

    The answer of a source that has accepted the inquiry stays billed.
    """
    report = claimed.report
    if report.status != ReportStatus.CANCELLED:
        return report.status in {ReportStatus.RUNNING, ReportStatus.PARTIAL}
    at_source = CheckResult.objects.filter(ARE_AT_SOURCE, pk=claimed.result_id)
    return not (report.erased_at or report.restricted_at) and at_source.exists()


def _is_disputed(claimed: Claim) -> bool:
    """Return whether the correction that a re-run belongs to is open.

    A withdrawal from monitoring stops the re-runs of the rule's reports.
    """
    present = CheckResult.objects.filter(report=claimed.report, name=claimed.name)
    is_open = present.filter(disputed_at__isnull=False).exists()
    return is_open and not withdrew_from_monitoring(claimed.report)


def _reuse_finding(result_id: UUID) -> Completed | None:
    """Return the earlier finding, or None if it may not be reused any more.

    Since the order it may have been erased, corrected, disputed or objected to, or its
    consent withdrawn. If it returns None, the engine calls the source, for the promised
    price.
    """
    disputed = CheckResult.objects.filter(
        reused_from_id=OuterRef("pk"), disputed_at__isnull=False
    )
    earlier = CheckResult.objects.filter(
        ~Exists(disputed),
        pk=result_id,
        finding__isnull=False,
        question__isnull=False,
        disputed_at=None,
    ).first()
    try:
        if earlier is None or earlier.finding is None:
            return None
    except (InvalidTag, UnknownKey) as e:
        logger.error("finding of %s: %s", result_id, type(e).__name__)
        return None
    return Completed(earlier.score, earlier.finding)


def admit_calls(
    live: Sequence[tuple[Claim, Route]],
    definitions: Definitions,
    queues: SourceQueues,
) -> Iterator[tuple[Claim, CallPermit | Outcome]]:
    """Yield each claim with its permitted call, or with its outcome."""
    if not live:
        return
    decisions, rooms = begin_calls(
        [
            CallRequest(
                claimed.result_id,
                claimed.attempt,
                claimed.tries,
                is_new=claimed.fence == 1,
                reference=claimed.reference,
                route=route,
            )
            for claimed, route in live
        ]
    )
    queues.update_rooms(rooms)
    for (claimed, _), decision in zip(live, decisions, strict=True):
        if isinstance(decision, SourceFull):
            queues.mark_waiting(decision.source)
        if isinstance(decision, CallPermit):
            called = replace(
                claimed,
                call_id=decision.call,
                more=decision.more,
                asked_at=decision.asked_at,
                begun=decision.begun,
            )
            yield called, decision
        else:
            policy = definitions[claimed.definition_id].retry_policy
            yield claimed, _outcome_of_decision(claimed, decision, policy)


def _outcome_of_decision(
    claimed: Claim, decision: CallDecision, policy: Policy
) -> Outcome:
    match decision:
        case SourceFull(source):
            return Retry(now(), claimed.tries, waits_for=source)
        case CallDelay(at):
            # Jitter, so that the delayed checks do not come back all together.
            jitter = timedelta(seconds=random.random())  # noqa: S311
            return Retry(at + jitter, claimed.tries)
        case NoSourceAvailable(until):
            return outcome_of_unavailable(
                NO_SOURCE_AVAILABLE, claimed, policy, not_before=until
            )
        case InDoubt():
            return CALL_IN_DOUBT
        case CallsExhausted():
            return CALLS_SPENT
    raise AssertionError(f"no outcome for {decision}")


class CallPool:
    """The calls of one job that are under way, each in its own thread."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(MAX_CALLS, thread_name_prefix="call")
        self._finished: SimpleQueue[Future[tuple[str, EndedCheck]]] = SimpleQueue()
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
        return MAX_CALLS - self.under_way

    def start(self, provider: Provider, claimed: Claim, policy: Policy) -> None:
        future = self._pool.submit(_call, provider, claimed, policy)
        self._has_started = True
        self.under_way += 1
        future.add_done_callback(self._finished.put)

    def call(self, provider: Provider, claimed: Claim, policy: Policy) -> EndedCheck:
        """Call an in-memory provider in this thread."""
        return self._count(*_call(provider, claimed, policy))

    def collect(self) -> list[EndedCheck]:
        """Return the answers that have come; wait a little for the first one."""
        ended: list[EndedCheck] = []
        while self.under_way:
            try:
                future = self._finished.get(not ended, timeout=0.1)
            except Empty:
                break
            self.under_way -= 1
            ended.append(self._count(*future.result()))
        return ended

    def _count(self, source: str, ended: EndedCheck) -> EndedCheck:
        claimed, outcome = ended
        took = claimed.ended_at - claimed.began_at  # type: ignore[operator]
        end = call_end_of(outcome)
        self.tally.note(source, end.how, took.total_seconds(), end.cause)
        self.queues.add_room(source)
        return ended


def _call(provider: Provider, claimed: Claim, policy: Policy) -> tuple[str, EndedCheck]:
    return provider.name, call_provider(provider, claimed, policy)


class SourceQueues:
    """A job's knowledge of the checks that wait for each source, and of its room.

    It starts again once a second, because other workers queue checks and end calls,
    too.
    """

    def __init__(self) -> None:
        self._room: dict[str, int] = {}
        self._waiting: set[str] = set()
        self._refresh_at = 0.0

    def rooms(self, limit: int) -> dict[str, int]:
        """Return how many waiting checks to claim for each source.

        The sum is at most `limit`: a check without a thread would use up its lease
        before its call.
        """
        if time.monotonic() >= self._refresh_at:
            self._refresh_at = time.monotonic() + REFRESH_SECONDS
            # Include sources that are no longer configured, so that their checks do not
            # wait for ever.
            self._waiting = set(Source.objects.values_list("name", flat=True))
            self._room = dict.fromkeys(self._waiting, CLAIM_BATCH_SIZE)
        rooms = {}
        for name in sorted(self._waiting, key=lambda name: (self._room[name], name)):
            if (room := min(self._room[name], CLAIM_BATCH_SIZE, limit)) > 0:
                rooms[name] = room
                limit -= room
        return rooms

    def subtract_claims(
        self, rooms: Mapping[str, int], claims: Iterable[Claim]
    ) -> None:
        counts = Counter(claimed.queued_source for claimed in claims)
        for name, room in rooms.items():
            self._room[name] -= counts[name]
            if counts[name] < room:
                self._waiting.discard(name)

    def mark_waiting(self, name: str) -> None:
        self._waiting.add(name)

    def add_room(self, name: str) -> None:
        """Count a call that has ended."""
        self._room[name] = self._room.get(name, 0) + 1

    def update_rooms(self, rooms: Mapping[str, int]) -> None:
        self._room |= rooms


def find_route(claimed: Claim) -> Route:
    """Return the check's route; in the sandbox it is the same for all countries."""
    environment, country = claimed.report.environment, ""
    if environment == Environment.PRODUCTION:
        # If the subject cannot be read, the call will fail and say so.
        with suppress(InvalidTag, UnknownKey):
            country = str((claimed.subject or {}).get("country") or "")
    consent = getattr(claimed.report, "consent", None)
    return consented_route(consent, claimed.name, environment, country)


def add_consent(claimed: Claim, route: Route) -> tuple[Claim, Route]:
    """Return the claim with the consent for its sources, and the route that can use it.

    Sources that need more of the consent than is known are left out if others remain.
    """
    if not any(isinstance(provider, ConsentAware) for provider in route.providers):
        return claimed, route
    consent = getattr(claimed.report, "consent", None)
    try:
        subject = claimed.subject or {}
        given = load_given_consent(consent) if consent else None
    except (InvalidTag, UnknownKey):
        # The call will fail and say so.
        return claimed, route
    satisfied = tuple(
        provider
        for provider in route.providers
        if not isinstance(provider, ConsentAware)
        or not provider.missing_requirement(subject, given)
    )
    providers = satisfied or route.providers
    return replace(claimed, given=given), replace(route, providers=providers)


def call_provider(
    provider: Provider, claimed: Claim, policy: Policy
) -> tuple[Claim, Outcome]:
    """Call the provider; return the claim with the times of the call, and the outcome.

    Never raises an exception.
    """
    began_at = now()
    with tracing.span(
        f"check {claimed.name}",
        {
            "verification.report_id": str(claimed.report.pk),
            "verification.result_id": str(claimed.result_id),
            "verification.check": claimed.name,
            "verification.source": provider.name,
        },
    ) as span:
        outcome = _outcome_or_fault(provider, claimed, policy)
        span.set({"verification.outcome": type(outcome).__name__})
    return replace(claimed, began_at=began_at, ended_at=now()), outcome


def _outcome_or_fault(provider: Provider, claimed: Claim, policy: Policy) -> Outcome:
    try:
        return _call_provider(provider, claimed, policy)
    except Exception as e:
        # The message is not logged, because it may hold data about the subject.
        logger.error("%s raised %s", provider.name, type(e).__name__)
        message = "The source's answer was not understood."
        fault = Unavailable(
            "SOURCE_ERROR", message, may_be_charged=True, cause=Cause.ADAPTER_FAULT
        )
        return outcome_of_unavailable(fault, claimed, policy)


def _call_provider(provider: Provider, claimed: Claim, policy: Policy) -> Outcome:
    is_open = claimed.call_id is None and not claimed.next_outcome
    if is_open and asks_referee(
        claimed.name, claimed.report.environment, claimed.subject
    ):
        # Without a live source the check runs in the job's thread, which may use rows.
        return run_reference_check(claimed)
    inquiry = Inquiry(
        check=claimed.name,
        subject=claimed.subject or {},
        reference=claimed.reference,
        result_id=claimed.result_id,
        attempt=claimed.tries + 1,
        asked_at=claimed.asked_at or claimed.started_at,
        begun=claimed.begun,
        given=claimed.given,
        outcome=claimed.next_outcome,
    )
    try:
        not_told = provider.not_told.get(claimed.name, ())
        return completed_with(provider.ask(inquiry), not_told)
    except AnswerPending as e:
        # The service pauses before it calls a source again, even if the source names an
        # earlier time.
        at = max(e.ask_at, now() + MIN_POLL_INTERVAL)
        return Retry(at, tries=claimed.tries, job=e.job)
    except Unavailable as e:
        return outcome_of_unavailable(e, claimed, policy)
    except ProviderError as e:
        return Failed(e.code, e.message, retryable=False, cause=e.cause)


def outcome_of_unavailable(
    e: Unavailable,
    claimed: Claim,
    policy: Policy,
    not_before: datetime | None = None,
) -> Outcome:
    """Try the next source at once, or this one again by the retry policy."""
    end: dict[str, Any] = {
        "end": CallOutcome.UNAVAILABLE,
        "may_be_charged": e.may_be_charged,
        "cause": e.cause,
    }
    if claimed.more:
        return Retry(now(), claimed.tries, why=e.code, **end)
    attempt = claimed.tries + 1
    if attempt >= policy["maxAttempts"]:
        return Failed(e.code, e.message, retryable=True, **end)
    longest = min(
        policy["maxDelaySeconds"],
        policy["initialDelaySeconds"] * policy["backoffMultiplier"] ** (attempt - 1),
    )
    # Full jitter, so that checks do not all call a source when it comes back.
    at = now() + timedelta(seconds=random.uniform(0, longest))  # noqa: S311
    if not_before and not_before > at:
        jitter = random.uniform(0, RECOVERY_JITTER_SECONDS)  # noqa: S311
        at = not_before + timedelta(seconds=jitter)
    return Retry(at, attempt, why=e.code, **end)
