"""Events about corrections, objections and erasures: their shapes and makers."""

from datetime import datetime
from typing import Any, Self
from uuid import UUID

from verification.checks.catalogue import CheckName
from verification.checks.events import (
    CheckStack,
    ReportEventData,
    Score,
    consent_status_of,
    new_event,
)
from verification.privacy.models import Correction, CorrectionStatus, Origin
from verification.reports.models import Report, RiskLevel
from verification.values.local_time import utc_text
from verification.values.shapes import Shape, Timestamp
from webhooks.events import NewEvent
from webhooks.models import Event


class CorrectionBody(Shape):
    """A subject's statement that a finding is wrong, and how it ended."""

    id: UUID
    check_name: CheckName
    check_result_id: UUID
    """The finding that the subject calls wrong."""
    status: CorrectionStatus
    opened_at: Timestamp
    due_at: Timestamp
    """The day by which the subject has to be answered."""
    closed_at: Timestamp | None
    reason: str | None
    """Why it was corrected or confirmed, as the subject reads it."""
    corrected_check_result_id: UUID | None
    """The result that has taken its place; null unless the status is CORRECTED."""

    @classmethod
    def of(cls, correction: Correction, **more: Any) -> Self:
        return cls.from_row(
            correction,
            check_result_id=correction.result_id,
            opened_at=correction.created_at,
            closed_at=correction.decided_at,
            corrected_check_result_id=correction.corrected_result_id,
            **more,
        )


class CorrectionData(ReportEventData):
    correction: CorrectionBody
    check_result_id: UUID
    """The finding that the subject calls wrong."""
    risk_score: Score | None
    risk_level: RiskLevel


class RightsData(Shape):
    """Nothing personal: the event stays when the report is erased."""

    workspace_id: UUID
    report_id: UUID
    requested_by: Origin


class RestrictedData(RightsData):
    restricted_at: Timestamp


class ErasedData(RightsData):
    erased_at: Timestamp
    erasure_id: UUID
    """Read its certificate with this id."""


def correction_event(
    name: Event.Name, report: Report, stack: CheckStack, correction: Correction
) -> NewEvent:
    """Make correction.opened or correction.closed."""
    data = CorrectionData.about(
        report,
        stack,
        consent_status_of(report),
        correction=CorrectionBody.of(correction),
        check_result_id=correction.result_id,
    )
    return new_event(name, str(correction.pk), report, data)


def restricted_event(report: Report, requested_by: str, at: datetime) -> NewEvent:
    """Make report.restricted."""
    data = RestrictedData.from_row(
        report, report_id=report.pk, requested_by=requested_by, restricted_at=at
    )
    # A newer consent ends the restriction, and the subject may object again.
    cause = f"{report.pk}:{utc_text(at)}"
    return new_event(Event.Name.REPORT_RESTRICTED, cause, report, data)


def erased_event(
    report: Report, requested_by: str, erasure_id: UUID, at: datetime
) -> NewEvent:
    """Make report.erased."""
    data = ErasedData.from_row(
        report,
        report_id=report.pk,
        requested_by=requested_by,
        erased_at=at,
        erasure_id=erasure_id,
    )
    return new_event(Event.Name.REPORT_ERASED, str(report.pk), report, data)
