"""Access: what a subject sees of their own data, as rows and as JSON.

The JSON is for other programs (portability); docs/client/consent.md describes it.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from django.db import transaction

from verification.checks.models import CheckResult
from verification.consents.models import Consent, ConsentRecord
from verification.decisions.findings import strangers_results
from verification.decisions.models import AdverseNotice, Decision, DecisionState
from verification.notifications.recipients import count_today
from verification.privacy.disclosures import ReportRecipient, recipients_of
from verification.privacy.models import (
    Correction,
    CorrectionStatus,
    Origin,
    Outcome,
    RequestKind,
)
from verification.privacy.people import Person, Proof
from verification.privacy.requests import answer_request, open_request
from verification.privacy.retention import kept_longer, kept_until
from verification.privacy.strangers import without_stranger
from verification.reports.models import Report, ReportStatus
from verification.reports.status import SUBJECT_ACTOR
from verification.values.local_time import utc_text

FORMAT = "subject-data/1"
Row = TypeVar("Row", CheckResult, ConsentRecord, Correction, Decision, AdverseNotice)


@dataclass(frozen=True, slots=True)
class SubjectReport:
    """A report as its subject sees it."""

    report: Report
    results: list[CheckResult] = field(default_factory=list)
    consent: Consent | None = None
    decisions: list[ConsentRecord] = field(default_factory=list)
    recipients: list[ReportRecipient] = field(default_factory=list)
    # Oldest first.
    corrections: list[Correction] = field(default_factory=list)
    # Decisions of the client that count or have counted, oldest first.
    client_decisions: list[Decision] = field(default_factory=list)
    is_held: bool = False
    # Notices of declines, newest first
    notices: list[AdverseNotice] = field(default_factory=list)
    # Results about the holder of a number that is not the subject's.
    strangers: set[UUID] = field(default_factory=set)

    def finding(self, result: CheckResult) -> dict[str, Any]:
        """Return what the subject may see of a finding; {} if there is none."""
        finding: dict[str, Any] = result.finding or {}
        is_theirs = result.pk not in self.strangers
        return finding if is_theirs else without_stranger(finding)

    @property
    def disputed(self) -> dict[UUID, Correction]:
        """The open corrections by the result that the subject calls wrong."""
        return {one.result_id: one for one in self.corrections if one.is_open}

    @property
    def kept_until(self) -> datetime | None:
        """The end of the retention, once the report has ended."""
        report = self.report
        if report.status == ReportStatus.DRAFT:
            return report.updated_at + report.workspace.retention(report.environment)
        return kept_until(report)


def reports_of(proof: Proof, older_than: UUID | None = None) -> list[Report]:
    """Return the reports that a visitor has proved to be about them, newest first.

    They are those of the same workspace and environment. `older_than` is one of them,
    where a page ended.
    """
    found = Person.of(proof.report, proof).find().reports
    ends = [nth for nth, one in enumerate(found, 1) if one.pk == older_than]
    return found[ends[0] :] if ends else found


def is_one_of(proof: Proof, other: Report) -> bool:
    """Return whether the visitor sees `other`, as `reports_of` says."""
    if proof.report == other:
        return True
    return proof.covers(other) and other in reports_of(proof)


def load_reports(reports: Sequence[Report], at: datetime) -> list[SubjectReport]:
    """Read what belongs to these reports, in a fixed number of queries."""
    checked = CheckResult.objects.filter(report__in=reports)
    results = _by_report(checked.select_related("definition"))
    records = ConsentRecord.objects.filter(report__in=reports)
    decisions = _by_report(records.defer("evidence"))
    disputes = Correction.objects.filter(report__in=reports).order_by("id")
    disputes = disputes.select_related("request", "result__definition")
    corrections = _by_report(disputes.prefetch_related("reruns__result"))
    final = Decision.objects.filter(report__in=reports, state=DecisionState.FINAL)
    made = _by_report(final.order_by("number"))
    declines = AdverseNotice.objects.filter(report__in=reports).order_by("-id")
    declines = declines.select_related("decision")
    served = _by_report(declines.prefetch_related("facts"))
    held = kept_longer(reports, at)
    recipients = recipients_of(reports)
    return [
        SubjectReport(
            report,
            results[report.pk],
            getattr(report, "consent", None),
            decisions[report.pk],
            recipients.get(report.pk, []),
            corrections[report.pk],
            made[report.pk],
            report.pk in held,
            served[report.pk],
            strangers_results(
                [*results[report.pk], *(c.result for c in corrections[report.pk])],
                report,
            ),
        )
        for report in reports
    ]


def _by_report(rows: Iterable[Row]) -> dict[UUID, list[Row]]:
    found: dict[UUID, list[Row]] = defaultdict(list)
    for row in rows:
        found[row.report_id].append(row)
    return found


@transaction.atomic
def record_access(report: Report, kind: RequestKind) -> None:
    """Enter the access in the register, once for each person, kind and day."""
    if count_today(f"access:{kind}:{report.subject_id}", 1):
        request = open_request(
            kind, Origin.SUBJECT, requested_by=SUBJECT_ACTOR, report=report
        )
        answer_request(request, Outcome.DONE)


def as_json(found: Sequence[SubjectReport], at: datetime) -> dict[str, Any]:
    """Return everything about the subject, in a shape that programs can read."""
    return {
        "format": FORMAT,
        "createdAt": utc_text(at),
        "reports": [_report_json(one) for one in found],
    }


def _report_json(one: SubjectReport) -> dict[str, Any]:
    report = one.report
    return {
        "id": str(report.pk),
        "number": report.number,
        "requestedBy": report.workspace.requester.name,
        "requesterContact": report.workspace.requester.contact,
        "purpose": report.purpose,
        "reference": report.reference,
        "environment": report.environment,
        "status": report.status,
        "createdAt": utc_text(report.created_at),
        "completedAt": _text(report.completed_at),
        "keptUntil": _text(one.kept_until),
        "isHeld": one.is_held,
        "restrictedAt": _text(report.restricted_at),
        "subject": report.subject,
        "riskScore": report.risk_score,
        "riskLevel": report.risk_level,
        "consent": _consent_json(one),
        "checks": [
            _result_json(result, one, is_disputed=result.pk in one.disputed)
            for result in one.results
        ],
        "corrections": [_correction_json(each, one) for each in one.corrections],
        "decisions": [
            _decision_json(each, is_present=each == one.client_decisions[-1])
            for each in one.client_decisions
        ],
        "noticesOfDeclines": [_notice_json(each) for each in one.notices],
        "recipients": [
            {
                "kind": str(recipient.kind),
                "host": recipient.host or None,
                "firstAt": utc_text(recipient.first_at),
                "lastAt": utc_text(recipient.last_at),
            }
            for recipient in one.recipients
        ],
    }


def _consent_json(one: SubjectReport) -> dict[str, Any] | None:
    if one.consent is None:
        return None
    return {
        "mode": one.consent.mode,
        "status": one.consent.status,
        "attestation": one.consent.attestation,
        "decisions": [
            {
                "number": record.number,
                "decision": record.decision,
                "at": utc_text(record.created_at),
                "noticeVersion": record.notice_version or None,
                "language": record.language or None,
            }
            for record in one.decisions
        ],
    }


def _result_json(
    result: CheckResult, one: SubjectReport, *, is_disputed: bool
) -> dict[str, Any]:
    finding = one.finding(result)
    evidence = finding.get("evidence") or {}
    return {
        "check": result.name,
        "status": result.status,
        "source": evidence.get("provider"),
        "sourceReference": evidence.get("providerReference"),
        "retrievedAt": evidence.get("retrievedAt"),
        "completedAt": _text(result.completed_at),
        "isReused": result.reused,
        "summary": finding.get("summary"),
        "details": finding.get("details"),
        "flags": finding.get("flags") or [],
        "score": result.score,
        "riskLevel": result.risk_level,
        "failure": result.failure_code or None,
        "isUnderCorrection": is_disputed,
        "isAboutAnother": result.pk in one.strangers,
        "outdatedDetails": result.outdated_details(one.report.subject),
    }


def _decision_json(decision: Decision, *, is_present: bool) -> dict[str, Any]:
    """Return a decision of the client, without the note for its own people."""
    return {
        "status": decision.status,
        "decidedAt": _text(decision.final_at),
        "isPresent": is_present,
        "madeBy": decision.made_by_kind,
        "isConfirmedByPerson": decision.needs_second,
        "reasons": decision.reasons,
    }


def _notice_json(notice: AdverseNotice) -> dict[str, Any]:
    return {
        "number": notice.number,
        "declinedAt": utc_text(notice.decision.created_at),
        "state": notice.decision.state,
        "bureaus": notice.bureaus,
        "isAutomated": notice.is_automated,
        "reasons": notice.decision.reasons,
        "waitsUntil": _text(notice.counts_from),
        "reviewAskedAt": _text(notice.review_asked_at),
        "reviewedAt": _text(notice.reviewed_at),
        "service": [
            {
                "kind": fact.kind,
                "at": utc_text(fact.at),
                "channel": fact.channel or None,
                "details": fact.details,
            }
            for fact in notice.facts.all()
        ],
    }


def _correction_json(correction: Correction, one: SubjectReport) -> dict[str, Any]:
    statement = correction.statement or {}
    is_corrected = correction.status == CorrectionStatus.CORRECTED
    return {
        "number": correction.request.number,
        "check": correction.check_name,
        "status": correction.status,
        "what": statement.get("what"),
        "why": statement.get("why"),
        "openedAt": utc_text(correction.created_at),
        "dueAt": utc_text(correction.due_at),
        "closedAt": _text(correction.decided_at),
        "reason": correction.reason,
        "reruns": [
            {
                "at": utc_text(rerun.created_at),
                "by": rerun.origin,
                "changedDetails": rerun.fields,
                "status": rerun.result.status,
                "isAccepted": rerun.result_id == correction.corrected_result_id,
            }
            for rerun in correction.reruns.all()
        ],
        # The finding before the correction.
        "supersededResult": _result_json(correction.result, one, is_disputed=False)
        if is_corrected
        else None,
    }


def _text(at: datetime | None) -> str | None:
    return utc_text(at) if at else None
