"""Every error of the API as a problem (RFC 9457), made in one place.

Code raises `Problem`, or an exception that `PROBLEMS` translates; views catch nothing.
The framework passes exceptions of views to `handle_exception`. `ProblemMiddleware`
answers requests that reach no view.
"""

import json
import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

from django.conf import settings
from django.core import signals
from django.core.exceptions import RequestDataTooBig
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, UnreadablePostError
from django.utils.encoding import escape_uri_path
from rest_framework import exceptions as rest

from monitoring.models import Alert, Rule
from monitoring.pauses import NotResumable
from verification.api.problem_kinds import PROBLEM_KINDS, ProblemKind
from verification.consents.links import AccessNotSendable, ConsentNotRenewable
from verification.db.startup import explain_error
from verification.decisions.decide import (
    CONFLICTS,
    Obstacle,
    ReportDecisionRefused,
)
from verification.links import top_up_url
from verification.payments.links import PaymentNotRenewable
from verification.payments.registry import accepts_payments
from verification.privacy.certificates import NotEnded
from verification.privacy.erasure import ErasureHeld, ReportErased
from verification.privacy.models import Correction, Erasure
from verification.reports.hosted_links import ResendTooSoon
from verification.reports.idempotency import (
    AnswerErased,
    IdempotencyKeyReused,
    InvalidIdempotencyKey,
    RequestInProgress,
)
from verification.reports.models import Report
from verification.reports.request import MAX_FAULTS, InvalidRequest
from verification.reports.status import (
    InvalidTransition,
    LaunchObstacle,
    NotCancellable,
    NotEditable,
    NotLaunchable,
    NotRetryable,
)
from verification.sandbox.reports import NotPossible
from verification.sandbox.skips import NothingDue
from verification.web.request import current_request_id
from webhooks.configuration import NotConfigured, SecretRequired
from webhooks.feed import CursorExpired
from webhooks.models import Configuration, Delivery
from webhooks.redelivery import (
    ConfigurationDisabled,
    EventPurged,
    EventRestricted,
    TooManyTests,
)
from workspaces.ledger import InsufficientBalance
from workspaces.members import WorkspaceSuspended
from workspaces.models import Environment

log = logging.getLogger("verification.api")

MEDIA_TYPE = "application/problem+json"
MAX_ERRORS = MAX_FAULTS
# Clients can send names of any length.
MAX_PLACE = 200
# Members of problems whose values are codes of the service.
CODE_MEMBERS = (
    "reasons",
    "requiredScope",
    "reportStatus",
    "consentStatus",
    "paymentStatus",
    "pauseReason",
    "possible",
)
SECONDS_UNTIL_AVAILABLE = "5"
LAUNCH_REMEDIES = {
    LaunchObstacle.PAYMENT_OUTSTANDING: "It is not paid for: send the payer the "
    "paymentUrl. A draft that was free when it was made, or whose payer got money "
    "back, gets one by an edit.",
    LaunchObstacle.NOT_A_DRAFT: "Only a draft can be launched, and this report is no "
    "longer one.",
}


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

    @property
    def place(self) -> str:
        """The place as people write it, such as `reports[17].subject.idNumber`."""
        if self.parameter is not None:
            return f"The parameter {self.parameter}"
        if self.header is not None:
            return f"The header {self.header}"
        steps = [_unescape(step) for step in (self.pointer or "#").split("/")[1:]]
        path = "".join(f"[{s}]" if s.isdecimal() else f".{s}" for s in steps)
        return path.removeprefix(".")[:MAX_PLACE] or "The body"


def pointer(*steps: str | int) -> str:
    """Make a JSON Pointer in URI fragment form: `#/reports/17/subject/idNumber`."""
    return "#" + "".join(f"/{_escape(str(step))}" for step in steps)


def _escape(step: str) -> str:
    # Characters that RFC 3986 allows in a fragment stay; a lone surrogate becomes "?".
    text = step.replace("~", "~0").replace("/", "~1")
    return quote(text, safe="!$&'()*+,;=:@~", errors="replace")


def _unescape(step: str) -> str:
    return unquote(step).replace("~1", "/").replace("~0", "~")


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

    @property
    def reasons(self) -> list[str]:
        """The codes that say more than that of the problem, each once.

        They hold nothing of the request.
        """
        given = [self.members[name] for name in CODE_MEMBERS if name in self.members]
        codes = [
            code
            for one in given
            for code in (one if isinstance(one, list | tuple) else [one])
        ]
        return list(dict.fromkeys([*(error.code for error in self.errors), *codes]))

    def response(self, request: HttpRequest) -> HttpResponse:
        # json escapes lone surrogates, which a quoted value may hold; orjson raises.
        content = json.dumps(self.body(request.path, current_request_id()))
        response = HttpResponse(
            content,
            status=self.kind.status,
            content_type=MEDIA_TYPE,
            headers={**self.headers, "Content-Length": str(len(content))},
        )
        response.problem = self  # type: ignore[attr-defined]
        return response


def validation_failed(errors: Sequence[MemberError]) -> Problem:
    """Make the problem validation-failed, which lists the first 100 errors.

    Its detail is the first error with its place, as a log may show nothing else.
    """
    first = errors[0]
    text = f": {first.detail}"
    # The place is what such an error calls "This". "This operation" is something else.
    if re.match("This (is|must|has) ", first.detail):
        text = first.detail.removeprefix("This")
    detail = f"{first.place}{text}"
    if more := len(errors) - 1:
        number = str(more) if more < MAX_ERRORS else f"more than {MAX_ERRORS - 1}"
        is_plain = not re.search("[,;:.].", text[1:])
        detail = detail.removesuffix(".") + (", and " if is_plain else ". And ")
        detail += f"{number} more."
    return Problem("validation-failed", detail, errors=errors)


def wrong_member(code: str, detail: str, **place: str) -> Problem:
    """Make validation-failed of one broken rule and its place."""
    return validation_failed([MemberError(code, detail, **place)])


def log_unavailable(error: Exception) -> None:
    """Log why the database is away in a line, or where a statement failed."""
    if why := explain_error(error) if isinstance(error, OperationalError) else "":
        log.warning("the database did not answer: %s", why)
    else:
        log.warning("the database did not answer", exc_info=error)


def _unavailable(error: Exception) -> Problem:
    log_unavailable(error)
    return Problem("unavailable", headers={"Retry-After": SECONDS_UNTIL_AVAILABLE})


def _insufficient_balance(error: InsufficientBalance) -> Problem:
    """Add the page where the workspace can top up, if payments are configured."""
    members: dict[str, Any] = {}
    if accepts_payments(error.environment):
        members["topUpUrl"] = top_up_url(error.account_id)
    detail = str(error)
    if error.environment == Environment.SANDBOX:
        detail += " A test key can also set the play money: POST /sandbox/balance."
    return Problem("insufficient-balance", detail, **members)


def _invalid_request(e: InvalidRequest) -> Problem:
    # One more than the problem lists: its detail then states that there are more.
    found = e.faults[: MAX_ERRORS + 1]
    return validation_failed(
        [MemberError(f.code, f.detail, pointer=pointer(*f.path)) for f in found]
    )


def rate_limited(detail: str, seconds: int) -> Problem:
    """Make the problem rate-limited; the client may try again after these seconds."""
    return Problem("rate-limited", detail, headers={"Retry-After": str(seconds)})


def _not_launchable(e: NotLaunchable) -> Problem:
    remedies = [LAUNCH_REMEDIES[r] for r in e.reasons if r in LAUNCH_REMEDIES]
    detail = " ".join(filter(None, [e.consent_gap, *remedies]))
    return Problem(
        "report-not-launchable", detail, reportStatus=e.status, reasons=e.reasons
    )


def _not_decided(e: ReportDecisionRefused) -> Problem:
    if e.obstacle == Obstacle.ERASED:
        return Problem("report-erased")
    if e.obstacle == Obstacle.SUSPENDED:
        return Problem("workspace-suspended")
    if e.obstacle in CONFLICTS:
        decision_id = str(e.decision_id) if e.decision_id else None
        return Problem("decision-conflict", str(e), decisionId=decision_id)
    return Problem("report-not-decidable", str(e), reportStatus=e.status)


def _conflict(code: str) -> Callable[[Any], Problem]:
    return lambda e: Problem(code, str(e), reportStatus=e.status)


# Exception -> the code of the problem that answers it, or a function that makes one.
# An exception also answers for its subclasses.
PROBLEMS: dict[type[Exception], str | Callable[[Any], Problem]] = {
    Problem: lambda e: e,
    OperationalError: _unavailable,
    InterfaceError: _unavailable,
    Http404: "not-found",
    rest.NotFound: "not-found",
    rest.ParseError: "malformed-body",
    UnreadablePostError: "malformed-body",
    rest.MethodNotAllowed: "method-not-allowed",
    rest.NotAcceptable: "not-acceptable",
    rest.UnsupportedMediaType: "unsupported-media-type",
    RequestDataTooBig: "body-too-large",
    rest.NotAuthenticated: "authentication-required",
    # Orders
    InvalidRequest: _invalid_request,
    InvalidIdempotencyKey: lambda e: wrong_member(
        "invalid-format",
        "1 to 120 printable ASCII characters are needed.",
        header="Idempotency-Key",
    ),
    RequestInProgress: lambda e: Problem(
        "idempotency-in-progress", headers={"Retry-After": "1"}
    ),
    IdempotencyKeyReused: "idempotency-key-reused",
    AnswerErased: "answer-erased",
    InsufficientBalance: _insufficient_balance,
    # Data subjects
    Erasure.DoesNotExist: "not-found",
    ErasureHeld: "erasure-held",
    ReportErased: "report-erased",
    NotEnded: "erasure-not-ended",
    # Reports
    Report.DoesNotExist: "not-found",
    NotLaunchable: _not_launchable,
    NotEditable: _conflict("report-not-editable"),
    NotCancellable: _conflict("report-not-cancellable"),
    NotRetryable: _conflict("report-not-retryable"),
    ReportDecisionRefused: _not_decided,
    ConsentNotRenewable: lambda e: Problem(
        "consent-not-resendable", str(e), consentStatus=e.status
    ),
    AccessNotSendable: lambda e: Problem("subject-link-not-sendable", str(e)),
    PaymentNotRenewable: lambda e: Problem(
        "payment-not-resendable", str(e), paymentStatus=e.status
    ),
    ResendTooSoon: lambda e: rate_limited(str(e), e.seconds),
    # Another request changed the status between the read and the write.
    InvalidTransition: lambda e: Problem(
        "report-not-editable",
        "The report changed at the same moment; read it and try again.",
        reportStatus=e.source,
    ),
    # Webhooks
    Configuration.DoesNotExist: "not-found",
    Delivery.DoesNotExist: "not-found",
    NotConfigured: "webhook-not-configured",
    ConfigurationDisabled: "webhook-disabled",
    EventPurged: "event-purged",
    EventRestricted: "event-restricted",
    CursorExpired: "cursor-expired",
    SecretRequired: lambda e: wrong_member(
        "required",
        "The first configuration needs its secret.",
        pointer=pointer("secret"),
    ),
    TooManyTests: lambda e: rate_limited(
        f"More than {e.rate.limit} test events were requested in a minute.",
        e.rate.resets_in,
    ),
    # Corrections
    Correction.DoesNotExist: "not-found",
    # Monitoring
    Rule.DoesNotExist: "not-found",
    Alert.DoesNotExist: "not-found",
    WorkspaceSuspended: "workspace-suspended",
    NotResumable: lambda e: Problem("rule-not-resumable", str(e), pauseReason=e.reason),
    # The sandbox
    NotPossible: lambda e: Problem(
        "sandbox-action-not-possible", str(e), possible=e.possible
    ),
    NothingDue: lambda e: Problem("nothing-due", str(e)),
}


def handle_exception(error: Exception, context: dict[str, Any]) -> HttpResponse:
    """Answer an exception of a view; the setting EXCEPTION_HANDLER names this."""
    request = context["request"]
    return problem_for(error, request).response(request)


def problem_for(error: Exception, request: HttpRequest) -> Problem:
    for exception in type(error).__mro__:
        if exception in PROBLEMS:
            problem = PROBLEMS[exception]
            return Problem(problem) if isinstance(problem, str) else problem(error)
    log.error("unhandled exception", exc_info=error)
    signals.got_request_exception.send(sender=None, request=request)
    return Problem("internal-error")
