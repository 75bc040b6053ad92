"""The sandbox's only source: it plays every outcome and calls no other system.

`sandbox.toml` has all its answers. This module must stay without network, database and
settings: a test checks its imports.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar

import orjson

from verification.providers.base import (
    AnswerPending,
    Finding,
    Inquiry,
    NotTold,
    Refused,
    Unavailable,
)
from verification.providers.name_comparison import DIFFERENT, SAME
from verification.providers.sandbox_fixtures import Case, Fixture, prepare, seed_of
from verification.values.identifiers import normalise_identifier

DATA = tomllib.loads(Path(__file__).with_name("sandbox.toml").read_text("utf-8"))
FAILURES = {
    outcome: (failure["code"], failure["message"])
    for outcome, failure in DATA["failures"].items()
}
SLOW = timedelta(seconds=20)
FAILED_TRIES = 2
# Fixtures repeat the stated name, or give a different one.
COMPARISONS: dict[str | None, dict[str, Any]] = {
    one.likeness: one.as_evidence() for one in (SAME, DIFFERENT)
}

# key of the subject -> reserved number -> outcome
RESERVED: dict[str, dict[str, str]] = {
    key: {
        normalise_identifier(number.replace("?", str(outcome["digit"]))): name
        for name, outcome in DATA["outcomes"].items()
    }
    for key, number in DATA["numbers"].items()
}


def is_reserved(key: str, value: str) -> bool:
    """Return whether this member of a subject holds a reserved number."""
    return normalise_identifier(value) in RESERVED.get(key, ())


def list_reserved_numbers() -> list[dict[str, str]]:
    """Return the reserved numbers with their outcomes."""
    return [
        {
            **{
                key: number.replace("?", str(outcome["digit"]))
                for key, number in DATA["numbers"].items()
            },
            "outcome": name,
            "description": outcome["description"],
        }
        for name, outcome in DATA["outcomes"].items()
    ]


@dataclass(frozen=True, slots=True)
class _Check:
    """The fixtures of one check."""

    # Members of the subject that may hold its number; the first one present decides.
    keys: list[str]
    fixtures: dict[str, Fixture]
    changing: list[Fixture]

    def number_of(self, subject: dict[str, Any]) -> tuple[str, str]:
        for key in self.keys:
            if value := subject.get(key):
                return key, normalise_identifier(value)
        return "", ""


def _prepare_check(check: dict[str, Any]) -> _Check:
    clear = check["CLEAR"]
    outcomes = {
        "CLEAR": clear,
        "NOT_FOUND": check["NOT_FOUND"],
        "NAME_MISMATCH": _merge(clear, check["NAME_MISMATCH"]),
        "ADVERSE": _merge(clear, check["ADVERSE"]),
    }
    fields = tuple(clear["details"])
    fixtures = {
        name: prepare(DATA, outcome, fields) for name, outcome in outcomes.items()
    }
    changed = check["CHANGING"]
    changing = [
        prepare(
            DATA,
            _merge(_merge(outcomes[name], changed), changed.get(name, {})),
            fields,
        )
        for name in changed["like"]
    ]
    return _Check(check["number"], fixtures, changing)


def _merge(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    details = {**below["details"], **above.get("details", {})}
    return {**below, **above, "details": details}


CHECKS = {name: _prepare_check(check) for name, check in DATA["checks"].items()}


class Sandbox:
    name: ClassVar[str] = "sandbox"
    waits_on_network: ClassVar[bool] = False
    repeats_are_free: ClassVar[bool] = True
    countries: ClassVar[frozenset[str]] = frozenset()
    not_told: ClassVar[NotTold] = DATA["not_told"]

    def ask(self, inquiry: Inquiry) -> Finding:
        check = CHECKS.get(inquiry.check)
        if check is None:
            raise Refused(*FAILURES["FIXTURE_MISSING"])
        key, number = check.number_of(inquiry.subject)
        outcome = RESERVED[key].get(number, "CLEAR") if key else "CLEAR"
        _play_failure(outcome, inquiry)
        subject = _with_name(inquiry.subject)
        run = seed_of(inquiry.reference)
        if outcome == "CHANGING":
            fixture = check.changing[run % len(check.changing)]
            return _finding(fixture, Case(subject, run), run)
        fixture = check.fixtures.get(outcome, check.fixtures["CLEAR"])
        seed = seed_of(number or str(subject["fullName"]))
        return _finding(fixture, Case(subject, seed), run)


def _play_failure(outcome: str, inquiry: Inquiry) -> None:
    match outcome:
        case "SLOW" if datetime.now(UTC) < inquiry.asked_at + SLOW:
            raise AnswerPending(inquiry.asked_at + SLOW)
        case "RECOVERS" if inquiry.attempt <= FAILED_TRIES:
            raise Unavailable(*FAILURES[outcome])
        case "DOWN":
            raise Unavailable(*FAILURES[outcome])
        case "REFUSED" | "FIXTURE_MISSING":
            raise Refused(*FAILURES[outcome])


def _with_name(subject: dict[str, Any]) -> dict[str, Any]:
    if subject.get("fullName"):
        return subject
    parts = [subject.get(key) for key in ("firstName", "middleName", "lastName")]
    return {**subject, "fullName": " ".join(filter(None, parts)) or None}


def _finding(fixture: Fixture, case: Case, run: int) -> Finding:
    details = fixture.details(case)
    return Finding(
        summary=fixture.summary,
        score=fixture.score(case),
        details=details,
        provider=Sandbox.name,
        flags=list(fixture.flags),
        provider_reference=f"sbx-{run:016x}",
        response_digest=sha256(
            orjson.dumps(details, option=orjson.OPT_SORT_KEYS)
        ).hexdigest(),
        name_comparison=COMPARISONS.get(details.get("nameMatch")),
    )
