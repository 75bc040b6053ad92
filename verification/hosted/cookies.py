"""What one browser may see of one row, in a signed cookie.

The cookie's path is that row's pages, so that links in two tabs do not mix, and it
takes the token's place: the token leaves the address bar with the first answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.conf import settings
from django.core.signing import BadSignature, TimestampSigner
from django.http import HttpRequest, HttpResponse

NAME = "visit"


@dataclass(frozen=True, slots=True)
class VisitCookie:
    """Of one kind of link: its pages' path before the id, and how long a visit lasts.

    `salt` keeps a visit of one kind from being one of another.
    """

    path: str
    salt: str
    seconds: int

    def path_of(self, row: UUID) -> str:
        return f"{self.path}{row}/"

    def remember(self, response: HttpResponse, row: UUID, value: Any) -> None:
        response.set_cookie(
            NAME,
            self._signer(row).sign_object(value, compress=True),
            max_age=self.seconds,
            path=self.path_of(row),
            secure=settings.SESSION_COOKIE_SECURE,
            httponly=True,
            samesite="Lax",
        )

    def value_of(self, request: HttpRequest, row: UUID) -> Any:
        """None without a cookie, or when it is forged, of another row, or too old."""
        cookie = request.COOKIES.get(NAME, "")
        try:
            return self._signer(row).unsign_object(cookie, max_age=self.seconds)
        except BadSignature:
            return None

    def _signer(self, row: UUID) -> TimestampSigner:
        return TimestampSigner(salt=f"{self.salt}.{row}")
