"""Call a source, and decide what follows if it does not answer."""

from __future__ import annotations

import logging
import random
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from cryptography.exceptions import InvalidTag
from django.utils.timezone import now

from verification.checks.queue import Claim
from verification.checks.results import Failed, Outcome, Retry, completed_with
from verification.consents.models import load_given_consent
from verification.consents.notices import consented_route
from verification.db.encryption import UnknownKey
from verification.providers.base import (
    AnswerPending,
    ConsentAware,
    Inquiry,
    Provider,
    ProviderError,
    Unavailable,
)
from verification.providers.registry import Route, asks_referee
from verification.references.requests import run_reference_check
from verification.sources.models import CallOutcome
from workspaces.models import Environment

logger = logging.getLogger(__name__)

MIN_POLL_INTERVAL = timedelta(seconds=1)
# After a source's rest, its checks come back spread over this time.
RECOVERY_JITTER_SECONDS = 5.0


def find_route(claimed: Claim) -> Route:
    """Return the check's route; in the sandbox it is the same for all countries."""
    environment, country = claimed.report.environment, ""
    if environment == Environment.PRODUCTION:
        # If the subject cannot be read, the call will fail and say so.
        with suppress(InvalidTag, UnknownKey):
            country = str((claimed.report.subject or {}).get("country") or "")
    consent = getattr(claimed.report, "consent", None)
    return consented_route(consent, claimed.name, environment, country)


def add_consent(claimed: Claim, route: Route) -> tuple[Claim, Route]:
    """Return the claim with the consent for its sources, and the route that can use it.

    Sources that need more of the consent than is known are left out if others remain.
    """
    if not any(isinstance(provider, ConsentAware) for provider in route.providers):
        return claimed, route
    consent = getattr(claimed.report, "consent", None)
    try:
        subject = claimed.report.subject or {}
        given = load_given_consent(consent) if consent else None
    except (InvalidTag, UnknownKey):
        # The call will fail and say so.
        return claimed, route
    satisfied = tuple(
        provider
        for provider in route.providers
        if not isinstance(provider, ConsentAware)
        or not provider.missing_requirement(subject, given)
    )
    providers = satisfied or route.providers
    return replace(claimed, given=given), replace(route, providers=providers)


def _inquiry(claimed: Claim) -> Inquiry:
    return Inquiry(
        check=claimed.name,
        subject=claimed.report.subject or {},
        reference=claimed.reference,
        result_id=claimed.result_id,
        attempt=claimed.tries + 1,
        asked_at=claimed.asked_at or claimed.started_at,
        begun=claimed.begun,
        given=claimed.given,
    )


def call_provider(
    provider: Provider, claimed: Claim, policy: Mapping[str, Any]
) -> tuple[Claim, Outcome]:
    """Call the provider; return the claim with the times of the call, and the outcome.

    Never raises an exception.
    """
    began_at = now()
    outcome = _outcome_or_fault(provider, claimed, policy)
    return replace(claimed, began_at=began_at, ended_at=now()), outcome


def _outcome_or_fault(
    provider: Provider, claimed: Claim, policy: Mapping[str, Any]
) -> Outcome:
    try:
        return _call_provider(provider, claimed, policy)
    except Exception as e:
        # The message is not logged, because it may hold data about the subject.
        logger.error("%s raised %s", provider.name, type(e).__name__)
        message = "The source's answer was not understood."
        fault = Unavailable("SOURCE_ERROR", message, may_be_charged=True)
        return outcome_of_unavailable(fault, claimed, policy)


def _call_provider(
    provider: Provider, claimed: Claim, policy: Mapping[str, Any]
) -> Outcome:
    if claimed.call_id is None and asks_referee(
        claimed.name, claimed.report.environment
    ):
        # Without a live source the check runs in the job's thread, which may use rows.
        return run_reference_check(claimed)
    try:
        not_told = provider.not_told.get(claimed.name, ())
        return completed_with(provider.ask(_inquiry(claimed)), not_told)
    except AnswerPending as e:
        # The service pauses before it calls a source again, even if the source names an
        # earlier time.
        at = max(e.ask_at, now() + MIN_POLL_INTERVAL)
        return Retry(at, tries=claimed.tries, job=e.job)
    except Unavailable as e:
        return outcome_of_unavailable(e, claimed, policy)
    except ProviderError as e:
        return Failed(e.code, e.message, retryable=False)


def outcome_of_unavailable(
    e: Unavailable,
    claimed: Claim,
    policy: Mapping[str, Any],
    not_before: datetime | None = None,
) -> Outcome:
    """Try the next source at once, or this one again by the retry policy."""
    end: dict[str, Any] = {
        "end": CallOutcome.UNAVAILABLE,
        "may_be_charged": e.may_be_charged,
    }
    if claimed.more:
        return Retry(now(), claimed.tries, why=e.code, **end)
    attempt = claimed.tries + 1
    if attempt >= policy["maxAttempts"]:
        return Failed(e.code, e.message, retryable=True, **end)
    longest = min(
        policy["maxDelaySeconds"],
        policy["initialDelaySeconds"] * policy["backoffMultiplier"] ** (attempt - 1),
    )
    # Full jitter, so that checks do not all call a source when it comes back.
    at = now() + timedelta(seconds=random.uniform(0, longest))  # noqa: S311
    if not_before and not_before > at:
        jitter = random.uniform(0, RECOVERY_JITTER_SECONDS)  # noqa: S311
        at = not_before + timedelta(seconds=jitter)
    return Retry(at, attempt, why=e.code, **end)
