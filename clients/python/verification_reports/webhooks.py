"""Verify webhooks by their signatures, as Standard Webhooks describe them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .errors import InvalidSignature
from .models import PulledEvent

TOLERANCE_SECONDS = 300
# The secret is base64 after it.
WHSEC = "whsec_"


@dataclass(frozen=True)
class Event:
    """An event. `id` is the same each time it arrives. `name` may be a new one.

    A pulled event has a `cursor`: pass it to `follow` to get the events after it.
    """

    id: str
    name: str
    timestamp: str
    data: dict[str, Any]
    cursor: str | None = None


def verify(
    body: bytes | str,
    headers: Mapping[str, str],
    secret: str | Sequence[str],
    *,
    tolerance: float = TOLERANCE_SECONDS,
) -> Event:
    """Return the event of a request to your receiver, or raise `InvalidSignature`.

    `body` is the bytes as they arrived. Give both secrets while you change yours.
    """
    # Surrogates, which stand for bytes that are no text, match no signature.
    content = (
        body.encode(errors="surrogatepass") if isinstance(body, str) else bytes(body)
    )
    named = {name.lower(): value for name, value in headers.items()}
    identity = named.get("webhook-id", "")
    sent = named.get("webhook-timestamp", "")
    signatures = named.get("webhook-signature", "").split()
    is_complete = identity and signatures and re.fullmatch("[0-9]{1,12}", sent)
    if not is_complete or not "".join([identity, *signatures]).isascii():
        raise InvalidSignature("the request has no signature of Standard Webhooks")
    if abs(time.time() - int(sent)) > tolerance:
        raise InvalidSignature("the signature is too old, or a clock is wrong")
    secrets = [secret] if isinstance(secret, str) else list(secret)
    if not secrets or "" in secrets or WHSEC in secrets:
        raise ValueError("a secret is empty: anybody could sign with it")
    expected = [sign(identity, sent, content, one).encode() for one in secrets]
    # All pairs are compared, so that the time does not show which one matched.
    matches = [
        hmac.compare_digest(one, given.encode())
        for one in expected
        for given in signatures
    ]
    if not any(matches):
        raise InvalidSignature("no signature matches")
    payload = json.loads(content)
    return Event(identity, payload["event"], payload["timestamp"], payload["data"])


def pulled(event: PulledEvent, cursor: str | None) -> Event:
    """Return a pulled event as `verify` returns one that was delivered."""
    payload = event.to_dict()
    moment = payload["timestamp"].replace("+00:00", "Z")
    return Event(event.id, payload["event"], moment, payload["data"], cursor)


def sign(identity: str, timestamp: str, body: bytes, secret: str) -> str:
    """Return the signature with one secret, as in `webhook-signature`."""
    if secret.startswith(WHSEC):
        key = base64.b64decode(secret.removeprefix(WHSEC), validate=True)
    else:
        key = secret.encode()
    content = b".".join([identity.encode(), timestamp.encode(), body])
    digest = hmac.new(key, content, hashlib.sha256).digest()
    return "v1," + base64.b64encode(digest).decode()
