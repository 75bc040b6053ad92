"""The register of data subjects' requests: open them, answer them, keep their clocks.

Each right that a person uses is an entry, whoever sends it in. The deadlines are
settings: SUBJECT_REQUEST_DAYS names the days for each kind, and where they come from.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.utils.timezone import now

from verification.privacy.models import Origin, Outcome, RequestKind, SubjectRequest
from verification.reports.models import Report
from workspaces.models import Workspace


class AlreadyAnswered(Exception):
    """The request has an answer, which stays."""

    def __init__(self) -> None:
        super().__init__("It is answered already, and the answer stays.")


def open_request(
    kind: RequestKind,
    origin: Origin,
    *,
    requested_by: str,
    report: Report | None = None,
    workspace: Workspace | None = None,
    environment: str = "",
    subject_id: UUID | None = None,
    details: dict[str, Any] | None = None,
    received_at: datetime | None = None,
) -> SubjectRequest:
    """Enter a request in the register; call it in the transaction of the request.

    A report brings its workspace, environment and subject. `requested_by` names the
    actor as the audit trail does, and `details` are what the person typed. The clock
    starts at `received_at`, for a letter that came earlier.
    """
    if report is not None:
        workspace, environment = report.workspace, report.environment
        subject_id = report.subject_id
    at = received_at or now()
    return SubjectRequest.objects.create(
        kind=kind,
        origin=origin,
        workspace=workspace,
        environment=environment,
        subject_id=subject_id,
        report=report,
        details=details,
        requested_by=requested_by,
        received_at=at,
        due_at=at + timedelta(days=settings.SUBJECT_REQUEST_DAYS[kind]),
    )


def answer_request(
    request: SubjectRequest, outcome: Outcome, *, reason: str = ""
) -> None:
    """Record the answer. Raises AlreadyAnswered; `reason` is needed for a refusal."""
    answered = SubjectRequest.objects.filter(pk=request.pk, answered_at=None).update(
        answered_at=now(), outcome=outcome, reason=reason
    )
    if not answered:
        raise AlreadyAnswered
    request.refresh_from_db(fields=["answered_at", "outcome", "reason"])
