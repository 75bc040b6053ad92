"""The interface of sources: inquiries, findings and errors.

A provider takes an `Inquiry` and returns a `Finding`, or raises one of three
exceptions: `Unavailable` (try again later), `Refused` (this will never work) and
`AnswerPending` (the answer comes later). It leaves rows, settings and retries to its
caller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable
from uuid import UUID

Severity = Literal["LOW", "MEDIUM", "HIGH"]
# A subject and its check inputs, with the API's names.
Subject = Mapping[str, Any]
# Check -> names of the output fields that a source never fills.
NotTold = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class ConsentEvidence:
    """The consent on which a check is based, as its record holds it.

    `notice` is the version of the text that the subject agreed to, `sha256` its digest,
    and `language` its language in lower case. If the client attests the consent, the
    last two are blank and `notice` is the client's own version.
    """

    at: datetime
    # SERVICE_HOSTED, or the method that the client attests.
    how: str
    notice: str
    language: str = ""
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class PendingInquiry:
    """An inquiry of this round that the source has accepted and not answered directly.

    `job` is the source's id of it, or "" if unknown. `answer` is the body of the
    callback, or None before it comes.
    """

    at: datetime
    job: str = ""
    answer: str | None = None


@dataclass(frozen=True, slots=True)
class Callback:
    """A callback of proven origin about an inquiry of ours."""

    # Reference and attempt of the inquiry, and the source's id of the job.
    reference: str
    attempt: int
    job: str
    body: str


@dataclass(frozen=True, slots=True)
class Inquiry:
    """One question about one subject, for one check."""

    check: str
    # The API's members of Subject and check inputs, in camelCase; phone in E.164.
    subject: dict[str, Any]
    # The idempotency key of this run of the check. A repeat after a crash has the same
    # reference, so that the provider charges it once.
    reference: str
    result_id: UUID
    # Begins at 1 and grows each time the source is unavailable.
    attempt: int
    # Time of the first call in this run.
    asked_at: datetime
    # Only for sources that answer by callbacks.
    begun: PendingInquiry | None = None
    # Only for sources that require the consent.
    given: ConsentEvidence | None = None
    # Only for the sandbox: the outcome that the client has set for this run, or "".
    outcome: str = ""


@dataclass(frozen=True, slots=True)
class Flag:
    """An adverse finding."""

    code: str
    severity: Severity
    message: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A source's answer in our words.

    `details` has exactly the output fields of the check definition. `score` is 0 to
    100, higher is riskier, or None if the answer supports no score.
    """

    summary: str
    score: int | None
    details: dict[str, Any]
    provider: str
    flags: list[Flag] = field(default_factory=list)
    provider_reference: str | None = None
    # SHA-256 of the source's original answer, in hex.
    response_digest: str | None = None
    # False if the source left something open, which could make the score higher.
    is_whole: bool = True
    # The comparison of the stated name with the source's.
    name_comparison: dict[str, Any] | None = None
    # The editions of the lists that a screening searched.
    editions: list[dict[str, Any]] | None = None


class Cause(StrEnum):
    """Why a source gave no useful answer, for operators (docs/operator/providers.md).

    A status of HTTP is a cause of its own, such as HTTP_503 (`http_cause`).
    """

    # Its name was not resolved.
    DNS = "DNS"
    # No connection over TLS: mostly a certificate that is not valid for it.
    TLS = "TLS"
    CONNECTION_REFUSED = "CONNECTION_REFUSED"
    # No route, or another error of the network before a connection was made.
    UNREACHABLE = "UNREACHABLE"
    CONNECTION_TIMEOUT = "CONNECTION_TIMEOUT"
    # It took the request and did not answer in time.
    TIMEOUT = "TIMEOUT"
    # The connection ended before the whole answer came.
    CONNECTION_BROKEN = "CONNECTION_BROKEN"
    # The operator's own proxy is away or refuses.
    PROXY = "PROXY"
    # The answer contradicts the source's documentation.
    UNUSABLE_ANSWER = "UNUSABLE_ANSWER"
    # A list that we search is missing or too old.
    LIST_TOO_OLD = "LIST_TOO_OLD"
    # Our adapter raised an exception.
    ADAPTER_FAULT = "ADAPTER_FAULT"


def http_cause(status: int) -> str:
    return f"HTTP_{status}"


class ProviderError(Exception):
    """The check failed. `code` is the failure code that the client sees.

    `cause` is a `Cause`, a status of HTTP, or "".
    """

    def __init__(self, code: str, message: str, *, cause: str = "") -> None:
        super().__init__(message)
        self.code, self.message, self.cause = code, message, cause


class Unavailable(ProviderError):
    """The source is down or overloaded; the retry policy decides about another try.

    `may_be_charged` means that the source may have done the work: the request was sent,
    and no whole answer reports a failure.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        may_be_charged: bool = False,
        cause: str = Cause.UNUSABLE_ANSWER,
    ) -> None:
        super().__init__(code, message, cause=cause)
        self.may_be_charged = may_be_charged


class Refused(ProviderError):
    """The source will never answer this inquiry."""


class AnswerPending(Exception):
    """The source has accepted the inquiry and answers later: ask again at `ask_at`.

    `job` is the source's id of it; the next inquiry has it in `begun`.
    """

    def __init__(self, ask_at: datetime, job: str = "") -> None:
        super().__init__(f"no answer before {ask_at:%H:%M:%S}")
        self.ask_at, self.job = ask_at, job


def covers_subject(provider: Provider, subject: Subject) -> bool:
    """Return whether the provider covers the subject's country."""
    return not provider.countries or subject.get("country") in provider.countries


class BadSignature(Exception):
    """The signature is missing or wrong."""


class Provider(Protocol):
    """A source of one or more checks. Adapters inherit its attributes.

    `waits_on_network` is False for a provider that answers from memory: its caller then
    uses the job's own thread instead of the pool's.

    `repeats_are_free` means that a repeat with the same reference costs nothing,
    because the source repeats its earlier answer or is free of charge. If it is False,
    a person decides about an inquiry whose answer was lost in a crash.

    `countries` are the countries that the provider covers; an empty set means all. It
    refuses other countries before it makes a call. `not_told` has the output fields of
    each check that the source never fills.

    `longest_seconds` limits the time that `ask` may take, all its calls together. It is
    shorter than the lease of a check, after which another worker would ask again.
    """

    name: ClassVar[str]
    waits_on_network: ClassVar[bool] = True
    repeats_are_free: ClassVar[bool] = False
    countries: ClassVar[frozenset[str]] = frozenset()
    not_told: ClassVar[NotTold] = {}
    longest_seconds: ClassVar[float] = 0

    def ask(self, inquiry: Inquiry) -> Finding:
        """Return the finding. Raises Unavailable, Refused or AnswerPending."""
        ...


@runtime_checkable
class ConsentAware(Protocol):
    """A provider that requires the consent and more details of the subject."""

    def missing_requirement(
        self, subject: Subject, given: ConsentEvidence | None
    ) -> str:
        """Name the first detail that the source requires and we lack, or return ''."""
        ...
