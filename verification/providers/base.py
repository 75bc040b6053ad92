"""What a source of checks is asked, and how it may answer.

A provider takes an `Inquiry` and returns a `Finding`, or raises one of three errors:
`Unavailable` (try again later), `Refused` (this will never work) and `NotYet` (the
answer is on its way). It writes no rows, reads no settings, and does not retry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable
from uuid import UUID

Severity = Literal["LOW", "MEDIUM", "HIGH"]
# Check -> names of output fields.
NotTold = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class ConsentEvidence:
    """The consent that a check is asked under, as its record tells it.

    `notice` is the version of the text that was agreed to, `sha256` its digest, and
    `language` its language in lower case. The last two are blank where the client
    attests the consent; `notice` is then the client's own version.
    """

    at: datetime
    # SERVICE_HOSTED, or the method that the client attests.
    how: str
    notice: str
    language: str = ""
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class PendingInquiry:
    """A question that the source has taken in this round and not answered by itself.

    `job` is the source's own name of it, blank where that is not known; `answer` is
    the body of its callback, None where none came.
    """

    at: datetime
    job: str = ""
    answer: str | None = None


@dataclass(frozen=True, slots=True)
class Callback:
    """A callback that was shown to be the source's, about a question of ours."""

    # The inquiry and its `attempt` that it answers, and the source's name of the job.
    reference: str
    attempt: int
    job: str
    body: str


@dataclass(frozen=True, slots=True)
class Inquiry:
    """One question about one subject, for one check."""

    check: str
    # The interface's Subject members and check inputs, in camelCase; phone in E.164.
    subject: dict[str, Any]
    # Names the run of the check to the provider; the same when the run is repeated
    # after a crash, so that a provider with idempotency keys bills it once.
    reference: str
    result_id: UUID
    # 1, and one more each time the source was unavailable.
    attempt: int
    # When the source was first asked in this run.
    asked_at: datetime
    # For a source that answers by callbacks, and for one that is told the consent.
    begun: PendingInquiry | None = None
    given: ConsentEvidence | None = None


@dataclass(frozen=True, slots=True)
class Flag:
    """An adverse finding."""

    code: str
    severity: Severity
    message: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A source's answer in our words.

    `details` has exactly the output fields of the check's definition; `score` is 0 to
    100, higher is riskier, or None where the answer supports no score.
    """

    summary: str
    score: int | None
    details: dict[str, Any]
    provider: str
    flags: list[Flag] = field(default_factory=list)
    provider_reference: str | None = None
    # SHA-256 of the source's answer as it came, in hex.
    response_digest: str | None = None
    # How the stated name was compared with the source's, where it was.
    name_comparison: dict[str, Any] | None = None
    # Which edition of each list was searched, where lists were.
    editions: list[dict[str, Any]] | None = None


class ProviderError(Exception):
    """The check could not be done. `code` is the failure code the client sees."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


class Unavailable(ProviderError):
    """The source is down or overloaded; the retry policy decides about another try.

    `may_be_charged` says that it may have done what it was asked: the question was
    sent, and no whole answer came that says that it failed.
    """

    def __init__(
        self, code: str, message: str, *, may_be_charged: bool = False
    ) -> None:
        super().__init__(code, message)
        self.may_be_charged = may_be_charged


class Refused(ProviderError):
    """The source will not answer this inquiry; trying again changes nothing."""


class AnswerPending(Exception):
    """The source took the inquiry and has no answer yet: ask again at `ask_at`.

    `job` is the source's own name of it; the next inquiry has it in `begun`.
    """

    def __init__(self, ask_at: datetime, job: str = "") -> None:
        super().__init__(f"no answer before {ask_at:%H:%M:%S}")
        self.ask_at, self.job = ask_at, job


def covers_subject(provider: Provider, subject: Mapping[str, Any]) -> bool:
    """Whether the subject is of a country whose numbers the provider can be asked."""
    return not provider.countries or subject.get("country") in provider.countries


class BadSignature(Exception):
    """Who has sent this cannot be shown to be the one it claims to be."""


class Provider(Protocol):
    """A source of one or more checks.

    `waits_on_network` is False for a provider that answers from memory: it is then
    asked in the job's own thread instead of the pool's.

    `repeats_are_free` says that an inquiry may be asked again with the same reference
    for nothing, because the source gives the earlier answer or never costs anything.
    Where it may not, one whose answer was lost in a crash is left to a person.

    `countries` are those whose numbers it can be asked about, all where it is empty: it
    refuses any other before it makes a call. `not_told` has the output fields of each
    check that it never tells.
    """

    name: ClassVar[str]
    waits_on_network: ClassVar[bool]
    repeats_are_free: ClassVar[bool]
    countries: ClassVar[frozenset[str]]
    not_told: ClassVar[NotTold]

    def ask(self, inquiry: Inquiry) -> Finding:
        """The answer; raises Unavailable, Refused or NotYet."""
        ...


@runtime_checkable
class ConsentAware(Protocol):
    """A provider that is told the consent, and more of the subject than a number."""

    def missing_requirement(
        self, subject: Mapping[str, Any], given: ConsentEvidence | None
    ) -> str:
        """Return what the source requires and we do not know; '' if it can be asked."""
        ...
