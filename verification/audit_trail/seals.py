"""Seal audit events: a hash over each event and the seal before it.

The audited actions write no hash: each would wait for the lock of the one before, and
IDs and times of events are made before their commits. A trigger lists each event as
unsealed in its own transaction. One job at a time seals the committed events: so
numbers have no gaps, and no event appears behind a sealed one. `webhooks/feed.py` has
the same design.

The hash covers no personal data that could be guessed from it: of the network address
it covers the presence alone. The address is encrypted and bound to its row, so a change
needs FIELD_KEYS.
"""

import time
from collections.abc import Iterator, Sequence
from datetime import UTC
from hashlib import sha256
from typing import Any
from uuid import UUID

import orjson
from django.db import transaction

from verification.audit_trail import anchors
from verification.audit_trail.models import (
    AuditSeal,
    last_seal,
    read_state,
    write_state,
)
from verification.db.base import run_sql
from verification.db.bulk_insert import Rows, insert
from verification.jobs.queue import advisory_lock, beat, job, schedule_job
from verification.values.local_time import utc_text

BATCH_SIZE = 2_000
# A job ends after this, so that others get its worker.
JOB_SECONDS = 20

# The columns of an event in the order of `facts_of`, and the encrypted address
COLUMNS = """e.id, e.created_at, e.actor_kind, e.actor, e.action, e.object_type,
    e.object_id, e.workspace_id, e.fields, e.reason, e.request_id, e.address"""
# Events of before the trigger, in pages by id
FILL = """
WITH page AS (
    SELECT id FROM backoffice_auditevent
    WHERE id > %(after)s ORDER BY id LIMIT %(limit)s
), listed AS (
    INSERT INTO audit_trail_unsealedevent (event_id)
    SELECT id FROM page ON CONFLICT DO NOTHING
)
SELECT id FROM page ORDER BY id DESC LIMIT 1
"""
# An event that is listed and not there was deleted: its seal tells of it. One that has
# a seal was listed again by FILL or by a restore. PostgreSQL would look for the rows
# of IN again for each row, as the statistics of this table say that it is empty.
TAKE = f"""
WITH taken AS (
    DELETE FROM audit_trail_unsealedevent WHERE event_id = ANY (ARRAY(
        SELECT event_id FROM audit_trail_unsealedevent ORDER BY event_id LIMIT %s
    )) RETURNING event_id
)
SELECT taken.event_id, {COLUMNS} FROM taken
LEFT JOIN backoffice_auditevent e ON e.id = taken.event_id
WHERE NOT EXISTS (
    SELECT FROM audit_trail_auditseal s WHERE s.event_id = taken.event_id
)
ORDER BY taken.event_id
"""  # noqa: S608
PAGE = f"""
SELECT s.number, s.hash, s.event_id, {COLUMNS} FROM audit_trail_auditseal s
LEFT JOIN backoffice_auditevent e ON e.id = s.event_id
WHERE s.number > %s ORDER BY s.number LIMIT %s
"""  # noqa: S608


@job
def seal_events() -> None:
    """Seal the events that wait, then anchor the last seal."""
    with advisory_lock("audit trail") as is_mine:
        if not is_mine:
            return
        stop_at = time.monotonic() + JOB_SECONDS
        is_done = sealed = False
        while not is_done and beat() and time.monotonic() < stop_at:
            count, is_done = _seal_batch()
            sealed = sealed or count > 0
        if sealed or is_done:
            anchors.anchor(is_new=sealed)
    if not is_done:
        schedule_job(seal_events)


@transaction.atomic
def _seal_batch() -> tuple[int, bool]:
    """Seal a batch; return how many events it had, and whether none are left."""
    is_filled = _list_older()
    number, previous = last_seal()
    rows = []
    waiting = run_sql(TAKE, [BATCH_SIZE])
    for event_id, *event in waiting:
        number += 1
        previous = hash_of(previous, facts_of(number, event_id, event))
        rows.append({"number": number, "event_id": event_id, "hash": previous})
    insert(Rows(AuditSeal, rows))
    return len(rows), is_filled and not waiting


def _list_older() -> bool:
    """List the next events of before the trigger; return whether all are listed."""
    state = read_state()
    if state.is_filled:
        return True
    after = state.filled_to or UUID(int=0)
    last = run_sql(FILL, {"after": after, "limit": BATCH_SIZE})
    if last:
        write_state(filled_to=last[0][0])
    else:
        write_state(is_filled=True)
    return not last


def facts_of(number: int, event_id: UUID, event: Sequence[Any]) -> dict[str, Any]:
    """Return what the hash covers, of the values of COLUMNS.

    The id of an event that is not there is all that is known of it.
    """
    if event[0] is None:
        return {"number": number, "id": str(event_id)}
    _, at, kind, actor, action, object_type, object_id, workspace, *rest = event
    fields, reason, request_id, address = rest
    return {
        "number": number,
        "id": str(event_id),
        "at": utc_text(at.astimezone(UTC)),
        "actorKind": kind,
        "actor": actor,
        "action": action,
        "objectType": object_type,
        "objectId": object_id,
        "workspaceId": str(workspace) if workspace else None,
        "fields": fields,
        "reason": reason,
        "requestId": request_id,
        "hasAddress": address is not None,
    }


def hash_of(previous: bytes, facts: dict[str, Any]) -> bytes:
    """Return SHA-256 of the hash before and the facts as JSON with sorted members."""
    text = orjson.dumps(facts, option=orjson.OPT_SORT_KEYS)
    return sha256(previous + text).digest()


def read_page(after: int, size: int) -> Iterator[tuple[int, bytes, UUID, list[Any]]]:
    """Return number, hash, event id and COLUMNS of the seals after a number."""
    for number, sealed, event_id, *event in run_sql(PAGE, [after, size]):
        yield number, bytes(sealed), event_id, event
