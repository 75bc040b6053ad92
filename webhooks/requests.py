"""The requests to receivers, their signatures and their answers.

Signatures follow Standard Webhooks 1.0.0. The official libraries take a secret as
`whsec_` and base64. For a client's secret of any other form they take
`"whsec_" + base64(secret)`.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import logging
import re
import time
from asyncio.trsock import TransportSocket
from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from socket import SHUT_RDWR

import aiohttp

from verification.outbound.targets import Blocked
from webhooks.models import Attempt

PREFIX = "whsec_"
KEY_BYTES = range(24, 64 + 1)


def signing_key(secret: str) -> bytes:
    """Decode the base64 after `whsec_`, or return the bytes of any other secret.

    Raises ValueError for `whsec_` without strict base64 of 24 to 64 bytes, because the
    libraries would decode such a secret in different ways.
    """
    if not secret.startswith(PREFIX):
        return secret.encode()
    encoded = secret.removeprefix(PREFIX)
    try:
        key = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        key = b""
    # Encoded again, because decoding ignores trailing bits and padding.
    if len(key) not in KEY_BYTES or base64.b64encode(key).decode() != encoded:
        raise ValueError("after whsec_ there must be base64 of 24 to 64 bytes")
    return key


def sign(secrets: Iterable[str], id: str, timestamp: int, body: bytes) -> str:
    """Return the `webhook-signature` header: one signature for each secret, in order.

    `id` is the id of the event, `timestamp` the time of the attempt in Unix seconds.
    """
    content = b"%s.%d.%s" % (id.encode(), timestamp, body)
    return " ".join(f"v1,{_signature(signing_key(s), content)}" for s in secrets)


def _signature(key: bytes, content: bytes) -> str:
    return base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode()


logger = logging.getLogger(__name__)

Error = Attempt.Error

MAX_STORED_BYTES = 1024

# The first entry that fits counts.
ERRORS: list[tuple[type[Exception], Error]] = [
    (Blocked, Error.TARGET_BLOCKED),
    (aiohttp.ClientConnectorDNSError, Error.NAME_UNKNOWN),
    (aiohttp.ClientConnectorCertificateError, Error.NOT_TRUSTED),
    (aiohttp.ClientConnectorError, Error.NOT_CONNECTED),
    (TimeoutError, Error.TIMED_OUT),
    (aiohttp.ClientError, Error.BROKEN),
    (OSError, Error.BROKEN),
]


@dataclass(frozen=True, slots=True)
class WebhookRequest:
    """A request to a receiver.

    `lane` names the receiver: the sender limits the requests under way in each lane.
    `sign` returns further headers for the time at which the request is sent.
    """

    url: str
    body: bytes
    headers: dict[str, str]
    lane: Hashable = None
    sign: Callable[[datetime], dict[str, str]] | None = None

    def headers_at(self, moment: datetime) -> dict[str, str]:
        return self.headers | self.sign(moment) if self.sign else self.headers


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of one request.

    `error` is blank or an `Attempt.Error`. With BROKEN and TIMED_OUT `status_code` may
    be a 2xx whose body is incomplete. `text` is the first 1 KiB of the body,
    `retry_after` the receiver's Retry-After in seconds.
    """

    status_code: int | None
    error: str
    text: str
    duration_ms: int
    retry_after: float | None
    # Null if the request was not sent.
    started_at: datetime | None = None

    @property
    def is_acknowledgement(self) -> bool:
        """Any 2xx, whole and in time."""
        return not self.error and 200 <= (self.status_code or 0) < 300


@dataclass(slots=True)
class RequestProgress:
    """The progress of one request."""

    started: float = field(default_factory=time.monotonic)
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    transport: asyncio.Transport | None = None
    socket: TransportSocket | None = None
    reused: bool = False
    status_code: int | None = None
    retry_after: float | None = None
    body: bytearray = field(default_factory=bytearray)

    def abort_closing(self) -> None:
        """Abort the connection if it is closing.

        A regular close waits up to 30 s for the receiver. `abort` does not end a TLS
        transport that was closed twice, so its socket is shut down as well.
        """
        if self.transport and self.socket and self.transport.is_closing():
            self.transport.abort()
            with suppress(OSError):
                self.socket.shutdown(SHUT_RDWR)

    def answer(self, error: str) -> Answer:
        refused = self.status_code is not None and self.status_code // 100 != 2
        text = self.body[:MAX_STORED_BYTES].decode("utf-8", "replace")
        return Answer(
            status_code=self.status_code,
            # A refusal counts even if its body is incomplete.
            error="" if refused else error,
            text=text.replace("\0", "\N{REPLACEMENT CHARACTER}"),
            duration_ms=round((time.monotonic() - self.started) * 1000),
            retry_after=self.retry_after,
            started_at=self.started_at,
        )


def classify_error(e: Exception) -> Error:
    for kind, error in ERRORS:
        if isinstance(e, kind):
            return error
    # The message may hold what the receiver sent.
    logger.error("a delivery raised %s", type(e).__name__)
    return Error.BROKEN


def parse_retry_after(retry_after: str) -> float | None:
    """Return a Retry-After header, seconds or a date, as seconds from now."""
    if re.fullmatch(r"[0-9]{1,9}", retry_after):
        return float(retry_after)
    try:
        date = parsedate_to_datetime(retry_after)
        # A date without a zone is UTC (RFC 5322, "-0000").
        at = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return max(0.0, at - time.time())
