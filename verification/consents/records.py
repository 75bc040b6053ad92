"""Records of decisions about a consent with their evidence; the routes they allow."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Any

import orjson

from verification.consents.models import Consent, ConsentRecord, ConsentStatus
from verification.db.encryption import keyed_hash
from verification.db.ids import uuid7
from verification.providers.base import ConsentEvidence
from verification.providers.registry import Route, restrict_route, route_for
from verification.reports.models import Report
from verification.values.wire import utc_text


def consented_route(
    consent: Consent | None, check: str, environment: str, country: str
) -> Route:
    """Return the route of the check without sources that the notice did not name.

    A consent from before notices named sources allows no live source. An attested
    consent allows the whole route: the client's own notice names the sources.
    """
    route = route_for(check, environment, country)
    if consent is None or consent.mode != Consent.Mode.SERVICE_HOSTED:
        return route
    return restrict_route(route, consent.shown_sources.get(check))


# Reasons to decline that are buttons of the page; subjects type all others.
NOT_ME, UNDER_AGE = "NOT_ME", "UNDER_AGE"
REASON_CODES = {NOT_ME, UNDER_AGE}
# `Evidence.confirmed_by` if staff withdraw for a subject who has asked them to.
CONFIRMED_BY_STAFF = "STAFF"


@dataclass(frozen=True, slots=True)
class Evidence:
    """Proof of the subject's decision; all blank for a link that expired.

    - `text`: the notice exactly as on the page.
    - `position`: that of the person who decides for a company.
    - `confirmed_by`: the challenge, NO_CHALLENGE if the report knows no answer to any,
      or STAFF.
    - `code_sent_to`: EMAIL or SMS if the subject typed the code sent to
      `code_address`, which is masked.
    - `link_sent_to`: the channels by which the service sent the link; may be empty.
    - `of_client`: signs that the client decided itself. ADDRESS: one of its keys was
      last used from this address. BROWSER: a member is logged in. CONTACT: the
      subject's address is a member's, the client's contact, or confirmed for tests.
    - `staff`: the user who withdrew for the subject.
    - `made`: how many checks were made before a withdrawal: "all", "some" or "none".
    """

    text: str = ""
    notice_version: str = ""
    language: str = ""
    typed_name: str = ""
    position: str = ""
    confirmed_by: str = ""
    code_sent_to: str = ""
    code_address: str = ""
    link_sent_to: tuple[str, ...] = ()
    of_client: tuple[str, ...] = ()
    staff: str = ""
    made: str = ""
    address: str = ""
    user_agent: str = ""
    # Check -> the sources that the text names.
    sources: dict[str, list[str]] = field(default_factory=dict)

    def kept(self, report: Report, reason: str) -> dict[str, Any]:
        return {
            "requester": report.workspace.requester.name,
            "purpose": report.purpose,
            "checks": report.checks_requested,
            "sources": self.sources,
            "text": self.text,
            "typedName": self.typed_name,
            "position": self.position,
            "confirmedBy": self.confirmed_by,
            "codeSentTo": self.code_sent_to,
            "codeAddress": self.code_address,
            "linkSentTo": list(self.link_sent_to),
            "ofClient": list(self.of_client),
            "staff": self.staff,
            "made": self.made,
            "address": self.address,
            "userAgent": self.user_agent,
            "reason": reason,
        }


def write_record(
    consent: Consent,
    report: Report,
    happened: ConsentRecord.Decision,
    evidence: Evidence,
    reason: str,
    at: datetime,
) -> ConsentRecord:
    """Record a decision by the present link. The caller holds both rows."""
    kept = evidence.kept(report, reason)
    record = ConsentRecord(
        id=uuid7(),
        report=report,
        consent_id=consent.pk,
        happened=happened,
        generation=consent.generation,
        language=evidence.language,
        notice_version=evidence.notice_version,
        notice_sha256=_sha256(evidence.text),
        evidence=kept,
        created_at=at,
    )
    record.digest = digest_of(record, kept)
    record.save(force_insert=True)
    return record


def reason_of(consent: Consent) -> str | None:
    """Return why the subject declined or withdrew, or None without a reason."""
    if consent.status not in {ConsentStatus.DECLINED, ConsentStatus.WITHDRAWN}:
        return None
    record = ConsentRecord.objects.filter(
        consent_id=consent.pk,
        generation=consent.generation,
        happened=consent.status,
    ).first()
    evidence = (record and record.evidence) or {}
    return evidence.get("reason") or None


def load_given_consent(consent: Consent) -> ConsentEvidence | None:
    """Return how the consent was given, for sources; None if it was not given."""
    if not consent.is_given:
        return None
    if consent.mode == Consent.Mode.CUSTOMER_ATTESTED:
        attested = consent.attestation or {}
        at = datetime.fromisoformat(attested["obtainedAt"])
        return ConsentEvidence(at, attested["method"], attested["policyVersion"])
    granted = ConsentRecord.objects.filter(
        consent_id=consent.pk, happened=ConsentRecord.Decision.GRANTED
    )
    record = granted.defer("evidence").order_by("created_at").last()
    if record is None:
        return None
    return ConsentEvidence(
        record.created_at,
        consent.mode,
        record.notice_version,
        record.language,
        bytes(record.notice_sha256 or b"").hex(),
    )


def digest_of(record: ConsentRecord, evidence: dict[str, Any]) -> bytes:
    """Return the `digest` of an unchanged record with this evidence."""
    said = [
        record.pk,
        record.report_id,
        record.consent_id,
        record.happened,
        record.generation,
        record.language,
        record.notice_version,
        utc_text(record.created_at),
        orjson.dumps(evidence, option=orjson.OPT_SORT_KEYS).decode(),
    ]
    return keyed_hash("consent-record", *said)


def _sha256(text: str) -> bytes | None:
    return sha256(text.encode()).digest() if text else None
