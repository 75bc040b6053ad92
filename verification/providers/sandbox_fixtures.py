"""Fill in the sandbox's fixtures; `sandbox.toml` describes their syntax.

`prepare` compiles a fixture to closures once, so that an answer takes microseconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from hashlib import blake2b
from typing import Any

from verification.providers.base import Flag

PLACEHOLDER = re.compile(r"\{([^{}]+)\}")
MASK_64 = 2**64 - 1


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


def seed_of(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


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


DIGITS = "0123456789"
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
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
