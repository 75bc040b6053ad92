"""Call a source over HTTP: return its JSON, or raise the right error.

    api = Api("Paystack", "https://api.paystack.co", headers={"Authorization": ...})
    answer = api.call("POST", "/refund", json={...})

An adapter that needs the exact bytes uses the two halves of `call`: `fetch` and `read`.

`Unavailable` stands for failures that may pass: no connection, no answer in time,
statuses 408, 425, 429 and 5xx, redirects, and bodies that are not whole JSON (a login
page, a proxy's error, half an answer). `Refused` stands for all other failures. After
`Unavailable` the source may still have carried out a request that changes something.

Error texts name the source, the status and at most a code from the source's own list.
They never repeat the request or the answer.

`Record` reads values out of JSON, where any member may be absent or malformed.
"""

from __future__ import annotations

import hmac
import json as parser
import logging
import re
import threading
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from hashlib import sha256
from typing import Any, ClassVar, Self

import requests
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    NameResolutionError,
    NewConnectionError,
    ReadTimeoutError,
)

from verification.outbound import client
from verification.outbound.targets import Blocked
from verification.providers.base import (
    Cause,
    Provider,
    Refused,
    Subject,
    Unavailable,
    covers_subject,
    http_cause,
)
from verification.values.identifiers import shape_of

logger = logging.getLogger(__name__)

UNAVAILABLE, REFUSED = "SOURCE_UNAVAILABLE", "SOURCE_REFUSED"
# Statuses 4xx after which another try may succeed.
RETRYABLE_STATUSES = {408, 425, 429}
CODE = re.compile(r"[a-z_]{1,40}")
# Kenya's present offset, also for days on which another one was in force
EAST_AFRICA = timezone(timedelta(hours=3))
# Numbers of Kenya's business register that begin with letters and a hyphen
HYPHENATED = re.compile(r"^(PVT|BN|LLP|PLC|CLG)(?=[A-Z0-9]{7,8}$)")


class RequestRejected(Refused):
    """A 4xx. `answer` is its JSON, which may tell the reason; `why` is our text."""

    def __init__(
        self, source: str, status: int, answer: Any = None, why: str = ""
    ) -> None:
        code = answer.get("code") if isinstance(answer, dict) else None
        known = isinstance(code, str) and CODE.fullmatch(code)
        text = f"answered with status {status}" + (f" {code}" if known else "")
        if why:
            text = f"{why} (status {status})"
        super().__init__(REFUSED, f"{source} {text}.", cause=http_cause(status))
        self.status, self.answer = status, answer


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer of any status, with the bytes of its body."""

    status: int
    body: bytes
    # Look-ups ignore the case of names.
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        return sha256(self.body).hexdigest()

    def parsed(self) -> Any:
        """Return the body's JSON, or None if it is malformed."""
        try:
            return parser.loads(self.body)
        except (ValueError, RecursionError):
            return None


class Api:
    """One source's HTTP interface; threads may share it.

    `refusals` are the source's reasons by status, as "does not take the key".
    """

    def __init__(
        self,
        source: str,
        url: str,
        *,
        opened: Collection[str] = (),
        headers: Mapping[str, str] | None = None,
        seconds: float = client.SECONDS,
        refusals: Mapping[int, str] | None = None,
    ) -> None:
        self.source, self._url = source, url.rstrip("/")
        self._refusals = refusals or {}
        self.session = client.create_session(opened, seconds=seconds)
        self.session.headers.update({"Accept": "application/json", **(headers or {})})

    def call(self, method: str, path: str, **sent: Any) -> Any:
        """Return the JSON of a 2xx. Raises Unavailable, RequestRejected or Refused."""
        return self.read(self.fetch(method, path, **sent))

    def fetch(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        json: Any = None,
        form: Mapping[str, Any] | None = None,
        parts: Mapping[str, Any] | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Return the answer, whatever its status. Raises Unavailable or Refused.

        `body` is JSON that is sent byte for byte. `parts` make a multipart form: texts
        are sent as they are, other values as JSON.
        """
        if body is not None:
            headers = {"Content-Type": "application/json", **(headers or {})}
        try:
            response = self.session.request(
                method,
                self._url + path,
                params=params,
                json=json,
                data=form if body is None else body,
                files={name: _part(value) for name, value in (parts or {}).items()},
                headers=headers,
            )
        except (Blocked, requests.RequestException, HTTPError, OSError) as e:
            # The cause's text may hold the URL, and with it the subject's number.
            raise to_provider_error(self.source, e) from None
        return Reply(response.status_code, response.content, response.headers)

    def read(self, reply: Reply) -> Any:
        """Return the JSON of a 2xx. Raises Unavailable or RequestRejected."""
        status = reply.status
        if 300 <= status < 400 or status >= 500 or status in RETRYABLE_STATUSES:
            why, cause = f"answered with status {status}", http_cause(status)
            raise unavailable_error(self.source, why, may_be_charged=False, cause=cause)
        try:
            answer = parser.loads(reply.body)
        except (ValueError, RecursionError):
            why = f"answered with status {status}, and not with JSON"
            raise unavailable_error(self.source, why) from None
        if status >= 400:
            why = self._refusals.get(status, "")
            raise RequestRejected(self.source, status, answer, why)
        return answer

    def read_object(self, reply: Reply) -> Record:
        """Return the JSON object of a 2xx. Raises Unavailable or RequestRejected."""
        answer = self.read(reply)
        if not isinstance(answer, dict):
            raise unavailable_error(self.source, "answered with JSON that is no object")
        return Record(answer)

    def ask_token(
        self, method: str, path: str, member: str, **sent: Any
    ) -> tuple[str, dict[str, Any]]:
        """Ask for an access token. Returns it and the whole answer.

        `member` is the token's name in the answer. No source charges for tokens, so an
        `Unavailable` from here never counts as one that may be charged.
        """
        try:
            answer = self.call(method, path, **sent)
        except RequestRejected as e:
            why = f"does not take the credentials (status {e.status})"
            raise refused_error(self.source, why, http_cause(e.status)) from None
        except Unavailable as e:
            raise Unavailable(e.code, e.message, cause=e.cause) from None
        token = answer.get(member) if isinstance(answer, dict) else None
        if not isinstance(token, str) or not token:
            why = "answered without a token"
            raise unavailable_error(self.source, why, may_be_charged=False)
        return token, answer


def _part(value: Any) -> tuple[None, str] | tuple[None, str, str]:
    if isinstance(value, str):
        return None, value
    return None, parser.dumps(value), "application/json"


class TokenCache:
    """An access token that all threads share until it expires.

    One thread asks the source while the others wait; they share a failure as well.
    `ask` returns a token and for how many seconds to use it; it takes at most
    `seconds`.
    """

    def __init__(self, ask: Callable[[], tuple[str, float]], seconds: float) -> None:
        self._ask, self._seconds = ask, seconds
        self._lock = threading.Lock()
        self._token: Future[str] | None = None
        self._until = 0.0

    def fetch(
        self, send: Callable[[str], Reply], is_expired: Callable[[Reply], bool]
    ) -> Reply:
        """Send a request with the token; repeat it once if the token has expired."""
        for _ in range(2):
            bearer = self.bearer()
            reply = send(bearer)
            if not is_expired(reply):
                break
            self.drop(bearer)
        return reply

    def bearer(self) -> str:
        mine: Future[str] | None = None
        with self._lock:
            token = self._token
            if token is None or (token.done() and time.monotonic() >= self._until):
                self._token = token = mine = Future()
        if mine:
            self._request(mine)
        return token.result(timeout=2 * self._seconds)

    def drop(self, bearer: str) -> None:
        """Forget this token, unless another thread has replaced it already."""
        with self._lock:
            token = self._token
            usable = token and token.done() and not token.exception()
            if token and usable and token.result() == bearer:
                self._token = None

    def _request(self, token: Future[str]) -> None:
        try:
            bearer, life = self._ask()
        except BaseException as e:
            self._until = 0.0
            token.set_exception(e)
        else:
            self._until = time.monotonic() + life
            token.set_result(bearer)


def require_covered_country(provider: Provider, subject: Subject, source: str) -> None:
    """Raise Refused if the provider does not cover the subject's country."""
    if not covers_subject(provider, subject):
        raise refused_error(source, "cannot be asked about subjects in this country")


def to_provider_error(source: str, e: BaseException) -> Unavailable | Refused:
    """Return the error to raise for a call that ended without an answer."""
    if isinstance(e, Blocked):
        return Refused(REFUSED, f"{source} may not be called: {e}")
    why, cause = "could not be reached, or broke off", _network_cause(e)
    if cause == Cause.PROXY:
        why = "could not be reached through the operator's proxy"
    if cause in {Cause.TIMEOUT, Cause.CONNECTION_TIMEOUT}:
        why = "did not answer in time"
    if cause == Cause.TLS:
        why = "showed a certificate that is not valid for it"
    if cause == Cause.UNUSABLE_ANSWER:
        why = "answered with too much"
    return unavailable_error(
        source, why, may_be_charged=client.was_sent(e), cause=cause
    )


def _network_cause(e: BaseException) -> Cause:
    reason = client.inner_error(e)
    if isinstance(e, client.TooLarge):
        return Cause.UNUSABLE_ANSWER
    if isinstance(e, requests.exceptions.SSLError) and not client.was_sent(e):
        return Cause.TLS
    if isinstance(reason, client.NoTunnel):
        return Cause.PROXY
    if isinstance(reason, NameResolutionError):
        return Cause.DNS
    if isinstance(reason, NewConnectionError):
        is_refused = isinstance(reason.__cause__, ConnectionRefusedError)
        return Cause.CONNECTION_REFUSED if is_refused else Cause.UNREACHABLE
    if isinstance(reason, ConnectTimeoutError):
        return Cause.CONNECTION_TIMEOUT
    # `requests` makes this a ConnectionError if the rest of an answer is late.
    if isinstance(e, requests.Timeout | TimeoutError) or isinstance(
        reason, ReadTimeoutError
    ):
        return Cause.TIMEOUT
    return Cause.CONNECTION_BROKEN


def unavailable_error(
    source: str,
    why: str,
    *,
    may_be_charged: bool = True,
    cause: str = Cause.UNUSABLE_ANSWER,
) -> Unavailable:
    """Return the error. The source may charge for an unreadable answer by default."""
    text = f"{source} {why}."
    return Unavailable(UNAVAILABLE, text, may_be_charged=may_be_charged, cause=cause)


def refused_error(source: str, why: str, cause: str = "") -> Refused:
    return Refused(REFUSED, f"{source} {why}.", cause=cause)


class Record(dict[str, Any]):
    """A JSON object of a source, whose members may be absent or malformed.

    A method that takes several keys returns the first value that is present.
    """

    # Words, in lower case, that the source writes in place of a missing value.
    absent: ClassVar[Collection[str]] = (
        *("n/a", "n.a.", "nil", "none", "null"),
        *("not available", "unknown"),
    )
    # Formats in which the source writes dates, beside 1990-01-31.
    date_formats: ClassVar[Collection[str]] = ()

    @classmethod
    def of(cls, value: Any) -> Self:
        """Return the value as a record; an empty one if it is no JSON object."""
        return cls(value) if isinstance(value, dict) else cls()

    def record(self, key: str) -> Self:
        return self.of(self.get(key))

    def entries(self, key: str) -> list[Any]:
        """Return the list of this name, or an empty one."""
        value = self.get(key)
        return value if isinstance(value, list) else []

    def records(self, key: str) -> list[Self]:
        """Return the objects of a list; skip everything else in it."""
        return [self.of(each) for each in self.entries(key) if isinstance(each, dict)]

    def names(self, key: str) -> list[str]:
        """Return the names of the objects of a list."""
        return [name for each in self.records(key) if (name := each.text("name"))]

    def text(self, *keys: str) -> str | None:
        """Return a text or number as `clean_text` writes it."""
        texts = (clean_text(self.get(key), self.absent) for key in keys)
        return next(filter(None, texts), None)

    def reference(self, key: str) -> str | None:
        """Return the source's id of its answer, at most 64 characters."""
        return (self.text(key) or "")[:64] or None

    def code(self, *keys: str) -> str | None:
        """Return a word in capitals: "converted-closed" is CONVERTED_CLOSED."""
        word = re.sub(r"\W+", "_", self.text(*keys) or "").strip("_").upper()
        return word or None

    def day(self, *keys: str) -> str | None:
        """Return `YYYY-MM-DD`, also for a text in one of `date_formats`."""
        texts = filter(None, map(self.text, keys))
        dates = (_iso_date(text, self.date_formats) for text in texts)
        return next(filter(None, dates), None)

    def lines(self, *keys: str) -> str | None:
        """Join the lines of an address; skip a line that repeats the one before."""
        lines: list[str] = []
        for key in keys:
            for each in self.entries(key) or [self.get(key)]:
                line = clean_text(each, self.absent)
                if line and line not in lines[-1:]:
                    lines.append(line)
        return ", ".join(lines) or None


def clean_text(value: Any, absent: Collection[str] = ()) -> str | None:
    """Return a text or a number as text with single spaces, at most 500 characters.

    Returns None for other types, a blank text and the words in `absent`.
    """
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        return None
    text = " ".join(str(value).split())[:500]
    return text if text and text.casefold() not in absent else None


def _iso_date(text: str, formats: Collection[str]) -> str | None:
    with suppress(ValueError, OverflowError):
        moment = datetime.fromisoformat(text)
        if moment.utcoffset() == timedelta(0):
            # Midnight in Kenya may be written as the evening before, in UTC.
            return moment.astimezone(EAST_AFRICA).date().isoformat()
    with suppress(ValueError):
        return date.fromisoformat(text[:10]).isoformat()
    day = re.sub(r" \d\d?:\d\d.*", "", text)
    for form in formats:
        with suppress(ValueError):
            return datetime.strptime(day, form).date().isoformat()  # noqa: DTZ007
    return None


def is_signature(received: str, expected: str) -> bool:
    """Compare in constant time; the received text may hold any character."""
    return hmac.compare_digest(received.encode(errors="replace"), expected.encode())


def join_words(*words: str | None) -> str | None:
    return " ".join(filter(None, words)) or None


def upper_number(value: Any) -> str:
    """Return the number in capitals and without spaces, as most sources expect it."""
    return re.sub(r"\s", "", str(value or "")).upper()


def national_id(subject: Subject, source: str) -> str:
    """Return the number of the subject's Kenyan ID card, or "" if there is none.

    Raises Refused for another number: the source would not find that of a passport,
    which orders of version 1.0.0 may have.
    """
    number, shape = upper_number(subject.get("idNumber")), shape_of("idNumber", "KE")
    if number and shape and not shape.fits(number):
        raise refused_error(source, "looks up the numbers of national ID cards alone")
    return number


def company_number(value: Any) -> str:
    """Return a number as Kenya's business register writes it: PVT-AB12CDE."""
    return HYPHENATED.sub(r"\1-", upper_number(value))


def plain_number(value: Any) -> str:
    """Return capitals and digits only: "C.12345" and "c 12345" are one number."""
    return re.sub(r"[\W_]", "", str(value or "")).upper()


def is_same_number(told: Any, asked: Any) -> bool:
    """Compare without leading zeros: registers that store integers drop them."""
    return plain_number(told).lstrip("0") == plain_number(asked).lstrip("0")


def printable_code(code: str) -> str:
    """Return a source's code for logs and messages, or "?" if it is no short code."""
    return code if re.fullmatch(r"\w{1,8}", code) else "?"


def unknown_code_error(
    source: str, code: str, *, may_be_charged: bool = True
) -> Unavailable:
    """Log a code that the adapter's table does not have, and make the error."""
    shown = printable_code(code)
    logger.warning("%s answered with the unknown code %s", source, shown)
    why = f"answered with code {shown}, which is not understood"
    return unavailable_error(source, why, may_be_charged=may_be_charged)
