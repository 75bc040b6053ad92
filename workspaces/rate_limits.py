"""Counts of acts a minute, over all processes and machines.

Windows are the minutes of the clock. PostgreSQL counts, or Redis if REDIS_URL is set;
while Redis is unavailable, PostgreSQL counts.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from time import monotonic

from django.conf import settings
from django.core.cache import caches

from verification.db.base import run_sql
from verification.db.encryption import keyed_hash
from verification.jobs.claims import delete_in_batches
from verification.jobs.queue import job
from verification.values.clock import now
from verification.values.networks import read_address
from workspaces.models import RateCount

WINDOW_SECONDS = 60
# Counts are deleted this long after their minute.
RETENTION = timedelta(minutes=5)
# So long a process does not ask a Redis again that did not answer: each call may take
# until its timeout.
REST_SECONDS = 10

# When it may be asked again
_rested_at = 0.0
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Rate:
    limit: int
    remaining: int
    # Whole seconds until the next window, never 0.
    resets_in: int
    exceeded: bool


def count(subject: str, limit: int, by: int = 1) -> Rate:
    """Count `by` more for this subject, and return its rate.

    Call it outside a transaction, so that the count stays if the request fails, and its
    row is not locked for long.
    """
    moment = int(now().timestamp())
    used_of_window = moment % WINDOW_SECONDS
    counted = _count(subject, moment - used_of_window, by)
    return Rate(
        limit=limit,
        remaining=max(limit - counted, 0),
        resets_in=WINDOW_SECONDS - used_of_window,
        exceeded=counted > limit,
    )


@contextmanager
def count_seconds(*subjects: str) -> Iterator[None]:
    """Count each whole second of the work within once more for these subjects."""
    begun = monotonic()
    yield
    if seconds := int(monotonic() - begun):
        for subject in subjects:
            count(subject, 0, seconds)


def claim_once(subject: str, at: int) -> bool:
    """Return True for the first call with this subject and moment.

    PostgreSQL decides even if Redis counts, as Redis may lose its data in between.
    """
    return _count_in_database(subject, at, 1) == 1


def count_failed_authentication(address: str) -> Rate:
    """Count one more refused key of this client address."""
    return count_for_address(
        address, "failed-authentications", settings.FAILED_AUTHENTICATIONS_PER_MINUTE
    )


def count_for_address(address: str, purpose: str, limit: int) -> Rate:
    """Count one more of something that this client address does."""
    hashed = keyed_hash(purpose, network_of(address)).hex()
    return count(f"{purpose}:{hashed}", limit)


@job
def purge_counts() -> None:
    """Delete the counts of past minutes."""
    delete_in_batches(RateCount.objects.filter(minute__lt=now() - RETENTION))


def _count(subject: str, window: int, by: int) -> int:
    global _rested_at
    if settings.REDIS_URL and monotonic() >= _rested_at:
        # Imported here, as it needs 5 MB in every process.
        from redis.exceptions import RedisError

        key = f"rate:{subject}:{window}"
        try:
            caches["rates"].add(key, 0, timeout=2 * WINDOW_SECONDS)
            return caches["rates"].incr(key, by)
        except RedisError:
            _rested_at = monotonic() + REST_SECONDS
            logger.warning(
                "Redis is unavailable; PostgreSQL counts rates", exc_info=True
            )
    return _count_in_database(subject, window, by)


def _count_in_database(subject: str, window: int, by: int) -> int:
    return run_sql(
        """
        INSERT INTO workspaces_ratecount AS seen (subject, minute, count)
        VALUES (%s, %s, %s)
        ON CONFLICT (subject, minute)
            DO UPDATE SET count = seen.count + excluded.count
        RETURNING count
        """,
        [subject, datetime.fromtimestamp(window, UTC), by],
    )[0][0]


def network_of(address: str, ipv6_bytes: int = 8) -> str:
    """Return the network of one client: an IPv4 address, or the /64 of IPv6."""
    parsed = read_address(address)
    if parsed is None:
        return address
    return parsed.packed[:ipv6_bytes].hex() if parsed.version == 6 else str(parsed)
