"""What entries of sanctions and watch lists become: our fields, flags and scores.

An entry that is like the subject is a hit and not a guilt: whoever reads the report
decides whether it is about the same person. With hits a result is never LOW.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from verification.providers.base import Finding
from verification.providers.scoring import build_finding, stated_name
from verification.values.wire import utc_text

SANCTIONS, WATCHLIST, PEP = "SANCTIONS_HIT", "WATCHLIST_HIT", "PEP_HIT"
MESSAGES = {
    SANCTIONS: "Sanctions lists have a like name",
    WATCHLIST: "Watch lists have a like name",
    PEP: "Lists of people in public office, or close to them, have a like name",
}
# What an entry is listed for. Any other topic, or none, is a WATCHLIST_HIT.
TOPICS = {"sanction": SANCTIONS, "role.pep": PEP, "role.rca": PEP, "role.pol": PEP}
# Hits that are told one by one; all are counted.
MOST_SHOWN, MOST_NAMED = 20, 5
CLEAR = "The lists have no entry of a like name."


@dataclass(frozen=True, slots=True)
class Hit:
    """An entry that is like the subject; `score` is 0 to 1, 1 being the same."""

    lists: list[str]
    entry: str
    name: str
    topics: list[str]
    score: float
    birth_dates: list[str]
    countries: list[str]

    @property
    def flags(self) -> set[str]:
        found = {flag for topic in self.topics if (flag := _flag_of(topic))}
        return found or {WATCHLIST}


@dataclass(frozen=True, slots=True)
class ListEdition:
    """A list, or a dataset, as it was searched."""

    name: str
    version: str
    # When it was made, or last known to be the newest.
    as_of: datetime

    @property
    def age(self) -> timedelta:
        return datetime.now(UTC) - self.as_of

    def as_evidence(self) -> dict[str, Any]:
        return {
            "list": self.name,
            "version": self.version,
            "asOf": utc_text(self.as_of),
            "ageDays": max(0, self.age.days),
        }


def screening_finding(
    subject: Mapping[str, Any],
    hits: Sequence[Hit],
    source: str,
    *,
    editions: Sequence[ListEdition],
    algorithm: str,
    threshold: float,
    count: int | None = None,
    **evidence: Any,
) -> Finding:
    """`editions` are the lists that were searched; `count` is that of all hits where
    not all of them were given."""
    best = sorted(hits, key=lambda hit: -hit.score)
    flags = {
        code: f"{told}: {_named(hit for hit in best if code in hit.flags)}."
        for code, told in MESSAGES.items()
        if any(code in hit.flags for hit in best)
    }
    details = {
        "screenedName": stated_name(subject),
        "lists": [edition.name for edition in editions],
        "algorithm": algorithm,
        "threshold": threshold,
        "hitCount": max(count or 0, len(hits)),
        "hits": [_shown(hit) for hit in best[:MOST_SHOWN]],
    }
    return build_finding(
        source,
        summary=next(iter(flags.values()), CLEAR),
        flags=flags,
        details=details,
        # Evidence and no detail: a list that was published anew is no other finding.
        provider_reference=", ".join(
            f"{edition.name} {edition.version}" for edition in editions
        ),
        editions=[edition.as_evidence() for edition in editions],
        **evidence,
    )


def _flag_of(topic: str) -> str:
    """By the longest beginning: `sanction.linked` is `sanction`, too."""
    while topic:
        if topic in TOPICS:
            return TOPICS[topic]
        topic = topic.rpartition(".")[0]
    return WATCHLIST


def _named(hits: Iterable[Hit]) -> str:
    """The lists with their best scores, and not whom they name."""
    best: dict[str, float] = {}
    for hit in hits:
        for name in hit.lists or ["?"]:
            best.setdefault(name, hit.score)
    named = [f"{name} ({score:.0%})" for name, score in best.items()]
    more = len(named) - MOST_NAMED
    return ", ".join(named[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _shown(hit: Hit) -> dict[str, Any]:
    return {
        "lists": hit.lists,
        "entryId": hit.entry,
        "name": hit.name,
        "topics": hit.topics,
        "score": round(hit.score, 2),
        "birthDates": hit.birth_dates,
        "countries": hit.countries,
    }
