"""Refuse a consent that was given before the subject objected.

The register of requests knows the objections. It is in a layer above this one, so
`privacy` adds the function that finds them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from verification.consents.models import Consent, ConsentRecord, ConsentStatus
from verification.reports.models import KnownSubject, Report
from verification.reports.request import (
    ConsentInput,
    Fault,
    InvalidRequest,
    MemberPath,
)
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


# Called with rows; returns when the subject of each objected last, or None.
objection_hooks: list[Callable[[Sequence[Named]], list[datetime | None]]] = []


def objections_of(rows: Sequence[Named]) -> list[datetime | None]:
    """Return when the subject of each row objected last, or None, in one query."""
    (find,) = objection_hooks
    return find(rows)


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


def _given_at(consent: Consent | None) -> datetime | None:
    if consent is None:
        return None
    if consent.status == ConsentStatus.ATTESTED:
        return datetime.fromisoformat((consent.attestation or {})["obtainedAt"])
    granted = ConsentRecord.objects.filter(
        consent_id=consent.pk, decision=ConsentRecord.Decision.GRANTED
    )
    return granted.order_by("created_at").values_list("created_at", flat=True).last()
