"""Check the audit trail: each event against its seal, and the seals against anchors.

The text of a fault names the state that was found, by a hash: so an explanation covers
this state alone.
"""

import logging
import re
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, NamedTuple
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
from verification.audit_trail.seals import COLUMNS, facts_of, hash_of, read_page
from verification.backoffice import audit
from verification.backoffice.models import AuditEvent
from verification.db.encryption import UnknownKey
from verification.db.ids import time_of_id
from verification.jobs.queue import advisory_lock, beat, job, schedule_job
from verification.values.clock import now
from verification.values.local_time import utc_text

BATCH_SIZE = 5_000
JOB_SECONDS = 20
MAX_SHOWN = 100
# The check of the night reads so many anchors, those of three weeks.
NIGHTLY_ANCHORS = 500
# After this an event that waits for its seal is a fault.
LATE = timedelta(hours=1)
# An event that is dated so long before the one that was sealed before it is a fault.
OUT_OF_ORDER = timedelta(hours=6)
# Events that have no seal and are missing in the list of unsealed events
UNSEALED = f"""
SELECT e.id, {COLUMNS} FROM backoffice_auditevent e
WHERE NOT EXISTS (SELECT FROM audit_trail_auditseal s WHERE s.event_id = e.id)
    AND NOT EXISTS (SELECT FROM audit_trail_unsealedevent u WHERE u.event_id = e.id)
LIMIT %s
"""  # noqa: S608
# Faults that end when a job works again. Until then they hide others.
MENDED = re.compile(r".* (still waits for its seal|have no anchor)\.")

log = logging.getLogger("verification.audit_trail")


class Outcome(NamedTuple):
    events: int
    faults: list[str]
    explained: dict[str, anchors.Explanation]
    # The number of anchors of each key
    keys: Counter[str]


class NotExplained(Exception):
    """A text is no fault of the audit trail, or one that must be mended."""


def check_everything(
    trusted: Collection[str] = (), lines: Sequence[dict[str, Any]] = ()
) -> Outcome:
    """Check all events, and record the outcome.

    `trusted` and `lines` are those of `check_anchors`.
    """
    found: list[str] = []
    number = count = 0
    while step := _check_seals(number, found):
        number, size = step
        count += size
    return Outcome(count, *_finish(found, trusted, lines))


def explain(
    faults: Sequence[str], reason: str, lines: Sequence[dict[str, Any]] = ()
) -> None:
    """Record that the operator knows the cause of these faults, which end thereby.

    `lines` are those of the check that has found them. Raises NotExplained if the check
    does not find one of them, and JournalUnavailable.
    """
    found = check_everything(lines=lines).faults
    for fault in found:
        if fault.startswith(anchors.UNREADABLE):
            # It hides faults.
            raise NotExplained(f"Fix this first: {fault}")
    for fault in faults:
        if fault not in found:
            raise NotExplained(f"The check finds no such fault: {fault}")
        if MENDED.fullmatch(fault):
            raise NotExplained(f"This fault ends when it is fixed: {fault}")
    with transaction.atomic():
        for fault in faults:
            audit.record(
                "audit-trail.explained",
                audit.SERVICE,
                read_state(),
                reason=f"{fault} {reason}",
            )
    anchors.explain(faults, reason)
    _record([fault for fault in found if fault not in faults])


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
        explained = anchors.read_explanations()
        stop_at = time.monotonic() + JOB_SECONDS
        while beat() and time.monotonic() < stop_at:
            step = _check_seals(number, found)
            if step is None:
                _finish(found, newest=NIGHTLY_ANCHORS)
                return
            number, _ = step
            found = [fault for fault in found if fault not in explained][:MAX_SHOWN]
            write_state(check_number=number, check_found=found)
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
            # Nothing else tells of a change of the event behind the gap.
            behind = hash_of(sealed, facts_of(number, event_id, event)).hex()
            missing = f"{expected} to {number - 1} are missing before {behind}"
            found.append(f"The seals {missing}.")
            previous = None
        for fault in _faults_of(number, sealed, event_id, event, previous):
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


def _faults_of(
    number: int, sealed: bytes, event_id: UUID, event: list[Any], previous: bytes | None
) -> Iterator[str]:
    if event[0] is None:
        yield "is missing"
        return
    if previous is not None:
        hashed = hash_of(previous, facts_of(number, event_id, event))
        if hashed != sealed:
            yield f"is not what was sealed: {hashed.hex()}"
    address = event[-1]
    try:
        if address is not None:
            AuditEvent._meta.get_field("address").open(bytes(address), event_id)
    except (InvalidTag, UnknownKey, ValueError):
        digest = sha256(bytes(address)).hexdigest()
        yield f"has an address that was not sealed with it: {digest}"


def _unsealed_faults(explained: Collection[str]) -> Iterator[str]:
    """Yield a fault for each event without a seal, and each that has changed since.

    No seal protects an event whose missing seal was explained.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        # It reads the indexes of both tables.
        cursor.execute("SET LOCAL statement_timeout = 0")
        cursor.execute(UNSEALED, [MAX_SHOWN + len(explained)])
        rows = cursor.fetchall()
    found = {
        f"Event {pk} has no seal: {hash_of(START, facts_of(0, pk, event)).hex()}."
        for pk, *event in rows
    }
    yield from sorted(found)
    for fault in sorted(explained):
        is_of_seal = fault.startswith("Event ") and " has no seal: " in fault
        if is_of_seal and fault not in found:
            yield f"This was explained and is no longer so: {fault}"


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
    newest: int | None = None,
) -> tuple[list[str], dict[str, anchors.Explanation], Counter[str]]:
    """Check what needs all seals, and record the outcome.

    Returns the open faults, the explained ones, and the anchors of each key.
    """
    explained = anchors.read_explanations(trusted)
    if read_state().is_filled:
        found += _unsealed_faults(explained)
        oldest = UnsealedEvent.objects.order_by("event_id").first()
        if oldest and now() - time_of_id(oldest.event_id) > LATE:
            found.append(f"Event {oldest.event_id} still waits for its seal.")
    faults, keys = anchors.check_anchors(trusted, lines, newest)
    found += faults
    left = [fault for fault in found if fault not in explained]
    for fault in left[:MAX_SHOWN]:
        log.error("audit trail: %s", fault)
    _log("audit trail checked", faults=len(left))
    _record(left)
    return left, {f: explained[f] for f in found if f in explained}, keys


def _record(faults: list[str]) -> None:
    write_state(
        check_number=None,
        check_found=faults[:MAX_SHOWN],
        checked_at=now(),
        faults=len(faults),
    )
