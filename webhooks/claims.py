"""Claim due deliveries, each for one sender, with a fair share for each configuration.

The share is the number of deliveries of a configuration that a sender holds at a time.
It grows while the receiver answers quickly, because a claim of many deliveries costs
little more than a claim of one. A receiver that is slow or fails has the smallest
share: as many deliveries as the sender has requests under way. Deliveries that only
wait for a place would take the room of other receivers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction

from verification.jobs.claims import claim_sql
from verification.jobs.queue import ensure_job_by
from webhooks.configuration import SEND_DUE
from webhooks.models import Configuration, Event
from webhooks.sender import WAIT_SECONDS

# Requests under way to one receiver from one sender.
MAX_CONCURRENT_REQUESTS = 10
MAX_CLAIMED = 160
# From the claim to the answer, including the wait for a place.
QUICK_SECONDS = 1.0


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


LEASE_MARGIN_SECONDS = 15
NO_SHARES: Mapping[UUID, int] = MappingProxyType({})

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
SELECT c.* FROM webhooks_configuration c
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
# of the breaker a receiver gets a single request as a probe.
DUE = """
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
SELECT first.event_id, e.name, e.created_at, e.payload
FROM (SELECT event_id FROM ranked ORDER BY rank LIMIT %s) AS first
JOIN webhooks_event e ON e.id = first.event_id
"""
CLAIM = claim_sql(
    "webhooks_delivery",
    DUE,
    "fence = fence + 1, next_attempt_at = lease.ends, leased_until = lease.ends",
    key="event_id",
    returning="due.event_id AS id, due.name, due.created_at, due.payload, "
    "configuration_id, fence, failures, attempts",
)
RELEASE = """
UPDATE webhooks_delivery d
SET next_attempt_at = statement_timestamp() + %s * interval '1 second',
    leased_until = NULL
FROM unnest(%s::uuid[], %s::int[]) AS u(id, fence)
WHERE d.event_id = u.id AND d.fence = u.fence AND d.leased_until IS NOT NULL
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


@dataclass(frozen=True, slots=True)
class Claim:
    """A delivery this sender may attempt until its lease ends."""

    event: Event
    configuration: Configuration
    fence: int
    # The counts before this attempt.
    failures: int
    attempts: int


@transaction.atomic
def claim(limit: int, shares: Mapping[UUID, int] = NO_SHARES) -> list[Claim]:
    """Claim up to `limit` due deliveries, and of each configuration at most its share.

    A configuration that `shares` does not name has the smallest share. Deliveries of
    resting configurations and suspended workspaces stay unclaimed.
    """
    ready = {c.pk: c for c in Configuration.objects.raw(READY)}
    if not ready:
        return []
    # A delivery may wait for a place, and then for an answer.
    lease = WAIT_SECONDS + settings.WEBHOOK_TIMEOUT_SECONDS + LEASE_MARGIN_SECONDS
    claimed: Iterable[Any] = Event.objects.raw(
        CLAIM,
        [
            list(ready),
            [shares.get(pk, MAX_CONCURRENT_REQUESTS) for pk in ready],
            limit,
            None,
            lease,
        ],
    )
    return [
        Claim(e, ready[e.configuration_id], e.fence, e.failures, e.attempts)
        for e in claimed
    ]


def release_claims(claims: Sequence[Claim], seconds: float = 0) -> None:
    """Give back claims that were not sent: they are due after so many seconds."""
    with connection.cursor() as cursor:
        cursor.execute(
            RELEASE,
            [seconds, [c.event.pk for c in claims], [c.fence for c in claims]],
        )


def schedule_next_run() -> None:
    """Run a sender when the next delivery is due, unless one is scheduled by then.

    Every run ends with this. A delivery that is left waits for its time, for the end of
    its receiver's rest, or for the end of the lease of a sender that may have died.
    """
    with connection.cursor() as cursor:
        cursor.execute(NEXT_DUE)
        due = cursor.fetchone()[0]
    ensure_job_by(SEND_DUE, due)
