"""Compare a referee's answers with the employment that the subject stated.

The answers come from the hosted page of the reference:

    employed      whether the person worked there; if False, the rest may be null
    employer, jobTitle                     in the referee's words; the title is optional
    employedFrom, employedTo               `2019-03-01`, or null if unanswered
    stillEmployed                          earlier answers lack it: no end meant it
    wouldRehire   YES, NO or UNKNOWN
    remarks       may be empty
    refereeName, refereeTitle, mayAnswer   the referee, and their right to answer
"""

from collections.abc import Mapping
from datetime import date, timedelta
from hashlib import sha256
from typing import Any, Literal

import orjson

from verification.providers.base import Finding, Flag
from verification.providers.name_comparison import Likeness, employers_alike, jobs_alike

Answers = Mapping[str, Any]

NAME = "referee"
CLEAR = 5
# Flag -> score, severity and message, as in `docs/client/checks.md`.
FLAGS: dict[str, tuple[int, Literal["MEDIUM", "HIGH"], str]] = {
    "EMPLOYMENT_NOT_FOUND": (80, "HIGH", "The referee does not know the employment."),
    "EMPLOYER_MISMATCH": (50, "MEDIUM", "The referee names another employer."),
    "JOB_TITLE_MISMATCH": (40, "MEDIUM", "The referee gives another job title."),
    "DATES_MISMATCH": (45, "MEDIUM", "The referee gives other dates."),
    "WOULD_NOT_REHIRE": (75, "HIGH", "The employer would not hire this person again."),
    "REFEREE_IS_SUBJECT": (60, "MEDIUM", "The referee's address is the subject's own."),
}
REHIRE = {"YES": True, "NO": False}
# People remember months, not days.
TOLERANCE = timedelta(days=31)


def compare_employment(
    subject: Answers, answers: Answers, asked_on: date, reference: str
) -> Finding:
    """Make the finding. Members that the subject did not state stay uncompared.

    `asked_on` is the day of the order, for employments that go on.
    """
    details = _not_employed(subject, answers)
    if answers["employed"]:
        details |= _employed(subject, answers, asked_on)
    codes = _codes(subject, details)
    return Finding(
        summary=_summary(codes),
        score=max([CLEAR, *(FLAGS[code][0] for code in codes)]),
        details=details,
        provider=NAME,
        flags=[Flag(code, *FLAGS[code][1:]) for code in codes],
        provider_reference=reference,
        response_digest=sha256(
            orjson.dumps(dict(answers), option=orjson.OPT_SORT_KEYS)
        ).hexdigest(),
    )


def _not_employed(subject: Answers, answers: Answers) -> dict[str, Any]:
    """Return every output field, as for a person without this employment."""
    return {
        "employerName": subject.get("employerName"),
        "employerMatch": None,
        "employed": answers["employed"],
        # The page shows the stated name to referees, so their repeating it is no proof.
        "employeeName": None,
        "nameMatch": None,
        "jobTitle": None,
        "jobTitleMatch": None,
        "employmentStart": None,
        "employmentEnd": None,
        "datesMatch": None,
        "wouldRehire": None,
        "refereeName": answers["refereeName"],
        "refereeTitle": answers["refereeTitle"],
        "remarks": answers.get("remarks") or None,
    }


def _employed(subject: Answers, answers: Answers, asked_on: date) -> dict[str, Any]:
    return {
        "employerName": answers["employer"],
        "employerMatch": employers_alike(subject["employerName"], answers["employer"]),
        "jobTitle": answers["jobTitle"] or None,
        "jobTitleMatch": (
            jobs_alike(subject["jobTitle"], answers["jobTitle"])
            if subject.get("jobTitle") and answers["jobTitle"]
            else None
        ),
        "employmentStart": answers["employedFrom"],
        "employmentEnd": answers["employedTo"],
        "datesMatch": _dates_alike(subject, answers, asked_on),
        "wouldRehire": REHIRE.get(answers["wouldRehire"]),
    }


def _dates_alike(subject: Answers, answers: Answers, asked_on: date) -> Likeness | None:
    """Compare the dates that both have given, if there are any.

    A stated start without an end means that the employment goes on.
    """
    start, end = subject.get("employmentStart"), subject.get("employmentEnd")
    first, last = answers["employedFrom"], answers["employedTo"]
    is_lasting = answers.get("stillEmployed", last is None)
    alike = []
    if start and first:
        alike.append(_is_near(start, first))
    if (start or end) and (last or is_lasting):
        # An employment that goes on ends on the day of the order or later.
        known = end or last
        alike.append(
            _is_near(end, last)
            if end and last
            else not known or date.fromisoformat(known) >= asked_on - TOLERANCE
        )
    return ("MATCH" if all(alike) else "NO_MATCH") if alike else None


def _is_near(ours: str, theirs: str) -> bool:
    return abs(date.fromisoformat(ours) - date.fromisoformat(theirs)) <= TOLERANCE


def _codes(subject: Answers, details: Mapping[str, Any]) -> list[str]:
    address = str(subject.get("email") or "").casefold()
    found = {
        "EMPLOYMENT_NOT_FOUND": not details["employed"],
        "EMPLOYER_MISMATCH": details["employerMatch"] == "NO_MATCH",
        "JOB_TITLE_MISMATCH": details["jobTitleMatch"] == "NO_MATCH",
        "DATES_MISMATCH": details["datesMatch"] == "NO_MATCH",
        "WOULD_NOT_REHIRE": details["wouldRehire"] is False,
        "REFEREE_IS_SUBJECT": address
        and address == str(subject.get("refereeEmail")).casefold(),
    }
    return [code for code, is_so in found.items() if is_so]


def _summary(codes: list[str]) -> str:
    differs = any(code.endswith("_MISMATCH") for code in codes)
    if "EMPLOYMENT_NOT_FOUND" in codes:
        return "The referee has no record of the employment."
    if "WOULD_NOT_REHIRE" in codes:
        also = ", with differences," if differs else ""
        return f"The referee confirms the employment{also} and would not hire again."
    if "REFEREE_IS_SUBJECT" in codes:
        return "The subject's own e-mail address confirms the employment."
    if differs:
        return "The referee confirms the employment, with differences."
    return "The referee confirms the employment."
