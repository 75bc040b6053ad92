"""The engine: claim due checks, call their sources, record the outcomes.

Calls wait on the network, so they run outside any transaction, many at once, in threads
that touch no database. The outcomes are recorded in batches.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from cryptography.exceptions import InvalidTag
from django.conf import settings
from django.db import connection
from django.utils.timezone import now

from verification.checks.claims import Claim, claim, claim_queued, find_earlier_result
from verification.checks.dispatch import (
    CLAIM_BATCH_SIZE,
    CallPermit,
    CallPool,
    admit_calls,
)
from verification.checks.inquiries import add_consent, call_provider, find_route
from verification.checks.models import CheckDefinition
from verification.checks.outcomes import Cancelled, Completed, Failed, Outcome, Retry
from verification.checks.results import EndedCheck, record_outcomes
from verification.checks.schedule import schedule_next_run, wake_up
from verification.db.encryption import UnknownKey
from verification.jobs.heartbeat import beat
from verification.jobs.queue import job, slot
from verification.providers.registry import Route
from verification.reports.models import ReportStatus
from verification.sources.calls import close_calls

logger = logging.getLogger(__name__)

# A job ends after this time, so that the cluster can be stopped and watched.
JOB_SECONDS = 20.0
# A check that was claimed this often without an outcome kills its workers, or never
# ends.
MAX_CLAIMS = 5
SUSPENDED_PAUSE = timedelta(minutes=5)

Definitions = Mapping[Any, CheckDefinition]


@job
def run_due_checks() -> None:
    """Run the checks that are due. Any number of these jobs may run at once.

    Checks take all workers but two, so that slow sources hold up no webhook.
    """
    with slot("checks", max(1, settings.JOB_WORKERS - 2)) as is_free:
        if not is_free:
            return
        is_idle = _run_checks()
    # Only after the slot is free again: a job that found no slot relies on this one.
    if is_idle:
        schedule_next_run()
    else:
        wake_up()


def _run_checks() -> bool:
    """Run due checks until there are none; return False if time was up before that."""
    definitions = _definitions()
    with CallPool() as flight:
        try:
            return _run_until_idle(flight, definitions)
        except Exception:
            _record_in_flight(flight)
            raise


def _record_in_flight(flight: CallPool) -> None:
    """Record the answers of calls under way, as they may have been paid for."""
    if not connection.is_usable():
        # The next statement opens another connection.
        connection.close()
    definitions = _definitions()
    while flight.under_way:
        record_outcomes(flight.collect(), definitions)


def _run_until_idle(flight: CallPool, definitions: Definitions) -> bool:
    stop_at = time.monotonic() + JOB_SECONDS
    helped = False
    while True:
        in_time = beat() and time.monotonic() < stop_at
        room = min(CLAIM_BATCH_SIZE, flight.room)
        claims = claim(room) if in_time and room else []
        if claims and len(claims) == room and not helped:
            # There is enough for another worker.
            helped = True
            wake_up()
        claims += _claim_queued(flight, len(claims)) if in_time else []
        if any(claimed.definition_id not in definitions for claimed in claims):
            definitions = _definitions()
        record_outcomes(_start_checks(claims, definitions, flight), definitions)
        landed = flight.collect()
        record_outcomes(landed, definitions)
        flight.tally.flush()
        # More checks may have become due while the last answers came in.
        if not (claims or flight.under_way or landed):
            return in_time


def _claim_queued(flight: CallPool, claimed: int) -> list[Claim]:
    """Claim checks that waited for sources, up to the room of sources and worker."""
    room = flight.room - claimed
    rooms = flight.queues.rooms(room) if flight.room >= CLAIM_BATCH_SIZE else {}
    claims = claim_queued(rooms) if rooms else []
    flight.queues.claimed(rooms, claims)
    return claims


def _definitions() -> Definitions:
    return {definition.pk: definition for definition in CheckDefinition.objects.all()}


def _start_checks(
    claims: Iterable[Claim], definitions: Definitions, flight: CallPool
) -> list[EndedCheck]:
    """Call the source of each claim; return checks that ended without the network."""
    at_once: list[EndedCheck] = []
    live: list[tuple[Claim, Route]] = []
    for claimed in claims:
        outcome = _outcome_without_call(claimed)
        if outcome is None:
            route = find_route(claimed)
            if route.is_live:
                live.append(add_consent(claimed, route))
                continue
            policy = definitions[claimed.definition_id].retry_policy
            claimed, outcome = call_provider(route.providers[0], claimed, policy)
        at_once.append((claimed, outcome))
    # A check that was claimed before may have left a call under way when its worker
    # died.
    unasked = [c for c, o in at_once if c.fence > 1 and not isinstance(o, Retry)]
    close_calls(claimed.result_id for claimed in unasked)
    return at_once + _start_calls(live, definitions, flight)


def _start_calls(
    live: list[tuple[Claim, Route]], definitions: Definitions, flight: CallPool
) -> list[EndedCheck]:
    """Start the calls that may be made now; return the outcomes of the other checks."""
    ended: list[EndedCheck] = []
    for claimed, then in admit_calls(live, definitions, flight.queues):
        if not isinstance(then, CallPermit):
            ended.append((claimed, then))
            continue
        policy = definitions[claimed.definition_id].retry_policy
        if then.provider.waits_on_network:
            flight.start(then.provider, claimed, policy)
        else:
            ended.append(flight.ask(then.provider, claimed, policy))
    return ended


def _outcome_without_call(claimed: Claim) -> Outcome | None:
    """Return the outcome of a check that may not or need not call a source, or None."""
    report = claimed.report
    if report.status not in {ReportStatus.RUNNING, ReportStatus.PARTIAL}:
        return Cancelled()
    consent = getattr(report, "consent", None)
    if consent and not consent.is_given:
        return Cancelled()
    if report.workspace.is_suspended:
        return Retry(now() + SUSPENDED_PAUSE, tries=claimed.tries)
    if claimed.claims > MAX_CLAIMS:
        logger.error("check %s was given up by the engine", claimed.result_id)
        return Failed(
            "ENGINE_GAVE_UP",
            "The check was started five times and never ended; staff can see it.",
            retryable=True,
        )
    if claimed.reused_from_id:
        return _reuse_finding(claimed.reused_from_id)
    return None


def _reuse_finding(result_id: UUID) -> Completed | None:
    """Return the earlier finding, or None if it was erased or cannot be read.

    Without it the source is called, for the promised price.
    """
    earlier = find_earlier_result(result_id)
    try:
        if earlier is None or earlier.finding is None:
            return None
    except (InvalidTag, UnknownKey) as e:
        logger.error("finding of %s: %s", result_id, type(e).__name__)
        return None
    return Completed(earlier.score, earlier.finding)
