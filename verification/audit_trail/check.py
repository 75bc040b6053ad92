"""Check the audit trail: each event against its seal, and the seals against anchors."""

from __future__ import annotations

import logging
import time
from datetime import timedelta
from typing import Any
from uuid import UUID

from cryptography.exceptions import InvalidTag
from django.db import connection, transaction

from verification.audit_trail import anchors
from verification.audit_trail.models import (
    START,
    AuditSeal,
    UnsealedEvent,
    read_state,
    write_state,
)
from verification.audit_trail.seals import facts_of, hash_of, read_page
from verification.backoffice.models import AuditEvent
from verification.db.encryption import UnknownKey
from verification.db.ids import time_of_id
from verification.jobs.queue import advisory_lock, beat, job, schedule_job
from verification.values.clock import now

BATCH_SIZE = 5_000
JOB_SECONDS = 20
MAX_SHOWN = 100
# After this an event that waits for its seal is a fault.
LATE = timedelta(hours=1)
# Events that have no seal and are missing in the list of unsealed events
UNSEALED = """
SELECT e.id FROM backoffice_auditevent e
WHERE NOT EXISTS (SELECT FROM audit_trail_auditseal s WHERE s.event_id = e.id)
    AND NOT EXISTS (SELECT FROM audit_trail_unsealedevent u WHERE u.event_id = e.id)
LIMIT %s
"""

log = logging.getLogger("verification.audit_trail")


def check_everything() -> tuple[int, list[str]]:
    """Check all events, record the outcome; return how many there are, and faults."""
    found: list[str] = []
    number = count = 0
    while step := _check_seals(number, found):
        number, size = step
        count += size
    return count, _finish(found)


@job
def check_nightly() -> None:
    """Begin a check of all events, or go on with one that is under way."""
    if read_state().check_number is None:
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
    previous = _hash_at(after)
    number, size = after, 0
    for number, sealed, event_id, event in read_page(after, BATCH_SIZE):
        expected = after + 1
        if number != expected:
            found.append(f"The seals {expected} to {number - 1} are missing.")
            previous = None
        if fault := _fault_of(number, sealed, event_id, event, previous):
            found.append(f"Event {number} ({event_id}) {fault}.")
        after, previous = number, sealed
        size += 1
    return (number, size) if size else None


def _hash_at(number: int) -> bytes | None:
    if number == 0:
        return START
    row = AuditSeal.objects.filter(pk=number).first()
    return bytes(row.hash) if row else None


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


def _finish(found: list[str]) -> list[str]:
    """Check what needs all seals, record the outcome and return all faults."""
    if read_state().is_filled:
        with transaction.atomic(), connection.cursor() as cursor:
            # It reads the indexes of both tables.
            cursor.execute("SET LOCAL statement_timeout = 0")
            cursor.execute(UNSEALED, [MAX_SHOWN])
            found += [f"Event {pk} has no seal." for (pk,) in cursor.fetchall()]
        oldest = UnsealedEvent.objects.order_by("event_id").first()
        if oldest and now() - time_of_id(oldest.event_id) > LATE:
            found.append(f"Event {oldest.event_id} still waits for its seal.")
    found += anchors.check_anchors()
    for fault in found[:MAX_SHOWN]:
        log.error("audit trail: %s", fault)
    write_state(
        check_number=None,
        check_found=found[:MAX_SHOWN],
        checked_at=now(),
        faults=len(found),
    )
    return found
