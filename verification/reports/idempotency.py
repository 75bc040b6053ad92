"""Carry out a request with an Idempotency-Key once, and answer its repeats.

One transaction stores the answer and the rows that the request creates, so neither
exists without the other. Concurrent requests with one key do not wait for each other.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

import orjson
from django.conf import settings
from django.db import transaction

from verification.db.base import run_sql
from verification.db.bulk_insert import Rows, insert
from verification.db.encryption import keyed_hash
from verification.jobs.claims import delete_in_batches
from verification.jobs.queue import job
from verification.reports.models import IdempotencyRecord
from verification.values.clock import now
from workspaces.models import Client

PRINTABLE = re.compile(r"[\x20-\x7e]{1,120}")


class InvalidIdempotencyKey(Exception):
    """The header is not 1 to 120 printable ASCII characters."""


class RequestInProgress(Exception):
    """A request with this key is being carried out at this moment."""


class IdempotencyKeyReused(Exception):
    """The key belongs to a different request."""


class AnswerErased(Exception):
    """The answer named a person whose data was erased since."""


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """A client's key, and the fingerprint of the request that carries it."""

    workspace_id: UUID
    environment: str
    key: bytes
    fingerprint: bytes

    @classmethod
    def read(
        cls, header: str, client: Client, method_and_path: str, body: Any
    ) -> IdempotencyKey:
        # The IETF draft quotes the key; many clients send it without quotes.
        if len(header) >= 2 and header[0] == header[-1] == '"':
            header = header[1:-1]
        if not PRINTABLE.fullmatch(header):
            raise InvalidIdempotencyKey
        scope = client.where
        try:
            canonical = orjson.dumps(body, option=orjson.OPT_SORT_KEYS).decode()
        except orjson.JSONEncodeError:
            # The body is too deep, or has a number of more than 64 bits. Validation
            # refuses it, and the answer to a refused request is not stored.
            canonical = ""
        return cls(
            *scope,
            key=keyed_hash("idempotency-key", *scope, header),
            fingerprint=keyed_hash("idempotent-request", method_and_path, canonical),
        )

    def claim_or_find_record(self) -> IdempotencyRecord | None:
        """Return the answer to the request that this one repeats.

        If there is none, claim the key until the transaction ends and return None.
        """
        lock = int.from_bytes(self.key[:8], signed=True)
        if not run_sql("SELECT pg_try_advisory_xact_lock(%s)", [lock])[0][0]:
            raise RequestInProgress
        # A separate statement, so that it sees what the lock's last holder committed.
        answer = IdempotencyRecord.objects.filter(
            workspace=self.workspace_id, environment=self.environment, key=self.key
        ).first()
        if answer is None:
            return None
        if answer.created_at < now() - timedelta(hours=settings.IDEMPOTENCY_HOURS):
            answer.delete()
            return None
        if bytes(answer.fingerprint) != self.fingerprint:
            raise IdempotencyKeyReused
        if answer.body is None:
            raise AnswerErased
        return answer

    def record(self, body: Any, report_id: UUID | None) -> IdempotencyRecord:
        """Return an unsaved record that answers repeats of the request with `body`."""
        return IdempotencyRecord(
            workspace_id=self.workspace_id,
            environment=self.environment,
            key=self.key,
            fingerprint=self.fingerprint,
            report_id=report_id,
            body=body,
        )


@dataclass(frozen=True, slots=True)
class IdempotentResponse:
    """The answer; `replayed` is True if its body is that of an earlier request."""

    body: Any
    replayed: bool


def run_once(
    key: IdempotencyKey | None,
    carry_out: Callable[[], Any],
    report_of: Callable[[Any], UUID] | None = None,
) -> IdempotentResponse:
    """Call `carry_out` unless the key has an answer already.

    An answer that names a subject needs `report_of`, which returns the subject's report
    from the answer: the answer is erased with it.

    With a key, the call and the stored answer are one transaction. A call without a key
    makes its own transactions.
    """
    if key is None:
        return IdempotentResponse(carry_out(), replayed=False)
    with transaction.atomic():
        if earlier := key.claim_or_find_record():
            return IdempotentResponse(earlier.body, replayed=True)
        body = carry_out()
        report_id = report_of(body) if report_of else None
        insert(Rows(IdempotencyRecord, [key.record(body, report_id)]))
        return IdempotentResponse(body, replayed=False)


@job
def purge_idempotency_records() -> None:
    """Delete expired answers."""
    before = now() - timedelta(hours=settings.IDEMPOTENCY_HOURS)
    delete_in_batches(IdempotencyRecord.objects.filter(created_at__lt=before))
