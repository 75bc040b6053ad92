"""The subject's page of a declined application: why, who says so, and their rights.

The link in the message opens it behind the gate of `subject_data`. It shows a notice
(`decisions.notices`), and offers a review by a person if none has looked at it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any, Concatenate
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import get_language
from django.views.decorators.http import require_POST, require_safe

from verification.checks.models import CheckResult, ResultStatus
from verification.consents.models import Consent
from verification.decisions import notices
from verification.decisions.decide import successor_of
from verification.decisions.models import (
    AdverseNotice,
    DecisionState,
    DecisionStatus,
    FactKind,
    reason_text,
)
from verification.documents.decline_notice import notice_pdf
from verification.hosted.consent_page import OpenConsent
from verification.hosted.hosted_pages import (
    require_rate,
    see_other,
)
from verification.hosted.subject_data import (
    DOWNLOADS_PER_MINUTE,
    SubjectPages,
    data_required,
    proof_of,
    render_data,
    subject_pages,
)
from verification.privacy import access
from verification.privacy.models import RequestKind
from verification.privacy.reviews import request_review
from verification.web.pages import View, attachment
from workspaces import rate_limits

NoticeView = Callable[
    Concatenate[HttpRequest, OpenConsent, AdverseNotice, ...], HttpResponse
]


class NoticeLinks(SubjectPages):
    """The links of notices, which lead to the newest notice of the report."""

    def path_of(self, row: UUID) -> str:
        return f"{super().path_of(row)}notice"

    def visit_by_link(self, generation: int) -> dict[str, Any]:
        """Let the proof lead to the notice, and not to the page of the data."""
        return {**super().visit_by_link(generation), "is_for_notice": True}


open_link = NoticeLinks().link_view(Consent)


@require_safe
@data_required
def newest(request: HttpRequest, visited: OpenConsent) -> HttpResponse:
    """Lead to the newest notice; from then on the page of the data shows the data."""
    response = subject_pages.store(replace(visited.visit, is_for_notice=False))
    if found := visited.consent.report.notices.order_by("-pk").first():
        response["Location"] = _path(visited, found)
    return response


def notice_required(view: NoticeView) -> View:
    """Let in the subject of the notice; redirect others to their own page."""

    @data_required
    @wraps(view)
    def gated(request: HttpRequest, visited: OpenConsent, notice: UUID) -> HttpResponse:
        rows = AdverseNotice.objects.select_related("decision", "report__workspace")
        found = rows.filter(pk=notice).first()
        if found is None or not access.is_one_of(proof_of(visited), found.report):
            return subject_pages.redirect(visited.consent.pk)
        return view(request, visited, found)

    return gated


@require_safe
@notice_required
def show(
    request: HttpRequest, visited: OpenConsent, notice: AdverseNotice
) -> HttpResponse:
    notices.record_reading(notice, FactKind.OPENED)
    return render_data(request, visited, "notice", **_context(notice))


@require_safe
@notice_required
def pdf(
    request: HttpRequest, visited: OpenConsent, notice: AdverseNotice
) -> HttpResponse:
    require_rate(rate_limits.count(f"downloads:{notice.pk}", DOWNLOADS_PER_MINUTE))
    notices.record_reading(notice, FactKind.DOWNLOADED)
    document = notice_pdf(notice, get_language() or "en")
    return attachment(document, f"{notice.number}.pdf")


@require_POST
@notice_required
def ask_for_review(
    request: HttpRequest, visited: OpenConsent, notice: AdverseNotice
) -> HttpResponse:
    request_review(notice.pk)
    return see_other(_path(visited, notice))


def _path(visited: OpenConsent, notice: AdverseNotice) -> str:
    return reverse("hosted:data-notice", args=[visited.consent.pk, notice.pk])


def _context(notice: AdverseNotice) -> dict[str, Any]:
    language = get_language() or "en"
    decision = notice.decision
    successor = successor_of(decision)
    disputable = CheckResult.objects.filter(
        pk__in=notice.result_ids, status=ResultStatus.COMPLETED, disputed_at=None
    )
    return {
        "notice": notice,
        "decision": decision,
        "reasons": [reason_text(reason) for reason in decision.reasons],
        "bureaus": notices.bureaus_of(notice),
        "law": notices.law(language),
        "free_copy": notices.free_copy(language),
        "is_waiting": decision.state == DecisionState.WAITING,
        "is_withdrawn": decision.state == DecisionState.WITHDRAWN,
        # The decision that replaces it
        "later": successor,
        "is_approved": bool(successor and successor.status == DecisionStatus.APPROVED),
        "can_be_reviewed": notice.can_be_reviewed and successor is None,
        "results": disputable.select_related("definition"),
        "review_days": settings.SUBJECT_REQUEST_DAYS[RequestKind.REVIEW],
    }
