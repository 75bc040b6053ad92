"""Asking a source, and what is to be done without an answer."""

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

from verification.checks.claims import Claim
from verification.checks.outcomes import Again, Failed, Outcome, finding_of
from verification.consents.records import given_of, route_under
from verification.db.encryption import UnknownKey
from verification.providers.base import (
    Inquiry,
    NeedsConsent,
    NotYet,
    Provider,
    ProviderError,
    Unavailable,
)
from verification.providers.registry import Route, asks_referee
from verification.references.requests import ask_referee
from verification.sources.models import End
from workspaces.models import Environment

logger = logging.getLogger(__name__)

LEAST_PAUSE = timedelta(seconds=1)
# After a rest of their source checks come back over so long.
COME_BACK_SECONDS = 5.0


def route_of(claimed: Claim) -> Route:
    """Who may be asked; in the sandbox the subject's country does not matter."""
    environment, country = claimed.report.environment, ""
    if environment == Environment.PRODUCTION:
        # A subject that cannot be read is found out when it is asked about.
        with suppress(InvalidTag, UnknownKey):
            country = str((claimed.report.subject or {}).get("country") or "")
    consent = getattr(claimed.report, "consent", None)
    return route_under(consent, claimed.name, environment, country)


def under_consent(claimed: Claim, route: Route) -> tuple[Claim, Route]:
    """The claim with the consent that some source of the route is told, and the route
    less those that need to be told more than is known, if others are left."""
    if not any(isinstance(one, NeedsConsent) for one in route.providers):
        return claimed, route
    consent = getattr(claimed.report, "consent", None)
    try:
        subject = claimed.report.subject or {}
        given = given_of(consent) if consent else None
    except (InvalidTag, UnknownKey):
        # Found out when the source is asked.
        return claimed, route
    able = tuple(
        one
        for one in route.providers
        if not (isinstance(one, NeedsConsent) and one.lacks(subject, given))
    )
    providers = able or route.providers
    return replace(claimed, given=given), replace(route, providers=providers)


def reference_of(claimed: Claim) -> str:
    """What this run of the check is called at every source."""
    return f"{claimed.result_id}-{claimed.attempt}"


def _inquiry(claimed: Claim) -> Inquiry:
    return Inquiry(
        check=claimed.name,
        subject=claimed.report.subject or {},
        reference=reference_of(claimed),
        result_id=claimed.result_id,
        attempt=claimed.tries + 1,
        asked_at=claimed.asked_at or claimed.started_at,
        begun=claimed.begun,
        given=claimed.given,
    )


def ask(
    provider: Provider, claimed: Claim, policy: Mapping[str, Any]
) -> tuple[Claim, Outcome]:
    """The source's answer, or what is to be done without one; and the claim, with when
    it was asked. Never raises."""
    began_at = now()
    outcome = _outcome(provider, claimed, policy)
    return replace(claimed, began_at=began_at, ended_at=now()), outcome


def _outcome(provider: Provider, claimed: Claim, policy: Mapping[str, Any]) -> Outcome:
    try:
        return _ask(provider, claimed, policy)
    except Exception as e:
        # The message may hold what the source said of the subject: it is not logged.
        logger.error("%s raised %s", provider.name, type(e).__name__)
        told = "The source's answer was not understood."
        fault = Unavailable("SOURCE_ERROR", told, may_be_charged=True)
        return after_unavailable(fault, claimed, policy)


def _ask(provider: Provider, claimed: Claim, policy: Mapping[str, Any]) -> Outcome:
    is_live = claimed.call_id is not None
    if not is_live and asks_referee(claimed.name, claimed.report.environment):
        # No provider is configured, so this is the job's own thread: it may use rows.
        return ask_referee(claimed)
    try:
        not_told = provider.not_told.get(claimed.name, ())
        return finding_of(provider.ask(_inquiry(claimed)), not_told)
    except NotYet as e:
        # The service pauses before it asks a source again, whatever the source said.
        at = max(e.ask_at, now() + LEAST_PAUSE)
        return Again(at, tries=claimed.tries, job=e.job)
    except Unavailable as e:
        return after_unavailable(e, claimed, policy)
    except ProviderError as e:
        return Failed(e.code, e.message, retryable=False)


def after_unavailable(
    e: Unavailable,
    claimed: Claim,
    policy: Mapping[str, Any],
    not_before: datetime | None = None,
) -> Outcome:
    """The next source at once, if there is one; else the same again, by the policy."""
    ended: dict[str, Any] = {
        "end": End.UNAVAILABLE,
        "why": e.code,
        "may_be_charged": e.may_be_charged,
    }
    if claimed.more:
        return Again(now(), claimed.tries, **ended)
    attempt = claimed.tries + 1
    if attempt >= policy["maxAttempts"]:
        return Failed(
            e.code,
            e.message,
            retryable=True,
            end=End.UNAVAILABLE,
            may_be_charged=e.may_be_charged,
        )
    longest = min(
        policy["maxDelaySeconds"],
        policy["initialDelaySeconds"] * policy["backoffMultiplier"] ** (attempt - 1),
    )
    # Full jitter: sources that come back are not met by everybody at once.
    at = now() + timedelta(seconds=random.uniform(0, longest))  # noqa: S311
    if not_before and not_before > at:
        late = random.uniform(0, COME_BACK_SECONDS)  # noqa: S311
        at = not_before + timedelta(seconds=late)
    return Again(at, attempt, **ended)
