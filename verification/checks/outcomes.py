"""How one run of a check can end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from django.utils.timezone import now

from verification.providers.base import Finding
from verification.sources.calls import EndedCall
from verification.sources.models import CallOutcome
from verification.values.wire import utc_text


@dataclass(frozen=True, slots=True)
class Completed:
    """The source answered. `finding` is {summary, flags, details, evidence}."""

    score: int | None
    finding: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Failed:
    """The check could not be done. `end` is what the source's part in it was."""

    code: str
    message: str
    retryable: bool
    end: CallOutcome = field(default=CallOutcome.REFUSED, compare=False)
    may_be_charged: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Retry:
    """Nothing yet: the check is due again at this time.

    With `waits_for` it is due when that source has room for it.
    """

    at: datetime
    tries: int
    waits_for: str = ""
    end: CallOutcome = field(default=CallOutcome.NOT_YET, compare=False)
    why: str = field(default="", compare=False)
    may_be_charged: bool = field(default=False, compare=False)
    # The source's own name of what it has taken.
    job: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Cancelled:
    """Report cancelled or consent withdrawn before the source was asked."""


Outcome = Completed | Failed | Retry | Cancelled


def call_end_of(outcome: Outcome) -> EndedCall:
    """How the call ended that the outcome comes from."""
    match outcome:
        case Failed(code=code, end=end, may_be_charged=charged):
            return EndedCall(end, code, charged)
        case Retry(end=end, why=why, may_be_charged=charged, job=job):
            return EndedCall(end, why, charged, job)
    return EndedCall(CallOutcome.ANSWERED)


def completed_with(found: Finding, not_told: Sequence[str] = ()) -> Completed:
    """`not_told` are the output fields that the source never tells."""
    return Completed(
        found.score,
        {
            "summary": found.summary,
            "flags": [asdict(flag) for flag in found.flags],
            "details": found.details,
            "evidence": {
                "provider": found.provider,
                "providerReference": found.provider_reference,
                "retrievedAt": utc_text(now()),
                "responseDigest": found.response_digest,
                "nameComparison": found.name_comparison,
                "editions": found.editions,
                "fieldsNotTold": list(not_told),
            },
        },
    )
