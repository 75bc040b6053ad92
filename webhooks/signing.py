"""Signatures of Standard Webhooks 1.0.0, with whatever secret the client chose.

The official libraries take a secret as `whsec_` and base64; to hand them any other
secret, write it as `"whsec_" + base64(secret)`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable

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
