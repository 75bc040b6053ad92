"""The base of all hosted pages: visits by links, rendering, masking, form limits.

A visit is what one browser may see of one row. A sealed cookie holds it in place of the
token; the cookie's path is that row's pages, so that links in two tabs do not mix.
"""

import zlib
from abc import ABC, abstractmethod
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, ClassVar, Concatenate, Generic, TypeVar
from uuid import UUID

import orjson
import segno
from cryptography.exceptions import InvalidTag
from django.conf import settings
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseRedirect,
)
from django.shortcuts import render
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe

from verification import links
from verification.consents.models import Consent, RetiredLink
from verification.db.encryption import UnknownKey, seal, unseal
from verification.hosted.brand import brand_context
from verification.hosted.templatetags.bdi import bdi
from verification.payments.models import Payment
from verification.references.models import Reference
from verification.reports.hosted_links import ResendTooSoon
from verification.reports.models import SUBJECT_LABELS
from verification.values.clock import now
from verification.values.formats import one_line
from verification.values.masking import DOTS, mask_email, mask_end
from verification.web.pages import View
from verification.web.pages import private_page as hosted
from verification.web.request import client_address
from workspaces import rate_limits
from workspaces.models import Environment, Workspace


def details_of(subject: dict[str, Any]) -> list[tuple[str, str]]:
    """Return (label, value) of the subject's details and referee for the checks.

    Values are masked, names are whole.
    """
    referee = (subject.get("refereeName"), mask_email(subject.get("refereeEmail", "")))
    details = {
        "idNumber": mask_end(subject.get("idNumber", "")),
        "registrationNumber": mask_end(subject.get("registrationNumber", "")),
        "kraPin": mask_end(subject.get("kraPin", "")),
        "phone": mask_end(subject.get("phone", ""), 3),
        "email": mask_email(subject.get("email", "")),
        "employerName": subject.get("employerName", ""),
        "refereeName": ", ".join(filter(None, referee)),
    }
    named = [(_("Name"), subject.get("fullName", ""))]
    named += [(str(SUBJECT_LABELS[name]), value) for name, value in details.items()]
    return [(label, value) for label, value in named if value]


def initials(name: str) -> str:
    """Return initials, by which one recognises a known name and learns no other."""
    return " ".join(f"{part[:1].upper()}{DOTS}" for part in one_line(name).split())


NAME = "visit"
DAY = 24 * 3600


@dataclass(frozen=True, slots=True)
class VisitCookie:
    """The cookie of one kind of link: `path` comes before the row's id.

    A visit lasts `seconds`; its forms may arrive for `form_seconds`, if that is longer,
    as people type slowly. `kind` is sealed in, so that no other kind can read it.
    """

    path: str
    kind: str
    seconds: int
    form_seconds: int = 0

    def path_of(self, row: UUID) -> str:
        return f"{self.path}{row}/"

    def remember(self, response: HttpResponse, row: UUID, value: Any) -> None:
        text = zlib.compress(orjson.dumps([int(now().timestamp()), value]))
        sealed = seal(text, column=self.kind, row=row)
        response.set_cookie(
            _name(),
            urlsafe_b64encode(sealed).decode(),
            max_age=DAY,
            path=self.path_of(row),
            secure=settings.SESSION_COOKIE_SECURE,
            httponly=True,
            samesite="Lax",
        )

    def value_of(self, request: HttpRequest, row: UUID) -> Any:
        """Return the value, or None for a missing, forged or old cookie."""
        cookie = request.COOKIES.get(_name(), "")
        try:
            sealed = urlsafe_b64decode(cookie)
            text = unseal(sealed, column=self.kind, row=row)
        except (ValueError, InvalidTag, UnknownKey):
            return None
        made_at, value = orjson.loads(zlib.decompress(text))
        forms = self.form_seconds if request.method == "POST" else 0
        limit = max(self.seconds, forms)
        return value if now().timestamp() - made_at < limit else None


def _name() -> str:
    # Browsers accept this prefix over an encrypted connection only.
    return f"__Secure-{NAME}" if settings.SESSION_COOKIE_SECURE else NAME


class RateLimited(Exception):
    """A visitor does this too often; the page asks them to wait."""


def require_rate(subject: str, limit: int) -> None:
    """Count the request. Raises RateLimited above the limit of a minute."""
    if rate_limits.count(subject, limit).exceeded:
        raise RateLimited


def require_address_rate(request: HttpRequest, purpose: str, limit: int) -> None:
    """Like `require_rate`, for the visitor's client address."""
    address = str(client_address(request))
    if rate_limits.count_for_address(address, purpose, limit).exceeded:
        raise RateLimited


# A page asks by GET, and does it by POST.
ASK_OR_DO = require_http_methods(["GET", "HEAD", "POST"])
Visited = TypeVar("Visited")
# Called with the request, what the browser has opened, and the rest of the address.
VisitedView = Callable[Concatenate[HttpRequest, Visited, ...], HttpResponse]


class HostedPages(ABC, Generic[Visited]):
    """The pages behind one kind of link.

    A link stores a visit in a cookie and redirects to the page, so that the token
    leaves the address bar. The views of the page get what `find` reads for that visit.
    """

    cookie: ClassVar[VisitCookie]
    # The template for a browser without a visit.
    over: ClassVar[str]
    # Errors of verbs whose row changed after `find`: the page then shows its new state.
    conflicts: ClassVar[tuple[type[Exception], ...]]

    @abstractmethod
    def find(self, request: HttpRequest, row: UUID) -> Visited | None:
        """Return the row that this browser has opened, or None."""

    def visit_by_link(self, generation: int) -> Any:
        """Return the cookie's value for a visitor who opens the link."""
        return generation

    def path_of(self, row: UUID) -> str:
        return self.cookie.path_of(row)

    def redirect(self, row: UUID, query: str = "") -> HttpResponse:
        return see_other(self.path_of(row) + query)

    def remember(self, row: UUID, value: Any, query: str = "") -> HttpResponse:
        """Store the visit and redirect to the page.

        A page is never the answer to a POST, so that going back in the browser works.
        """
        response = self.redirect(row, query)
        self.cookie.remember(response, row, value)
        return response

    def link_view(self, model: type[Consent | Payment | Reference]) -> View:
        """Return the view of the model's links, which changes no row."""
        rows = model._default_manager.values_list("pk", "generation")
        retired = RetiredLink.objects.filter(
            purpose=model._meta.model_name
        ).values_list("row_id", "generation")

        @require_safe
        @hosted
        def open_link(request: HttpRequest, token: str) -> HttpResponse:
            digest = links.digest(token)
            link = rows.filter(token_digest=digest).first()
            link = link or retired.filter(digest=digest).first()
            if link is None:
                return render_page(request, "unknown", status=404)
            row, generation = link
            return self.remember(row, self.visit_by_link(generation))

        return open_link

    def visit_required(self, view: VisitedView[Visited]) -> View:
        @hosted
        @wraps(view)
        def shown(request: HttpRequest, row: UUID, **rest: Any) -> HttpResponse:
            try:
                visited = self.find(request, row)
                if visited is None:
                    return render_page(request, self.over, status=403)
                return view(request, visited, **rest)
            except RateLimited:
                return render_page(request, "too_many", status=429)
            except ResendTooSoon:
                return self.redirect(row, "?too-soon")
            except self.conflicts:
                if request.method == "POST":
                    return self.redirect(row)
                return render_page(request, "replaced", status=410)

        return shown

    def read(self, view: VisitedView[Visited]) -> View:
        """Like `visit_required`, for a view that changes nothing."""
        return require_safe(self.visit_required(view))

    def post_at(self, *stages: str) -> Callable[[VisitedView[Visited]], View]:
        """Require a POST at one of these stages; redirect anything else to the page."""

        def decorate(view: VisitedView[Visited]) -> View:
            @self.visit_required
            @wraps(view)
            def act(request: HttpRequest, visited: Visited) -> HttpResponse:
                opened: Any = visited
                if request.method == "POST" and opened.stage in stages:
                    return view(request, visited)
                return self.redirect(request.resolver_match.kwargs["row"])  # type: ignore[union-attr]

            return act

        return decorate


def render_page(
    request: HttpRequest,
    name: str,
    context: Mapping[str, Any] | None = None,
    status: int = 200,
) -> HttpResponse:
    return render(request, f"hosted/{name}.html", context, status=status)


def client_context(workspace: Workspace, environment: str) -> dict[str, Any]:
    """Return what hosted pages of the environment show of the client.

    `client` is its name as HTML that cannot rearrange the sentence around it.
    """
    requester = workspace.requester
    return {
        **brand_context(workspace, environment),
        "timezone": "Africa/Nairobi",
        "client": bdi(requester.name),
        "client_name": requester.name,
        "client_contact": requester.contact,
        "is_reviewed": requester.is_reviewed,
        "is_test": environment == Environment.SANDBOX,
    }


def see_other(path: str) -> HttpResponse:
    """Redirect with status 303: the browser follows with a GET."""
    response = HttpResponseRedirect(path)
    response.status_code = 303
    return response


def qr_code(text: str) -> SafeString:
    """Return an inline SVG; it is safe as its markup contains no part of `text`."""
    code = segno.make(text, error="m")
    return mark_safe(  # noqa: S308
        code.svg_inline(scale=4, border=4, dark="#0f3d3a", light="#fff")
    )


@hosted
def too_large(request: HttpRequest) -> HttpResponse:
    return render_page(request, "too_large", status=413)


@hosted
def unreadable(request: HttpRequest) -> HttpResponse:
    return render_page(request, "unreadable", status=400)
