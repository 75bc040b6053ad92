"""One request with its retries, for both clients."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Generic, Protocol, TypeVar

import httpx

from .errors import ConnectionFailed, Problem
from .types import Unset

T = TypeVar("T")
Part = TypeVar("Part")
# A refusal that passes by itself. The service has done nothing on 429 and 503;
# behind a 502 and a 504 of a proxy it may have.
PASSING = {429, 502, 503, 504}
UNDONE = {429, 503}
LONGEST_WAIT = 60.0
IDEMPOTENCY_KEY = "Idempotency-Key"


@dataclass(frozen=True)
class Request(Generic[T]):
    method: str
    path: str
    parse: Callable[[httpx.Response], T]
    params: Mapping[str, Any] = field(default_factory=dict)
    json: Any = None
    headers: Mapping[str, Any] = field(default_factory=dict)

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of httpx, with an idempotency key if one is possible."""
        headers = dict(self.headers)
        if IDEMPOTENCY_KEY in headers and not headers[IDEMPOTENCY_KEY]:
            headers[IDEMPOTENCY_KEY] = str(uuid.uuid4())
        return {
            "method": self.method,
            "url": self.path,
            "params": {
                name: value
                for name, value in self.params.items()
                if value is not None and not isinstance(value, Unset)
            },
            "headers": headers,
            "json": self.json,
        }

    def returning(self, part: Callable[[T], Part]) -> Request[Part]:
        """Return the same request, of whose answer only a part is needed."""

        def parse(response: httpx.Response) -> Part:
            return part(self.parse(response))

        return Request(
            self.method, self.path, parse, self.params, self.json, self.headers
        )

    @property
    def repeatable(self) -> bool:
        """Whether sending it twice does no more than sending it once."""
        return self.method in {"GET", "PUT", "DELETE"} or IDEMPOTENCY_KEY in (
            self.headers
        )


class AsyncSender(Protocol):
    async def send(self, request: Request[T]) -> T: ...


class Sender(Protocol):
    def send(self, request: Request[T]) -> T: ...


def to_json(body: Any) -> Any:
    """Return what is sent of a model, or of a dictionary of the same members."""
    if isinstance(body, Unset):
        return None
    if isinstance(body, Mapping):
        return {name: to_json(value) for name, value in body.items()}
    if isinstance(body, list | tuple):
        return [to_json(value) for value in body]
    if isinstance(body, date):
        return body.isoformat()
    return body.to_dict() if hasattr(body, "to_dict") else body


class Again(Exception):
    """The request is sent again after these seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds


class Attempts(Generic[T]):
    """The attempts at one request: what an answer or a failure leads to."""

    def __init__(self, request: Request[T], url: str, max_retries: int) -> None:
        self._request = request
        self._name = f"{request.method} {url}"
        self._left = max_retries
        self._made = 0

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Raise `Again` or `ConnectionFailed` for an answer that does not arrive."""
        try:
            yield
        except httpx.RequestError as error:
            unsent = isinstance(
                error,
                httpx.ConnectError
                | httpx.ConnectTimeout
                | httpx.PoolTimeout
                | httpx.ProxyError,
            )
            if unsent or self._request.repeatable:
                self._try_again()
            raise ConnectionFailed(
                f"{self._name}: {type(error).__name__} {error}".rstrip(),
                may_have_happened=not unsent,
            ) from error

    def read(self, response: httpx.Response) -> T:
        """Return the answer; raise `Again`, `Problem` or `ConnectionFailed`."""
        if not response.is_success:
            raise self._refusal(response)
        try:
            return self._request.parse(response)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            # A proxy has cut the answer, or has put a page of its own in its place.
            if self._request.repeatable:
                self._try_again()
            raise ConnectionFailed(
                f"{self._name}: the answer is not what the service sends "
                f"({type(error).__name__} {error})",
                may_have_happened=True,
            ) from error

    def _refusal(self, response: httpx.Response) -> Problem:
        wait = retry_after(response)
        problem = Problem(response.status_code, problem_body(response), wait)
        passes = response.status_code in PASSING and (
            response.status_code in UNDONE or self._request.repeatable
        )
        # The first attempt is still at work.
        if passes or problem.code == "idempotency-in-progress":
            self._try_again(wait)
        return problem

    def _try_again(self, seconds: float | None = None) -> None:
        if self._left <= 0 or (seconds or 0) > LONGEST_WAIT:
            return
        self._left -= 1
        longest = min(0.5 * 2**self._made, 8.0)
        self._made += 1
        raise Again((seconds or 0) + random.uniform(0, longest))  # noqa: S311


def retry_after(response: httpx.Response) -> float | None:
    """Return the seconds of `Retry-After`, which is a number or a date."""
    value = response.headers.get("Retry-After", "")
    if value.isdecimal():
        return float(value)
    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


def problem_body(response: httpx.Response) -> dict[str, Any]:
    """Return the problem, or one made of an answer that is none: that of a proxy."""
    try:
        body = response.json()
    except ValueError:
        body = None
    if isinstance(body, dict) and "code" in body:
        return body
    what = response.headers.get("Location", "") or response.text[:200]
    return {"title": response.reason_phrase, "detail": what}
