"""List and search a workspace's reports: by status, type, days, name or identifier.

An identifier is also the number on a paper about the report (`reports/numbers.py`).

Every three letters in a row of a name, and every identifier, become 64-bit keyed hashes
that hold for one workspace and environment. PostgreSQL's array index finds the reports
that have all of them, without an extension, and the table does not reveal identifiers.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from enum import StrEnum
from functools import lru_cache, partial
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import BigIntegerField, Count, F, Q, QuerySet, Value, Window
from django.db.models.expressions import RawSQL
from django.db.models.functions import Coalesce

from verification.db.base import ResultPage, force_custom_plan, read_page
from verification.db.bulk_insert import Row
from verification.db.encryption import derive_term_keys, hash_term, keyed_hashes
from verification.reports.models import (
    Report,
    ReportStatus,
    SearchEntry,
    Subject,
    SubjectType,
    fold_name,
    fold_text,
    further_ids,
)
from verification.reports.numbers import find_reports_by_number
from verification.values.clock import now
from verification.values.formats import typed_phone
from verification.values.masking import normalise_identifier

GRAM_LENGTH = 3
# Up to this many candidates go into the query as ids, and up to the second number as an
# array. For more, the query reads the names of all reports of the workspace.
MAX_INLINE_IDS = 1_000
MAX_IDS = 7_500
# The number of reports at each end of the list that show if a name is common
SAMPLE = 500
# Counting a million reports takes longer than showing twenty of them.
COUNTED_REPORTS = 10_000
NUMBERS = ("idNumber", "registrationNumber")


class Terms:
    """The hashes by which rows of one workspace and environment are found."""

    def __init__(self, workspace_id: UUID, environment: str) -> None:
        self._keys = (
            keyed_hashes("search", workspace_id, environment)[0],
            *derive_term_keys(settings.LOOKUP_KEY[1:]),
        )
        self._grams: dict[str, int] = {}

    def of(self, row_id: UUID, subject: Subject, reference: str | None) -> list[int]:
        """Return the terms of a report, or a monitoring rule, about this subject."""
        numbers = [subject.members[key] for key in NUMBERS if key in subject.members]
        texts = [str(row_id), subject.members.get("email"), reference]
        phone = subject.members.get("phone")
        return [
            *self.of_name(subject.search_name),
            *(self.of_number(number) for number in numbers),
            *(self.of_text(text) for text in texts if text),
            *([self.of_phone(phone)] if phone else []),
        ]

    def of_name(self, name: str, step: int = 1) -> set[int]:
        """Return the terms of every `step`-th three letters, and of the last three."""
        end = len(name) - GRAM_LENGTH
        starts = {*range(0, end, step), end} if end >= 0 else ()
        return {self._of_gram(name[i : i + GRAM_LENGTH]) for i in starts}

    def of_number(self, text: str) -> int:
        return self._hash(f"number:{normalise_identifier(text)}")

    def of_text(self, text: str) -> int:
        return self._hash(f"text:{fold_text(text)}")

    def of_phone(self, text: str) -> int:
        """Return the term of a phone number in E.164."""
        return self._hash(f"phone:{text}")

    def of_search(self, text: str) -> list[int]:
        """Return the terms of the identifiers that somebody may search for by this."""
        phone = typed_phone(text)
        return [
            self.of_number(text),
            self.of_text(text.strip()),
            *([self.of_phone(phone)] if phone else []),
        ]

    def _of_gram(self, gram: str) -> int:
        term = self._grams.get(gram)
        if term is None:
            term = self._grams[gram] = self._hash(f"gram:{gram}")
        return term

    def _hash(self, text: str) -> int:
        return hash_term(self._keys, text.encode())


def search_entry_rows(
    workspace_id: UUID,
    environment: str,
    reports: Iterable[tuple[UUID, Subject, str | None]],
) -> list[Row]:
    """Return rows of SearchEntry for each (report id, subject, reference)."""
    terms = Terms(workspace_id, environment)
    return [
        {
            "report_id": report_id,
            "terms": terms.of(report_id, subject, reference),
            "further_ids": further_ids(workspace_id, environment, subject.members),
        }
        for report_id, subject, reference in reports
    ]


def search_condition(
    workspace_id: UUID, environment: str, text: str
) -> tuple[Q, list[UUID] | None]:
    """Return the condition for reports whose name or identifier matches the text.

    The second value is the ids of the candidates, or None if there are too many.
    """
    terms = Terms(workspace_id, environment)
    name = fold_name(text)
    matches = Q(search_name__contains=name)
    identifiers = bigint_values(terms.of_search(text))
    entries = SearchEntry.objects.filter(terms__overlap=identifiers)
    numbered = find_reports_by_number(text)
    identified = _ids_if_few(entries)
    if identified is None:
        subquery = Q(pk__in=entries.values("pk"))
        return (matches | subquery | Q(pk__in=numbered)), None
    identified += numbered
    matches |= Q(pk__in=_as_array(identified))
    # Half of the terms have all letters, and the index reads a list for each term.
    grams = terms.of_name(name, step=2)
    if not grams or _is_common(workspace_id, environment, name):
        return matches, None
    entries = SearchEntry.objects.filter(terms__contains=bigint_values(grams))
    named = _ids_if_few(entries)
    if named is None:
        return matches, None
    candidates = [*{*named, *identified}]
    # PostgreSQL reads only these rows if the query contains their ids.
    return matches & Q(pk__in=_as_array(candidates)), candidates


def _is_common(workspace_id: UUID, environment: str, name: str) -> bool:
    """Return whether a hundredth of the newest and of the oldest reports have the name.

    Finding all of them in the index takes longer than reading the names. Erased reports
    have none, so the oldest are those that the retention erases next.
    """
    reports = Report.objects.filter(workspace=workspace_id, environment=environment)
    kept = reports.filter(completed_at__isnull=False, erased_at=None)
    newest = reports.order_by(*ORDERS[Sort.NEWEST])
    for sample in (newest, kept.order_by("completed_at")):
        names = sample.values_list("search_name", flat=True)[:SAMPLE]
        if sum(name in one for one in names) * 100 <= SAMPLE:
            return False
    return True


def bigint_values(terms: Iterable[int]) -> list[Value]:
    """Return the terms as 64-bit values; by default Django casts them to 32 bits."""
    return [Value(term, BigIntegerField()) for term in terms]


def _ids_if_few(entries: QuerySet[SearchEntry]) -> list[UUID] | None:
    """Return the ids of the reports, or None if there are more than MAX_IDS."""
    ids = list(entries.values_list("pk", flat=True)[: MAX_IDS + 1])
    return ids if len(ids) <= MAX_IDS else None


def _as_array(ids: list[UUID]) -> list[UUID] | RawSQL:
    """Return the ids as a query takes them: above MAX_INLINE_IDS, as one array."""
    if len(ids) <= MAX_INLINE_IDS:
        return ids
    return RawSQL("SELECT unnest(%s::uuid[])", [ids])


@dataclass(frozen=True, slots=True)
class Filters:
    """The filters of a list; the days are days in `zone`, both included."""

    search: str | None = None
    status: str | None = None
    subject_type: str | None = None
    first_day: date | None = None
    last_day: date | None = None
    zone: tzinfo = UTC


class Sort(StrEnum):
    NEWEST = "newest"
    OLDEST = "oldest"
    # The highest risk first, and reports without a score last
    RISK = "risk"


# Each is the order of an index of Report, forwards or backwards.
ORDERS: dict[Sort, tuple[Any, ...]] = {
    Sort.NEWEST: ("-created_at", "-id"),
    Sort.OLDEST: ("created_at", "id"),
    Sort.RISK: (F("risk_score").desc(nulls_last=True), "-id"),
}


# A sort by risk reads up to this many reports of the chosen days. The index by risk
# has no days: PostgreSQL would read all its entries before the first match.
MAX_SORTED = 50_000
# States of reports without a score
UNSCORED = {
    ReportStatus.DRAFT,
    ReportStatus.PENDING_CONSENT,
    ReportStatus.PENDING_PAYMENT,
    ReportStatus.RUNNING,
    ReportStatus.CANCELLED,
}


@force_custom_plan()
def list_reports(
    workspace_id: UUID,
    environment: str,
    filters: Filters,
    *,
    sort: Sort = Sort.NEWEST,
    page: int,
    size: int,
    counts_all: bool = False,
) -> ResultPage[Report]:
    """Return a page of the matching reports, and their total number.

    Counting stops at COUNTED_REPORTS; with `counts_all` it does only in a search.
    """
    if sort == Sort.RISK and filters.status in UNSCORED:
        # Their query would read the index by risk to its end.
        sort = Sort.NEWEST
    matching, candidates = _search(workspace_id, environment, filters)
    order = ORDERS[sort]
    if sort == Sort.RISK and _has_few_days(workspace_id, environment, filters):
        # An equal order, in a form that the index `report_by_risk` does not match
        order = (Coalesce("risk_score", -1).desc(), "-id")
    # The index alone gives the ids, so the table is read for this page's rows only.
    ids = matching.order_by(*order).values_list("id", flat=True)
    if candidates is not None:
        found = _read_few(ids, page, size)
    elif counts_all and not filters.search:
        count = partial(_count_reports, workspace_id, environment, filters)
        found = read_page(ids, page, size, count=count)
    else:
        found = read_page(ids, page, size, count_up_to=COUNTED_REPORTS)
    reports = Report.objects.in_bulk(found.rows)
    return replace(found, rows=[reports[id] for id in found.rows])


def _has_few_days(workspace_id: UUID, environment: str, filters: Filters) -> bool:
    """Return whether the days are chosen and have at most MAX_SORTED reports."""
    if not (filters.first_day or filters.last_day):
        return False
    days = replace(filters, status=None, subject_type=None)
    reports = _filtered_reports(workspace_id, environment, days)
    return reports[: MAX_SORTED + 1].count() <= MAX_SORTED


# Most reports are READY or about people, so the others are counted. Equal statuses let
# PostgreSQL read `report_totals`, which is small.
OTHERS: dict[str, Q] = {
    ReportStatus.READY: Q(status__in=[s for s in ReportStatus if s != "READY"]),
    SubjectType.INDIVIDUAL: Q(subject_type=SubjectType.COMPANY),
}


def _count_reports(workspace_id: UUID, environment: str, filters: Filters) -> int:
    """Return how many reports match, without reading millions of them each time."""
    chosen = [value for value in (filters.status, filters.subject_type) if value]
    if len(chosen) > 1 or not OTHERS.keys() >= set(chosen):
        return _filtered_reports(workspace_id, environment, filters).count()
    every = replace(filters, status=None, subject_type=None)
    yesterday = datetime.combine(now().date() - timedelta(days=1), time(), UTC)
    total = _count_older(workspace_id, environment, every, yesterday)
    matching = _filtered_reports(workspace_id, environment, every)
    total += matching.filter(created_at__gte=yesterday).count()
    for value in chosen:
        total -= matching.filter(OTHERS[value]).count()
    return total


@lru_cache(maxsize=1000)
def _count_older(
    workspace_id: UUID, environment: str, filters: Filters, before: datetime
) -> int:
    """Return a number that stays: no report goes, or changes its `created_at`."""
    reports = _filtered_reports(workspace_id, environment, filters)
    return reports.filter(created_at__lt=before).count()


@force_custom_plan()
def list_newest(
    workspace_id: UUID, environment: str, filters: Filters, size: int
) -> list[Report]:
    """Return the newest reports that match, without counting them."""
    matching, _candidates = _search(workspace_id, environment, filters)
    return list(matching.order_by("-created_at", "-id")[:size])


def _read_few(ids: QuerySet[Report, Any], page: int, size: int) -> ResultPage[Any]:
    """Read a page and count by one statement, which finds each of them once."""
    counted = ids.annotate(total=Window(Count("*"))).values_list("id", "total")
    rows = list(counted[page * size :][:size])
    total = rows[0][1] if rows else ids.count() if page else 0
    return ResultPage([id for id, _total in rows], total, page, size)


def _search(
    workspace_id: UUID, environment: str, filters: Filters
) -> tuple[QuerySet[Report], list[UUID] | None]:
    reports = _filtered_reports(workspace_id, environment, filters)
    if not filters.search:
        return reports, None
    condition, candidates = search_condition(workspace_id, environment, filters.search)
    return reports.filter(condition), candidates


def _filtered_reports(
    workspace_id: UUID, environment: str, filters: Filters
) -> QuerySet[Report]:
    """Return the reports of the filters, but for the search."""
    reports = Report.objects.filter(workspace=workspace_id, environment=environment)
    exact: dict[str, Any] = {
        "status": filters.status,
        "subject_type": filters.subject_type,
        "created_at__gte": _start_of(filters.first_day, filters.zone),
        "created_at__lt": _start_of(
            filters.last_day, filters.zone, after=timedelta(days=1)
        ),
    }
    return reports.filter(**{k: v for k, v in exact.items() if v is not None})


def _start_of(
    day: date | None, zone: tzinfo, after: timedelta = timedelta()
) -> datetime | None:
    if day is None:
        return None
    try:
        return datetime.combine(day, time(), zone) + after
    except OverflowError:
        # The day after 9999-12-31: no report is later.
        return None
