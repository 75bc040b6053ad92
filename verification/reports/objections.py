"""Refuse a consent that was given before the subject objected.

The register of requests, a table of `privacy`, knows the objections.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from django.db.models import Q

from verification.consents.models import Consent, ConsentRecord, ConsentStatus
from verification.consents.subject_messages import addresses_of
from verification.privacy.models import Origin, Outcome, RequestKind, SubjectRequest
from verification.providers.name_comparison import ACCEPTED_LIKENESSES, names_alike
from verification.reports.models import KnownSubject, Report, SearchEntry
from verification.reports.request import ConsentInput, Fault, InvalidRequest, MemberPath
from verification.values.local_time import utc_text

NEWER_CONSENT = "Send a consent that was obtained after that, or SERVICE_HOSTED."


class Named(Protocol):
    """A report, a rule or an order with its subject."""

    @property
    def subject_id(self) -> UUID: ...
    @property
    def subject_ids(self) -> list[UUID]: ...
    @property
    def subject(self) -> Any: ...
    @property
    def subject_name(self) -> str: ...


@dataclass(frozen=True, slots=True)
class OrderedSubject:
    """The subject of an order, which is no row yet."""

    subject_ids: list[UUID]
    subject: dict[str, Any]
    subject_name: str

    @property
    def subject_id(self) -> UUID:
        return self.subject_ids[0]


def objections_of(rows: Sequence[Named]) -> list[datetime | None]:
    """Return when the subject of each row objected last, or None, in one query.

    The subject is known by the number; a person objected for the rows that are theirs,
    as far as the report on whose page they did so still tells.
    """
    ids = sorted({one for row in rows for one in row.subject_ids})
    requests = SubjectRequest.objects.filter(
        Q(subject_id__in=ids) | Q(further_ids__overlap=ids),
        kind=RequestKind.OBJECTION,
        outcome=Outcome.DONE,
    )
    by_number: dict[UUID | None, list[SubjectRequest]] = defaultdict(list)
    for request in requests.select_related("report").order_by("received_at"):
        for one in {request.subject_id, *(request.further_ids or [])}:
            by_number[one].append(request)
    return [
        max(
            (
                request.received_at
                for one in row.subject_ids
                for request in by_number[one]
                if _is_by(request, row)
            ),
            default=None,
        )
        for row in rows
    ]


def _is_by(request: SubjectRequest, row: Named) -> bool:
    report = request.report
    if report is None or report.erased_at:
        return True
    if request.origin != Origin.SUBJECT and request.subject_id == row.subject_id:
        return True
    return may_be_same_person(report, row)


def require_newer_consents(
    orders: Iterable[tuple[MemberPath, KnownSubject, str, ConsentInput | None]],
) -> None:
    """Raise InvalidRequest if a subject objected after the consent that is attested.

    Takes (path of the consent, subject, name, consent). Costs one query if a consent is
    attested, and none otherwise.
    """
    attested = [
        (path, OrderedSubject(subject.ids, subject.members, name), consent.obtained_at)
        for path, subject, name, consent in orders
        if consent and consent.obtained and consent.obtained_at
    ]
    if not attested:
        return
    found = objections_of([subject for _, subject, _ in attested])
    faults = [
        Fault((*path, "obtainedAt"), "consent-required", objected_detail(objected_at))
        for (path, _, obtained_at), objected_at in zip(attested, found, strict=True)
        if objected_at and datetime.fromisoformat(obtained_at) <= objected_at
    ]
    if faults:
        raise InvalidRequest(faults)


def objected_detail(objected_at: datetime) -> str:
    return f"The subject objected at {utc_text(objected_at)}. {NEWER_CONSENT}"


def objected_since_consent(report: Report) -> datetime | None:
    """Return when the subject objected, unless they or the client consented later."""
    (objected_at,) = objections_of([report])
    if objected_at is None:
        return None
    given_at = _given_at(getattr(report, "consent", None))
    return None if given_at and given_at > objected_at else objected_at


def lift_restriction(report: Report) -> None:
    """End the restriction of a locked report that has a consent since the objection."""
    if report.restricted_at is None or objected_since_consent(report):
        return
    report.restricted_at = None
    Report.objects.filter(pk=report.pk).update(restricted_at=None)


def withdrew_from_monitoring(report: Report) -> bool:
    """Return whether a rule made it whose subject withdrew, with no consent since.

    Its own consent is an attestation of the client, which a withdrawal on another
    report leaves as it is. Once the rule is deleted, a newer consent cannot be
    attested.
    """
    if report.monitoring_id is None:
        return False
    rules = Report.objects.filter(pk=report.pk, monitoring_run__isnull=False)
    for withdrawn_at in rules.values_list(
        "monitoring_run__rule__consent_withdrawn_at", flat=True
    ):
        return withdrawn_at is not None
    ids = report.subject_ids
    carrying = SearchEntry.objects.filter(further_ids__overlap=ids).values("pk")
    withdrawals = ConsentRecord.objects.filter(
        Q(report__subject_id__in=ids) | Q(report__in=carrying),
        decision=ConsentRecord.Decision.WITHDRAWN,
        created_at__gt=report.created_at,
    )
    return any(
        one.report.erased_at or may_be_monitored_person(one.report, report)
        for one in withdrawals.select_related("report")
    )


def _given_at(consent: Consent | None) -> datetime | None:
    if consent is None:
        return None
    if consent.status == ConsentStatus.ATTESTED:
        return datetime.fromisoformat((consent.attestation or {})["obtainedAt"])
    granted = ConsentRecord.objects.filter(
        consent_id=consent.pk, decision=ConsentRecord.Decision.GRANTED
    )
    return granted.order_by("created_at").values_list("created_at", flat=True).last()


def may_be_same_person(report: Report, other: Named) -> bool:
    """Return whether a row with the same number could be about this report's person.

    A client may have typed the number of somebody else: names have to be alike, and
    dates of birth the same. Somebody who knows all these of another person has another
    address, so a row with an address shares one with the report. A row without one has
    the same date of birth in its place, if the report has an address. Rules seldom have
    an address, and need neither. This is enough to ask for a newer consent, and to ask
    the client; what a visitor may see or end needs a `Proof`.
    """
    if report == other:
        return True
    needs_birth = isinstance(other, Report | OrderedSubject)
    return _may_be_same(report, other, needs_birth=needs_birth)


def may_be_monitored_person(report: Report, run: Report) -> bool:
    """Return whether a rule made a report that could be about this report's person.

    Like a rule, it needs neither address nor date of birth.
    """
    return run.monitoring_id is not None and _may_be_same(
        report, run, needs_birth=False
    )


def _may_be_same(report: Report, other: Named, *, needs_birth: bool) -> bool:
    mine, theirs = address_set(report), address_set(other)
    if theirs and mine.isdisjoint(theirs):
        return False
    born = [(one.subject or {}).get("dateOfBirth") for one in (report, other)]
    if all(born) and born[0] != born[1]:
        return False
    if needs_birth and mine and not theirs and not all(born):
        return False
    return has_name_of(report, [other.subject_name])


def address_set(row: Named) -> set[str]:
    return {address.casefold() for _, address in addresses_of(row.subject or {})}


def has_name_of(row: Named, names: Iterable[str]) -> bool:
    """Return whether the row's name agrees with all these names."""
    own = row.subject_name
    return all(
        own == name or names_alike(own, name) in ACCEPTED_LIKENESSES for name in names
    )
