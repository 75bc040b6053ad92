"""One request with its retries, for both clients."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Generic, Protocol, TypeVar

import httpx

from .errors import ConnectionFailed, Problem
from .types import Unset

T = TypeVar("T")
Part = TypeVar("Part")
# Refusals that end by themselves
PASSING = {429, 502, 503, 504}
UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)
LONGEST_WAIT = 60.0
IDEMPOTENCY_KEY = "Idempotency-Key"
IDEMPOTENT = {"GET", "PUT", "DELETE"}


@dataclass(frozen=True)
class Request(Generic[T]):
    method: str
    path: str
    parse: Callable[[httpx.Response], T]
    params: Mapping[str, Any] = field(default_factory=dict)
    json: Any = None
    headers: Mapping[str, Any] = field(default_factory=dict)

    def returning(self, part: Callable[[T], Part]) -> Request[Part]:
        """Return the same request, which returns a part of the answer."""

        def parse(response: httpx.Response) -> Part:
            return part(self.parse(response))

        return Request(
            self.method, self.path, parse, self.params, self.json, self.headers
        )

    def read(self, response: httpx.Response) -> T:
        """Return the answer; raise `Problem`, or `ConnectionFailed` if it is none."""
        if not response.is_success:
            raise Problem(
                response.status_code, problem_body(response), retry_after(response)
            )
        try:
            return self.parse(response)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            # A proxy has cut the answer, or has replaced it by a page of its own.
            raise ConnectionFailed(
                f"{self.method} {self.path}: the answer is not what the service "
                f"sends ({type(error).__name__} {error})",
                may_have_happened=True,
            ) from error

    def is_deleted(self, failure: ConnectionFailed | Problem) -> bool:
        """Return whether an earlier attempt has deleted what this one did not find.

        An erasure leaves its report, so a 404 is an error there.
        """
        return (
            self.method == "DELETE"
            and not self.path.endswith("/subject")
            and isinstance(failure, Problem)
            and failure.status == 404
            and failure.code != ""
        )

    def pause(self, failure: ConnectionFailed | Problem, attempt: int) -> float | None:
        """Return the seconds until the next attempt, or None if there must be none."""
        repeatable = IDEMPOTENCY_KEY in self.headers or self.method in IDEMPOTENT
        again = repeatable or not failure.may_have_happened
        wait = 0.0
        if isinstance(failure, Problem):
            wait = failure.retry_after or 0.0
            # With this code the service is still carrying out the first attempt.
            running = failure.code == "idempotency-in-progress"
            again = again and (running or failure.status in PASSING)
        if wait > LONGEST_WAIT or not again:
            return None
        return wait + random.uniform(0, min(0.5 * 2**attempt, 8.0))  # noqa: S311


class AsyncSender(Protocol):
    async def send(self, request: Request[T]) -> T: ...


class Sender(Protocol):
    def send(self, request: Request[T]) -> T: ...


def to_json(body: Any) -> Any:
    """Return the JSON of a model, or of a dictionary with the same members."""
    if isinstance(body, Unset):
        return None
    if isinstance(body, Mapping):
        return {name: to_json(value) for name, value in body.items()}
    if isinstance(body, list | tuple):
        return [to_json(value) for value in body]
    if isinstance(body, date):
        return body.isoformat()
    return body.to_dict() if hasattr(body, "to_dict") else body


def retry_after(response: httpx.Response) -> float | None:
    """Return the seconds of `Retry-After`, which is a number or a date."""
    value = response.headers.get("Retry-After", "")
    if value.isdecimal():
        return float(value)
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


def problem_body(response: httpx.Response) -> dict[str, Any]:
    """Return the problem, or one made of a proxy's answer, which has none."""
    try:
        body = response.json()
    except ValueError:
        body = None
    if isinstance(body, dict) and "code" in body:
        return body
    what = response.headers.get("Location", "") or response.text[:200]
    return {"title": response.reason_phrase, "detail": what}
