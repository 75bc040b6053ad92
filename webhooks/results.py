"""Record attempts: the delivery, its next attempt and its receiver's failures."""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db import connection, transaction
from django.utils.timezone import now

from verification.db.bulk_insert import Row, Rows, insert
from verification.db.ids import uuid7
from webhooks import health
from webhooks.claims import Claim
from webhooks.models import Attempt, DeliveryStatus
from webhooks.requests import Answer

# Seconds after each failure: ten attempts over about three days (75.6 hours).
RETRY_DELAYS = (5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)
JITTER = 0.2
HOUR = 3_600
# The service follows the Retry-After of answers with these statuses.
RETRY_AFTER_STATUSES = frozenset([429, 503])


def next_retry_delay(
    failures: int, status_code: int | None, retry_after: float | None
) -> timedelta | None:
    """Return the wait after so many failures (1 or more), or None after the last.

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


logger = logging.getLogger(__name__)

# The claim, its time and the answer.
EndedAttempt = tuple[Claim, datetime, Answer]

# The service does not retry after these errors.
FINAL_ERRORS = {Attempt.Error.TARGET_BLOCKED, Attempt.Error.UNREADABLE}
UPDATE = """
UPDATE webhooks_delivery d
SET status = u.status, failures = u.failures, attempts = d.attempts + 1,
    next_attempt_at = u.due, leased_until = NULL,
    status_code = COALESCE(u.code, d.status_code),
    delivered_at = CASE WHEN u.status = 'DELIVERED' THEN %s END
FROM unnest(
    %s::uuid[], %s::int[], %s::text[], %s::smallint[], %s::timestamptz[], %s::smallint[]
) AS u(id, fence, status, failures, due, code)
WHERE d.event_id = u.id AND d.fence = u.fence AND d.leased_until IS NOT NULL
RETURNING d.event_id, d.fence
"""


@dataclass(frozen=True, slots=True)
class _Outcome:
    status: str
    failures: int
    next_attempt_at: datetime | None


def record_attempts(ended: Sequence[EndedAttempt]) -> None:
    """Record the attempts in one transaction, or one by one if that fails.

    A delivery whose attempt is not recorded is sent again when its lease ends.
    """
    if not ended:
        return
    try:
        _record(ended)
    except Exception as e:
        logger.warning(
            "batch of %s attempts failed (%s); recording them one by one",
            len(ended),
            _error_name(e),
        )
        for one in ended:
            _record_alone(one)


def _record_alone(one: EndedAttempt) -> None:
    try:
        _record([one])
    except Exception as e:
        event_id = one[0].event.pk
        logger.error(
            "attempt of %s could not be recorded: %s", event_id, _error_name(e)
        )


def _error_name(e: Exception) -> str:
    """An exception's message may hold what a receiver answered."""
    return type(e).__name__


@transaction.atomic
def _record(ended: Sequence[EndedAttempt]) -> None:
    at = now()
    ours = _update(ended, at)
    mine = [one for one in ended if (one[0].event.pk, one[0].fence) in ours]
    insert(Rows(Attempt, [_attempt(*one) for one in mine]))
    # Last, because the configuration's row stays locked until the commit.
    health.record_answers(
        [(claimed.configuration, answer) for claimed, _, answer in mine], at
    )


def _update(ended: Sequence[EndedAttempt], at: datetime) -> set[tuple[UUID, int]]:
    """Update the deliveries. Returns event id and fence of those still claimed."""
    rows = []
    for claimed, _, answer in ended:
        outcome = _outcome(claimed, answer, at)
        rows.append(
            (
                claimed.event.pk,
                claimed.fence,
                outcome.status,
                outcome.failures,
                outcome.next_attempt_at,
                answer.status_code,
            )
        )
    # Sorted, so that two recordings never deadlock.
    rows.sort(key=lambda row: row[0])
    with connection.cursor() as cursor:
        cursor.execute(UPDATE, [at, *map(list, zip(*rows, strict=True))])
        return set(cursor.fetchall())


def _outcome(claimed: Claim, answer: Answer, at: datetime) -> _Outcome:
    if answer.is_acknowledgement:
        return _Outcome(DeliveryStatus.DELIVERED.value, claimed.failures, None)
    failures = claimed.failures + 1
    wait = next_retry_delay(failures, answer.status_code, answer.retry_after)
    if (
        wait is None
        or answer.error in FINAL_ERRORS
        or answer.status_code == health.GONE
    ):
        return _Outcome(DeliveryStatus.FAILED.value, failures, None)
    return _Outcome(DeliveryStatus.RETRYING.value, failures, at + wait)


def _attempt(claimed: Claim, claimed_at: datetime, answer: Answer) -> Row:
    return {
        "id": uuid7(),
        "delivery_id": claimed.event.pk,
        "number": claimed.attempts + 1,
        "url": claimed.configuration.url,
        "started_at": answer.started_at or claimed_at,
        "duration_ms": answer.duration_ms,
        "status_code": answer.status_code,
        "error": answer.error,
        "answer": answer.text or None,
    }
