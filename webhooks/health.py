"""How a configuration's receiver does: resting while it fails, disabled in the end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import takewhile

from django.db import connection
from django.db.models import QuerySet

from verification.jobs.queue import later
from webhooks.letters import Answer
from webhooks.models import Attempt, Configuration

GONE = 410
# The owners are told at this failure in a row.
TOLD_AT = 4
# The breaker opens at this failure in a row: for 30 seconds, and when it fails again
# after a rest for twice as long, up to five minutes.
RESTS_AT = 10
# Disabled when nothing was delivered for so long, and so many attempts failed.
DEAD_AFTER = timedelta(days=5)
DEAD_FAILURES = 10

# What was sent to an earlier URL says nothing of this one: `updated_at` has moved.
FAIL = f"""
UPDATE webhooks_configuration
SET failures_in_row = failures_in_row + %(failures)s,
    failing_since = COALESCE(failing_since, %(at)s),
    resting_until = CASE
        WHEN failures_in_row + %(failures)s < {RESTS_AT} THEN NULL
        WHEN resting_until > %(at)s THEN resting_until
        ELSE %(at)s + interval '1 second' * LEAST(300, 30 * 2 ^ LEAST(rests, 10))
    END,
    rests = rests + CASE
        WHEN failures_in_row + %(failures)s < {RESTS_AT} THEN 0
        WHEN resting_until > %(at)s THEN 0
        ELSE 1
    END
WHERE id = %(id)s AND updated_at = %(updated_at)s
RETURNING failures_in_row, failing_since
"""  # noqa: S608


def note(ended: Iterable[tuple[Configuration, Answer]], at: datetime) -> None:
    """Count what these answers, in their order, say of their receivers."""
    by_configuration: dict[Configuration, list[Answer]] = defaultdict(list)
    for configuration, answer in ended:
        # That we could not read the event is not the receiver's fault.
        if answer.error != Attempt.Error.UNREADABLE:
            by_configuration[configuration].append(answer)
    # In one order everywhere, so that two recordings never wait for each other.
    for configuration in sorted(by_configuration, key=lambda c: c.pk):
        _note(configuration, by_configuration[configuration], at)


def _note(
    configuration: Configuration, answers: Sequence[Answer], at: datetime
) -> None:
    failed = len(list(takewhile(lambda a: not a.is_acknowledgement, reversed(answers))))
    if failed < len(answers):
        _recovered(configuration)
    if failed:
        _failed(configuration, failed, at)
    if any(answer.status_code == GONE for answer in answers):
        _disable(configuration, Configuration.Disabled.GONE, at)


def _recovered(configuration: Configuration) -> None:
    # What it was at the claim says nothing: others have answered since.
    _as_it_was(configuration).filter(failures_in_row__gt=0).update(
        failures_in_row=0, failing_since=None, resting_until=None, rests=0
    )


def _failed(configuration: Configuration, failures: int, at: datetime) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            FAIL,
            {
                "id": configuration.pk,
                "updated_at": configuration.updated_at,
                "failures": failures,
                "at": at,
            },
        )
        row = cursor.fetchone()
    if row is None:
        return
    in_row, since = row
    if in_row - failures < TOLD_AT <= in_row:
        later("webhooks.tasks.tell_failing", configuration.pk)
    if in_row >= DEAD_FAILURES and since <= at - DEAD_AFTER:
        _disable(configuration, Configuration.Disabled.FAILING, at)


def _disable(
    configuration: Configuration, reason: Configuration.Disabled, at: datetime
) -> None:
    """What waits keeps waiting, and goes out when it is enabled again."""
    disabled = _as_it_was(configuration, enabled=True).update(
        enabled=False, disabled_at=at, disabled_reason=reason
    )
    if disabled:
        later("webhooks.tasks.tell_disabled", configuration.pk)


def _as_it_was(configuration: Configuration, **also: bool) -> QuerySet[Configuration]:
    return Configuration.objects.filter(
        pk=configuration.pk, updated_at=configuration.updated_at, **also
    )
