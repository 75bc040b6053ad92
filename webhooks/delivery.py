"""Delivering: claim what is due, post it, record what came of it.

One worker of a cluster claims and posts for all receivers at once, because requests
cost it next to nothing while they wait. Requests are made outside any transaction and
in a thread of their own, which touches no database.
"""

from __future__ import annotations

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
from django.utils.timezone import now

from verification.db.encryption import UnknownKey
from verification.jobs.heartbeat import beat
from verification.jobs.queue import later, slot
from webhooks.claims import (
    MOST_AT_ONCE,
    SEND_DUE,
    Claim,
    Shares,
    claim,
    give_back,
    wake_up_for_the_next,
)
from webhooks.events import envelope
from webhooks.letters import Answer, Letter, sign
from webhooks.models import Attempt
from webhooks.results import Ended, record
from webhooks.sender import Post

logger = logging.getLogger(__name__)

IN_FLIGHT = 1_000
BYTES_IN_FLIGHT = 32 * 1024 * 1024
CLAIMED_AT_ONCE = 200
# A job ends after this long, so that the cluster can be stopped and watched.
JOB_SECONDS = 60.0
LOOK_AGAIN_SECONDS = 0.1
# Where many are under way more answers follow soon, and are recorded together.
GATHER_SECONDS = 0.01
# A process that lacks the newest key of FIELD_KEYS is about to be started anew.
KEY_SECONDS = 60
UNREADABLE = Answer(None, Attempt.Error.UNREADABLE.value, "", 0, None)

# Event and fence: a delivery can be claimed anew while its old request still runs.
Key = tuple[UUID, int]


@dataclass(slots=True)
class _Flight:
    """What is under way."""

    claims: dict[Key, tuple[Claim, datetime, int]] = field(default_factory=dict)
    shares: Shares = field(default_factory=Shares)
    bytes: int = 0

    def start(self, claimed: Claim, at: datetime, size: int) -> Key:
        key = (claimed.event.pk, claimed.fence)
        self.claims[key] = claimed, at, size
        self.bytes += size
        return key

    def land(self, key: Key, answer: Answer | None) -> tuple[Claim, datetime]:
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
        if self.bytes > BYTES_IN_FLIGHT:
            return 0
        return min(CLAIMED_AT_ONCE, IN_FLIGHT - len(self.claims))


def deliver() -> None:
    """Send what is due until nothing is, or until another worker should go on.

    Of a cluster's workers one claims at a time; who is late finds nothing to do. A
    receiver that does not answer holds up the end of the job and nobody's deliveries:
    the slot is given back before the last answers are waited for.
    """
    flight = _Flight()
    with ExitStack() as opened:
        with slot("send", 1) as free:
            if not free:
                return
            post: Post[Key] = opened.enter_context(Post(at_once=MOST_AT_ONCE))
            finished = _send_all(post, flight)
        if not finished:
            later(SEND_DUE)
        post.recall()
        while flight.claims:
            beat()
            record(_landed(post, flight))
    wake_up_for_the_next()


def _send_all(post: Post[Key], flight: _Flight) -> bool:
    """True when nothing is due and nothing under way; False when time was up."""
    stop_at = time.monotonic() + JOB_SECONDS
    while beat() and time.monotonic() < stop_at:
        room = flight.room
        claims = claim(room, flight.shares.grown) if room else []
        record(_start(post, claims, flight))
        if not claims and not flight.claims:
            return True
        record(_landed(post, flight))
    return False


def _start(post: Post[Key], claims: Iterable[Claim], flight: _Flight) -> list[Ended]:
    """Post each; those that can never be written have ended."""
    letters: list[tuple[Key, Letter]] = []
    at_once: list[Ended] = []
    without_key: list[Claim] = []
    at = now()
    for claimed in claims:
        try:
            letter = _letter(claimed, at)
        except UnknownKey:
            without_key.append(claimed)
        except (InvalidTag, ValueError) as e:
            # The message may hold what the event says of a subject.
            logger.error("%s cannot be sent: %s", claimed.event.pk, type(e).__name__)
            at_once.append((claimed, at, UNREADABLE))
        else:
            key = flight.start(claimed, at, len(letter.body))
            letters.append((key, letter))
    if without_key:
        logger.error("FIELD_KEYS lacks a key of %s events", len(without_key))
        _give_back(without_key, KEY_SECONDS)
    post.send(letters)
    return at_once


def _letter(claimed: Claim, at: datetime) -> Letter:
    body = envelope(claimed.event)
    event_id = str(claimed.event.pk)
    secrets = claimed.configuration.secrets(at)
    return Letter(
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


def _landed(post: Post[Key], flight: _Flight) -> list[Ended]:
    """Answers that have come; waits a little for the first of them.

    What comes back unsent is due again.
    """
    if not flight.claims:
        return []
    answers = post.answers(LOOK_AGAIN_SECONDS)
    if answers and len(flight.claims) > MOST_AT_ONCE:
        time.sleep(GATHER_SECONDS)
        answers += post.answers(0)
    landed: list[Ended] = []
    unsent: list[Claim] = []
    for key, answer in answers:
        claimed, at = flight.land(key, answer)
        if answer is None:
            unsent.append(claimed)
        else:
            landed.append((claimed, at, answer))
    if unsent:
        _give_back(unsent)
    return landed


def _give_back(claims: list[Claim], seconds: float = 0) -> None:
    try:
        give_back(claims, seconds)
    except DatabaseError as e:
        # They are due again when their leases end.
        logger.error("%s claims were not given back: %s", len(claims), type(e).__name__)
