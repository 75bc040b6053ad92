"""Every error of the API as a problem (RFC 9457), made in one place.

Code raises `Problem`, or an exception that `register_problem` translates; views catch
nothing. The framework passes exceptions of views to `handle_exception`.
`ProblemMiddleware` answers requests that reach no view.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote

from django.conf import settings
from django.core import exceptions, signals
from django.http import Http404, HttpRequest, HttpResponse, UnreadablePostError
from django.utils.encoding import escape_uri_path
from rest_framework import exceptions as rest

from verification.api.problem_kinds import PROBLEM_KINDS, ProblemKind
from verification.links import top_up_url
from verification.payments.registry import accepts_payments
from verification.reports.request import MAX_FAULTS
from verification.web.pages import DATABASE_ERRORS, error_of, is_api
from verification.web.request_log import current_request_id
from workspaces.ledger import InsufficientBalance

log = logging.getLogger("verification.api")

MEDIA_TYPE = "application/problem+json"
MAX_ERRORS = MAX_FAULTS
SECONDS_UNTIL_AVAILABLE = "5"

E = TypeVar("E", bound=Exception)


@dataclass(frozen=True, slots=True)
class MemberError:
    """One broken rule, at one place: a pointer into the body, or a name."""

    code: str
    detail: str
    pointer: str | None = None
    parameter: str | None = None
    header: str | None = None

    def as_dict(self) -> dict[str, str]:
        named = {
            "pointer": self.pointer,
            "parameter": self.parameter,
            "header": self.header,
        }
        place = {name: value for name, value in named.items() if value is not None}
        return {**place, "code": self.code, "detail": self.detail}


def pointer(*steps: str | int) -> str:
    """A JSON Pointer in its URI fragment form: `#/reports/17/subject/idNumber`."""
    return "#" + "".join(f"/{_escape(str(step))}" for step in steps)


def _escape(step: str) -> str:
    # Characters that RFC 3986 allows in a fragment stay; a lone surrogate becomes "?".
    text = step.replace("~", "~0").replace("/", "~1")
    return quote(text, safe="!$&'()*+,;=:@~", errors="replace")


class Problem(Exception):
    """An error answer; `members` are its additional members."""

    def __init__(
        self,
        code: str,
        detail: str = "",
        *,
        errors: Sequence[MemberError] = (),
        headers: dict[str, str] | None = None,
        **members: Any,
    ) -> None:
        self.kind: ProblemKind = PROBLEM_KINDS[code]
        self.detail = detail or self.kind.explanation
        self.errors = errors
        self.headers = headers or {}
        self.members = members
        super().__init__(code)

    def body(self, path: str, request_id: str) -> dict[str, Any]:
        body = {
            "type": f"{settings.BASE_URL}/problems/{self.kind.code}",
            "title": self.kind.title,
            "status": self.kind.status,
            "detail": self.detail,
            "instance": escape_uri_path(path),
            "code": self.kind.code,
            "requestId": request_id,
            **self.members,
        }
        if self.errors:
            body["errors"] = [error.as_dict() for error in self.errors[:MAX_ERRORS]]
        return body

    def response(self, request: HttpRequest) -> HttpResponse:
        # json escapes lone surrogates, which a quoted value may hold; orjson raises.
        content = json.dumps(self.body(request.path, current_request_id()))
        return HttpResponse(
            content,
            status=self.kind.status,
            content_type=MEDIA_TYPE,
            headers={**self.headers, "Content-Length": str(len(content))},
        )


def validation_failed(errors: Sequence[MemberError]) -> Problem:
    """Make the problem validation-failed, which lists the first 100 errors."""
    if len(errors) > MAX_ERRORS:
        detail = (
            f"More than {MAX_ERRORS} rules are broken, of which {MAX_ERRORS} are told"
        )
    elif len(errors) > 1:
        detail = f"{len(errors)} rules are broken"
    else:
        detail = "One rule is broken"
    return Problem("validation-failed", f"{detail}: see “errors”.", errors=errors)


_translations: dict[type[Exception], Callable[[Any], Problem]] = {}


def register_problem(exception: type[E], translate: Callable[[E], Problem]) -> None:
    """Answer this exception and its subclasses with a problem."""
    _translations[exception] = translate


def _unavailable(error: Exception) -> Problem:
    log.warning("the database did not answer", exc_info=error)
    return Problem("unavailable", headers={"Retry-After": SECONDS_UNTIL_AVAILABLE})


def _insufficient_balance(error: InsufficientBalance) -> Problem:
    """Add the page where the workspace can top up, if payments are configured."""
    members: dict[str, Any] = {}
    if accepts_payments(error.environment):
        members["topUpUrl"] = top_up_url(error.account_id)
    return Problem("insufficient-balance", str(error), **members)


def _register_problems(
    exceptions: Iterable[type[Exception]], translate: Callable[[Any], Problem]
) -> None:
    for exception in exceptions:
        register_problem(exception, translate)


register_problem(Problem, lambda problem: problem)
register_problem(InsufficientBalance, _insufficient_balance)
_register_problems(DATABASE_ERRORS, _unavailable)
_register_problems([Http404, rest.NotFound], lambda e: Problem("not-found"))
_register_problems(
    [rest.ParseError, UnreadablePostError], lambda e: Problem("malformed-body")
)
register_problem(rest.MethodNotAllowed, lambda e: Problem("method-not-allowed"))
register_problem(rest.NotAcceptable, lambda e: Problem("not-acceptable"))
register_problem(rest.UnsupportedMediaType, lambda e: Problem("unsupported-media-type"))
register_problem(exceptions.RequestDataTooBig, lambda e: Problem("body-too-large"))
register_problem(rest.NotAuthenticated, lambda e: Problem("authentication-required"))


def problem_for(error: Exception, request: HttpRequest) -> Problem:
    for exception in type(error).__mro__:
        if exception in _translations:
            return _translations[exception](error)
    log.error("unhandled exception", exc_info=error)
    signals.got_request_exception.send(sender=None, request=request)
    return Problem("internal-error")


def handle_exception(error: Exception, context: dict[str, Any]) -> HttpResponse:
    """Answer an exception of a view; the setting EXCEPTION_HANDLER names this."""
    request = context["request"]._request
    return problem_for(error, request).response(request)


class ProblemMiddleware:
    """Turns error answers of the API that come from no view into problems."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if not is_api(request):
            return self.get_response(request)
        response = self.get_response(request)
        if response.status_code >= 400 and response["Content-Type"] != MEDIA_TYPE:
            response = _convert_to_problem(request, response)
        _add_headers(request, response)
        return response

    def process_exception(
        self, request: HttpRequest, error: Exception
    ) -> HttpResponse | None:
        if not is_api(request):
            return None
        return problem_for(error, request).response(request)


def _convert_to_problem(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    if isinstance(error := error_of(request), DATABASE_ERRORS):
        return problem_for(error, request).response(request)
    problem = _problem_for_status(request, response.status_code)
    for name in ("Allow", "Retry-After", "WWW-Authenticate"):
        if name in response:
            problem.headers[name] = response[name]
    return problem.response(request)


def _problem_for_status(request: HttpRequest, status: int) -> Problem:
    try:
        request.get_host()
    except exceptions.DisallowedHost:
        detail = "This service does not answer under this host name."
        error = MemberError("not-allowed-here", detail, header="Host")
        return validation_failed([error])
    fallback = "internal-error" if status >= 500 else "validation-failed"
    codes = (kind.code for kind in PROBLEM_KINDS.values() if kind.status == status)
    return Problem("validation-failed" if status == 400 else next(codes, fallback))


def _add_headers(request: HttpRequest, response: HttpResponse) -> None:
    for name, value in getattr(request, "api_headers", {}).items():
        response[name] = value
    # SecurityMiddleware is further inside and does not see these answers.
    response["X-Content-Type-Options"] = "nosniff"
    response["Cache-Control"] = "no-store"
    response.headers.setdefault(
        "Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"
    )
