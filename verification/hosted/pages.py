"""Personal details as hosted pages show them.

What one browser may see of one row, in a sealed cookie.

The cookie's path is that row's pages, so that links in two tabs do not mix, and it
takes the token's place: the token leaves the address bar with the first answer. Only
the service can read it: it may hold what was typed about the subject.

Links that another took the place of: who opens one is told so.

What all hosted pages share: headers, the frame, and how a row is opened.

Forms that no person fills in are refused before anything reads them.
"""

from __future__ import annotations

import time
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar
from uuid import UUID

import orjson
import segno
from cryptography.exceptions import InvalidTag
from django.conf import settings
from django.core.exceptions import BadRequest, SuspiciousOperation
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseRedirect,
    UnreadablePostError,
)
from django.http.multipartparser import MultiPartParserError
from django.shortcuts import render
from django.utils.safestring import mark_safe
from django.utils.translation import gettext as _

from verification.consents.models import RetiredLink
from verification.db.encryption import UnknownKey, seal, unseal
from verification.reports.links import ResendTooSoon
from verification.values.masking import DOTS, mask_email, mask_end
from verification.values.wire import one_line
from verification.web.pages import View
from verification.web.pages import private_page as hosted
from workspaces.models import Workspace


def details_of(subject: dict[str, Any]) -> list[tuple[str, str]]:
    """Label and masked value of what would be looked up, and of who would be asked;
    names stay whole."""
    referee = (subject.get("refereeName"), mask_email(subject.get("refereeEmail", "")))
    details = [
        (_("Name"), subject.get("fullName", "")),
        (_("ID number"), mask_end(subject.get("idNumber", ""))),
        (_("Registration number"), mask_end(subject.get("registrationNumber", ""))),
        (_("KRA PIN"), mask_end(subject.get("kraPin", ""))),
        (_("Telephone"), mask_end(subject.get("phone", ""), 3)),
        (_("E-mail"), mask_email(subject.get("email", ""))),
        (_("Employer"), subject.get("employerName", "")),
        (_("Referee"), ", ".join(filter(None, referee))),
    ]
    return [(label, value) for label, value in details if value]


def initials(name: str) -> str:
    """Enough to recognise whom one knows, not to learn a name by."""
    return " ".join(f"{part[:1].upper()}{DOTS}" for part in one_line(name).split())


NAME = "visit"


@dataclass(frozen=True, slots=True)
class VisitCookie:
    """Of one kind of link: its pages' path before the id, and how long a visit lasts.

    `kind` keeps a visit of one kind from being one of another.
    """

    path: str
    kind: str
    seconds: int

    def path_of(self, row: UUID) -> str:
        return f"{self.path}{row}/"

    def remember(self, response: HttpResponse, row: UUID, value: Any) -> None:
        text = zlib.compress(orjson.dumps([int(time.time()), value]))
        sealed = seal(text, column=self.kind, row=row)
        response.set_cookie(
            _name(),
            urlsafe_b64encode(sealed).decode(),
            max_age=self.seconds,
            path=self.path_of(row),
            secure=settings.SESSION_COOKIE_SECURE,
            httponly=True,
            samesite="Lax",
        )

    def value_of(self, request: HttpRequest, row: UUID) -> Any:
        """None without a cookie, or when it is forged, of another row, or too old."""
        cookie = request.COOKIES.get(_name(), "")
        try:
            sealed = urlsafe_b64decode(cookie)
            text = unseal(sealed, column=self.kind, row=row)
        except (ValueError, InvalidTag, UnknownKey):
            return None
        made_at, value = orjson.loads(zlib.decompress(text))
        return value if time.time() - made_at < self.seconds else None


def _name() -> str:
    # A browser takes this prefix from an encrypted connection alone.
    return f"__Secure-{NAME}" if settings.SESSION_COOKIE_SECURE else NAME


def retired_link(purpose: RetiredLink.Purpose, digest: bytes) -> RetiredLink | None:
    return RetiredLink.objects.filter(digest=digest, purpose=purpose).first()


Visited = TypeVar("Visited")
VisitedView = Callable[[HttpRequest, Visited], HttpResponse]


def make_visit_required(
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
                    return render_page(request, over, status=403)
                return view(request, visited)
            except ResendTooSoon:
                return see_other(cookie.path_of(row) + "?too-soon")
            except overtaken:
                if request.method == "POST":
                    return see_other(cookie.path_of(row))
                return render_page(request, "replaced", status=410)

        return shown

    return opened


def render_page(
    request: HttpRequest,
    name: str,
    context: Mapping[str, Any] | None = None,
    status: int = 200,
) -> HttpResponse:
    frame = {"operator": settings.OPERATOR_NAME, "contact": settings.OPERATOR_CONTACT}
    return render(
        request, f"hosted/{name}.html", {**frame, **(context or {})}, status=status
    )


def client_context(workspace: Workspace) -> dict[str, Any]:
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


def pdf_response(pdf: bytes, name: str) -> HttpResponse:
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


PATHS = ("/b/", "/c/", "/p/", "/r/", "/sandbox/checkout/", "/t/")
MAX_BYTES = 64 * 1024


class FormMiddleware:
    """Before the middleware that reads the form for its token."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if not request.path_info.startswith(PATHS):
            return self.get_response(request)
        return _refuse_form(request) or self.get_response(request)


def _refuse_form(request: HttpRequest) -> HttpResponse | None:
    length = request.META.get("CONTENT_LENGTH") or ""
    if length.isdigit() and int(length) > MAX_BYTES:
        return too_large(request)
    try:
        # Where it is first asked for, an error would be answered without a page.
        _ = request.POST
    except (MultiPartParserError, BadRequest):
        return unreadable(request)
    except SuspiciousOperation:
        # More fields than any form of ours has.
        return too_large(request)
    except UnreadablePostError:
        # Nobody waits for the answer; without its token the form is refused.
        pass
    return None


@hosted
def too_large(request: HttpRequest) -> HttpResponse:
    return render_page(request, "too_large", status=413)


@hosted
def unreadable(request: HttpRequest) -> HttpResponse:
    return render_page(request, "unreadable", status=400)
