"""How one run of a check can end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from django.utils.timezone import now

from verification.providers.base import Finding
from verification.sources.gate import CallEnd
from verification.sources.models import End
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
    end: End = field(default=End.REFUSED, compare=False)
    may_be_charged: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Again:
    """Nothing yet: the check is due again at this time.

    With `waits_for` it is due when that source has room for it.
    """

    at: datetime
    tries: int
    waits_for: str = ""
    end: End = field(default=End.NOT_YET, compare=False)
    why: str = field(default="", compare=False)
    may_be_charged: bool = field(default=False, compare=False)
    # The source's own name of what it has taken.
    job: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Cancelled:
    """Report cancelled or consent withdrawn before the source was asked."""


Outcome = Completed | Failed | Again | Cancelled


def end_of(outcome: Outcome) -> CallEnd:
    """How the call ended that the outcome comes from."""
    match outcome:
        case Failed(code=code, end=end, may_be_charged=charged):
            return CallEnd(end, code, charged)
        case Again(end=end, why=why, may_be_charged=charged, job=job):
            return CallEnd(end, why, charged, job)
    return CallEnd(End.ANSWERED)


def finding_of(found: Finding, not_told: Sequence[str] = ()) -> Completed:
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
