"""The errors of this package. Each of them is a `VerificationError`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .models import Report


class VerificationError(Exception):
    """Base of all errors of this package."""


class ConnectionFailed(VerificationError):
    """The service could not be reached, or its answer did not arrive whole.

    `may_have_happened` is true if the service may have carried out the request.
    """

    def __init__(self, message: str, *, may_have_happened: bool) -> None:
        super().__init__(message)
        self.may_have_happened = may_have_happened


@dataclass(frozen=True)
class Fault:
    """One fault of a request. `place` is a JSON Pointer, or a parameter or header."""

    place: str
    code: str
    detail: str


class Problem(VerificationError):
    """The service refused a request: a problem as in RFC 9457.

    Branch on `code` and `status`. `type` leads to a page that explains the problem.
    `retry_after` is in seconds, and None if the service named none. `may_have_happened`
    is true if the service may have carried out the request nevertheless.
    """

    def __init__(
        self, status: int, body: dict[str, Any], retry_after: float | None = None
    ) -> None:
        self.status = status
        self.body = body
        self.retry_after = retry_after
        self.type = str(body.get("type", "about:blank"))
        self.title = str(body.get("title", ""))
        self.detail = str(body.get("detail", ""))
        self.code = str(body.get("code", ""))
        self.request_id = str(body.get("requestId", ""))
        # An overloaded service has not begun. A proxy, or a service that lost its
        # database, does not know how far the request went.
        self.may_have_happened = (
            status >= 500 and self.code != "overloaded"
        ) or self.code == "idempotency-in-progress"
        errors = body.get("errors")
        self.faults = [
            Fault(
                str(one.get("pointer") or one.get("parameter") or one.get("header")),
                str(one.get("code", "")),
                str(one.get("detail", "")),
            )
            for one in (errors if isinstance(errors, list) else [])
            if isinstance(one, dict)
        ]
        super().__init__(
            f"{status} {self.code or self.title}: {self.detail}"
            + (f" (request {self.request_id}, see {self.type})" if self.code else "")
        )

    @property
    def pointers(self) -> list[str]:
        """The places of all faults, such as `#/reports/0/subject/idNumber`."""
        return [fault.place for fault in self.faults]


class ActionRequired(VerificationError):
    """The report waits for a person to act.

    `kind` is `launch`, `consent`, `payment`, `reference` or `decision`; `url` is the
    link for that person, if the service has one.
    """

    def __init__(self, kind: str, message: str, report: Report, url: str | None = None):
        super().__init__(message)
        self.kind = kind
        self.report = report
        self.url = url


class WaitTimeout(VerificationError):
    """The report did not end within the timeout. `report` is its last state."""

    def __init__(self, message: str, report: Report) -> None:
        super().__init__(message)
        self.report = report


class InvalidSignature(VerificationError):
    """A webhook was not sent by the service, or is too old."""
