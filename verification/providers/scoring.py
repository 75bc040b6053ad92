"""The scores of live sources' findings, in one table for all checks.

`docs/checks.md` has the same scores; a test compares both. An incomplete result has no
score, so that nobody reads it as a clean one.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from verification.providers.base import (
    AnswerPending,
    Finding,
    Flag,
    Inquiry,
    Severity,
    Unavailable,
)
from verification.providers.name_comparison import (
    Comparison,
    Likeness,
    compare_companies,
    compare_people,
)

CLEAR = 5
# Flag -> score. The highest score of a finding decides.
SCORES = {
    "ID_NOT_FOUND": 80,
    "PIN_NOT_FOUND": 80,
    "COMPANY_NOT_FOUND": 80,
    "NO_CREDIT_RECORD": 40,
    "NAME_MISMATCH": 55,
    "DOB_MISMATCH": 50,
    "DECEASED": 100,
    "PIN_INACTIVE": 75,
    "COMPANY_DISSOLVED": 90,
    "LOW_CREDIT_SCORE": 70,
    "NON_PERFORMING_ACCOUNT": 85,
    "ADVERSE_LISTING": 85,
    "PAST_DELINQUENCY": 35,
    "BOUNCED_CHEQUES": 50,
    "FRAUD_ALERT": 95,
    "SANCTIONS_HIT": 95,
    "WATCHLIST_HIT": 75,
    "PEP_HIT": 50,
    "NAME_NOT_COMPARED": 0,
}
MEDIUM, HIGH = 30, 70
NOT_COMPARED = "A record was found; not all of it could be compared."
OTHER_NAME = "The register has another name for this number."
NO_NAME = "The source gives no name that could be compared."
# The longest time that a source may take for one run of a check.
MAX_WAIT = timedelta(minutes=15)


def build_finding(
    source: str,
    *,
    summary: str,
    flags: Mapping[str, str],
    details: dict[str, Any],
    known: bool = True,
    credit_score: int | None = None,
    match: Comparison | None = None,
    **evidence: Any,
) -> Finding:
    """Make a finding.

    `flags` are code -> message. `known` is False if the answer is incomplete. `match`
    is the comparison of the names.
    """
    scores = [SCORES[code] for code in flags]
    if credit_score is not None:
        scores.append(round(100 * (900 - credit_score) / 700))
    if known:
        scores.append(CLEAR)
    return Finding(
        summary=summary,
        # An incomplete finding keeps a score that is risky by itself.
        score=max(scores) if known or max(scores, default=0) >= MEDIUM else None,
        details=details,
        provider=source,
        flags=[Flag(code, severity(code), text) for code, text in flags.items()],
        name_comparison=match.as_evidence() if match else None,
        **evidence,
    )


def worst_message(flags: Mapping[str, str], clear: str) -> str:
    """Return the message of the flag with the highest score, or `clear`."""
    return flags[max(flags, key=SCORES.__getitem__)] if flags else clear


def severity(code: str) -> Severity:
    score = SCORES[code]
    return "HIGH" if score >= HIGH else "MEDIUM" if score >= MEDIUM else "LOW"


def stated_name(subject: Mapping[str, Any]) -> str | None:
    if subject.get("fullName"):
        return str(subject["fullName"])
    parts = [subject.get(key) for key in ("firstName", "middleName", "lastName")]
    return " ".join(part for part in parts if part) or None


def name_match(subject: Mapping[str, Any], given: str | None) -> Comparison | None:
    """Compare the stated name with the source's; return None if either is missing."""
    compare = compare_companies if is_company(subject) else compare_people
    return compare(stated_name(subject), given)


def likeness_of(match: Comparison | None) -> Likeness | None:
    return match.likeness if match else None


def name_flags(
    subject: Mapping[str, Any], match: Comparison | None, other_name: str = OTHER_NAME
) -> dict[str, str]:
    """Return the flags for the name of a record: code -> message."""
    if not is_compared(subject, match):
        return {"NAME_NOT_COMPARED": NO_NAME}
    return {"NAME_MISMATCH": other_name} if likeness_of(match) == "NO_MATCH" else {}


def is_compared(subject: Mapping[str, Any], match: Comparison | None) -> bool:
    """Return whether the name was compared, or none was stated."""
    return match is not None or not stated_name(subject)


def is_company(subject: Mapping[str, Any]) -> bool:
    return subject.get("subjectType") == "COMPANY"


def pending_error(
    inquiry: Inquiry, now: datetime, seconds: float, late: str
) -> Exception:
    """Return the exception for a source that is still at work.

    That is AnswerPending for `seconds`, or Unavailable with the text `late` if the run
    takes longer than MAX_WAIT.
    """
    if now - inquiry.asked_at > MAX_WAIT:
        return Unavailable("SOURCE_UNAVAILABLE", late)
    return AnswerPending(now + timedelta(seconds=seconds))
