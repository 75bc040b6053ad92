"""Signatures of Standard Webhooks 1.0.0, with whatever secret the client chose.

The official libraries take a secret as `whsec_` and base64; to hand them any other
secret, write it as `"whsec_" + base64(secret)`.

What is sent to receivers, and what came of it.
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
    """What is base64 after `whsec_`; the bytes of any other secret as it stands.

    A secret that begins with `whsec_` and is not strict base64 of 24 to 64 bytes is a
    ValueError: the libraries would decode it one way or another.
    """
    if not secret.startswith(PREFIX):
        return secret.encode()
    encoded = secret.removeprefix(PREFIX)
    try:
        key = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        key = b""
    # Encoded again because trailing bits and padding are not looked at in decoding.
    if len(key) not in KEY_BYTES or base64.b64encode(key).decode() != encoded:
        raise ValueError("after whsec_ there must be base64 of 24 to 64 bytes")
    return key


def sign(secrets: Iterable[str], id: str, timestamp: int, body: bytes) -> str:
    """The `webhook-signature` header: one signature a secret, in their order.

    `id` is the event's, `timestamp` the attempt's in Unix seconds.
    """
    content = b"%s.%d.%s" % (id.encode(), timestamp, body)
    return " ".join(f"v1,{_signature(signing_key(s), content)}" for s in secrets)


def _signature(key: bytes, content: bytes) -> str:
    return base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode()


logger = logging.getLogger(__name__)

Error = Attempt.Error

MAX_STORED_BYTES = 1024

# The first that fits. What is not listed was not expected.
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
    """`lane` names the receiver: so many letters of a lane are under way at once.

    `sign` makes further headers of the moment at which the letter is sent.
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
    """What came of one letter.

    `error` is blank or an `Attempt.Error`; with BROKEN and TIMED_OUT there may be a
    `status_code` all the same, of a 2xx whose body did not come to its end. `text` is
    the first 1 KiB of the body, `retry_after` the seconds the receiver asked for.
    """

    status_code: int | None
    error: str
    text: str
    duration_ms: int
    retry_after: float | None
    # None where nothing was sent.
    started_at: datetime | None = None

    @property
    def is_acknowledgement(self) -> bool:
        """Any 2xx, whole and in time."""
        return not self.error and 200 <= (self.status_code or 0) < 300


@dataclass(slots=True)
class RequestProgress:
    """How far a request got."""

    started: float = field(default_factory=time.monotonic)
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    transport: asyncio.Transport | None = None
    socket: TransportSocket | None = None
    reused: bool = False
    status_code: int | None = None
    retry_after: float | None = None
    body: bytearray = field(default_factory=bytearray)

    def abort_closing(self) -> None:
        """End the connection now, if it is not kept for the next request.

        Closing by the rules waits 30 s for the receiver, who need not take part. A TLS
        transport that was closed twice takes no `abort`: its socket is shut down.
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
            # A refusal counts without the rest of its body.
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
    """Retry-After as seconds from now, whether it was seconds or a date."""
    if re.fullmatch(r"[0-9]{1,9}", retry_after):
        return float(retry_after)
    try:
        date = parsedate_to_datetime(retry_after)
        # Without a zone it is UTC (RFC 5322, "-0000").
        at = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return max(0.0, at - time.time())
