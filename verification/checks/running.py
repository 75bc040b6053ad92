"""Running checks: claim what is due, ask the sources, record how it ended.

Sources are asked outside any transaction, many at once in threads, because they wait
on the network; threads touch no database. What they answer is recorded in batches.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from datetime import timedelta
from typing import Any
from uuid import UUID

from cryptography.exceptions import InvalidTag
from django.utils.timezone import now

from verification.checks.claiming import Claim, claim, earlier_finding
from verification.checks.models import CheckDefinition
from verification.checks.outcomes import (
    Again,
    Cancelled,
    Completed,
    Failed,
    Outcome,
    finding_of,
)
from verification.checks.recording import Ended, record
from verification.checks.refereeing import ask_referee
from verification.encryption import UnknownKey
from verification.jobs.heartbeat import beat
from verification.providers.base import (
    Inquiry,
    NotYet,
    Provider,
    ProviderError,
    Unavailable,
)
from verification.providers.registry import asks_referee, provider_for
from verification.reports.models import ReportStatus

logger = logging.getLogger(__name__)

IN_FLIGHT = 64
# A job ends after this long, so that the cluster can be stopped and watched.
JOB_SECONDS = 20.0
# A check claimed this often without an end kills its workers, or takes for ever.
MAX_CLAIMS = 5
SUSPENDED_PAUSE = timedelta(minutes=5)
LEAST_PAUSE = timedelta(seconds=1)

Definitions = Mapping[Any, CheckDefinition]


def drain(call_for_help: Callable[[], None]) -> bool:
    """Run what is due until nothing is; False if time was up before that."""
    stop_at = time.monotonic() + JOB_SECONDS
    definitions = _definitions()
    flying: dict[Future[Outcome], Claim] = {}
    helped = False
    with ThreadPoolExecutor(IN_FLIGHT, thread_name_prefix="ask") as pool:
        while True:
            in_time = beat() and time.monotonic() < stop_at
            room = IN_FLIGHT - len(flying)
            claims = claim(room) if in_time and room else []
            if claims and len(claims) == room and not helped:
                # There is more than one worker's share: let another begin as well.
                helped = True
                call_for_help()
            if any(claimed.definition_id not in definitions for claimed in claims):
                definitions = _definitions()
            at_once = _start(claims, definitions, pool, flying)
            record(at_once, definitions)
            landed = _landed(flying)
            record(landed, definitions)
            # While the last answers were on their way more may have come due.
            if not (claims or flying or landed):
                return in_time


def _definitions() -> Definitions:
    return {definition.pk: definition for definition in CheckDefinition.objects.all()}


def _start(
    claims: Iterable[Claim],
    definitions: Definitions,
    pool: ThreadPoolExecutor,
    flying: dict[Future[Outcome], Claim],
) -> list[Ended]:
    """Send each claim to its source; those that need no network have ended."""
    at_once: list[Ended] = []
    for claimed in claims:
        outcome = _without_asking(claimed)
        if outcome is None:
            provider = provider_for(claimed.name, claimed.report.environment)
            policy = definitions[claimed.definition_id].retry_policy
            if provider.waits_on_network:
                flying[pool.submit(ask, provider, claimed, policy)] = claimed
                continue
            outcome = ask(provider, claimed, policy)
        at_once.append((claimed, outcome))
    return at_once


def _landed(flying: dict[Future[Outcome], Claim]) -> list[Ended]:
    """Answers that have come; waits a little for the first of them."""
    if not flying:
        return []
    done, _ = wait(flying, timeout=0.1, return_when=FIRST_COMPLETED)
    return [(flying.pop(future), future.result()) for future in done]


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


def _inquiry(claimed: Claim) -> Inquiry:
    return Inquiry(
        check=claimed.name,
        subject=claimed.report.subject or {},
        reference=f"{claimed.result_id}-{claimed.attempt}",
        result_id=claimed.result_id,
        attempt=claimed.tries + 1,
        asked_at=claimed.started_at,
    )


def ask(provider: Provider, claimed: Claim, policy: Mapping[str, Any]) -> Outcome:
    """The source's answer, or what is to be done without one. Never raises."""
    try:
        return _ask(provider, claimed, policy)
    except Exception as e:
        # The message may hold what the source said of the subject: it is not logged.
        logger.error("%s raised %s", provider.name, type(e).__name__)
        fault = Unavailable("SOURCE_ERROR", "The source's answer was not understood.")
        return _after_unavailable(fault, claimed.tries + 1, policy)


def _ask(provider: Provider, claimed: Claim, policy: Mapping[str, Any]) -> Outcome:
    if asks_referee(claimed.name, claimed.report.environment):
        # No provider is configured, so this is the job's own thread: it may use rows.
        return ask_referee(claimed)
    try:
        return finding_of(provider.ask(_inquiry(claimed)))
    except NotYet as e:
        # Whatever it said, a source is not asked again and again without a pause.
        return Again(max(e.ask_at, now() + LEAST_PAUSE), tries=claimed.tries)
    except Unavailable as e:
        return _after_unavailable(e, claimed.tries + 1, policy)
    except ProviderError as e:
        return Failed(e.code, e.message, retryable=False)


def _after_unavailable(
    e: Unavailable, attempt: int, policy: Mapping[str, Any]
) -> Outcome:
    if attempt >= policy["maxAttempts"]:
        return Failed(e.code, e.message, retryable=True)
    longest = min(
        policy["maxDelaySeconds"],
        policy["initialDelaySeconds"] * policy["backoffMultiplier"] ** (attempt - 1),
    )
    # Full jitter: sources that come back are not met by everybody at once.
    delay = random.uniform(0, longest)  # noqa: S311
    return Again(now() + timedelta(seconds=delay), tries=attempt)
