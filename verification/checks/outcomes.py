"""How one run of a check can end."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from django.utils.timezone import now

from verification.providers.base import Finding
from verification.wire import utc_text


@dataclass(frozen=True, slots=True)
class Completed:
    """The source answered. `finding` is {summary, flags, details, evidence}."""

    score: int | None
    finding: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Failed:
    """The check could not be done."""

    code: str
    message: str
    retryable: bool


@dataclass(frozen=True, slots=True)
class Again:
    """Nothing yet: the check is due again at this time."""

    at: datetime
    tries: int


@dataclass(frozen=True, slots=True)
class Cancelled:
    """Report cancelled or consent withdrawn before the source was asked."""


Outcome = Completed | Failed | Again | Cancelled


def finding_of(found: Finding) -> Completed:
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
            },
        },
    )
