"""Which checks may ask their source now, and what becomes of those that may not."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from django.utils.timezone import now

from verification.checks.asking import after_unavailable, reference_of
from verification.checks.claiming import Claim
from verification.checks.flight import Queues
from verification.checks.models import CheckDefinition
from verification.checks.outcomes import Again, Failed, Outcome
from verification.providers.base import Unavailable
from verification.providers.registry import Route
from verification.sources.gate import (
    Decision,
    Go,
    InDoubt,
    Later,
    Nobody,
    Queue,
    Spent,
    Wish,
    begin,
)
from verification.sources.models import End

LEFT_ALONE = Unavailable(
    "SOURCE_UNAVAILABLE", "The sources did not answer, and are left alone for a while."
)
SPENT = Failed(
    "SOURCE_UNAVAILABLE",
    "The source did not answer. It may charge for that, and is not asked again.",
    retryable=True,
    end=End.UNAVAILABLE,
)
IN_DOUBT = Failed(
    "SOURCE_CALL_IN_DOUBT",
    "It is not known what the source answered; staff can see it.",
    retryable=True,
)


def let_begin(
    live: Sequence[tuple[Claim, Route]],
    definitions: Mapping[Any, CheckDefinition],
    queues: Queues,
) -> Iterator[tuple[Claim, Go | Outcome]]:
    """Each with the call that may be made now, or with how it ends or waits."""
    if not live:
        return
    wishes = [_wish(claimed, route) for claimed, route in live]
    decisions, rooms = begin(wishes)
    queues.is_known(rooms)
    for (claimed, _), decision in zip(live, decisions, strict=True):
        if isinstance(decision, Queue):
            queues.queued(decision.source)
        if isinstance(decision, Go):
            yield _called(claimed, decision), decision
        else:
            policy = definitions[claimed.definition_id].retry_policy
            yield claimed, _outcome(claimed, decision, policy)


def _called(claimed: Claim, go: Go) -> Claim:
    return replace(
        claimed,
        call_id=go.call,
        more=go.more,
        asked_at=go.asked_at,
        begun=go.begun,
    )


def _wish(claimed: Claim, route: Route) -> Wish:
    return Wish(
        claimed.result_id,
        claimed.attempt,
        claimed.tries,
        is_new=claimed.fence == 1,
        reference=reference_of(claimed),
        route=route,
    )


def _outcome(claimed: Claim, decision: Decision, policy: Mapping[str, Any]) -> Outcome:
    match decision:
        case Queue(source):
            return Again(now(), claimed.tries, waits_for=source)
        case Later(at):
            # Not all of them at once.
            late = timedelta(seconds=random.random())  # noqa: S311
            return Again(at + late, claimed.tries)
        case Nobody(until):
            return after_unavailable(LEFT_ALONE, claimed, policy, not_before=until)
        case InDoubt():
            return IN_DOUBT
        case Spent():
            return SPENT
    raise AssertionError(f"{decision} is none that ends a wish")
