"""Send sealed audit events to the operator's log store, in order and at least once.

The position moves when the store has taken a batch. A store over HTTPS answers with a
status. Syslog has no answer: each batch has a connection of its own, and counts as
taken when the receiver answers our TLS close_notify with its own. A receiver that dies
before sends none, and gets the batch again. So events may come twice; their number
identifies them. A receiver may still lose events that it keeps only in memory.
"""

import logging
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import orjson
import requests
from cryptography.exceptions import InvalidTag
from django.conf import settings

from verification.audit_trail.models import (
    START,
    AuditSeal,
    last_seal,
    read_state,
    write_state,
)
from verification.audit_trail.seals import facts_of, read_page
from verification.backoffice.models import AuditEvent
from verification.db.encryption import UnknownKey
from verification.db.ids import time_of_id
from verification.jobs.queue import advisory_lock, beat, job, schedule_job
from verification.outbound import client, targets
from verification.values.clock import now

BATCH_SIZE = 1_000
JOB_SECONDS = 20
TIMEOUT_SECONDS = 20.0
# A syslog receiver that sends byte after byte does not hold the job for longer.
SYSLOG_SECONDS = 40.0
SYSLOG_PORT = 6514
READ_BYTES = 65536
# RFC 5424, 6.2.1: facility 13 (log audit), severity 6 (informational)
PRIORITY = 13 * 8 + 6

log = logging.getLogger("verification.audit_trail")


class NotTaken(Exception):
    """The log store did not take a batch."""


class TooLarge(NotTaken):
    """The store, or a proxy before it, takes no body of this size."""


@job
def export_events() -> None:
    """Send sealed events, batch by batch, until the end or until a batch fails."""
    if not settings.AUDIT_EXPORT_URL:
        return
    with advisory_lock("export of the audit trail") as is_mine:
        if not is_mine:
            return
        stop_at = time.monotonic() + JOB_SECONDS
        number, size = _position(), BATCH_SIZE
        while beat() and time.monotonic() < stop_at:
            lines = list(_lines_after(number, size))
            if not lines:
                return
            try:
                _send(lines)
            except NotTaken as e:
                if isinstance(e, TooLarge) and len(lines) > 1:
                    size = len(lines) // 2
                    continue
                # The schedule tries again: until then the events wait in their table.
                log.warning("audit events were not taken: %s", e)
                return
            number = lines[-1]["number"]
            write_state(exported_number=number)
    schedule_job(export_events)


def lag() -> tuple[int, float]:
    """Return how many sealed events wait for the export, and the age of the oldest."""
    waiting = AuditSeal.objects.filter(number__gt=_position())
    oldest = waiting.order_by("number").first()
    if oldest is None:
        return 0, 0.0
    age = (now() - time_of_id(oldest.event_id)).total_seconds()
    return last_seal()[0] - oldest.number + 1, max(0.0, age)


def _position() -> int:
    """Return the last number that the store has taken, or 0 to send all again.

    A number beyond the last seal was written by somebody else, to hide events.
    """
    number = read_state().exported_number
    return number if number <= last_seal()[0] else 0


def _lines_after(start: int, size: int) -> Iterator[dict[str, Any]]:
    """Yield the facts of the next events with their hashes and addresses."""
    before = AuditSeal.objects.filter(pk=start).first()
    previous = bytes(before.hash) if before else START
    for number, sealed, event_id, event in read_page(start, size):
        facts = facts_of(number, event_id, event)
        address = event[-1]
        if address is not None:
            facts["address"] = _open(address, event_id)
        yield facts | {"hash": sealed.hex(), "previousHash": previous.hex()}
        previous = sealed


def _open(address: bytes, event_id: UUID) -> Any:
    """Return the address, or None if somebody has changed its value.

    The check of the night tells of it. The other events must not wait for that.
    """
    try:
        return AuditEvent._meta.get_field("address").open(bytes(address), event_id)
    except (InvalidTag, UnknownKey, ValueError):
        return None


def _send(lines: Sequence[dict[str, Any]]) -> None:
    """Send a batch. Raises NotTaken."""
    parts = urlsplit(settings.AUDIT_EXPORT_URL)
    host = parts.hostname or ""
    try:
        if parts.scheme == "https":
            _post(settings.AUDIT_EXPORT_URL, host, lines)
        else:
            _send_syslog(host, parts.port or SYSLOG_PORT, lines)
    except (OSError, requests.RequestException, targets.Blocked) as e:
        # `requests` names a refused connection like any other; its cause tells more.
        cause: BaseException = e
        while below := cause.__cause__ or cause.__context__:
            cause = below
        raise NotTaken(type(cause).__name__) from e


def _post(url: str, host: str, lines: Sequence[dict[str, Any]]) -> None:
    headers = {"Content-Type": "application/x-ndjson"}
    if token := settings.AUDIT_EXPORT_TOKEN:
        # Some stores have a word of their own in place of Bearer.
        headers["Authorization"] = token if " " in token else f"Bearer {token}"
    # The operator names the host, so that it may be of the operator's network.
    with client.create_session({host}, seconds=TIMEOUT_SECONDS) as session:
        answer = session.post(
            url,
            data=b"".join(orjson.dumps(line) + b"\n" for line in lines),
            headers=headers,
            verify=settings.AUDIT_EXPORT_CA_FILE or True,
            cert=settings.AUDIT_EXPORT_CERTIFICATE_FILE or None,
        )
    if not 200 <= answer.status_code < 300:
        kind = TooLarge if answer.status_code == 413 else NotTaken
        raise kind(f"status {answer.status_code}")


def _send_syslog(host: str, port: int, lines: Sequence[dict[str, Any]]) -> None:
    context = ssl.create_default_context(cafile=settings.AUDIT_EXPORT_CA_FILE or None)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if settings.AUDIT_EXPORT_CERTIFICATE_FILE:
        context.load_cert_chain(settings.AUDIT_EXPORT_CERTIFICATE_FILE)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname=host)
    stop_at = time.monotonic() + SYSLOG_SECONDS
    with socket.create_connection((host, port), TIMEOUT_SECONDS) as plain:

        def do(step: Callable[[], Any]) -> None:
            """Do a step of TLS: send its output, read the input that it waits for."""
            while True:
                is_done = True
                try:
                    step()
                except ssl.SSLWantReadError:
                    is_done = False
                plain.sendall(outgoing.read())
                if is_done:
                    return
                if time.monotonic() > stop_at:
                    raise NotTaken("no close_notify in time")
                if not (received := plain.recv(READ_BYTES)):
                    raise NotTaken("end without close_notify")
                incoming.write(received)

        do(tls.do_handshake)
        do(lambda: tls.write(b"".join(map(_frame, lines))))
        # `unwrap` takes the receiver's alert for its close_notify. Here it only sends
        # ours, because nothing is left to read; the last `read` tells the two apart.
        with suppress(ssl.SSLWantReadError):
            tls.read()
        with suppress(ssl.SSLWantReadError):
            tls.unwrap()
        with suppress(ssl.SSLZeroReturnError):
            while True:
                do(tls.read)


def _frame(line: dict[str, Any]) -> bytes:
    """Make a message of RFC 5424 with its length before it, as RFC 5425 has it."""
    sender = urlsplit(settings.BASE_URL).hostname or "-"
    head = f"<{PRIORITY}>1 {line.get('at', '-')} {sender} verification - audit - "
    message = head.encode() + orjson.dumps(line)
    return b"%d %b" % (len(message), message)
