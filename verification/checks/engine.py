"""Running checks: claim what is due, ask the sources, record how it ended.

Sources are asked outside any transaction, many at once in threads, because they wait
on the network; threads touch no database. What they answer is recorded in batches.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from cryptography.exceptions import InvalidTag
from django.db import connection
from django.utils.timezone import now

from verification.checks.claims import Claim, claim, claim_waiting, earlier_finding
from verification.checks.dispatch import AT_A_TIME, Flight, Go, let_begin
from verification.checks.inquiries import ask, route_of, under_consent
from verification.checks.models import CheckDefinition
from verification.checks.outcomes import (
    Again,
    Cancelled,
    Completed,
    Failed,
    Outcome,
)
from verification.checks.results import Ended, record
from verification.db.encryption import UnknownKey
from verification.jobs.heartbeat import beat
from verification.providers.registry import Route
from verification.reports.models import ReportStatus
from verification.sources.gate import close

logger = logging.getLogger(__name__)

# A job ends after this long, so that the cluster can be stopped and watched.
JOB_SECONDS = 20.0
# A check claimed this often without an end kills its workers, or takes for ever.
MAX_CLAIMS = 5
SUSPENDED_PAUSE = timedelta(minutes=5)

Definitions = Mapping[Any, CheckDefinition]


def drain(call_for_help: Callable[[], None]) -> bool:
    """Run what is due until nothing is; False if time was up before that."""
    definitions = _definitions()
    with Flight() as flight:
        try:
            return _drain(flight, definitions, call_for_help)
        except Exception:
            _save(flight)
            raise


def _save(flight: Flight) -> None:
    """Whatever went wrong: answers that are on their way may have been paid for."""
    if not connection.is_usable():
        # It is made anew for the next statement.
        connection.close()
    definitions = _definitions()
    while flight.under_way:
        record(flight.landed(), definitions)


def _drain(
    flight: Flight, definitions: Definitions, call_for_help: Callable[[], None]
) -> bool:
    stop_at = time.monotonic() + JOB_SECONDS
    helped = False
    while True:
        in_time = beat() and time.monotonic() < stop_at
        room = min(AT_A_TIME, flight.room)
        claims = claim(room) if in_time and room else []
        if claims and len(claims) == room and not helped:
            # There is more than one worker's share: let another begin as well.
            helped = True
            call_for_help()
        claims += _that_waited(flight, len(claims)) if in_time else []
        if any(claimed.definition_id not in definitions for claimed in claims):
            definitions = _definitions()
        record(_start(claims, definitions, flight), definitions)
        landed = flight.landed()
        record(landed, definitions)
        flight.tally.flush()
        # While the last answers were on their way more may have come due.
        if not (claims or flight.under_way or landed):
            return in_time


def _that_waited(flight: Flight, claimed: int) -> list[Claim]:
    """Those that waited for sources, as far as these and this worker have room."""
    room = flight.room - claimed
    rooms = flight.queues.rooms(room) if flight.room >= AT_A_TIME else {}
    claims = claim_waiting(rooms) if rooms else []
    flight.queues.claimed(rooms, claims)
    return claims


def _definitions() -> Definitions:
    return {definition.pk: definition for definition in CheckDefinition.objects.all()}


def _start(
    claims: Iterable[Claim], definitions: Definitions, flight: Flight
) -> list[Ended]:
    """Send each claim to its source; those that need no network have ended."""
    at_once: list[Ended] = []
    live: list[tuple[Claim, Route]] = []
    for claimed in claims:
        outcome = _without_asking(claimed)
        if outcome is None:
            route = route_of(claimed)
            if route.is_live:
                live.append(under_consent(claimed, route))
                continue
            policy = definitions[claimed.definition_id].retry_policy
            claimed, outcome = ask(route.providers[0], claimed, policy)
        at_once.append((claimed, outcome))
    # Of what was claimed before and has ended without being asked, a call may be left
    # whose worker died in the midst of it.
    unasked = [c for c, o in at_once if c.fence > 1 and not isinstance(o, Again)]
    close(claimed.result_id for claimed in unasked)
    return at_once + _let_go(live, definitions, flight)


def _let_go(
    live: list[tuple[Claim, Route]], definitions: Definitions, flight: Flight
) -> list[Ended]:
    """Have those asked that may ask now; what becomes of the others."""
    ended: list[Ended] = []
    for claimed, then in let_begin(live, definitions, flight.queues):
        if not isinstance(then, Go):
            ended.append((claimed, then))
            continue
        policy = definitions[claimed.definition_id].retry_policy
        if then.provider.waits_on_network:
            flight.start(then.provider, claimed, policy)
        else:
            ended.append(flight.ask(then.provider, claimed, policy))
    return ended


def _without_asking(claimed: Claim) -> Outcome | None:
    """How the check ends, if no source may or need be asked."""
    report = claimed.report
    if report.status not in {ReportStatus.RUNNING, ReportStatus.PARTIAL}:
        return Cancelled()
    consent = getattr(report, "consent", None)
    if consent and not consent.is_given:
        return Cancelled()
    if report.workspace.is_suspended:
        return Again(now() + SUSPENDED_PAUSE, tries=claimed.tries)
    if claimed.claims > MAX_CLAIMS:
        logger.error("check %s was given up by the engine", claimed.result_id)
        return Failed(
            "ENGINE_GAVE_UP",
            "The check was started five times and never ended; staff can see it.",
            retryable=True,
        )
    if claimed.reused_from_id:
        return _again_from(claimed.reused_from_id)
    return None


def _again_from(result_id: UUID) -> Completed | None:
    """The earlier findings; None if they were erased since, or cannot be read.

    The source is asked then, for the price that was promised.
    """
    earlier = earlier_finding(result_id)
    try:
        if earlier is None or earlier.finding is None:
            return None
    except (InvalidTag, UnknownKey) as e:
        logger.error("finding of %s: %s", result_id, type(e).__name__)
        return None
    return Completed(earlier.score, earlier.finding)
