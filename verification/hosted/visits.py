"""What one browser may see of one consent, in a signed cookie.

The cookie's path is that consent's pages, so that links in two tabs do not mix, and it
takes the token's place: the token leaves the address bar with the first answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from uuid import UUID

from django.conf import settings
from django.core.signing import BadSignature, TimestampSigner
from django.http import HttpRequest, HttpResponse

from verification.consents.models import Consent
from verification.encryption import keyed_hash

COOKIE = "visit"
SECONDS = 3600


@dataclass(frozen=True, slots=True)
class Visit:
    """`confirmed` is blank until the visitor has shown who they are."""

    consent_id: UUID
    generation: int
    confirmed: str = ""

    def confirm(self, consent: Consent) -> Visit:
        return replace(self, confirmed=_confirmation(consent))

    def is_confirmed(self, consent: Consent) -> bool:
        return self.confirmed == _confirmation(consent)


def path_of(consent_id: UUID) -> str:
    return f"/c/v/{consent_id}/"


def remember(response: HttpResponse, visit: Visit) -> None:
    value = {"generation": visit.generation, "confirmed": visit.confirmed}
    response.set_cookie(
        COOKIE,
        _signer(visit.consent_id).sign_object(value),
        max_age=SECONDS,
        path=path_of(visit.consent_id),
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )


def visit_of(request: HttpRequest, consent_id: UUID) -> Visit | None:
    """None without a cookie, or when it is forged, of another consent, or too old."""
    try:
        value = _signer(consent_id).unsign_object(
            request.COOKIES.get(COOKIE, ""), max_age=SECONDS
        )
    except BadSignature:
        return None
    return Visit(consent_id, value["generation"], value["confirmed"])


def _signer(consent_id: UUID) -> TimestampSigner:
    return TimestampSigner(salt=f"hosted.consent.{consent_id}")


def _confirmation(consent: Consent) -> str:
    # Of what was asked for: an edit of the draft to another person asks again.
    subject = consent.report.subject or {}
    known = (subject.get("dateOfBirth", ""), subject.get("idNumber", ""))
    return keyed_hash("confirmed", consent.pk, *known).hex()[:32]
