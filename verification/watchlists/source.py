"""The operator's own copies of sanctions lists, as a source of AML_SCREENING.

The source reads the database and sends no data anywhere. It raises Unavailable if a
required list is missing or too old: only a search of all lists can clear a subject.
"""

import json
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import timedelta
from hashlib import sha256
from typing import Any, ClassVar

from verification.providers.base import (
    Cause,
    Finding,
    Inquiry,
    NotTold,
    Refused,
    Unavailable,
)
from verification.providers.findings import is_company, stated_name
from verification.providers.http_api import REFUSED, UNAVAILABLE
from verification.providers.screening import Hit, ListEdition, screening_finding
from verification.values.clock import now
from verification.watchlists.matching import (
    ANY_YEAR,
    SAME_BIRTH,
    score_entry,
    words_of,
)
from verification.watchlists.models import Edition, EntryKind, ListEntry
from verification.watchlists.name_index import EditionReplaced, get_name_index

ALGORITHM = "words-v4"
REPLACED = "A list was loaded just now."
ROUNDING = 1e-9


class WatchLists:
    name: ClassVar[str] = "watchlists"
    # The job's own thread calls it, and may read rows.
    waits_on_network: ClassVar[bool] = False
    repeats_are_free: ClassVar[bool] = True
    countries: ClassVar[frozenset[str]] = frozenset()
    not_told: ClassVar[NotTold] = {}
    longest_seconds: ClassVar[float] = 0

    def __init__(
        self, lists: Sequence[str], threshold: float = 0.7, days: int = 7
    ) -> None:
        self._lists, self._threshold = list(dict.fromkeys(lists)), threshold
        self._age = timedelta(days=days)

    def ask(self, inquiry: Inquiry) -> Finding:
        subject = inquiry.subject
        name = stated_name(subject)
        if inquiry.check != "AML_SCREENING" or not name:
            raise Refused(REFUSED, "The lists cannot be asked this.")
        if not words_of(name, is_company=is_company(subject)):
            raise Refused(REFUSED, "The name has no letters to search the lists by.")
        editions = self._editions()
        hits = self._hits(subject, name, editions)
        if not hits and not _is_latin(name):
            # OFAC lists only Latin names, so a search without a hit clears nobody.
            raise Refused(REFUSED, "The lists need the name in Latin letters.")
        return screening_finding(
            subject,
            hits,
            self.name,
            editions=[
                ListEdition(edition.list, edition.version, edition.confirmed_at)
                for edition in editions
            ],
            algorithm=ALGORITHM,
            threshold=self._threshold,
            response_digest=_digest(editions, hits),
        )

    def _editions(self) -> list[Edition]:
        """Return the current edition of each list. Raises Unavailable."""
        current = Edition.objects.filter(is_current=True, list__in=self._lists)
        found = {edition.list: edition for edition in current}
        oldest = now() - self._age
        for name in self._lists:
            if name not in found:
                why = f"The {name} list has not been loaded in this installation."
                raise Unavailable(UNAVAILABLE, why, cause=Cause.LIST_TOO_OLD)
            if found[name].confirmed_at < oldest:
                why = f"The {name} list of this installation is too old."
                raise Unavailable(UNAVAILABLE, why, cause=Cause.LIST_TOO_OLD)
        return [found[name] for name in self._lists]

    def _hits(
        self, subject: Mapping[str, Any], name: str, editions: Sequence[Edition]
    ) -> list[Hit]:
        kind = EntryKind.COMPANY if is_company(subject) else EntryKind.PERSON
        # A date of birth in common may lift an entry over the threshold.
        bonus = SAME_BIRTH if subject.get("dateOfBirth") else 0
        least = self._threshold - bonus - ROUNDING
        try:
            indexes = {each.list: get_name_index(each, kind) for each in editions}
        except EditionReplaced:
            raise Unavailable(UNAVAILABLE, REPLACED) from None
        scores = {
            entry: (score, list_name)
            for list_name, index in indexes.items()
            for entry, score in index.search(name, least).items()
        }
        entries = list(ListEntry.objects.filter(pk__in=list(scores))) if scores else []
        if len(entries) < len(scores):
            raise Unavailable(UNAVAILABLE, REPLACED)
        hits = []
        for entry in entries:
            names_score, list_name = scores[entry.pk]
            score = score_entry(
                names_score,
                birth=subject.get("dateOfBirth"),
                births=entry.birth_dates,
                country=subject.get("country"),
                countries=entry.countries,
            )
            if score >= self._threshold:
                matched = indexes[list_name].most_similar(name, entry.names)
                hits.append(_hit(entry, list_name, score, matched))
        return hits


def _is_latin(name: str) -> bool:
    """Return whether all letters are Latin; an apostrophe may be a modifier letter."""
    return all(
        unicodedata.name(letter, "").startswith("LATIN")
        for letter in unicodedata.normalize("NFKD", name)
        if letter.isalpha() and unicodedata.category(letter) != "Lm"
    )


def _hit(entry: ListEntry, list_name: str, score: float, matched: str) -> Hit:
    return Hit(
        lists=[list_name],
        entry=entry.reference,
        name=entry.names[0],
        matched_name=matched,
        topics=["sanction"],
        score=score,
        birth_dates=[each for each in entry.birth_dates if each != ANY_YEAR],
        countries=entry.countries,
    )


def _digest(editions: Sequence[Edition], hits: Sequence[Hit]) -> str:
    """Return the digest of editions and hits, in place of one of a source's answer."""
    searched = [edition.sha256 for edition in editions]
    found = sorted([hit.lists[0], hit.entry, hit.score] for hit in hits)
    return sha256(json.dumps([searched, found]).encode()).hexdigest()
