"""Check the audit trail: each event against its seal, and the seals against anchors."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from cryptography.exceptions import InvalidTag
from django.db import connection, transaction

from verification.audit_trail import anchors
from verification.audit_trail.models import (
    START,
    UnsealedEvent,
    last_seal,
    read_state,
    write_state,
)
from verification.audit_trail.seals import facts_of, hash_of, read_page
from verification.backoffice.models import AuditEvent
from verification.db.encryption import UnknownKey
from verification.db.ids import time_of_id
from verification.jobs.queue import advisory_lock, beat, job, schedule_job
from verification.values.clock import now
from verification.values.local_time import utc_text

BATCH_SIZE = 5_000
JOB_SECONDS = 20
MAX_SHOWN = 100
# After this an event that waits for its seal is a fault.
LATE = timedelta(hours=1)
# An event that is dated so long before the one that was sealed before it is a fault.
OUT_OF_ORDER = timedelta(hours=6)
# Events that have no seal and are missing in the list of unsealed events
UNSEALED = """
SELECT e.id FROM backoffice_auditevent e
WHERE NOT EXISTS (SELECT FROM audit_trail_auditseal s WHERE s.event_id = e.id)
    AND NOT EXISTS (SELECT FROM audit_trail_unsealedevent u WHERE u.event_id = e.id)
LIMIT %s
"""

log = logging.getLogger("verification.audit_trail")


def check_everything(
    trusted: Collection[str] = (), lines: Sequence[dict[str, Any]] = ()
) -> tuple[int, list[str], Counter[str]]:
    """Check all events, and record the outcome.

    Returns how many events there are, the faults, and how many anchors each key has
    signed. `trusted` and `lines` are those of `check_anchors`.
    """
    found: list[str] = []
    number = count = 0
    while step := _check_seals(number, found):
        number, size = step
        count += size
    faults, keys = _finish(found, trusted, lines)
    return count, faults, keys


@job
def check_nightly() -> None:
    """Begin a check of all events, from the first one: the database may lie."""
    # A new installation has no row yet.
    read_state()
    write_state(check_number=0, check_found=[])
    continue_check()


@job
def continue_check() -> None:
    """Go on with the check of the night for JOB_SECONDS."""
    with advisory_lock("check of the audit trail") as is_mine:
        state = read_state()
        if not is_mine or state.check_number is None:
            return
        number, found = state.check_number, list(state.check_found)
        if number > (last := last_seal()[0]):
            found.append(f"The check stood at event {number}, the last one is {last}.")
            number = 0
        _log("checking the audit trail", after=number)
        stop_at = time.monotonic() + JOB_SECONDS
        while beat() and time.monotonic() < stop_at:
            step = _check_seals(number, found)
            if step is None:
                _finish(found)
                return
            number, _ = step
            write_state(check_number=number, check_found=found[:MAX_SHOWN])
    schedule_job(continue_check)


def _check_seals(after: int, found: list[str]) -> tuple[int, int] | None:
    """Check the seals after a number, and add faults to `found`.

    Returns the last number and the number of seals, or None after the last seal. Each
    hash is compared with the stored hash before it, so one changed event is one fault.
    """
    previous, previous_at = _seal_at(after)
    number, size = after, 0
    for number, sealed, event_id, event in read_page(after, BATCH_SIZE):
        expected = after + 1
        if number != expected:
            found.append(f"The seals {expected} to {number - 1} are missing.")
            previous = None
        if fault := _fault_of(number, sealed, event_id, event, previous):
            found.append(f"Event {number} ({event_id}) {fault}.")
        if (at := event[1]) is not None:
            if previous_at and previous_at - at > OUT_OF_ORDER:
                dated = f"dated {utc_text(at)}, hours before the one before it"
                found.append(f"Event {number} ({event_id}) is {dated}.")
            previous_at = at
        after, previous = number, sealed
        size += 1
    return (number, size) if size else None


def _seal_at(number: int) -> tuple[bytes | None, datetime | None]:
    """Return the hash of a seal and the time of its event, None if they are gone."""
    if number == 0:
        return START, None
    for there, sealed, _, event in read_page(number - 1, 1):
        if there == number:
            return sealed, event[1]
    return None, None


def _fault_of(
    number: int, sealed: bytes, event_id: UUID, event: list[Any], previous: bytes | None
) -> str:
    if event[0] is None:
        return "is missing"
    if previous and hash_of(previous, facts_of(number, event_id, event)) != sealed:
        return "is not what was sealed"
    address = event[-1]
    try:
        if address is not None:
            AuditEvent._meta.get_field("address").open(bytes(address), event_id)
    except (InvalidTag, UnknownKey, ValueError):
        return "has an address that was not sealed with it"
    return ""


def _log(message: str, **facts: Any) -> None:
    """Log a step of the check: a log store sees events that were left out.

    A new installation without events has nothing to tell.
    """
    number, hashed = last_seal()
    if number or facts.get("faults"):
        log.info(message, extra={"number": number, "hash": hashed.hex(), **facts})


def _finish(
    found: list[str],
    trusted: Collection[str] = (),
    lines: Sequence[dict[str, Any]] = (),
) -> tuple[list[str], Counter[str]]:
    """Check what needs all seals, record the outcome; return all faults, and keys."""
    if read_state().is_filled:
        with transaction.atomic(), connection.cursor() as cursor:
            # It reads the indexes of both tables.
            cursor.execute("SET LOCAL statement_timeout = 0")
            cursor.execute(UNSEALED, [MAX_SHOWN])
            found += [f"Event {pk} has no seal." for (pk,) in cursor.fetchall()]
        oldest = UnsealedEvent.objects.order_by("event_id").first()
        if oldest and now() - time_of_id(oldest.event_id) > LATE:
            found.append(f"Event {oldest.event_id} still waits for its seal.")
    faults, keys = anchors.check_anchors(trusted, lines)
    found += faults
    for fault in found[:MAX_SHOWN]:
        log.error("audit trail: %s", fault)
    _log("audit trail checked", faults=len(found))
    write_state(
        check_number=None,
        check_found=found[:MAX_SHOWN],
        checked_at=now(),
        faults=len(found),
    )
    return found, keys
