"""Permission to call sources: which check may call which source now.

`begin_calls` decides for many checks in one short transaction. It locks the rows of
their sources, so that limits, rests and probes hold over all workers and machines. The
row of a call is inserted before the call is made.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from cryptography.exceptions import InvalidTag
from django.conf import settings
from django.db import transaction
from django.db.models import Count, OuterRef, Q, Value
from django.db.models.functions import Coalesce
from django.db.models.lookups import Exact

from verification.db.base import run_sql
from verification.db.bulk_insert import Row, Rows, insert
from verification.db.encryption import UnknownKey
from verification.db.ids import uuid7
from verification.providers.base import PendingInquiry, Provider
from verification.providers.findings import MAX_WAIT
from verification.providers.registry import Route, provider_named
from verification.settings.providers import Limit
from verification.sources.models import Call, CallOutcome, Source
from verification.values.clock import now

logger = logging.getLogger(__name__)

UNLIMITED_ROOM = 1_000
# A source gets this many calls at once at most after a failure, and after it has not
# answered for this long.
CAREFUL_LIMIT, STALE_AFTER = 10, timedelta(minutes=1)
# While a call probes a source, other checks wait this long for the outcome.
PROBE_WAIT = timedelta(seconds=2)
# A check looks this often whether the source that has its inquiry still rests.
REST_CHECK_INTERVAL = timedelta(minutes=1)

END_CALLS = """
UPDATE sources_call SET "end" = u.how, why = u.why, may_be_charged = u.charged,
    job = u.job, cause = u.cause, ended_at = %s
FROM unnest(%s::uuid[], %s::text[], %s::text[], %s::bool[], %s::text[], %s::text[])
    AS u(id, how, why, charged, job, cause)
WHERE sources_call.id = u.id AND "end" = ''
RETURNING result_id, "end" = 'NOT_YET' AND called_back_at IS NOT NULL
"""


@dataclass(frozen=True, slots=True)
class CallRequest:
    """A check that asks for permission to call a source of its route."""

    result_id: UUID
    attempt: int
    tries: int
    # True if no worker has claimed the check before.
    is_new: bool
    reference: str
    route: Route


@dataclass(frozen=True, slots=True)
class CallPermit:
    """The call may be made. `more` is true if the route has another source after it.

    `asked_at` is the time of this source's first call in this run of the check. `begun`
    is the inquiry that the source has already accepted in this round.
    """

    call: UUID
    provider: Provider
    more: bool
    asked_at: datetime
    begun: PendingInquiry | None = None


@dataclass(frozen=True, slots=True)
class SourceFull:
    """The source has its maximum of calls: wait until one of them has ended."""

    source: str


@dataclass(frozen=True, slots=True)
class CallDelay:
    """The check waits until this time, and keeps its try."""

    at: datetime


@dataclass(frozen=True, slots=True)
class NoSourceAvailable:
    """Every source of the route rests, or has just failed for this check."""

    until: datetime


@dataclass(frozen=True, slots=True)
class InDoubt:
    """A call was interrupted, and another call may have to be paid again."""


@dataclass(frozen=True, slots=True)
class CallsExhausted:
    """No source answered, and each had as many calls as the settings allow to pay."""


CallDecision = (
    CallPermit | SourceFull | CallDelay | NoSourceAvailable | InDoubt | CallsExhausted
)
SkippedSources = list[list[str]]

_LAST_CALLS = (
    Call.objects.filter(result=OuterRef("pk"), attempt=OuterRef("attempt"))
    .exclude(end=CallOutcome.NOT_ASKED)
    .order_by("-pk")
)
# The check results whose source has accepted the inquiry and not answered yet
ARE_AT_SOURCE = Q(
    Exact(Coalesce(_LAST_CALLS.values("end")[:1], Value("")), CallOutcome.NOT_YET)
)


@transaction.atomic
def begin_calls(
    requests: Sequence[CallRequest],
) -> tuple[list[CallDecision], dict[str, int]]:
    """Decide the requests in their order, and insert the rows of permitted calls.

    It also returns the room of each source: the number of further calls that it may
    get now. A resting source has room for any number of checks, because they end at
    once.
    """
    batch = _CallBatch(requests)
    decisions = [batch.decide(request) for request in requests]
    batch.save()
    return decisions, {
        name: batch.free_room(source) for name, source in batch.sources.items()
    }


@dataclass(frozen=True, slots=True)
class EndedCall:
    """The end of a call. `why` and `may_be_charged` are about one without an answer."""

    how: CallOutcome
    why: str = ""
    may_be_charged: bool = False
    # The source's own id of the inquiry that it has accepted.
    job: str = ""
    # A `Cause`, or a status of HTTP.
    cause: str = ""


def end_calls(calls: Mapping[UUID, EndedCall], at: datetime) -> list[UUID]:
    """Record the ends of these calls.

    Returns the checks that have no answer yet, and whose source has called back since
    the call began.
    """
    ended = [
        (str(e.how), e.why, e.may_be_charged, e.job, e.cause) for e in calls.values()
    ]
    values = [at, list(calls), *map(list, zip(*ended, strict=True))]
    return [result for result, has_answer in run_sql(END_CALLS, values) if has_answer]


def erase_answers(result_ids: Sequence[UUID]) -> None:
    """Erase the bodies of callbacks that these checks have read."""
    stored = Call.objects.filter(result__in=result_ids, answer__isnull=False)
    stored.update(answer=None)


def close_calls(result_ids: Iterable[UUID]) -> None:
    """End the open calls of checks that have ended after their worker died."""
    ids = list(result_ids)
    if not ids:
        return
    under_way = Call.objects.filter(result__in=ids, end=CallOutcome.UNDER_WAY)
    for source in set(under_way.values_list("source", flat=True)):
        ended = _interrupted_outcome(provider_named(source))
        under_way.filter(source=source).update(end=ended, ended_at=now())


def count_calls_in_doubt() -> dict[str, int]:
    """Return how many calls of each source are in doubt and not settled."""
    doubted = Call.objects.filter(end=CallOutcome.IN_DOUBT, settled_at=None)
    counted = doubted.values_list("source").annotate(Count("pk"))
    return dict(counted.order_by("source"))


def _interrupted_outcome(provider: Provider | None) -> CallOutcome:
    """Return the outcome of a call that was under way when its worker died."""
    is_free = provider is not None and provider.repeats_are_free
    return CallOutcome.LOST if is_free else CallOutcome.IN_DOUBT


class _CallBatch:
    """The decisions of one transaction, with the rows that it reads and writes."""

    def __init__(self, requests: Sequence[CallRequest]) -> None:
        names = sorted({p.name for r in requests for p in r.route.providers})
        self.sources = _lock_sources(names)
        # The locks keep other workers from beginning calls after this count.
        self.at = now()
        self._under_way = _count_open_calls(names, self.at)
        self._earlier = _earlier_calls(requests)
        self._calls: list[Row] = []
        self._interrupted: dict[UUID, CallOutcome] = {}
        self._changed: set[str] = set()
        self._delayed: Counter[str] = Counter()

    def decide(self, request: CallRequest) -> CallDecision:
        earlier = self._earlier.get(request.result_id, [])
        order = list(request.route.providers)
        called_back = {call.source for call in earlier if call.has_answer}
        if answered := next((p for p in order if p.name in called_back), None):
            return self._permit_reading(request, answered)
        calls = [call for call in earlier if call.end != CallOutcome.NOT_ASKED]
        last = calls[-1] if calls else None
        if last and last.end == CallOutcome.IN_DOUBT:
            # A worker ended the call here, and died before it recorded the outcome.
            return InDoubt()
        if last and last.end in {
            CallOutcome.UNDER_WAY,
            CallOutcome.NOT_YET,
            CallOutcome.LOST,
        }:
            same = next((p for p in order if p.name == last.source), None)
            if last.end == CallOutcome.UNDER_WAY:
                outcome = self._interrupted[last.pk] = _interrupted_outcome(same)
                if outcome == CallOutcome.IN_DOUBT:
                    return InDoubt()
            if (
                last.end == CallOutcome.NOT_YET
                and same
                and not same.repeats_are_free
                and (decision := self._decide_resting(request, same))
            ):
                return decision
            # The source that has the inquiry comes first.
            order.sort(key=lambda provider: provider is not same)
        # The settings limit paid repeats.
        lost = Counter(call.source for call in earlier if call.may_be_charged)
        affordable = [
            p
            for p in order
            if p.repeats_are_free or lost[p.name] <= _limit_of(p.name).paid_again
        ]
        if not affordable:
            return CallsExhausted()
        failed = {
            call.source
            for call in earlier
            if call.tries == request.tries and call.end == CallOutcome.UNAVAILABLE
        }
        return self._choose_source(
            request, [p for p in affordable if p.name not in failed]
        )

    def save(self) -> None:
        """Write the calls that ended or begin, and the times of the sources."""
        if self._interrupted:
            ended = {call: EndedCall(how) for call, how in self._interrupted.items()}
            end_calls(ended, self.at)
        insert(Rows(Call, self._calls))
        changed = [self.sources[name] for name in sorted(self._changed)]
        Source.objects.bulk_update(changed, ["probed_at", "free_at"])

    def free_room(self, source: Source) -> int:
        reason = _rest_reason(source, self.at)
        if reason == "RESTING":
            return UNLIMITED_ROOM
        room = _call_limit(source, self.at) - self._under_way[source.name]
        return 0 if reason else max(0, room)

    def _decide_resting(
        self, request: CallRequest, provider: Provider
    ) -> CallDecision | None:
        """Decide for a paid inquiry whose source rests; otherwise return None.

        No other source is called. The check keeps its try and waits for the callback.
        After `MAX_WAIT` the check calls the resting source, which ends the inquiry.
        """
        source, at = self.sources[provider.name], self.at
        begun = self._pending_inquiry(request, provider)
        reason = _rest_reason(source, at)
        if not reason or not begun:
            return None
        if reason == "PROBED":
            return CallDelay(at + PROBE_WAIT)
        if at - begun.at <= MAX_WAIT:
            return CallDelay(min(source.resting_until or at, at + REST_CHECK_INTERVAL))
        if self._reserve_room(source):
            # `SourceFull` would not wait: a resting source has room for all checks.
            return CallDelay(at + PROBE_WAIT)
        return self._permit_reading(request, provider)

    def _permit_reading(self, request: CallRequest, provider: Provider) -> CallPermit:
        """Permit to read an answer that came by a callback.

        It calls nobody, so no limit applies. An interrupted call is in no doubt then.
        """
        last = self._earlier[request.result_id][-1]
        if last.end == CallOutcome.UNDER_WAY:
            self._interrupted[last.pk] = (
                CallOutcome.LOST
                if last.source == provider.name
                else _interrupted_outcome(provider_named(last.source))
            )
        return self._permit(request, provider, more=len(request.route.providers) > 1)

    def _choose_source(
        self, request: CallRequest, providers: Sequence[Provider]
    ) -> CallDecision:
        skipped = [[name, "NOT_CONFIGURED"] for name in request.route.lacking]
        is_probed = False
        for number, provider in enumerate(providers, 1):
            source = self.sources[provider.name]
            if reason := _rest_reason(source, self.at):
                is_probed = is_probed or reason == "PROBED"
                skipped.append([provider.name, reason])
            elif wait := self._reserve_room(source):
                return wait
            else:
                more = number < len(providers)
                return self._permit(request, provider, more=more, skipped=skipped)
        if is_probed:
            return CallDelay(self.at + PROBE_WAIT)
        rests = [self.sources[p.name].resting_until for p in providers]
        until = min((at for at in rests if at), default=self.at)
        name = (providers or request.route.providers)[0].name
        self._add_call(request, name, skipped, is_asked=False)
        return NoSourceAvailable(until)

    def _permit(
        self,
        request: CallRequest,
        provider: Provider,
        *,
        more: bool,
        skipped: SkippedSources | None = None,
    ) -> CallPermit:
        call = self._add_call(request, provider.name, skipped or [])
        begun_at = [
            call.begun_at
            for call in self._earlier.get(request.result_id, [])
            if call.source == provider.name and call.end != CallOutcome.NOT_ASKED
        ]
        asked_at = min(begun_at, default=self.at)
        begun = self._pending_inquiry(request, provider)
        return CallPermit(call, provider, more, asked_at, begun)

    def _pending_inquiry(
        self, request: CallRequest, provider: Provider
    ) -> PendingInquiry | None:
        accepted = [
            call
            for call in self._earlier.get(request.result_id, [])
            if call.source == provider.name
            and (
                call.has_answer
                or (call.tries, call.end) == (request.tries, CallOutcome.NOT_YET)
            )
        ]
        if not accepted:
            return None
        job = next((call.job for call in accepted if call.job), "")
        answers = (_decrypt_answer(call) for call in accepted if call.has_answer)
        return PendingInquiry(accepted[0].begun_at, job, next(answers, None))

    def _reserve_room(self, source: Source) -> SourceFull | CallDelay | None:
        """Count a call of the source; return the wait instead if it has no room."""
        at = self.at
        if self._under_way[source.name] >= _call_limit(source, at):
            return SourceFull(source.name)
        if a_minute := _limit_of(source.name).a_minute:
            every = timedelta(minutes=1) / a_minute
            if source.free_at and source.free_at > at:
                self._delayed[source.name] += 1
                return CallDelay(source.free_at + every * self._delayed[source.name])
            # The source may catch up on the unused calls of the last second.
            second_ago = at - timedelta(seconds=1)
            source.free_at = max(source.free_at or second_ago, second_ago) + every
            self._changed.add(source.name)
        if source.resting_until is not None:
            source.probed_at = at
            self._changed.add(source.name)
        self._under_way[source.name] += 1
        return None

    def _add_call(
        self,
        request: CallRequest,
        source: str,
        skipped: SkippedSources,
        *,
        is_asked: bool = True,
    ) -> UUID:
        call = uuid7()
        self._calls.append(
            {
                "id": call,
                "result_id": request.result_id,
                "attempt": request.attempt,
                "tries": request.tries,
                "source": source,
                "reference": request.reference,
                "passed_over": skipped,
                "begun_at": self.at,
                "ended_at": None if is_asked else self.at,
                "end": "" if is_asked else CallOutcome.NOT_ASKED.value,
                "why": "",
            }
        )
        return call


def _lock_sources(names: Sequence[str]) -> dict[str, Source]:
    rows = Source.objects.select_for_update().filter(name__in=names).order_by("name")
    sources = {source.name: source for source in rows}
    if len(sources) < len(names):
        made = [Source(name=name) for name in names if name not in sources]
        Source.objects.bulk_create(made, ignore_conflicts=True)
        sources = {source.name: source for source in rows.all()}
    return sources


def _count_open_calls(names: Sequence[str], at: datetime) -> Counter[str]:
    since = at - timedelta(seconds=settings.CHECK_LEASE_SECONDS)
    calls = Call.objects.filter(source__in=names, end="", begun_at__gt=since)
    return Counter(dict(calls.values_list("source").annotate(Count("pk"))))


def _earlier_calls(requests: Iterable[CallRequest]) -> dict[UUID, list[Call]]:
    """Return the calls of the same runs of checks, oldest first."""
    attempts = {r.result_id: r.attempt for r in requests if not r.is_new}
    found: dict[UUID, list[Call]] = {}
    if attempts:
        # Locked, so that a callback comes before the decision or is too late for it.
        calls = Call.objects.filter(result__in=list(attempts)).order_by("id")
        for call in calls.select_for_update(no_key=True):
            if call.attempt == attempts[call.result_id]:
                found.setdefault(call.result_id, []).append(call)
    return found


def _decrypt_answer(call: Call) -> str:
    """Return the answer, or '' if it cannot be read; adapters treat '' as no answer."""
    try:
        return str(call.answer)
    except (InvalidTag, UnknownKey) as e:
        logger.error("answer of call %s: %s", call.pk, type(e).__name__)
        return ""


def _rest_reason(source: Source, at: datetime) -> str:
    """Return why the source may not be called, or '' if it may, or may be probed."""
    if source.resting_until is None:
        return ""
    if source.resting_until > at:
        return "RESTING"
    lease = timedelta(seconds=settings.CHECK_LEASE_SECONDS)
    return "PROBED" if source.probed_at and source.probed_at + lease > at else ""


def _call_limit(source: Source, at: datetime) -> int:
    at_once = _limit_of(source.name).at_once
    is_stale = source.answered_at is None or source.answered_at < at - STALE_AFTER
    if source.failures_in_row or is_stale:
        return min(at_once, CAREFUL_LIMIT)
    return at_once


def _limit_of(source: str) -> Limit:
    limit: Limit = settings.SOURCE_LIMITS.get(source, Limit())
    return limit
