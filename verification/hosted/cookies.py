"""What one browser may see of one row, in a sealed cookie.

The cookie's path is that row's pages, so that links in two tabs do not mix, and it
takes the token's place: the token leaves the address bar with the first answer. Only
the service can read it: it may hold what was typed about the subject.
"""

from __future__ import annotations

import time
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson
from cryptography.exceptions import InvalidTag
from django.conf import settings
from django.http import HttpRequest, HttpResponse

from verification.encryption import UnknownKey, seal, unseal

NAME = "visit"


@dataclass(frozen=True, slots=True)
class VisitCookie:
    """Of one kind of link: its pages' path before the id, and how long a visit lasts.

    `kind` keeps a visit of one kind from being one of another.
    """

    path: str
    kind: str
    seconds: int

    def path_of(self, row: UUID) -> str:
        return f"{self.path}{row}/"

    def remember(self, response: HttpResponse, row: UUID, value: Any) -> None:
        text = zlib.compress(orjson.dumps([int(time.time()), value]))
        sealed = seal(text, column=self.kind, row=row)
        response.set_cookie(
            _name(),
            urlsafe_b64encode(sealed).decode(),
            max_age=self.seconds,
            path=self.path_of(row),
            secure=settings.SESSION_COOKIE_SECURE,
            httponly=True,
            samesite="Lax",
        )

    def value_of(self, request: HttpRequest, row: UUID) -> Any:
        """None without a cookie, or when it is forged, of another row, or too old."""
        cookie = request.COOKIES.get(_name(), "")
        try:
            sealed = urlsafe_b64decode(cookie)
            text = unseal(sealed, column=self.kind, row=row)
        except (ValueError, InvalidTag, UnknownKey):
            return None
        made_at, value = orjson.loads(zlib.decompress(text))
        return value if time.time() - made_at < self.seconds else None


def _name() -> str:
    # A browser takes this prefix from an encrypted connection alone.
    return f"__Secure-{NAME}" if settings.SESSION_COOKIE_SECURE else NAME
