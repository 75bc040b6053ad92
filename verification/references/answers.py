"""The answers of a referee, and how they end the check that waits for them.

Each verb is one transaction: reference, event and the check that becomes due change
together or not at all. It locks the report first, as all verbs do: of two tabs, or of a
referee and a cancellation, one wins.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction

from verification.checks.due_checks import make_due
from verification.checks.events import consent_status_of, reference_event
from verification.notifications.models import BILINGUAL, Kind
from verification.notifications.outbox import OutgoingMessage, notify
from verification.references.models import Reference, ReferenceStatus
from verification.references.requests import (
    asked_subject,
    referee_message,
    require_open,
)
from verification.reports.hosted_links import cancel_requests
from verification.reports.status import lock_with_report
from verification.values.clock import now
from verification.values.formats import one_line
from webhooks.events import record_events

FOLDER = Path(__file__).parent / "texts"
VERSION = "referee-2026-11"


@dataclass(frozen=True, slots=True)
class Notice:
    """The versioned text, filled in for one reference.

    `consent` says who has a record of the subject's consent; it is empty if nobody has.
    """

    version: str
    title: str
    lead: str
    consent: str
    points: tuple[tuple[str, str], ...]
    names: tuple[str, ...]

    @property
    def text(self) -> str:
        points = (f"{heading}: {text}" for heading, text in self.points)
        return "\n".join([self.title, self.lead, self.consent, *points])

    @property
    def sha256(self) -> str:
        return sha256(self.text.encode()).hexdigest()

    @property
    def as_evidence(self) -> dict[str, str]:
        """The notice's members of the evidence of an answer."""
        return {
            "noticeVersion": self.version,
            "noticeSha256": self.sha256,
            "noticeText": self.text,
        }


@dataclass(frozen=True, slots=True)
class AnswerEvidence:
    """Proof of the answer; `notice` is `Notice.as_evidence` of the page's notice."""

    address: str
    user_agent: str
    language: str
    notice: Mapping[str, str]

    def as_members(self, reason: str = "") -> dict[str, str]:
        return {
            "address": self.address,
            "userAgent": self.user_agent,
            "language": self.language,
            "reason": reason,
            **self.notice,
        }


@transaction.atomic
def submit(
    reference_id: UUID,
    generation: int,
    answers: Mapping[str, Any],
    evidence: AnswerEvidence,
) -> Reference:
    """Store the answers, in the form of `providers.referee`, and end the check.

    Raises ReferenceClosed. A second call through the same link changes nothing.
    """
    report, reference = lock_with_report(Reference, reference_id)
    if _is_done(reference, generation, ReferenceStatus.SUBMITTED):
        return reference
    require_open(reference, report, generation)
    at = now()
    reference.status = ReferenceStatus.SUBMITTED
    reference.answers, reference.submitted_at = dict(answers), at
    _close(reference, evidence.as_members(), at)
    stack = report.results.values_list("name", "status", "id")
    event = reference_event(
        report,
        list(stack),
        reference,
        referee_name=answers["refereeName"],
        submitted_at=at,
        consent_status=consent_status_of(report),
    )
    record_events([event], at)
    return reference


@transaction.atomic
def decline(
    reference_id: UUID, generation: int, evidence: AnswerEvidence, reason: str
) -> Reference:
    """Fail the check without a retry, as the referee does not want to answer.

    Raises ReferenceClosed. A second call through the same link changes nothing.
    """
    report, reference = lock_with_report(Reference, reference_id)
    if _is_done(reference, generation, ReferenceStatus.DECLINED):
        return reference
    require_open(reference, report, generation)
    at = now()
    reference.status = ReferenceStatus.DECLINED
    reference.declined_at = at
    _close(reference, evidence.as_members(reason), at)
    return reference


def _is_done(reference: Reference, generation: int, status: ReferenceStatus) -> bool:
    return (reference.generation, reference.status) == (generation, status)


def _close(reference: Reference, evidence: dict[str, str], at: datetime) -> None:
    reference.evidence = evidence
    reference.save()
    cancel_requests(reference)
    notify(*reference_receipt(reference))
    make_due(reference.result_id, at)


def reference_receipt(reference: Reference) -> list[OutgoingMessage]:
    """Return the message to the referee in the language of the page.

    Erasing the subject erases the referee's address; there is no message then.
    """
    if not asked_subject(reference).get("refereeEmail"):
        return []
    context = {
        "number": reference.number,
        "decision": reference.status,
        "referenceId": str(reference.pk),
    }
    language = (reference.evidence or {}).get("language", BILINGUAL)
    cause = f"receipt:{reference.pk}"
    kind = Kind.REFERENCE_RECEIPT
    return [referee_message(kind, cause, reference, context, language)]


def notice_for(reference: Reference, consent_status: str, language: str) -> Notice:
    """Return the present notice for this reference in one of LANGUAGES."""
    source, report = _source(VERSION, language), reference.report
    subject, requester = asked_subject(reference), report.workspace.requester
    operator = (settings.OPERATOR_NAME, settings.OPERATOR_CONTACT)
    contacts = [(requester.name, requester.contact), operator]
    client = one_line(requester.name)
    name, employer = (
        one_line(subject.get(k, "")) for k in ("fullName", "employerName")
    )
    values = {
        "client": client,
        "name": name,
        "employer": employer,
        "service": settings.OPERATOR_NAME,
        "purpose": one_line(report.purpose),
        "retention_days": report.workspace.retention_of(
            report.environment, report.created_at
        ).days,
        "contacts": "; ".join(f"{n}, {at}" for n, at in contacts if at),
    }
    points = ((p["heading"], p["text"].format(**values)) for p in source["points"])
    return Notice(
        version=VERSION,
        title=source["title"].format(**values),
        lead=source["lead"].format(**values),
        consent=source["consent"].get(consent_status, "").format(**values),
        points=tuple((heading, text) for heading, text in points if text != "."),
        names=(client, name, employer),
    )


@cache
def _source(version: str, language: str) -> dict[str, Any]:
    return tomllib.loads((FOLDER / f"{version}.{language}.toml").read_text("utf-8"))
