"""How an adapter calls its source: JSON comes back, or the right error is raised.

    api = Api("Paystack", "https://api.paystack.co", headers={"Authorization": ...})
    answer = api.call("POST", "/refund", json={...})

An adapter that needs the bytes as they were sent or came uses the two halves of it,
`fetch` and `read`.

`Unavailable` stands for whatever may be over later: no connection, no answer in time,
statuses 408, 425, 429 and 5xx, redirects, and bodies that are not whole JSON (a login
page, a proxy's error, half an answer). `Refused` stands for the rest. A request that
changes something may have been taken although `Unavailable` is raised.

Their texts name the source, the status and at most a code out of the source's own list,
and nothing else of what was sent or received.
"""

from __future__ import annotations

import json as parser
import re
import socket
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import requests
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError

from verification.outbound import client
from verification.outbound.targets import Blocked
from verification.providers.base import Refused, Unavailable

UNAVAILABLE, REFUSED = "SOURCE_UNAVAILABLE", "SOURCE_REFUSED"
# The refusal for a subject whose country the named source does not cover.
FOREIGN = "{} cannot be asked about subjects in this country."
# Answers of the 4xx kind that another try may change.
RETRYABLE_STATUSES = {408, 425, 429}
CODE = re.compile(r"[a-z_]{1,40}")


class RequestRejected(Refused):
    """A 4xx; `answer` is its JSON, in which an adapter may find why."""

    def __init__(self, source: str, status: int, answer: Any = None) -> None:
        code = answer.get("code") if isinstance(answer, dict) else None
        known = isinstance(code, str) and CODE.fullmatch(code)
        told = f"{status} {code}" if known else str(status)
        super().__init__(REFUSED, f"{source} answered with status {told}.")
        self.status, self.answer = status, answer


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer as it came, of whatever status."""

    status: int
    body: bytes
    # Names in any case.
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        return sha256(self.body).hexdigest()

    def parsed(self) -> Any:
        """Its JSON; None where it is none."""
        try:
            return parser.loads(self.body)
        except (ValueError, RecursionError):
            return None


class Api:
    """One source's HTTP interface; threads may share it."""

    def __init__(
        self,
        source: str,
        url: str,
        *,
        opened: Collection[str] = (),
        headers: Mapping[str, str] | None = None,
        seconds: float = client.SECONDS,
    ) -> None:
        self.source, self._url = source, url.rstrip("/")
        self.session = client.create_session(opened, seconds=seconds)
        self.session.headers.update({"Accept": "application/json", **(headers or {})})

    def call(self, method: str, path: str, **sent: Any) -> Any:
        """The parsed JSON of a 2xx. Raises Unavailable, Declined or Refused."""
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
        """Whatever is answered; raises Unavailable or Refused where nothing is.

        `body` is sent as it is, and is JSON; `parts` are those of a multipart form,
        texts or what becomes JSON.
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
            # Without its cause, whose text may hold the URL with what is asked about.
            raise to_provider_error(self.source, e) from None
        return Reply(response.status_code, response.content, response.headers)

    def read(self, reply: Reply) -> Any:
        """The parsed JSON of a 2xx. Raises Unavailable or Declined."""
        status = reply.status
        if 300 <= status < 400 or status >= 500 or status in RETRYABLE_STATUSES:
            told = f"answered with status {status}"
            raise unavailable_error(self.source, told, may_be_charged=False)
        try:
            answer = parser.loads(reply.body)
        except (ValueError, RecursionError):
            told = f"answered with status {status}, and not with JSON"
            raise unavailable_error(self.source, told) from None
        if status >= 400:
            raise RequestRejected(self.source, status, answer)
        return answer


def _part(value: Any) -> tuple[None, str] | tuple[None, str, str]:
    if isinstance(value, str):
        return None, value
    return None, parser.dumps(value), "application/json"


def to_provider_error(source: str, e: BaseException) -> Unavailable | Refused:
    """What a call that ended without an answer is to its caller."""
    if isinstance(e, Blocked):
        return Refused(REFUSED, f"{source} may not be called: {e}")
    told = "could not be reached, or broke off"
    if isinstance(e, requests.Timeout):
        told = "did not answer in time"
    if isinstance(e, requests.exceptions.SSLError):
        told = "showed a certificate that is not valid for it"
    if isinstance(e, client.TooLarge):
        told = "answered with too much"
    return unavailable_error(source, told, may_be_charged=_was_sent(e))


def _was_sent(e: BaseException) -> bool:
    """Whether the question may have arrived: not where no connection was made."""
    if isinstance(e, requests.ConnectTimeout | requests.exceptions.SSLError):
        return False
    cause = e.args[0] if e.args else None
    unmade = ConnectTimeoutError | NewConnectionError | socket.gaierror
    return not isinstance(getattr(cause, "reason", cause), unmade) and not (
        isinstance(e, unmade)
    )


def unavailable_error(
    source: str, told: str, *, may_be_charged: bool = True
) -> Unavailable:
    """By default of an answer that is not understood, which may be charged."""
    text = f"{source} {told}."
    return Unavailable(UNAVAILABLE, text, may_be_charged=may_be_charged)
