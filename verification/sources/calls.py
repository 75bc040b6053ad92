"""Which source a check may ask now: begun calls are written before they are made.

Everything is decided in one short transaction that holds the rows of the sources
concerned, so that limits and rests hold over all workers and machines.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from cryptography.exceptions import InvalidTag
from django.conf import settings
from django.db import connection, transaction
from django.utils.timezone import now

from verification.db.bulk_insert import Row, Rows, insert
from verification.db.encryption import UnknownKey
from verification.db.ids import uuid7
from verification.providers.base import PendingInquiry, Provider
from verification.providers.findings import MAX_WAIT
from verification.providers.registry import Route, provider_named
from verification.settings.providers import Limit
from verification.sources.models import Call, CallOutcome, Source

logger = logging.getLogger(__name__)

# A source that has failed last, or not answered for so long, is asked with care.
UNLIMITED_ROOM = 1_000
CAREFUL_LIMIT, STALE_AFTER = 10, timedelta(minutes=1)
# How long others wait for how a probe ends.
PROBE_WAIT = timedelta(seconds=2)
# How often a check looks whether a source that has its inquiry still rests.
REST_CHECK_INTERVAL = timedelta(minutes=1)

END_CALLS = """
UPDATE sources_call SET "end" = u.how, why = u.why, may_be_charged = u.charged,
    job = u.job, ended_at = %s
FROM unnest(%s::uuid[], %s::text[], %s::text[], %s::bool[], %s::text[])
    AS u(id, how, why, charged, job)
WHERE sources_call.id = u.id AND "end" = ''
RETURNING result_id, "end" = 'NOT_YET' AND called_back_at IS NOT NULL
"""
COUNT_OPEN_CALLS = """
SELECT source, count(*) FROM sources_call
WHERE source = ANY(%s) AND "end" = '' AND begun_at > %s GROUP BY source
"""


@dataclass(frozen=True, slots=True)
class CallRequest:
    """A check that wants to be asked of somebody on its route."""

    result_id: UUID
    attempt: int
    tries: int
    # Whether this check was ever claimed before.
    is_new: bool
    reference: str
    route: Route


@dataclass(frozen=True, slots=True)
class CallPermit:
    """The call may be made; `more` says that another source is left to ask.

    `asked_at` is when this source was first asked in this run of the check, and `begun`
    what it has already taken in this round.
    """

    call: UUID
    provider: Provider
    more: bool
    asked_at: datetime
    begun: PendingInquiry | None = None


@dataclass(frozen=True, slots=True)
class SourceFull:
    """The source gets as much as it may: wait until a call of it has ended."""

    source: str


@dataclass(frozen=True, slots=True)
class CallDelay:
    """Nobody may be asked before then, which is no failure of theirs."""

    at: datetime


@dataclass(frozen=True, slots=True)
class NoSourceAvailable:
    """All sources rest, because they did not answer others, or have just failed."""

    until: datetime


@dataclass(frozen=True, slots=True)
class InDoubt:
    """The source was asked, nobody knows what came of it, and asking may cost again."""

    source: str


@dataclass(frozen=True, slots=True)
class CallsExhausted:
    """No source answered, and all of them were asked as often as may be paid for."""


CallDecision = (
    CallPermit | SourceFull | CallDelay | NoSourceAvailable | InDoubt | CallsExhausted
)
SkippedSources = list[list[str]]


@dataclass(slots=True)
class _DecisionBatch:
    """All that one transaction knows and writes."""

    at: datetime
    sources: dict[str, Source]
    under_way: Counter[str]
    earlier: dict[UUID, list[Call]]
    calls: list[Row] = field(default_factory=list)
    closed: dict[UUID, CallOutcome] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)
    put_off: Counter[str] = field(default_factory=Counter)


@transaction.atomic
def begin_calls(
    wishes: Sequence[CallRequest],
) -> tuple[list[CallDecision], dict[str, int]]:
    """What becomes of each, in their order; calls that may be made are written.

    And how many more calls each source has room for now. Of one that rests any number
    may come: they are told at once that it is not asked.
    """
    names = {p.name for wish in wishes for p in wish.route.providers}
    sources = _lock_sources(sorted(names))
    # With the sources held: begun calls of others are counted from now on.
    at = now()
    round_ = _DecisionBatch(
        at, sources, _count_open_calls(names, at), _earlier_calls(wishes)
    )
    decisions = [_decide(wish, round_) for wish in wishes]
    _end_interrupted_calls(round_)
    insert(Rows(Call, round_.calls))
    Source.objects.bulk_update(
        [sources[name] for name in sorted(round_.changed)], ["probed_at", "free_at"]
    )
    return decisions, {
        name: _free_room(source, round_) for name, source in sources.items()
    }


@dataclass(frozen=True, slots=True)
class EndedCall:
    """How a call ended; of one without an answer why, and whether it may be charged."""

    how: CallOutcome
    why: str = ""
    may_be_charged: bool = False
    # The source's own name of what it has taken.
    job: str = ""


def end_calls(calls: Mapping[UUID, EndedCall], at: datetime) -> list[UUID]:
    """Write how these calls ended.

    Of those that have none yet, it returns the checks whose source has called back
    meanwhile.
    """
    ended = [(str(e.how), e.why, e.may_be_charged, e.job) for e in calls.values()]
    with connection.cursor() as cursor:
        cursor.execute(
            END_CALLS, [at, list(calls), *map(list, zip(*ended, strict=True))]
        )
        return [result for result, has_one in cursor.fetchall() if has_one]


def erase_answers(result_ids: Sequence[UUID]) -> None:
    """The checks have read what the sources' callbacks told."""
    kept = Call.objects.filter(result__in=result_ids, answer__isnull=False)
    kept.update(answer=None)


def close_calls(result_ids: Iterable[UUID]) -> None:
    """Their workers died, and they are not asked any more: end what was under way."""
    ids = list(result_ids)
    if not ids:
        return
    under_way = Call.objects.filter(result__in=ids, end=CallOutcome.UNDER_WAY)
    for source in set(under_way.values_list("source", flat=True)):
        ended = _interrupted_outcome(provider_named(source))
        under_way.filter(source=source).update(end=ended, ended_at=now())


def _interrupted_outcome(provider: Provider | None) -> CallOutcome:
    """What a call is that was under way when its worker died."""
    free = provider is not None and provider.repeats_are_free
    return CallOutcome.LOST if free else CallOutcome.IN_DOUBT


def _lock_sources(names: Sequence[str]) -> dict[str, Source]:
    rows = Source.objects.select_for_update().filter(name__in=names).order_by("name")
    held = {source.name: source for source in rows}
    if len(held) < len(names):
        made = [Source(name=name) for name in names if name not in held]
        Source.objects.bulk_create(made, ignore_conflicts=True)
        held = {source.name: source for source in rows.all()}
    return held


def _count_open_calls(names: Iterable[str], at: datetime) -> Counter[str]:
    since = at - timedelta(seconds=settings.CHECK_LEASE_SECONDS)
    with connection.cursor() as cursor:
        cursor.execute(COUNT_OPEN_CALLS, [list(names), since])
        return Counter(dict(cursor.fetchall()))


def _earlier_calls(wishes: Iterable[CallRequest]) -> dict[UUID, list[Call]]:
    """Calls of the same run of checks that were claimed before, oldest first."""
    attempts = {wish.result_id: wish.attempt for wish in wishes if not wish.is_new}
    found: dict[UUID, list[Call]] = {}
    if attempts:
        # Held, so that a callback is here before what is decided, or comes too late.
        calls = Call.objects.filter(result__in=list(attempts)).order_by("id")
        for call in calls.select_for_update(no_key=True):
            if call.attempt == attempts[call.result_id]:
                found.setdefault(call.result_id, []).append(call)
    return found


def _decide(wish: CallRequest, round_: _DecisionBatch) -> CallDecision:
    earlier = round_.earlier.get(wish.result_id, [])
    order = list(wish.route.providers)
    told = {call.source for call in earlier if call.has_answer}
    if answered := next((p for p in order if p.name in told), None):
        return _permit_reading(wish, answered, earlier, round_)
    # Also where nobody could be asked since.
    asked = [call for call in earlier if call.end != CallOutcome.NOT_ASKED]
    if asked and asked[-1].end == CallOutcome.IN_DOUBT:
        # Whoever found that out died before it was recorded.
        return InDoubt(asked[-1].source)
    if asked and asked[-1].end in {
        CallOutcome.UNDER_WAY,
        CallOutcome.NOT_YET,
        CallOutcome.LOST,
    }:
        last = asked[-1]
        same = next((p for p in order if p.name == last.source), None)
        if last.end == CallOutcome.UNDER_WAY:
            round_.closed[last.pk] = _interrupted_outcome(same)
            if round_.closed[last.pk] == CallOutcome.IN_DOUBT:
                return InDoubt(last.source)
        if (
            last.end == CallOutcome.NOT_YET
            and same
            and not same.repeats_are_free
            and (waits := _delay_while_resting(wish, same, earlier, round_))
        ):
            return waits
        # Whoever has the inquiry is asked for the answer, not somebody else.
        order.sort(key=lambda provider: provider is not same)
    failed = {
        call.source
        for call in earlier
        if call.tries == wish.tries and call.end == CallOutcome.UNAVAILABLE
    }
    affordable = [p for p in order if not _is_exhausted(p, earlier)]
    if not affordable:
        return CallsExhausted()
    return _choose_source([p for p in affordable if p.name not in failed], wish, round_)


def _delay_while_resting(
    wish: CallRequest,
    provider: Provider,
    earlier: Sequence[Call],
    round_: _DecisionBatch,
) -> CallDecision | None:
    """The source has an inquiry that is paid for, and may rest: then no other source is
    asked, and the check keeps its try and waits for the callback. After the source's
    patience the check asks all the same, which ends the inquiry."""
    source, at = round_.sources[provider.name], round_.at
    begun = _pending_inquiry(wish, provider, earlier)
    rests = _rest_reason(source, at)
    if not rests or not begun:
        return None
    if rests == "PROBED":
        return CallDelay(at + PROBE_WAIT)
    if at - begun.at <= MAX_WAIT:
        return CallDelay(min(source.resting_until or at, at + REST_CHECK_INTERVAL))
    if _reserve_room(source, round_):
        # Not in its queue, from which checks are claimed at once while it rests.
        return CallDelay(at + PROBE_WAIT)
    return _permit_reading(wish, provider, earlier, round_)


def _permit_reading(
    wish: CallRequest,
    provider: Provider,
    earlier: Sequence[Call],
    round_: _DecisionBatch,
) -> CallPermit:
    """The answer came by a callback: no call is made, so nothing limits this one, and
    one whose worker died is in no doubt."""
    last = earlier[-1]
    if last.end == CallOutcome.UNDER_WAY:
        is_same = last.source == provider.name
        lost = (
            CallOutcome.LOST
            if is_same
            else _interrupted_outcome(provider_named(last.source))
        )
        round_.closed[last.pk] = lost
    call = _add_call(wish, provider.name, [], round_)
    more = len(wish.route.providers) > 1
    asked_at = _first_asked_at(wish, provider, round_)
    return CallPermit(
        call, provider, more, asked_at, _pending_inquiry(wish, provider, earlier)
    )


def _pending_inquiry(
    wish: CallRequest, provider: Provider, earlier: Iterable[Call]
) -> PendingInquiry | None:
    taken = [
        call
        for call in earlier
        if call.source == provider.name
        and (
            call.has_answer
            or (call.tries, call.end) == (wish.tries, CallOutcome.NOT_YET)
        )
    ]
    if not taken:
        return None
    job = next((call.job for call in taken if call.job), "")
    answer = next((_decrypt_answer(call) for call in taken if call.has_answer), None)
    return PendingInquiry(taken[0].begun_at, job, answer)


def _decrypt_answer(call: Call) -> str:
    """Return '' if it cannot be decrypted; the adapter takes that for no answer."""
    try:
        return str(call.answer)
    except (InvalidTag, UnknownKey) as e:
        logger.error("answer of call %s: %s", call.pk, type(e).__name__)
        return ""


def _is_exhausted(provider: Provider, earlier: Iterable[Call]) -> bool:
    """Whether as many calls as may be paid for have ended without an answer."""
    if provider.repeats_are_free:
        return False
    limit: Limit = settings.SOURCE_LIMITS.get(provider.name, Limit())
    lost = sum(c.source == provider.name and c.may_be_charged for c in earlier)
    return lost > limit.paid_again


def _choose_source(
    left: Sequence[Provider], wish: CallRequest, round_: _DecisionBatch
) -> CallDecision:
    passed_over = [[name, "NOT_CONFIGURED"] for name in wish.route.lacking]
    probed = False
    for number, provider in enumerate(left):
        source = round_.sources[provider.name]
        if why := _rest_reason(source, round_.at):
            probed = probed or why == "PROBED"
            passed_over.append([provider.name, why])
            continue
        if wait := _reserve_room(source, round_):
            return wait
        call = _add_call(wish, provider.name, passed_over, round_)
        more = number + 1 < len(left)
        asked_at = _first_asked_at(wish, provider, round_)
        begun = _pending_inquiry(wish, provider, round_.earlier.get(wish.result_id, []))
        return CallPermit(call, provider, more, asked_at, begun)
    if probed:
        return CallDelay(round_.at + PROBE_WAIT)
    rests = [round_.sources[p.name].resting_until for p in left]
    until = min((at for at in rests if at), default=round_.at)
    name = left[0].name if left else wish.route.providers[0].name
    _add_call(wish, name, passed_over, round_, is_asked=False)
    return NoSourceAvailable(until)


def _first_asked_at(
    wish: CallRequest, provider: Provider, round_: _DecisionBatch
) -> datetime:
    begun = [
        call.begun_at
        for call in round_.earlier.get(wish.result_id, [])
        if call.source == provider.name and call.end != CallOutcome.NOT_ASKED
    ]
    return min(begun, default=round_.at)


def _rest_reason(source: Source, at: datetime) -> str:
    """Why it is not asked; blank where it may be, if need be as the one that tries."""
    if source.resting_until is None:
        return ""
    if source.resting_until > at:
        return "RESTING"
    lease = timedelta(seconds=settings.CHECK_LEASE_SECONDS)
    return "PROBED" if source.probed_at and source.probed_at + lease > at else ""


def _free_room(source: Source, round_: _DecisionBatch) -> int:
    why = _rest_reason(source, round_.at)
    if why == "RESTING":
        return UNLIMITED_ROOM
    most = _call_limit(source, round_.at) - round_.under_way[source.name]
    return 0 if why else max(0, most)


def _call_limit(source: Source, at: datetime) -> int:
    limit: Limit = settings.SOURCE_LIMITS.get(source.name, Limit())
    stale = source.answered_at is None or source.answered_at < at - STALE_AFTER
    careful = source.failures_in_row or stale
    return min(limit.at_once, CAREFUL_LIMIT) if careful else limit.at_once


def _reserve_room(
    source: Source, round_: _DecisionBatch
) -> SourceFull | CallDelay | None:
    """Count the call in, unless there is no room for it."""
    limit: Limit = settings.SOURCE_LIMITS.get(source.name, Limit())
    at = round_.at
    if round_.under_way[source.name] >= _call_limit(source, at):
        return SourceFull(source.name)
    if limit.a_minute:
        every = timedelta(minutes=1) / limit.a_minute
        if source.free_at and source.free_at > at:
            round_.put_off[source.name] += 1
            return CallDelay(source.free_at + every * round_.put_off[source.name])
        # What was not used within the last second may be caught up on.
        second_ago = at - timedelta(seconds=1)
        source.free_at = max(source.free_at or second_ago, second_ago) + every
        round_.changed.add(source.name)
    if source.resting_until is not None:
        source.probed_at = at
        round_.changed.add(source.name)
    round_.under_way[source.name] += 1
    return None


def _add_call(
    wish: CallRequest,
    source: str,
    passed_over: SkippedSources,
    round_: _DecisionBatch,
    *,
    is_asked: bool = True,
) -> UUID:
    call, at = uuid7(), round_.at
    round_.calls.append(
        {
            "id": call,
            "result_id": wish.result_id,
            "attempt": wish.attempt,
            "tries": wish.tries,
            "source": source,
            "reference": wish.reference,
            "passed_over": passed_over,
            "begun_at": at,
            "ended_at": None if is_asked else at,
            "end": "" if is_asked else CallOutcome.NOT_ASKED.value,
            "why": "",
        }
    )
    return call


def _end_interrupted_calls(round_: _DecisionBatch) -> None:
    if round_.closed:
        end_calls(
            {call: EndedCall(how) for call, how in round_.closed.items()}, round_.at
        )
