"""Payloads of the events about reports, checks, references, payments and rights.

`verification.api.events` describes them for clients; tests compare the two. This code
builds plain dicts because one report raises several events.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

from verification.checks.models import CheckDefinition
from verification.consents.models import Consent, ConsentStatus
from verification.payments.models import Payment
from verification.references.models import Reference
from verification.reports.models import Report, ReportStatus
from verification.values.local_time import utc_text
from webhooks.events import NewEvent
from webhooks.models import Event
from workspaces.models import Workspace

# (check name, status, result id) of each of a report's checks, in its order
CheckStack = Iterable[tuple[str, str, UUID]]


def report_event(
    name: Event.Name,
    cause: str,
    report: Report,
    stack: CheckStack,
    *,
    consent_status: str,
) -> NewEvent:
    """Render report.created, report.ready or report.failed."""
    data = {
        **_report_data(report, stack, consent_status),
        "riskScore": report.risk_score,
        "riskLevel": report.risk_level,
    }
    if name == Event.Name.REPORT_FAILED:
        data["failure"] = {
            "code": report.failure_code,
            "message": report.failure_message,
        }
    return _new_event(name, cause, report, data)


def check_event(
    report: Report,
    stack: CheckStack,
    check: dict[str, Any],
    *,
    attempt: int,
    consent_status: str,
) -> NewEvent:
    """Render check.completed or check.failed; `check` comes from `check_body`."""
    name = Event.Name.CHECK_FAILED if "failure" in check else Event.Name.CHECK_COMPLETED
    data = {
        **_report_data(report, stack, consent_status),
        "check": check,
        "checkId": check["id"],
        "checkResultId": check["resultId"],
        "checkType": check["type"],
        "checkName": check["name"],
        "checkDefinitionId": check["definitionId"],
        "status": check["status"],
        "riskLevel": check["riskLevel"],
        "riskScore": check["riskScore"],
    }
    return _new_event(name, f"{check['id']}:{attempt}", report, data)


def reference_event(
    report: Report,
    stack: CheckStack,
    reference: Reference,
    *,
    referee_name: str,
    submitted_at: datetime,
    consent_status: str,
) -> NewEvent:
    """Render reference.submitted."""
    data = {
        **_report_data(report, stack, consent_status),
        "checkResultId": str(reference.result_id),
        "reference": {
            "id": str(reference.pk),
            "refereeName": referee_name,
            "submittedAt": utc_text(submitted_at),
        },
    }
    name = Event.Name.REFERENCE_SUBMITTED
    return _new_event(name, str(reference.pk), report, data)


def correction_event(
    name: Event.Name, report: Report, stack: CheckStack, correction: dict[str, Any]
) -> NewEvent:
    """Render correction.opened or correction.closed."""
    data = {
        **_report_data(report, stack, consent_status_of(report)),
        "correction": correction,
        "checkResultId": correction["checkResultId"],
        "riskScore": report.risk_score,
        "riskLevel": report.risk_level,
    }
    return _new_event(name, correction["id"], report, data)


def decision_event(
    report: Report, stack: CheckStack, decision: dict[str, Any]
) -> NewEvent:
    """Render report.decided."""
    data = {
        **_report_data(report, stack, consent_status_of(report)),
        "decision": decision,
        "riskScore": report.risk_score,
        "riskLevel": report.risk_level,
    }
    return _new_event(Event.Name.REPORT_DECIDED, decision["id"], report, data)


def payment_event(report: Report, stack: CheckStack, payment: Payment) -> NewEvent:
    """Render payment.paid."""
    data = {
        **_report_data(report, stack, consent_status_of(report)),
        "payment": {
            "status": payment.status,
            "amount": {"amount": float(payment.amount), "currency": payment.currency},
            "paidAt": utc_text(payment.paid_at) if payment.paid_at else None,
            "paymentUrl": None,
            "expiresAt": utc_text(payment.expires_at) if payment.expires_at else None,
        },
    }
    return _new_event(Event.Name.PAYMENT_PAID, str(payment.pk), report, data)


def restricted_event(report: Report, requested_by: str, at: datetime) -> NewEvent:
    """Render report.restricted, without personal data; see Event.IMPERSONAL_NAMES."""
    data = {
        **_rights_data(report, requested_by),
        "restrictedAt": utc_text(at),
    }
    return _new_event(Event.Name.REPORT_RESTRICTED, str(report.pk), report, data)


def erased_event(
    report: Report, requested_by: str, erasure_id: UUID, at: datetime
) -> NewEvent:
    """Render report.erased, without personal data; see Event.IMPERSONAL_NAMES."""
    data = {
        **_rights_data(report, requested_by),
        "erasedAt": utc_text(at),
        "erasureId": str(erasure_id),
    }
    return _new_event(Event.Name.REPORT_ERASED, str(report.pk), report, data)


def check_body(
    definition: CheckDefinition, result_id: UUID, outcome: dict[str, Any]
) -> dict[str, Any]:
    """Render the member `check`; `outcome` has what depends on the result."""
    return {
        "id": str(result_id),
        "resultId": str(result_id),
        "definitionId": str(definition.id),
        "type": definition.name,
        "name": definition.name,
        "displayName": definition.display_name,
        "description": definition.description,
        "category": definition.category,
        **outcome,
    }


def consent_status_of(report: Report) -> str:
    """Return the consent status of a stored report."""
    consent = getattr(report, "consent", None)
    needing = report.results.filter(definition__requires_consent=True)
    # No report is launched without a consent that its checks need.
    is_needed = not consent and report.launched_at is None and needing.exists()
    return consent_status(consent, is_needed=is_needed)


def consent_status(consent: Consent | None, *, is_needed: bool) -> str:
    """Return the status of a consent, or of a draft that names none yet."""
    if consent:
        return str(consent.status)
    status = ConsentStatus.PENDING if is_needed else ConsentStatus.NOT_REQUIRED
    return status.value


def _new_event(
    name: Event.Name, cause: str, report: Report, data: dict[str, Any]
) -> NewEvent:
    return NewEvent(
        name, cause, report.workspace_id, report.environment, report.pk, data
    )


def _rights_data(report: Report, requested_by: str) -> dict[str, Any]:
    return {
        "workspaceId": str(report.workspace_id),
        "reportId": str(report.pk),
        "requestedBy": requested_by,
    }


def _report_data(
    report: Report, stack: CheckStack, consent_status: str
) -> dict[str, Any]:
    return {
        "workspaceId": str(report.workspace_id),
        "reportId": str(report.pk),
        "report": {
            "id": str(report.pk),
            "workspaceId": str(report.workspace_id),
            "status": _public_status(report),
            "createdAt": utc_text(report.created_at),
            "selfVerification": report.workspace.kind == Workspace.Kind.INDIVIDUAL,
            "paymentMode": report.payment_mode,
            "consentStatus": consent_status,
            "checksRequested": report.checks_requested,
            "package": report.package,
            "checkStack": [
                {"checkName": name, "status": status, "checkResultId": str(result_id)}
                for name, status, result_id in stack
            ],
        },
        "subject": {"id": str(report.subject_id), "type": report.subject_type},
    }


def _public_status(report: Report) -> str:
    """PROCESSING stands for RUNNING and for a PARTIAL that has not ended."""
    is_running = report.status == ReportStatus.RUNNING or (
        report.status == ReportStatus.PARTIAL and not report.is_ended
    )
    return "PROCESSING" if is_running else report.status
