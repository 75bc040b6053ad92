"""All middlewares of the service, in the order in which a request passes them.

The setting MIDDLEWARE names them, among those of Django and of libraries. Requests of
the API and of pages pass all of them; each says for which requests it does something.
"""

import json
import logging
import re
import sys
import time
import uuid
from collections.abc import Callable
from typing import Any

from csp.middleware import CSPMiddleware, PolicyParts
from django.conf import settings
from django.core import exceptions
from django.core.signals import got_request_exception
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseRedirect,
    QueryDict,
    UnreadablePostError,
)
from django.http.multipartparser import MultiPartParserError
from django.http.response import HttpResponseBase
from django.middleware.common import CommonMiddleware
from django.middleware.gzip import GZipMiddleware
from django.middleware.security import SecurityMiddleware
from django.urls import is_valid_path, reverse
from django.utils.encoding import escape_uri_path
from django.utils.http import escape_leading_slashes
from django.utils.timezone import override
from whitenoise.middleware import WhiteNoiseMiddleware

from verification import tracing
from verification.accounts import sessions
from verification.api import problems
from verification.api.problem_kinds import PROBLEM_KINDS
from verification.api.problems import Problem, wrong_member
from verification.api.urls import nearest_address
from verification.console import base as console
from verification.db.ids import uuid7
from verification.files.storage import FileMissing, StorageUnavailable
from verification.hosted import hosted_pages as hosted
from verification.values import clock
from verification.values.local_time import NAIROBI
from verification.web import gateway, metrics, pages, request_records, static_files
from verification.web.bodies import (
    CALLBACK_PATHS,
    HOSTED_PATHS,
    USER_PATHS,
    page_limit,
)
from verification.web.health import is_late_watcher
from verification.web.request import API_HEADERS, API_KEY, is_api, request_id
from workspaces import keys
from workspaces.models import Environment

log = logging.getLogger("verification.web.pages")
request_log = logging.getLogger("verification.request")

GetResponse = Callable[[HttpRequest], HttpResponse]

VALID_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
# A method is text of the client, unless it is one of these.
METHODS = frozenset(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
# Unicode's marks that change the direction of text, in UTF-8
DIRECTIONS = re.compile(rb"\xe2\x80[\xaa-\xae]|\xe2\x81[\xa6-\xa9]")
# With the word Bearer, or wrongly without it
TEST_KEY = re.compile(rf"((?i:bearer) +)?{keys.PREFIXES[Environment.SANDBOX]}")
PROBES = {*gateway.LIVENESS_PATHS, "/readyz"}
UNTRACED = {*PROBES, "/metrics"}
# These paths are for programs, as the API is.
PROGRAM_PATHS = ("/metrics", CALLBACK_PATHS)
# Characters that mail programs and people append to a link by mistake.
LINK_ENDINGS = "/.,;:!?'\")>]}*_»”\u2019… \t\r\n"
CACHE_FOREVER = "public, max-age=31536000, immutable"
VERSIONED_NAME = re.compile(r"v-([0-9a-f]{16})/(.+)")
COMPRESSIBLE = re.compile(
    r"(text/|image/svg|application/(javascript|json|vnd\.oai|yaml))"
)
# The browser clears these when a session ends. Cookies stay, such as the language.
CLEAR_SITE_DATA = '"cache", "storage"'


class _Middleware:
    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response


class RequestLogMiddleware(_Middleware):
    """Log each request and its response. This middleware is the outermost."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        started = time.perf_counter()
        given = request.headers.get("X-Request-Id", "")
        # The id of the request's record, too
        own = uuid7(nanoseconds=int(clock.now().timestamp() * 1e9))
        id = given if VALID_REQUEST_ID.fullmatch(given) else str(own)
        request.id, request.own_id = id, own  # type: ignore[attr-defined]
        token = request_id.set(id)
        try:
            with _span(request) as span:
                response = self.get_response(request)
                response["X-Request-Id"] = id
                if _has_test_key(request.headers.get("Authorization", "")):
                    response["X-Service-Sandbox"] = "true"
                _log(request, response, time.perf_counter() - started, span)
            return response
        finally:
            request_id.reset(token)


def _span(request: HttpRequest) -> tracing.Span:
    if request.path_info in UNTRACED:
        return tracing.NOTHING
    # A path holds tokens. The name gets the route as soon as it is known.
    traceparent = request.headers.get("traceparent", "")
    return tracing.span("request", kind="SERVER", parent=traceparent)


def _has_test_key(authorization: str) -> bool:
    # Read from the header, not from what authentication found: a wrong URL or a
    # refused key is answered before or without it.
    return bool(TEST_KEY.match(authorization))


def _log(
    request: HttpRequest, response: HttpResponse, seconds: float, span: tracing.Span
) -> None:
    match = request.resolver_match
    route = match.route if match else None
    method = _method(str(request.method))
    metrics.count_request(route, method, response.status_code, seconds)
    request_records.record_request(request, response, method, seconds)
    key = request.META.get(API_KEY)
    workspace_id = str(key.workspace_id) if key else None
    # Django has no public name for the loaded user of a request.
    user = getattr(request, "_cached_user", None)
    span.rename(f"{method} {route or 'none'}")
    span.set(
        {
            "http.request.method": method,
            "http.route": route,
            "http.response.status_code": response.status_code,
            "verification.request_id": request.id,  # type: ignore[attr-defined]
            "verification.workspace_id": workspace_id,
        }
    )
    if response.status_code >= 500:
        span.fail(str(response.status_code))
    request_log.log(
        _level(request, response),
        "request",
        extra={
            "method": method,
            "route": route,
            "status": response.status_code,
            "ms": round(seconds * 1000, 1),
            "workspace_id": workspace_id,
            "key_id": str(key.id) if key else None,
            # The logged-in user, if the response depended on it.
            "user_id": str(user.pk) if user and user.is_authenticated else None,
        },
    )


def _method(name: str) -> str:
    """Return the method as `/metrics` names it: a client may invent any number."""
    return name if name in METHODS else "OTHER"


def _level(request: HttpRequest, response: HttpResponse) -> int:
    # `/healthz` answers 503 while the web server drains.
    if response.status_code >= 500 and request.path_info not in gateway.LIVENESS_PATHS:
        return logging.ERROR
    # Load balancers and the service itself request these every few seconds.
    return logging.DEBUG if request.path_info in PROBES else logging.INFO


class TransportMiddleware(SecurityMiddleware):
    """Redirect pages to HTTPS, and refuse requests of programs without it.

    A program that followed a redirect would keep sending its key in the clear,
    unnoticed. This holds for the API, metrics and callbacks.
    """

    def process_request(self, request: HttpRequest) -> HttpResponseBase | None:  # type: ignore[override]
        if settings.METRICS_OVER_HTTP and request.path_info == "/metrics":
            return None
        redirect = super().process_request(request)
        is_program = is_api(request) or request.path_info.startswith(PROGRAM_PATHS)
        if redirect is not None and is_program:
            return Problem("https-required").response(request)
        return redirect


class HostMiddleware(CommonMiddleware):
    """Refuse other hosts than ALLOWED_HOSTS, except for probes.

    Proxies and orchestrators name a web server by any address that leads to it.
    """

    def process_request(self, request: HttpRequest) -> HttpResponseBase | None:  # type: ignore[override]
        if request.path_info in PROBES:
            return None
        return super().process_request(request)


class PolicyMiddleware(CSPMiddleware):
    """Send the strict policy of the settings, and the admin's own on its pages."""

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        # The library builds the policy before it looks at the exclusions.
        excluded = settings.CONTENT_SECURITY_POLICY["EXCLUDE_URL_PREFIXES"]
        if request.path_info.startswith(tuple(excluded)):
            return response
        return super().process_response(request, response)

    def get_policy_parts(
        self,
        request: HttpRequest,
        response: HttpResponseBase,
        report_only: bool = False,
    ) -> PolicyParts:
        parts = super().get_policy_parts(request, response, report_only)
        if request.path_info.startswith("/admin/") and not report_only:
            parts.replace = {**settings.ADMIN_POLICY, **(parts.replace or {})}
        parts.update = getattr(response, "allowed_sources", None)
        return parts


class ProblemMiddleware(_Middleware):
    """Turn error answers of the API that come from no view into problems."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if not is_api(request):
            return self.get_response(request)
        response = self.get_response(request)
        # A 412 answers a precondition of the reader of the document, without a body.
        is_error = response.status_code >= 400 and response.status_code != 412
        if is_error and response["Content-Type"] != problems.MEDIA_TYPE:
            response = _convert_to_problem(request, response)
        for name, value in request.META.get(API_HEADERS, {}).items():
            response[name] = value
        response.headers.setdefault("Cache-Control", "no-store")
        policy = "default-src 'none'; frame-ancestors 'none'"
        response.headers.setdefault("Content-Security-Policy", policy)
        return response

    def process_exception(
        self, request: HttpRequest, error: Exception
    ) -> HttpResponse | None:
        if not is_api(request):
            return None
        return problems.problem_for(error, request).response(request)


def _convert_to_problem(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    if isinstance(error := _stored_error(request), pages.DATABASE_ERRORS):
        return problems.problem_for(error, request).response(request)
    if response.status_code == 404 and request.resolver_match is None:
        problem = _unknown_address(request)
    else:
        problem = _problem_for_status(request, response.status_code)
    for name in ("Allow", "Retry-After", "WWW-Authenticate"):
        if name in response:
            problem.headers[name] = response[name]
    return problem.response(request)


def _unknown_address(request: HttpRequest) -> Problem:
    nearest = nearest_address(request.path_info)
    hint = (
        f"The nearest is {nearest}." if nearest else "See the API reference at /docs."
    )
    if "{" in nearest:
        hint += " Ids are UUIDs in lower case, as answers have them."
    return Problem("not-found", f"The API has no such address. {hint}")


def _problem_for_status(request: HttpRequest, status: int) -> Problem:
    try:
        request.get_host()
    except exceptions.DisallowedHost:
        detail = "This service does not answer under this host name."
        return wrong_member("not-allowed-here", detail, header="Host")
    fallback = "internal-error" if status >= 500 else "validation-failed"
    codes = (kind.code for kind in PROBLEM_KINDS.values() if kind.status == status)
    return Problem("validation-failed" if status == 400 else next(codes, fallback))


class CompressionMiddleware(GZipMiddleware):
    """Compress pages and static files; API responses are left to the proxy.

    Pages can hold secrets next to a visitor's input (BREACH). Django masks the token of
    each form differently each time, and adds random bytes to compressed pages.
    """

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        kind = response.get("Content-Type", "")
        is_call = is_api(request) and "Authorization" in request.headers
        if is_call or response.status_code == 206 or not COMPRESSIBLE.match(kind):
            return response
        return super().process_response(request, response)


class RefusalMiddleware(_Middleware):
    """Answer requests that the gate refuses, with the usual headers and log line."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        code = request.META.get(gateway.REFUSAL)
        if code is None or is_late_watcher(request):
            return self.get_response(request)
        problem = Problem(code)
        if is_api(request):
            response = problem.response(request)
        else:
            response = pages.request_refused(request, problem.kind.status)
        if response.status_code == 503:
            response["Retry-After"] = gateway.retry_after()
        return response


def refuse_briefly(environ: gateway.Environ) -> gateway.Response:
    """Refuse a request without Django, as a refusal in an overload has to be cheap.

    The problem is that of `RefusalMiddleware`. It is counted and not logged.
    """
    metrics.count_request(None, _method(environ["REQUEST_METHOD"]), 503, 0)
    path = environ["PATH_INFO"].encode("latin-1").decode(errors="replace")
    if not f"{path}/".startswith("/api/"):
        return gateway.refuse_in_text(environ)
    id = str(uuid.uuid4())
    body = json.dumps(Problem("overloaded").body(path, id)).encode()
    named = {"x-request-id": id}
    if _has_test_key(environ.get("HTTP_AUTHORIZATION", "")):
        named["x-service-sandbox"] = "true"
    return gateway.brief_refusal(body, problems.MEDIA_TYPE, **named)


class PageMiddleware(_Middleware):
    """Redirect links that were copied badly, and answer errors with our pages.

    The API has its own errors. If DEBUG is on, Django's own page names the cause of
    errors other than a missing page or an unreachable database.
    """

    def __init__(self, get_response: GetResponse) -> None:
        super().__init__(get_response)
        got_request_exception.connect(_store_error)

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if is_api(request):
            return response
        if error := _stored_error(request):
            if isinstance(error, StorageUnavailable):
                return pages.unavailable(request)
            if isinstance(error, pages.DATABASE_ERRORS):
                problems.log_unavailable(error)
                return pages.unavailable(request)
            log.error("unhandled exception", exc_info=error)
        if response.status_code == 404:
            return _redirect_bad_link(request) or (
                _not_found(request) if request.resolver_match is None else response
            )
        return response

    def process_exception(
        self, request: HttpRequest, error: Exception
    ) -> HttpResponse | None:
        if isinstance(error, Http404) and not is_api(request):
            return _not_found(request)
        if isinstance(error, FileMissing):
            return pages.file_missing(request)
        return None


def _not_found(request: HttpRequest) -> HttpResponse:
    """Show the console's own page to a user who is logged in to the console."""
    in_console = request.path.startswith(reverse("console:home"))
    is_member = in_console and request.user.is_authenticated
    return console.not_found(request) if is_member else pages.not_found(request)


def _store_error(request: HttpRequest | None = None, **signal: Any) -> None:
    """Store the exception of a view or a middleware for the middleware further out."""
    if request is not None:
        request.error = sys.exc_info()[1]  # type: ignore[attr-defined]


def _stored_error(request: HttpRequest) -> BaseException | None:
    return getattr(request, "error", None)


def _redirect_bad_link(request: HttpRequest) -> HttpResponse | None:
    """Redirect to the intended page if only the end of the link is wrong."""
    path = request.path_info
    bare = path.rstrip(LINK_ENDINGS)
    is_whole = path in {bare, f"{bare}/"} and is_valid_path(path)
    if request.method not in {"GET", "HEAD"} or is_whole:
        return None
    if request.resolver_match and request.resolver_match.func is pages.raise_not_found:
        return None
    for meant in (bare, f"{bare}/"):
        if meant != path and is_valid_path(meant):
            query = request.META.get("QUERY_STRING", "")
            to = escape_leading_slashes(escape_uri_path(meant))
            response = HttpResponseRedirect(f"{to}?{query}" if query else to)
            response["Cache-Control"] = "no-store"
            return response
    return None


class StaticMiddleware(WhiteNoiseMiddleware):
    """Serve static files, those at their versioned address for a year."""

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        path = request.path_info
        versioned = VERSIONED_NAME.fullmatch(path.removeprefix(self.static_prefix))
        if versioned:
            path = self.static_prefix + versioned[2]
        file = self.find_file(path) if self.autorefresh else self.files.get(path)
        if file is None:
            return self.get_response(request)
        # Compression makes the ETag weak.
        etag = request.META.get("HTTP_IF_NONE_MATCH", "")
        request.META["HTTP_IF_NONE_MATCH"] = etag.removeprefix("W/")
        response: HttpResponseBase = self.serve(file, request)
        if versioned and static_files.version_of(versioned[2]) == versioned[1]:
            response["Cache-Control"] = CACHE_FOREVER
        return response


class LocalTimeMiddleware(_Middleware):
    """Show times in Nairobi's time on all pages; the API stays in UTC."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if is_api(request):
            return self.get_response(request)
        with override(NAIROBI):
            return self.get_response(request)


class FormMiddleware(_Middleware):
    """Refuse oversized and unreadable forms before CSRF reads them for their token.

    It also refuses URLs with more parameters than Django reads.
    """

    def __call__(self, request: HttpRequest) -> HttpResponse:
        refused = _refuse_query(request) or _refuse_form(request)
        return refused or self.get_response(request)


def _refuse_query(request: HttpRequest) -> HttpResponse | None:
    try:
        _ = request.GET
    except exceptions.TooManyFieldsSent:
        # The page of the refusal reads its language from the query.
        request.GET = QueryDict()
    else:
        return None
    if is_api(request):
        detail = "The URL has too many parameters."
        return Problem("validation-failed", detail).response(request)
    return pages.bad_request(request)


def _refuse_form(request: HttpRequest) -> HttpResponse | None:
    path, length = request.path_info, request.META.get("CONTENT_LENGTH") or ""
    most, is_hosted = page_limit(path), path.startswith(HOSTED_PATHS)
    if most is not None and length.isdigit() and int(length) > most:
        return hosted.too_large(request) if is_hosted else console.too_large(request)
    if most is not None and gateway.UNREAD in request.META:
        # A body of this size needs a log-in or an opened link.
        return pages.csrf_failure(request)
    if not is_hosted:
        return None
    try:
        # Parse the form here: an error in a later middleware would get no page.
        _ = request.POST
    except (MultiPartParserError, exceptions.BadRequest):
        return hosted.unreadable(request)
    except exceptions.SuspiciousOperation:
        # The form has more fields than any of this service.
        return hosted.too_large(request)
    except UnreadablePostError:
        # The browser has left; CSRF refuses the form, which has no token.
        pass
    return None


class SessionLimitsMiddleware(_Middleware):
    """End sessions that are idle or old. Other pages need no login, and no query."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        has_session = settings.SESSION_COOKIE_NAME in request.COOKIES
        if not (has_session and request.path_info.startswith(USER_PATHS)):
            return self.get_response(request)
        was_logged_in = request.user.is_authenticated
        sessions.end_or_extend(request)
        response = self.get_response(request)
        if was_logged_in and not request.user.is_authenticated:
            response["Clear-Site-Data"] = CLEAR_SITE_DATA
        return response


class StaffMiddleware(_Middleware):
    """Let only staff with a proven second factor reach views of the admin.

    The pages leave characters out that turn the direction of the text after them.
    """

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if _is_admin(request):
            response["Cache-Control"] = "no-store"
            if response.headers.get("Content-Type", "").startswith("text/html"):
                response.content = DIRECTIONS.sub(b"", response.content)
        return response

    def process_view(
        self, request: HttpRequest, view: Any, args: Any, kwargs: Any
    ) -> HttpResponse | None:
        return sessions.refuse_admin(request) if _is_admin(request) else None


def _is_admin(request: HttpRequest) -> bool:
    match = request.resolver_match
    return bool(match and "admin" in match.app_names)
