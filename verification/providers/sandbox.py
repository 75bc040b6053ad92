"""The sandbox's only source: it plays every outcome and calls no other system.

`sandbox.toml` has all its answers, its fixtures, and describes their syntax. `prepare`
compiles a fixture to closures once, so that an answer takes microseconds.

This module must stay without network, database and settings: a test checks its imports.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any

import orjson

from verification.providers.base import (
    AnswerPending,
    Finding,
    Flag,
    Inquiry,
    Provider,
    Refused,
    Unavailable,
)
from verification.providers.name_comparison import DIFFERENT, SAME
from verification.values.clock import now
from verification.values.masking import normalise_identifier

DATA = tomllib.loads(Path(__file__).with_name("sandbox.toml").read_text("utf-8"))
OUTCOMES = DATA["outcomes"]
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
# key of the subject -> reserved number or address -> outcome
RESERVED: dict[str, dict[str, str]] = {
    key: {
        normalise_identifier(number.replace("?", str(outcome["digit"]))): name
        for name, outcome in OUTCOMES.items()
    }
    for key, number in DATA["numbers"].items()
}
RESERVED["refereeEmail"] = {normalise_identifier(DATA["referee"]): "REFEREE"}
PLACEHOLDER = re.compile(r"\{([^{}]+)\}")
MASK_64 = 2**64 - 1
DIGITS = "0123456789"
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def reserved_members(subject: Mapping[str, Any]) -> list[str]:
    """Return the members of a subject that hold a reserved number or address."""
    return [
        key
        for key, numbers in RESERVED.items()
        if isinstance(value := subject.get(key), str)
        and normalise_identifier(value) in numbers
    ]


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
        for name, outcome in OUTCOMES.items()
    ]


class Sandbox(Provider):
    name = "sandbox"
    waits_on_network = False
    repeats_are_free = True
    not_told = DATA["not_told"]

    def ask(self, inquiry: Inquiry) -> Finding:
        check = CHECKS.get(inquiry.check)
        if check is None:
            raise Refused(*FAILURES["FIXTURE_MISSING"])
        key, number = check.number_of(inquiry.subject)
        own = RESERVED[key].get(number, "CLEAR") if key else "CLEAR"
        outcome = inquiry.outcome or own
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
        case "SLOW" if now() < inquiry.asked_at + SLOW:
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


def seed_of(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


@dataclass(slots=True)
class Case:
    """The values that fill a fixture."""

    subject: dict[str, Any]
    seed: int
    details: dict[str, Any] = field(default_factory=dict)


Render = Callable[[Case], Any]
Number = Callable[[Case], int]


@dataclass(frozen=True, slots=True)
class Fixture:
    """One outcome of one check, ready to be filled in."""

    summary: str
    score: Render
    flags: tuple[Flag, ...]
    fields: tuple[str, ...]
    renders: tuple[tuple[str, Render], ...]

    def details(self, case: Case) -> dict[str, Any]:
        case.details = details = dict.fromkeys(self.fields)
        for name, render in self.renders:
            details[name] = render(case)
        return details


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


def prepare(
    data: dict[str, Any], fixture: dict[str, Any], fields: tuple[str, ...]
) -> Fixture:
    """Compile a fixture of the file."""
    compiler = _Compiler(data["lists"], data["records"])
    return Fixture(
        summary=fixture["summary"],
        score=compiler.value(fixture["score"]),
        flags=tuple(Flag(**flag) for flag in fixture.get("flags", [])),
        fields=fields,
        renders=tuple(
            (name, compiler.value(value)) for name, value in fixture["details"].items()
        ),
    )


class _Compiler:
    """Compile texts of the file to functions of a case."""

    def __init__(self, lists: dict[str, Any], records: dict[str, Any]) -> None:
        self.lists, self.records = lists, records

    def value(self, value: Any) -> Render:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            entries = [self.value(entry) for entry in value]
            return lambda case: [entry(case) for entry in entries]
        if isinstance(value, dict):
            members = [(key, self.value(member)) for key, member in value.items()]
            return lambda case: {key: member(case) for key, member in members}
        return _constant(value)

    def text(self, text: str) -> Render:
        if whole := PLACEHOLDER.fullmatch(text):
            return self.placeholder(whole[1])
        # Pieces with an odd index are placeholders.
        pieces = PLACEHOLDER.split(text)
        if len(pieces) == 1:
            return _constant(text)
        parts = [
            self.placeholder(piece) if i % 2 else _constant(piece)
            for i, piece in enumerate(pieces)
        ]
        return lambda case: "".join([part(case) for part in parts])

    def placeholder(self, text: str) -> Render:
        first, _, rest = text.partition("|")
        render = self.alternative(first)
        if not rest:
            return render
        otherwise = self.placeholder(rest)

        def first_known(case: Case) -> Any:
            value = render(case)
            return otherwise(case) if value is None else value

        return first_known

    def alternative(self, text: str) -> Render:
        kind, *arguments = text.split(":")
        match kind:
            case "nothing":
                return _constant(None)
            case "record":
                return self.value(self.records[arguments[0]])
            case "pick":
                return _pick(self.lists[arguments[0]], _number(text))
            case "other":
                return _other(arguments[0], self.lists[arguments[1]], _number(text))
        if arguments:
            return KINDS[kind](_number(text), *arguments)
        return lambda case: case.subject.get(kind)


def _number(text: str) -> Number:
    """Return a function that gives each case a 64-bit number for this text.

    Multiplying by an odd number is reversible: different seeds give different numbers.
    """
    salt = seed_of(text)

    def number(case: Case) -> int:
        mixed = (case.seed ^ salt) * 0x9E3779B97F4A7C15 & MASK_64
        return mixed ^ mixed >> 32

    return number


def _constant(value: Any) -> Render:
    return lambda case: value


def _pick(entries: Any, number: Number) -> Render:
    if isinstance(entries, dict):
        by_type = {name: _pick(part, number) for name, part in entries.items()}
        return lambda case: by_type[case.subject["subjectType"]](case)
    count = len(entries)

    def pick(case: Case) -> Any:
        entry = entries[number(case) % count]
        # A copy: the caller may change it.
        return entry[:] if isinstance(entry, list) else entry

    return pick


def _other(key: str, entries: Any, number: Number) -> Render:
    """Return a function that picks an entry other than the subject's own."""
    pick = _pick(entries, number)
    pick_again = _pick(entries, lambda case: number(case) + 1)

    def other(case: Case) -> Any:
        entry = pick(case)
        own = str(case.subject.get(key)).casefold()
        return pick_again(case) if entry.casefold() == own else entry

    return other


def _mask(number: Number, mask: str) -> Render:
    def fill(case: Case) -> str:
        left, filled = number(case), []
        for sign in mask:
            if sign == "#":
                left, digit = divmod(left, 10)
                filled.append(DIGITS[digit])
            elif sign == "@":
                left, letter = divmod(left, 26)
                filled.append(LETTERS[letter])
            else:
                filled.append(sign)
        return "".join(filled)

    return fill


def _int(number: Number, low: str, high: str, step: str = "1") -> Render:
    first, pace = int(low), int(step)
    count = (int(high) - first) // pace + 1
    return lambda case: first + number(case) % count * pace


def _rate(number: Number, low: str, high: str) -> Render:
    first, width = float(low), float(high) - float(low)
    return lambda case: first + number(case) / MASK_64 * width


def _date(number: Number, low: str, high: str) -> Render:
    first = date(int(low), 1, 1).toordinal()
    count = date(int(high) + 1, 1, 1).toordinal() - first
    return lambda case: date.fromordinal(first + number(case) % count).isoformat()


def _match(number: Number, key: str) -> Render:
    return lambda case: "MATCH" if case.subject.get(key) else None


def _total(combine: Callable[[list[int]], int]) -> Callable[[Number, str], Render]:
    def total(number: Number, path: str) -> Render:
        records, _, member = path.partition(".")
        return lambda case: combine([r[member] for r in case.details[records]])

    return total


def _risk(number: Number, key: str) -> Render:
    return lambda case: round((900 - case.details[key]) / 7)


KINDS: dict[str, Callable[..., Render]] = {
    "mask": _mask,
    "int": _int,
    "rate": _rate,
    "date": _date,
    "match": _match,
    "sum": _total(sum),
    "max": _total(max),
    "risk": _risk,
}
CHECKS = {name: _prepare_check(check) for name, check in DATA["checks"].items()}
