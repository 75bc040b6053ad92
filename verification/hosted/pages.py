"""What all hosted pages share: headers, the frame, and how a consent is opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.timezone import now

from verification.consents.models import Consent
from verification.hosted.stages import Stage, stage_of
from verification.hosted.visits import Visit, path_of, visit_of
from verification.ordering.challenging import Locked
from verification.ordering.consent_links import NotResendable, TooSoon
from verification.ordering.consenting import ConsentClosed
from verification.pages import page

# What a verb says when the consent went another way meanwhile: the page tells how.
OVERTAKEN = (ConsentClosed, Locked, NotResendable, Consent.DoesNotExist)


@dataclass(frozen=True, slots=True)
class Opened:
    """A consent, opened by a link in this browser."""

    consent: Consent
    visit: Visit
    stage: Stage


View = Callable[..., HttpResponse]
OpenedView = Callable[[HttpRequest, Opened], HttpResponse]


def hosted(view: View) -> View:
    """Kept by nobody, found by nobody, in the visitor's language."""

    @page
    @wraps(view)
    def shown(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        response = view(request, *args, **kwargs)
        response["Cache-Control"] = "no-store"
        response["X-Robots-Tag"] = "noindex, nofollow"
        return response

    return shown


def opened(view: OpenedView) -> View:
    """Hand over the consent that this browser's link opened."""

    @hosted
    @wraps(view)
    def shown(request: HttpRequest, consent_id: UUID) -> HttpResponse:
        visit = visit_of(request, consent_id)
        if visit is None:
            return answer(request, "over", status=403)
        try:
            consent = _consent(consent_id)
            return view(
                request, Opened(consent, visit, stage_of(consent, visit, now()))
            )
        except TooSoon:
            return to_page(consent_id, "?too-soon")
        except OVERTAKEN:
            if request.method == "POST":
                return to_page(consent_id)
            return answer(request, "replaced", status=410)

    return shown


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


def answer(
    request: HttpRequest,
    name: str,
    context: Mapping[str, Any] | None = None,
    status: int = 200,
) -> HttpResponse:
    frame = {"operator": settings.OPERATOR_NAME, "contact": settings.OPERATOR_CONTACT}
    return render(
        request, f"hosted/{name}.html", {**frame, **(context or {})}, status=status
    )


def to_page(consent_id: UUID, query: str = "") -> HttpResponse:
    """See Other: what follows is a GET whatever this was."""
    response = HttpResponseRedirect(path_of(consent_id) + query)
    response.status_code = 303
    return response


def _consent(consent_id: UUID) -> Consent:
    return Consent.objects.select_related("report__workspace", "report__payment").get(
        pk=consent_id
    )
