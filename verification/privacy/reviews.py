"""Reviews by a person: a subject asks for one of a decline that no person made.

Data Protection Act, 2019, section 35 (3). The request enters the register. A member's
approval or decline of the report answers it, or the end of a decline that waits.
"""

from contextlib import suppress
from typing import Any
from uuid import UUID

from django.db import transaction

from verification.consents.subject_messages import messages_to
from verification.decisions.cases import open_case
from verification.decisions.decide import record_change, successor_of
from verification.decisions.models import AdverseNotice, CaseCause, FactKind, NoticeFact
from verification.decisions.notices import link_of
from verification.jobs.queue import job
from verification.notifications.models import BILINGUAL, Kind
from verification.notifications.outbox import OutgoingMessage, notify
from verification.privacy.models import Origin, Outcome, RequestKind, SubjectRequest
from verification.privacy.requests import AlreadyAnswered, answer_request, open_request
from verification.reports.models import Report
from verification.reports.status import SUBJECT_ACTOR, locked_reports
from verification.values.clock import now


@transaction.atomic
def request_review(
    notice_id: UUID,
    origin: Origin = Origin.SUBJECT,
    by: str = SUBJECT_ACTOR,
    **entry: Any,
) -> SubjectRequest | None:
    """Ask for a review, for the subject; a second time changes nothing.

    `entry` is more for the register. Returns None if no review can be requested.
    """
    report = locked_reports().get(notices=notice_id)
    notice = AdverseNotice.objects.select_for_update(no_key=True).get(pk=notice_id)
    if report.erased_at or not notice.can_be_reviewed:
        return None
    if successor_of(notice.decision):
        # The client has already made a new decision.
        return None
    at = now()
    notice.review_asked_at = at
    notice.save(update_fields=["review_asked_at"])
    fact = NoticeFact(notice=notice, kind=FactKind.REVIEW_ASKED, at=at)
    NoticeFact.objects.bulk_create([fact], ignore_conflicts=True)
    request = open_request(
        RequestKind.REVIEW, origin, requested_by=by, report=report, **entry
    )
    open_case(report, CaseCause.REQUESTED, due_at=request.due_at)
    record_change(report, "review by a person asked for", by, at)
    return request


@job
@transaction.atomic
def answer_reviews(report_id: str) -> None:
    """Answer the requests for a review after a person has decided, and say so."""
    report = locked_reports().get(pk=report_id)
    waiting = AdverseNotice.objects.filter(
        report=report, review_asked_at__isnull=False, reviewed_at=None
    )
    if waiting.exists():
        return
    answered = []
    # Staff may have entered a letter beside the request on the page.
    for request in SubjectRequest.objects.open().filter(
        report=report, kind=RequestKind.REVIEW
    ):
        with suppress(AlreadyAnswered):
            answer_request(request, Outcome.DONE)
            answered.append(request)
    if answered:
        notify(*_answer(report, answered[0]))


def _answer(report: Report, request: SubjectRequest) -> list[OutgoingMessage]:
    """Return the messages that say where the answer is."""
    notice = report.notices.filter(reviewed_at__isnull=False).order_by("-pk").first()
    if notice is None:
        return []
    newer = report.notices.filter(created_at__gte=notice.review_asked_at)
    # The notice of a new decline says it.
    if newer.exists() or not (link := link_of(report, now())):
        return []
    context = {**report.workspace.requester.message_context, **link}
    return messages_to(
        report.subject or {},
        report,
        Kind.REVIEW_ANSWER,
        f"review:{request.pk}",
        context,
        notice.language or BILINGUAL,
    )
