"""Delivering: claim what is due, post it, record what came of it.

One worker of a cluster claims and posts for all receivers at once, because requests
cost it next to nothing while they wait. Requests are made outside any transaction and
in a thread of their own, which touches no database.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from cryptography.exceptions import InvalidTag
from django.utils.timezone import now

from verification.encryption import UnknownKey
from verification.jobs.heartbeat import beat
from verification.jobs.queue import later
from verification.jobs.slots import slot
from webhooks.claiming import (
    MOST_AT_ONCE,
    SEND_DUE,
    Claim,
    claim,
    give_back,
    wake_up_for_the_next,
)
from webhooks.events import envelope
from webhooks.letters import Answer, Letter
from webhooks.models import Attempt
from webhooks.posting import Post
from webhooks.recording import Ended, record
from webhooks.signing import sign

logger = logging.getLogger(__name__)

IN_FLIGHT = 1_000
# A job ends after this long, so that the cluster can be stopped and watched.
JOB_SECONDS = 60.0
LOOK_AGAIN_SECONDS = 0.1
# Where many are under way more answers follow soon, and are recorded together.
GATHER_SECONDS = 0.01
UNREADABLE = Answer(None, Attempt.Error.UNREADABLE.value, "", 0, None)

# event id -> its claim, and when it was sent
Flying = dict[UUID, tuple[Claim, datetime]]


def deliver() -> None:
    """Send what is due until nothing is, or until another worker should go on.

    Of a cluster's workers one claims at a time; who is late finds nothing to do. A
    receiver that does not answer holds up the end of the job and nobody's deliveries:
    the slot is given back before the last answers are waited for.
    """
    flying: Flying = {}
    post: Post[UUID]
    with Post(at_once=MOST_AT_ONCE) as post:
        with slot("send", 1) as free:
            finished = not free or _send_all(post, flying)
        if not finished:
            later(SEND_DUE)
        post.recall()
        while flying:
            beat()
            record(_landed(post, flying))
    wake_up_for_the_next()


def _send_all(post: Post, flying: Flying) -> bool:
    """True when nothing is due and nothing under way; False when time was up."""
    stop_at = time.monotonic() + JOB_SECONDS
    while beat() and time.monotonic() < stop_at:
        room = IN_FLIGHT - len(flying)
        claims = claim(room) if room else []
        record(_start(post, claims, flying))
        if not claims and not flying:
            return True
        record(_landed(post, flying))
    return False


def _start(post: Post, claims: Iterable[Claim], flying: Flying) -> list[Ended]:
    """Post each; those that cannot even be written have ended."""
    letters: list[tuple[UUID, Letter]] = []
    at_once: list[Ended] = []
    at = now()
    for claimed in claims:
        event_id = claimed.event.pk
        try:
            letters.append((event_id, _letter(claimed, at)))
        except (InvalidTag, UnknownKey, ValueError) as e:
            # The message may hold what the event says of a subject.
            logger.error("event %s cannot be sent: %s", event_id, type(e).__name__)
            at_once.append((claimed, at, UNREADABLE))
        else:
            flying[event_id] = claimed, at
    post.send(letters)
    return at_once


def _letter(claimed: Claim, at: datetime) -> Letter:
    body = envelope(claimed.event)
    event_id, timestamp = str(claimed.event.pk), int(at.timestamp())
    secrets = claimed.configuration.secrets(at)
    return Letter(
        claimed.configuration.url,
        body,
        {
            "webhook-id": event_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": sign(secrets, event_id, timestamp, body),
        },
        lane=claimed.configuration.pk,
    )


def _landed(post: Post, flying: Flying) -> list[Ended]:
    """Answers that have come; waits a little for the first of them.

    What comes back unsent is due again.
    """
    if not flying:
        return []
    landed: list[Ended] = []
    unsent: list[Claim] = []
    answers = post.answers(LOOK_AGAIN_SECONDS)
    if answers and len(flying) > MOST_AT_ONCE:
        time.sleep(GATHER_SECONDS)
        answers += post.answers(0)
    for event_id, answer in answers:
        claimed, at = flying.pop(event_id)
        if answer is None:
            unsent.append(claimed)
        else:
            landed.append((claimed, at, answer))
    if unsent:
        give_back(unsent)
    return landed
