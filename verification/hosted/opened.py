"""How a consent is opened: by whom, and at which stage it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.utils.timezone import now

from verification.consents.models import Consent, RetiredLink
from verification.hosted.pages import View, opening, see_other
from verification.hosted.stages import Stage, stage_of
from verification.hosted.visits import CONSENT, Visit, visit_of
from verification.ordering.challenging import Locked
from verification.ordering.consent_links import NotResendable
from verification.ordering.consenting import ConsentClosed

# What a verb says when the consent went another way meanwhile.
OVERTAKEN = (ConsentClosed, Locked, NotResendable, Consent.DoesNotExist)


@dataclass(frozen=True, slots=True)
class Opened:
    """A consent, opened by a link in this browser."""

    consent: Consent
    visit: Visit
    stage: Stage


OpenedView = Callable[[HttpRequest, Opened], HttpResponse]


def to_page(consent_id: UUID, query: str = "") -> HttpResponse:
    return see_other(CONSENT.path_of(consent_id) + query)


def _opened(request: HttpRequest, consent_id: UUID) -> Opened | None:
    visit = visit_of(request, consent_id)
    if visit is None:
        return None
    rows = Consent.objects.select_related("report__workspace", "report__payment")
    consent = rows.filter(pk=consent_id).first() or _retired(visit)
    return Opened(consent, visit, stage_of(consent, visit, now()))


def _retired(visit: Visit) -> Consent:
    """What an edit of the draft replaced, as far as its link remembers it."""
    links = RetiredLink.objects.select_related("report__workspace", "report__payment")
    link = links.filter(row_id=visit.consent_id, generation=visit.generation).first()
    if link is None:
        raise Consent.DoesNotExist
    # No link leads to this one any more, as `stage_of` tells by `expires_at`.
    return Consent(pk=link.row_id, report=link.report, generation=link.generation)


opened = opening(CONSENT, _opened, over="over", overtaken=OVERTAKEN)


def acting(*stages: Stage) -> Callable[[OpenedView], View]:
    """A POST at one of these stages; anything else leads to the page as it is now."""

    def decorate(view: OpenedView) -> View:
        @opened
        @wraps(view)
        def act(request: HttpRequest, visited: Opened) -> HttpResponse:
            if request.method != "POST" or visited.stage not in stages:
                return to_page(visited.consent.pk)
            return view(request, visited)

        return act

    return decorate
