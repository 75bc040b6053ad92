"""The changes of a check since the run before: their severity and their text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from monitoring.models import Severity
from verification.documents.report import as_text, humanise_name
from verification.reports.models import RiskLevel

# An unknown severity counts as low.
RANKS = {RiskLevel.UNKNOWN: 0, RiskLevel.LOW: 0, RiskLevel.MEDIUM: 1, RiskLevel.HIGH: 2}
FLAG_RANKS = {"LOW": 0, "MEDIUM": 1, "HIGH": 2}
MESSAGE_LENGTH = 1000
SORT_KEYS = orjson.OPT_SORT_KEYS
DETAILS = "details."
TITLES = {"riskLevel": "risk level changed", "flags": "flags changed"}

Snapshot = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    check_name: str
    field: str
    old: Any
    new: Any
    severity: Severity

    def as_json(self) -> dict[str, Any]:
        return {
            "checkName": self.check_name,
            "field": self.field,
            "old": self.old,
            "new": self.new,
        }


def find_changes(check_name: str, old: Snapshot, new: Snapshot) -> list[Change]:
    """Return changes of risk level, flags and output fields with their severity.

    A field that only one snapshot has is left out: the definition changed, not the
    subject.
    """
    changes = []

    def add(field: str, before: Any, after: Any, severity: Severity) -> None:
        changes.append(Change(check_name, field, before, after, severity))

    before, after = old["riskLevel"], new["riskLevel"]
    if before != after:
        add("riskLevel", before, after, _level_severity(before, after))
    if old["flags"] != new["flags"]:
        severity = _flags_severity(old["flags"], new["flags"])
        add("flags", _listed(old["flags"]), _listed(new["flags"]), severity)
    for name, after in new["details"].items():
        before = old["details"].get(name)
        if name in old["details"] and _unordered(before) != _unordered(after):
            add(f"{DETAILS}{name}", before, after, Severity.INFO)
    return changes


def higher_severity(one: str, other: str) -> str:
    """Return the higher of two severities."""
    return max(one, other, key=lambda severity: FLAG_RANKS[severity])


def _listed(flags: dict[str, str]) -> list[dict[str, str]]:
    return [{"code": code, "severity": flags[code]} for code in sorted(flags)]


def _unordered(value: Any) -> Any:
    """Make lists with equal members equal, as sources return them in any order."""
    if isinstance(value, dict):
        return {name: _unordered(member) for name, member in value.items()}
    if isinstance(value, list):
        members = [_unordered(member) for member in value]
        return sorted(members, key=lambda m: orjson.dumps(m, option=SORT_KEYS))
    return value


def _level_severity(old: str, new: str) -> Severity:
    if RANKS[RiskLevel(new)] <= RANKS[RiskLevel(old)]:
        return Severity.INFO
    return Severity.CRITICAL if new == RiskLevel.HIGH else Severity.WARNING


def _flags_severity(old: dict[str, str], new: dict[str, str]) -> Severity:
    appeared = [
        severity
        for code, severity in new.items()
        if code not in old or FLAG_RANKS[severity] > FLAG_RANKS[old[code]]
    ]
    if not appeared:
        return Severity.INFO
    return Severity.CRITICAL if "HIGH" in appeared else Severity.WARNING


def title_of(changes: Sequence[Change]) -> str:
    """Return a title of at most 200 characters, without values of fields."""
    checks = list(dict.fromkeys(change.check_name for change in changes))
    if len(checks) > 1:
        return f"{len(checks)} checks changed"
    fields = {change.field for change in changes}
    told = next((title for field, title in TITLES.items() if field in fields), None)
    return f"{checks[0]}: {told or 'details changed'}"


def message_of(changes: Sequence[Change]) -> str:
    """Return a message without data about the subject, which only the changes hold."""
    checks = dict.fromkeys(change.check_name for change in changes)
    told = (
        _describe_check([c for c in changes if c.check_name == name]) for name in checks
    )
    sentences = (f"{name}: {said}." for name, said in zip(checks, told, strict=True))
    return " ".join(sentences)[:MESSAGE_LENGTH]


def describe_changes(changes: Sequence[dict[str, Any]]) -> list[dict[str, str]]:
    """Return an alert's `changes` as text for people; a missing value is blank."""
    return [
        {
            "check": change["checkName"],
            "what": humanise_name(change["field"].removeprefix(DETAILS)),
            "before": _value_text(change["field"], change["old"]),
            "now": _value_text(change["field"], change["new"]),
        }
        for change in changes
    ]


def _value_text(field: str, value: Any) -> str:
    if field != "flags":
        return as_text(value)
    return ", ".join(
        f"{flag['code'].replace('_', ' ').capitalize()} ({flag['severity'].lower()})"
        for flag in value
    )


def _describe_check(changes: Sequence[Change]) -> str:
    """Return the sentence about one check."""
    told, fields = [], []
    for change in changes:
        if change.field == "riskLevel":
            told.append(f"risk level went from {change.old} to {change.new}")
        elif change.field == "flags":
            told += _describe_flags(*map(_codes, (change.old, change.new)))
        else:
            fields.append(change.field.removeprefix(DETAILS))
    if fields:
        told.append(f"other values of {', '.join(fields)}")
    return "; ".join(told)


def _codes(flags: Sequence[dict[str, str]]) -> set[str]:
    return {flag["code"] for flag in flags}


def _describe_flags(old: set[str], new: set[str]) -> list[str]:
    appeared = [f"new flag {code}" for code in sorted(new - old)]
    gone = [f"flag {code} gone" for code in sorted(old - new)]
    return [*appeared, *gone] or ["a flag is graver or less grave"]
