"""Send due deliveries: claim them, post them, record the attempts.

One worker of a cluster claims and posts for all receivers at once, because a request
that waits costs the worker almost nothing. A thread of its own makes the requests. The
thread uses no database connection, and no transaction is open during requests.
"""

import logging
import time
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from uuid import UUID

from cryptography.exceptions import InvalidTag
from django.db import DatabaseError

from verification.db.encryption import UnknownKey
from verification.jobs.queue import beat, job, schedule_job, slot
from verification.values.clock import now
from webhooks.attempts import (
    MAX_CONCURRENT_REQUESTS,
    Claim,
    ClaimShares,
    EndedAttempt,
    claim,
    record_attempts,
    release_claims,
    renew_claims,
    schedule_next_run,
    stop_claims,
)
from webhooks.events import envelope
from webhooks.health import GONE
from webhooks.models import Attempt, SimulatedAnswer
from webhooks.sender import Answer, Sender, WebhookRequest, sign

logger = logging.getLogger(__name__)

MAX_IN_FLIGHT = 1_000
MAX_BYTES_IN_FLIGHT = 32 * 1024 * 1024
CLAIM_BATCH_SIZE = 200
# A job ends after this long, so that the cluster can be stopped and watched.
JOB_SECONDS = 60.0
POLL_SECONDS = 0.1
# While many requests are under way, the sender waits for more answers and records them
# together.
GATHER_SECONDS = 0.01
# A quarter of a lease: a slow machine may miss two renewals.
RENEW_SECONDS = 5.0
# A process without the newest key of FIELD_KEYS is about to be restarted.
UNKNOWN_KEY_DELAY_SECONDS = 60
UNREADABLE = Answer(None, Attempt.Error.UNREADABLE.value, "", 0, None)
NOT_SENT = "Simulated by the sandbox: no request was sent."
SIMULATED = {
    SimulatedAnswer.ERROR.value: Answer(500, "", NOT_SENT, 0, None),
    SimulatedAnswer.GONE.value: Answer(GONE, "", NOT_SENT, 0, None),
    SimulatedAnswer.TIMEOUT.value: Answer(
        None, Attempt.Error.TIMED_OUT.value, NOT_SENT, 0, None
    ),
}

# Event and fence: another claim of a delivery can follow while its old request runs.
Key = tuple[UUID, int]


@dataclass(slots=True)
class _InFlight:
    """The claims whose requests are under way."""

    claims: dict[Key, tuple[Claim, datetime, int]] = field(default_factory=dict)
    shares: ClaimShares = field(default_factory=ClaimShares)
    bytes: int = 0
    renewed_at: float = field(default_factory=time.monotonic)

    def start(self, claimed: Claim, at: datetime, size: int) -> Key:
        key = (claimed.event.pk, claimed.fence)
        self.claims[key] = claimed, at, size
        self.bytes += size
        return key

    def finish(self, key: Key, answer: Answer | None) -> tuple[Claim, datetime]:
        claimed, at, size = self.claims.pop(key)
        self.bytes -= size
        self.shares.note(
            claimed.configuration.pk,
            acknowledged=answer is not None and answer.is_acknowledgement,
            seconds=(now() - at).total_seconds(),
        )
        return claimed, at

    @property
    def room(self) -> int:
        if self.bytes > MAX_BYTES_IN_FLIGHT:
            return 0
        return min(CLAIM_BATCH_SIZE, MAX_IN_FLIGHT - len(self.claims))


@job
def send_due_deliveries() -> None:
    """Send due deliveries until none is left, or for 60 seconds.

    One worker of a cluster sends at a time; a second one returns at once. The worker
    frees the slot before it waits for the last answers, so that a slow receiver delays
    the end of this job and no other deliveries.
    """
    flight = _InFlight()
    with ExitStack() as opened:
        with slot("send", 1) as free:
            if not free:
                return
            sender: Sender[Key] = opened.enter_context(
                Sender(at_once=MAX_CONCURRENT_REQUESTS)
            )
            finished = _send_all(sender, flight)
        if not finished:
            schedule_job(send_due_deliveries)
        sender.recall()
        while flight.claims:
            beat()
            record_attempts(_collect_ended(sender, flight))
    schedule_next_run()


def _send_all(sender: Sender[Key], flight: _InFlight) -> bool:
    """Return whether all due deliveries were sent before the time was up."""
    stop_at = time.monotonic() + JOB_SECONDS
    while beat() and time.monotonic() < stop_at:
        room = flight.room
        claims = claim(room, flight.shares.grown) if room else []
        record_attempts(_start(sender, claims, flight))
        if not claims and not flight.claims:
            return True
        record_attempts(_collect_ended(sender, flight))
    return False


def _start(
    sender: Sender[Key], claims: Iterable[Claim], flight: _InFlight
) -> list[EndedAttempt]:
    """Post the deliveries. Returns the attempts that end without a request.

    Their answer is simulated, or their event cannot be read.
    """
    requests: list[tuple[Key, WebhookRequest]] = []
    ended: list[EndedAttempt] = []
    without_key: list[Claim] = []
    without_payload: list[Claim] = []
    at = now()
    for claimed in claims:
        if claimed.simulated:
            ended.append((claimed, at, SIMULATED[claimed.simulated]))
            continue
        try:
            if claimed.event.payload is None:
                without_payload.append(claimed)
                continue
            request = _build_request(claimed, at)
        except UnknownKey:
            without_key.append(claimed)
        except (InvalidTag, ValueError) as e:
            # The exception's message may hold personal data of the event.
            logger.error("%s cannot be sent: %s", claimed.event.pk, type(e).__name__)
            ended.append((claimed, at, UNREADABLE))
        else:
            key = flight.start(claimed, at, len(request.body))
            requests.append((key, request))
    if without_key:
        logger.error("FIELD_KEYS lacks a key of %s events", len(without_key))
        _release(without_key, UNKNOWN_KEY_DELAY_SECONDS)
    stop_claims(without_payload)
    sender.send(requests)
    return ended


def _build_request(claimed: Claim, at: datetime) -> WebhookRequest:
    body = envelope(claimed.event)
    event_id = str(claimed.event.pk)
    secrets = claimed.configuration.secrets(at)
    return WebhookRequest(
        claimed.configuration.url,
        body,
        {"webhook-id": event_id},
        # A configuration that was replaced has another receiver.
        lane=(claimed.configuration.pk, claimed.configuration.updated_at),
        sign=partial(_signature, secrets, event_id, body),
    )


def _signature(
    secrets: list[str], event_id: str, body: bytes, moment: datetime
) -> dict[str, str]:
    timestamp = int(moment.timestamp())
    return {
        "webhook-timestamp": str(timestamp),
        "webhook-signature": sign(secrets, event_id, timestamp, body),
    }


def _collect_ended(sender: Sender[Key], flight: _InFlight) -> list[EndedAttempt]:
    """Return the ended attempts, after a short wait for the first of them.

    Deliveries that come back unsent are given back. The leases of the others are
    renewed in time.
    """
    if not flight.claims:
        return []
    _renew(flight)
    answers = sender.answers(POLL_SECONDS)
    if answers and len(flight.claims) > MAX_CONCURRENT_REQUESTS:
        time.sleep(GATHER_SECONDS)
        answers += sender.answers(0)
    ended: list[EndedAttempt] = []
    unsent: list[Claim] = []
    for key, answer in answers:
        claimed, at = flight.finish(key, answer)
        if answer is None:
            unsent.append(claimed)
        else:
            ended.append((claimed, at, answer))
    if unsent:
        _release(unsent)
    return ended


def _renew(flight: _InFlight) -> None:
    if time.monotonic() - flight.renewed_at < RENEW_SECONDS:
        return
    flight.renewed_at = time.monotonic()
    try:
        renew_claims([claimed for claimed, _, _ in flight.claims.values()])
    except DatabaseError as e:
        logger.warning("leases were not renewed: %s", type(e).__name__)


def _release(claims: list[Claim], seconds: float = 0) -> None:
    try:
        release_claims(claims, seconds)
    except DatabaseError as e:
        # The deliveries are due again when their leases end.
        logger.error("%s claims were not given back: %s", len(claims), type(e).__name__)
