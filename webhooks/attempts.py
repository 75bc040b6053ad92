"""Claim due deliveries for one sender, and record their attempts.

A sender claims at most a share of each configuration's deliveries. The share grows
while the receiver answers quickly, because a claim of many deliveries costs little more
than a claim of one. A receiver that is slow or fails has the smallest share: as many
deliveries as the sender has requests under way. Deliveries that only wait for a place
would take the room of other receivers.
"""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any
from uuid import UUID

from django.db import transaction

from verification.db.base import run_sql
from verification.db.bulk_insert import Row, Rows, insert
from verification.db.ids import uuid7
from verification.jobs.claims import claim_sql, column_list, together_or_alone
from verification.jobs.names import JobName
from verification.jobs.queue import ensure_job_by
from verification.values.clock import now
from webhooks import health
from webhooks.models import (
    Attempt,
    Configuration,
    Delivery,
    DeliveryStatus,
    Event,
)
from webhooks.sender import Answer

# Requests under way to one receiver from one sender.
MAX_CONCURRENT_REQUESTS = 10
MAX_CLAIMED = 160
# From the claim to the answer, including the wait for a place.
QUICK_SECONDS = 1.0
# A sender renews the leases of its deliveries, so that those of a dead sender are due
# again soon.
LEASE_SECONDS = 20
NO_SHARES: Mapping[UUID, int] = MappingProxyType({})

# Seconds after each failure: ten attempts over about three days (75.6 hours).
RETRY_DELAYS = (5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)
JITTER = 0.2
HOUR = 3_600
# The service follows the Retry-After of answers with these statuses.
RETRY_AFTER_STATUSES = frozenset([429, 503])
# The service does not retry after these errors.
FINAL_ERRORS = {Attempt.Error.TARGET_BLOCKED, Attempt.Error.UNREADABLE}

# A walk through the index from one configuration with waiting deliveries to the next:
# its cost does not depend on the number of deliveries.
WAITING = """
WITH RECURSIVE waiting AS (
    (
        SELECT configuration_id FROM webhooks_delivery
        WHERE next_attempt_at IS NOT NULL ORDER BY configuration_id LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT d.configuration_id FROM webhooks_delivery d
        WHERE d.next_attempt_at IS NOT NULL AND d.configuration_id > w.configuration_id
        ORDER BY d.configuration_id LIMIT 1
    )
    FROM waiting w WHERE w.configuration_id IS NOT NULL
)
"""
# The lock holds until the claim commits, so that two senders do not fill the same room.
# Recording an event takes a weaker lock and does not wait.
READY = f"""
{WAITING}
SELECT {column_list(Configuration, "c")} FROM webhooks_configuration c
JOIN workspaces_workspace w ON w.id = c.workspace_id AND w.suspended_at IS NULL
WHERE c.id IN (SELECT configuration_id FROM waiting) AND c.enabled
    AND (resting_until IS NULL OR resting_until <= statement_timestamp())
    AND EXISTS (
        SELECT FROM webhooks_delivery d
        WHERE d.configuration_id = c.id AND d.next_attempt_at <= statement_timestamp()
    )
FOR NO KEY UPDATE OF c SKIP LOCKED
"""  # noqa: S608
# The first delivery of each configuration comes before the second of any. After a rest
# of the breaker a receiver gets a single request as a probe. A delivery that was sent
# again while the subject objected has no payload.
DUE = f"""
WITH room AS (
    SELECT c.id, CASE WHEN c.resting_until IS NULL THEN ready.share ELSE 1 END - (
        SELECT count(*) FROM webhooks_delivery d
        WHERE d.configuration_id = c.id AND d.leased_until > statement_timestamp()
    ) AS places
    FROM unnest(%s::uuid[], %s::int[]) AS ready(id, share)
    JOIN webhooks_configuration c USING (id)
), ranked AS (
    SELECT d.event_id,
        row_number() OVER (PARTITION BY room.id ORDER BY next_attempt_at) AS rank
    FROM room CROSS JOIN LATERAL (
        SELECT event_id, next_attempt_at FROM webhooks_delivery
        WHERE configuration_id = room.id AND next_attempt_at <= statement_timestamp()
        ORDER BY next_attempt_at, event_id LIMIT GREATEST(room.places, 0)
        FOR NO KEY UPDATE SKIP LOCKED
    ) d
)
SELECT first.event_id, e.name, e.created_at, CASE
    WHEN e.restricted_at IS NULL
        OR e.name = ANY ('{{{",".join(Event.IMPERSONAL_NAMES)}}}') THEN e.payload
END AS payload
FROM (SELECT event_id FROM ranked ORDER BY rank LIMIT %s) AS first
JOIN webhooks_event e ON e.id = first.event_id
"""  # noqa: S608
CLAIM = claim_sql(
    "webhooks_delivery",
    DUE,
    "fence = fence + 1, next_attempt_at = lease.ends, leased_until = lease.ends",
    key="event_id",
    returning="due.event_id AS id, due.name, due.created_at, due.payload, "
    "configuration_id, fence, failures, attempts, simulated_answer",
)
# The rows are locked in the order of all who lock several.
POSTPONE = """
WITH due AS (SELECT statement_timestamp() + %s * interval '1 second' AS at),
own AS MATERIALIZED (
    SELECT d.event_id
    FROM webhooks_delivery d
    JOIN unnest(%s::uuid[], %s::int[]) AS u(id, fence)
        ON d.event_id = u.id AND d.fence = u.fence
    WHERE d.leased_until IS NOT NULL
    ORDER BY d.event_id FOR NO KEY UPDATE OF d
)
UPDATE webhooks_delivery d
SET next_attempt_at = due.at, leased_until = CASE WHEN %s THEN due.at END
FROM due, own WHERE d.event_id = own.event_id
"""
NEXT_DUE = f"""
{WAITING}
SELECT min(GREATEST(resting_until, (
    SELECT d.next_attempt_at FROM webhooks_delivery d
    WHERE d.configuration_id = c.id AND d.next_attempt_at IS NOT NULL
    ORDER BY d.next_attempt_at LIMIT 1
)))
FROM webhooks_configuration c
JOIN workspaces_workspace w ON w.id = c.workspace_id AND w.suspended_at IS NULL
WHERE c.id IN (SELECT configuration_id FROM waiting) AND c.enabled
"""  # noqa: S608
RECORD = """
UPDATE webhooks_delivery d
SET status = u.status, failures = u.failures, attempts = d.attempts + 1,
    next_attempt_at = u.due, leased_until = NULL, simulated_answer = '',
    status_code = COALESCE(u.code, d.status_code),
    delivered_at = CASE WHEN u.status = 'DELIVERED' THEN %s END
FROM unnest(
    %s::uuid[], %s::int[], %s::text[], %s::smallint[], %s::timestamptz[], %s::smallint[]
) AS u(id, fence, status, failures, due, code)
WHERE d.event_id = u.id AND d.fence = u.fence AND d.leased_until IS NOT NULL
RETURNING d.event_id, d.fence
"""


@dataclass(frozen=True, slots=True)
class Claim:
    """A delivery this sender may attempt until its lease ends."""

    event: Event
    configuration: Configuration
    fence: int
    # The counts before this attempt.
    failures: int
    attempts: int
    # A `SimulatedAnswer`, or "".
    simulated: str = ""


# The claim, its time and the answer.
EndedAttempt = tuple[Claim, datetime, Answer]


class ClaimShares:
    def __init__(self) -> None:
        self.grown: dict[UUID, int] = {}

    def note(
        self, configuration_id: UUID, *, acknowledged: bool, seconds: float
    ) -> None:
        """Raise the share by one after a quick acknowledgement, or else reset it."""
        if acknowledged and seconds <= QUICK_SECONDS:
            share = self.grown.get(configuration_id, MAX_CONCURRENT_REQUESTS) + 1
            self.grown[configuration_id] = min(share, MAX_CLAIMED)
        else:
            self.grown.pop(configuration_id, None)


@transaction.atomic
def claim(limit: int, shares: Mapping[UUID, int] = NO_SHARES) -> list[Claim]:
    """Claim up to `limit` due deliveries, and of each configuration at most its share.

    A configuration that `shares` does not name has the smallest share. Deliveries of
    resting configurations and suspended workspaces stay unclaimed.
    """
    ready = {c.pk: c for c in Configuration.objects.raw(READY)}
    if not ready:
        return []
    ready_shares = [shares.get(pk, MAX_CONCURRENT_REQUESTS) for pk in ready]
    claimed: Iterable[Any] = Event.objects.raw(
        CLAIM, [list(ready), ready_shares, limit, None, LEASE_SECONDS]
    )
    claims = [
        Claim(
            e,
            ready[e.configuration_id],
            e.fence,
            e.failures,
            e.attempts,
            e.simulated_answer,
        )
        for e in claimed
    ]
    for configuration in ready.values():
        if configuration.simulated_left:
            claims = _simulate(configuration, claims)
    return claims


def _simulate(configuration: Configuration, claims: Sequence[Claim]) -> list[Claim]:
    """Let the next claims of a configuration get its simulated answers.

    The configuration is locked by the claim. The deliveries keep the answer until their
    attempt is recorded, so that the claim after a crash finds it.
    """
    answer, left = configuration.simulated_answer, configuration.simulated_left
    own = [c for c in claims if c.configuration is configuration and not c.simulated]
    taken = {c.event.pk for c in own[:left]}
    if not taken:
        return list(claims)
    Delivery.objects.filter(pk__in=taken).update(simulated_answer=answer)
    Configuration.objects.filter(pk=configuration.pk).update(
        simulated_left=left - len(taken)
    )
    return [replace(c, simulated=answer) if c.event.pk in taken else c for c in claims]


def renew_claims(claims: Sequence[Claim]) -> None:
    """Begin the leases of these claims again."""
    _postpone(claims, LEASE_SECONDS, is_leased=True)


def release_claims(claims: Sequence[Claim], seconds: float) -> None:
    """Release unsent claims: they are due again after this number of seconds."""
    _postpone(claims, seconds, is_leased=False)


def _postpone(claims: Sequence[Claim], seconds: float, *, is_leased: bool) -> None:
    ids, fences = [c.event.pk for c in claims], [c.fence for c in claims]
    run_sql(POSTPONE, [seconds, ids, fences, is_leased])


def stop_claims(claims: Iterable[Claim]) -> None:
    """Fail the deliveries of purged and restricted events, without an attempt."""
    for claimed in claims:
        own = Delivery.objects.filter(pk=claimed.event.pk, fence=claimed.fence)
        own.update(
            status=DeliveryStatus.FAILED, next_attempt_at=None, leased_until=None
        )


def schedule_next_run() -> None:
    """Run a sender when the next delivery is due, unless one is scheduled by then.

    A run that had the slot ends with this. Other deliveries wait for their time, for
    the end of their receiver's rest, or for the end of the lease of a sender that may
    have died.
    """
    ensure_job_by(JobName.SEND_DELIVERIES, run_sql(NEXT_DUE)[0][0])


def record_attempts(ended: Sequence[EndedAttempt]) -> None:
    """Record the attempts in one transaction, or one by one if that fails.

    A delivery whose attempt is not recorded is sent again when its lease ends.
    """
    together_or_alone(
        "recording of attempts", _record, ended, key=lambda one: one[0].event.pk
    )


@transaction.atomic
def _record(ended: Sequence[EndedAttempt]) -> None:
    at = now()
    rows = [
        (claimed.event.pk, claimed.fence, *_outcome(claimed, answer, at))
        for claimed, _, answer in ended
    ]
    # Sorted, so that two recordings never deadlock.
    rows.sort(key=lambda row: row[0])
    updated = set(run_sql(RECORD, [at, *map(list, zip(*rows, strict=True))]))
    # The others are claimed by another sender.
    recorded = [one for one in ended if (one[0].event.pk, one[0].fence) in updated]
    insert(Rows(Attempt, [_attempt_row(*one) for one in recorded]))
    # Last, because the configuration's row stays locked until the commit.
    health.record_answers(
        [(claimed.configuration, answer) for claimed, _, answer in recorded], at
    )


def _outcome(
    claimed: Claim, answer: Answer, at: datetime
) -> tuple[str, int, datetime | None, int | None]:
    """Return the delivery's status, failures, next attempt and HTTP status."""
    code = answer.status_code
    if answer.is_acknowledgement:
        return DeliveryStatus.DELIVERED.value, claimed.failures, None, code
    failures = claimed.failures + 1
    wait = next_retry_delay(failures, code, answer.retry_after)
    if wait is None or answer.error in FINAL_ERRORS or code == health.GONE:
        return DeliveryStatus.FAILED.value, failures, None, code
    return DeliveryStatus.RETRYING.value, failures, at + wait, code


def next_retry_delay(
    failures: int, status_code: int | None, retry_after: float | None
) -> timedelta | None:
    """Return the wait after this number of failures (from 1), or None after the last.

    `retry_after` is the receiver's Retry-After in seconds. It can make the wait longer,
    up to an hour or twice the wait of the schedule, whichever is more.
    """
    if failures > len(RETRY_DELAYS):
        return None
    planned = RETRY_DELAYS[failures - 1]
    wait = planned * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311
    if status_code in RETRY_AFTER_STATUSES and retry_after is not None:
        wait = max(wait, min(retry_after, max(2 * planned, HOUR)))
    return timedelta(seconds=wait)


def _attempt_row(claimed: Claim, claimed_at: datetime, answer: Answer) -> Row:
    is_erased = claimed.event.name == Event.Name.REPORT_ERASED
    return {
        "id": uuid7(),
        "delivery_id": claimed.event.pk,
        "number": claimed.attempts + 1,
        "url": claimed.configuration.url,
        "started_at": answer.started_at or claimed_at,
        "duration_ms": answer.duration_ms,
        "status_code": answer.status_code,
        "error": answer.error,
        # Nothing would erase what the receiver says of an erased subject.
        "answer": None if is_erased else answer.text or None,
    }
