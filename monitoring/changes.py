"""What changed in a check since the run before, how grave it is, and in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from monitoring.models import Severity
from verification.reports.models import RiskLevel

# What is not known is not worse than a low one.
RANKS = {RiskLevel.UNKNOWN: 0, RiskLevel.LOW: 0, RiskLevel.MEDIUM: 1, RiskLevel.HIGH: 2}
MESSAGE_LENGTH = 1000
DETAILS = "details."
TITLES = {"riskLevel": "risk level changed", "flags": "flags changed"}

Said = dict[str, Any]


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


def differences(check_name: str, old: Said, new: Said) -> list[Change]:
    """In risk level, flags and output fields, each with how grave it is."""
    changes = []

    def add(field: str, before: Any, after: Any, severity: Severity) -> None:
        changes.append(Change(check_name, field, before, after, severity))

    before, after = old["riskLevel"], new["riskLevel"]
    if before != after:
        add("riskLevel", before, after, _of_level(before, after))
    if old["flags"] != new["flags"]:
        severity = _of_flags(old["flags"], new["flags"])
        add("flags", sorted(old["flags"]), sorted(new["flags"]), severity)
    for name in dict.fromkeys([*old["details"], *new["details"]]):
        before, after = old["details"].get(name), new["details"].get(name)
        if before != after:
            add(f"{DETAILS}{name}", before, after, Severity.INFO)
    return changes


def _of_level(old: str, new: str) -> Severity:
    if RANKS[RiskLevel(new)] <= RANKS[RiskLevel(old)]:
        return Severity.INFO
    return Severity.CRITICAL if new == RiskLevel.HIGH else Severity.WARNING


def _of_flags(old: dict[str, str], new: dict[str, str]) -> Severity:
    appeared = [s for code, s in new.items() if old.get(code) != s]
    if not appeared:
        return Severity.INFO
    return Severity.CRITICAL if "HIGH" in appeared else Severity.WARNING


def title_of(changes: Sequence[Change]) -> str:
    """At most 200 characters, and no values of fields."""
    checks = list(dict.fromkeys(change.check_name for change in changes))
    if len(checks) > 1:
        return f"{len(checks)} checks changed"
    fields = {change.field for change in changes}
    told = next((title for field, title in TITLES.items() if field in fields), None)
    return f"{checks[0]}: {told or 'details changed'}"


def message_of(changes: Sequence[Change]) -> str:
    """Without what the source said of the subject: that is in the changes alone."""
    checks = dict.fromkeys(change.check_name for change in changes)
    told = (_about([c for c in changes if c.check_name == name]) for name in checks)
    sentences = (f"{name}: {said}." for name, said in zip(checks, told, strict=True))
    return " ".join(sentences)[:MESSAGE_LENGTH]


def _about(changes: Sequence[Change]) -> str:
    """What changed in one check."""
    told, fields = [], []
    for change in changes:
        if change.field == "riskLevel":
            told.append(f"risk level went from {change.old} to {change.new}")
        elif change.field == "flags":
            told += _about_flags(set(change.old), set(change.new))
        else:
            fields.append(change.field.removeprefix(DETAILS))
    if fields:
        told.append(f"other values of {', '.join(fields)}")
    return "; ".join(told)


def _about_flags(old: set[str], new: set[str]) -> list[str]:
    appeared = [f"new flag {code}" for code in sorted(new - old)]
    gone = [f"flag {code} gone" for code in sorted(old - new)]
    return [*appeared, *gone] or ["a flag is graver or less grave"]
