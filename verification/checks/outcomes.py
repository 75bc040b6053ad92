"""The outcomes of one run of a check."""

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
    """The check could not be done. `end` is the outcome of the source's call."""

    code: str
    message: str
    retryable: bool
    end: CallOutcome = field(default=CallOutcome.REFUSED, compare=False)
    may_be_charged: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Retry:
    """There is no answer yet: the check is due again at this time.

    With `waits_for`, the check is due when that source has room for it.
    """

    at: datetime
    tries: int
    waits_for: str = ""
    end: CallOutcome = field(default=CallOutcome.NOT_YET, compare=False)
    why: str = field(default="", compare=False)
    may_be_charged: bool = field(default=False, compare=False)
    # The source's own id of the inquiry that it has accepted.
    job: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The report was cancelled or the consent withdrawn before the call."""


Outcome = Completed | Failed | Retry | Cancelled


def call_end_of(outcome: Outcome) -> EndedCall:
    """Return the end of the call that led to this outcome."""
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
