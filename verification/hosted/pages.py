"""What all hosted pages share: headers, the frame, and how a row is opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar
from uuid import UUID

import segno
from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.safestring import mark_safe

from verification.hosted.cookies import VisitCookie
from verification.ordering.consent_links import TooSoon
from verification.pages import View
from verification.pages import private as hosted
from workspaces.models import Workspace

Visited = TypeVar("Visited")
VisitedView = Callable[[HttpRequest, Visited], HttpResponse]


def opening(
    cookie: VisitCookie,
    find: Callable[[HttpRequest, UUID], Visited | None],
    *,
    over: str,
    overtaken: tuple[type[Exception], ...],
) -> Callable[[VisitedView[Visited]], View]:
    """Views of what this browser's link opened, which `find` hands over.

    Where it finds nothing the page is `over`. What `overtaken` names is raised when the
    row went another way meanwhile: the page then tells how.
    """

    def opened(view: VisitedView[Visited]) -> View:
        @hosted
        @wraps(view)
        def shown(request: HttpRequest, row: UUID) -> HttpResponse:
            try:
                visited = find(request, row)
                if visited is None:
                    return answer(request, over, status=403)
                return view(request, visited)
            except TooSoon:
                return see_other(cookie.path_of(row) + "?too-soon")
            except overtaken:
                if request.method == "POST":
                    return see_other(cookie.path_of(row))
                return answer(request, "replaced", status=410)

        return shown

    return opened


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


def client_of(workspace: Workspace) -> dict[str, Any]:
    """What the pages of its reports show of the client."""
    requester = workspace.requester
    return {
        "client": requester.name,
        "client_contact": requester.contact,
        "is_reviewed": requester.is_reviewed,
    }


def see_other(path: str) -> HttpResponse:
    """What follows is a GET whatever this was."""
    response = HttpResponseRedirect(path)
    response.status_code = 303
    return response


def document(pdf: bytes, name: str) -> HttpResponse:
    return HttpResponse(
        pdf,
        content_type="application/pdf",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


def qr_code(text: str) -> str:
    """Inline SVG; what is drawn is computed, so nothing of `text` is in the markup."""
    code = segno.make(text, error="m")
    return mark_safe(  # noqa: S308
        code.svg_inline(scale=4, border=4, dark="#0f3d3a", light="#fff")
    )
