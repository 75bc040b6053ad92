"""Turn entries of sanctions and watch lists into a finding: fields, flags and score.

A hit is an entry with a similar name, and proves nothing: the reader of the report
decides whether it is the same person. A result with hits is never LOW.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from verification.providers.base import Finding
from verification.providers.findings import build_finding, stated_name
from verification.values.local_time import utc_text

SANCTIONS, WATCHLIST, PEP = "SANCTIONS_HIT", "WATCHLIST_HIT", "PEP_HIT"
MESSAGES = {
    SANCTIONS: "Sanctions lists have a similar name",
    WATCHLIST: "Watch lists have a similar name",
    PEP: "Lists of people in public office, or close to them, have a similar name",
}
# Topic of an entry -> flag. Any other topic, or none, is a WATCHLIST_HIT.
TOPICS = {"sanction": SANCTIONS, "role.pep": PEP, "role.rca": PEP, "role.pol": PEP}
# Hits in the details, and lists in a flag's message. The count has all hits.
MOST_SHOWN, MOST_NAMED = 20, 5
CLEAR = "The lists have no entry with a similar name."


@dataclass(frozen=True, slots=True)
class Hit:
    """An entry that resembles the subject; `score` is 0 to 1, 1 for the same name."""

    lists: list[str]
    entry: str
    name: str
    # The one of its names that resembles the subject's, if the source tells.
    matched_name: str | None
    topics: list[str]
    score: float
    birth_dates: list[str]
    countries: list[str]

    @property
    def flags(self) -> set[str]:
        return flags_of(self.topics)


@dataclass(frozen=True, slots=True)
class ListEdition:
    """The edition of a list, or of a dataset, that a screening searched."""

    name: str
    version: str
    # Time of its making, or the last time that it was known to be the newest.
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
    """Make the finding of AML_SCREENING.

    `editions` are the searched lists; `count` is the number of all hits, if `hits` has
    only some of them.
    """
    best = sorted(hits, key=lambda hit: -hit.score)
    flags = {
        code: f"{text}: {_list_names(hit for hit in best if code in hit.flags)}."
        for code, text in MESSAGES.items()
        if any(code in hit.flags for hit in best)
    }
    details = {
        "screenedName": stated_name(subject),
        "lists": [edition.name for edition in editions],
        "algorithm": algorithm,
        "threshold": threshold,
        "hitCount": max(count or 0, len(hits)),
        "hits": [_details(hit) for hit in best[:MOST_SHOWN]],
    }
    return build_finding(
        source,
        summary=next(iter(flags.values()), CLEAR),
        flags=flags,
        details=details,
        # Editions are evidence, not details: a new edition alone changes no finding.
        provider_reference=", ".join(
            f"{edition.name} {edition.version}" for edition in editions
        ),
        editions=[edition.as_evidence() for edition in editions],
        **evidence,
    )


def flags_of(topics: Iterable[str]) -> set[str]:
    """Return the flags of an entry with these topics."""
    return {_flag_of(topic) for topic in topics} or {WATCHLIST}


def _flag_of(topic: str) -> str:
    """Return the flag of the longest known prefix: `sanction.linked` is `sanction`."""
    while topic:
        if topic in TOPICS:
            return TOPICS[topic]
        topic = topic.rpartition(".")[0]
    return WATCHLIST


def _list_names(hits: Iterable[Hit]) -> str:
    """Return the lists with their best scores, without the names of people."""
    best: dict[str, float] = {}
    for hit in hits:
        for name in hit.lists or ["?"]:
            best.setdefault(name, hit.score)
    named = [f"{name} ({score:.0%})" for name, score in best.items()]
    more = len(named) - MOST_NAMED
    return ", ".join(named[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _details(hit: Hit) -> dict[str, Any]:
    return {
        "lists": hit.lists,
        "entryId": hit.entry,
        "name": hit.name,
        "matchedName": hit.matched_name,
        "topics": hit.topics,
        "score": round(hit.score, 2),
        "birthDates": hit.birth_dates,
        "countries": hit.countries,
    }
