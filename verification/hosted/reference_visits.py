"""Which reference one browser opened, in a signed cookie.

The cookie's path is that reference's pages, so that links in two tabs do not mix; it
takes the token's place, which leaves the address bar with the first answer.
"""

from __future__ import annotations

from uuid import UUID

from django.conf import settings
from django.core.signing import BadSignature, TimestampSigner
from django.http import HttpRequest, HttpResponse

COOKIE = "visit"
# Longer than for subjects: a referee may have to look things up.
SECONDS = 4 * 3600


def path_of(reference_id: UUID) -> str:
    return f"/r/v/{reference_id}/"


def remember(response: HttpResponse, reference_id: UUID, generation: int) -> None:
    response.set_cookie(
        COOKIE,
        _signer(reference_id).sign_object(generation),
        max_age=SECONDS,
        path=path_of(reference_id),
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )


def generation_of(request: HttpRequest, reference_id: UUID) -> int | None:
    """The link's that was opened; None without a cookie, or when it is forged, of
    another reference, or too old."""
    cookie = request.COOKIES.get(COOKIE, "")
    try:
        return int(_signer(reference_id).unsign_object(cookie, max_age=SECONDS))
    except BadSignature:
        return None


def _signer(reference_id: UUID) -> TimestampSigner:
    return TimestampSigner(salt=f"hosted.reference.{reference_id}")
