"""What one browser may see of one consent, in a signed cookie.

The cookie's path is that consent's pages, so that links in two tabs do not mix, and it
takes the token's place: the token leaves the address bar with the first answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from uuid import UUID

from django.conf import settings
from django.core.signing import BadSignature, TimestampSigner
from django.http import HttpRequest, HttpResponse

from verification.consents.models import Consent
from verification.encryption import keyed_hash

COOKIE = "visit"
SECONDS = 3600
# One more than the longest name that is taken; a cookie has 4 KB.
KEPT_LENGTH = 201


@dataclass(frozen=True, slots=True)
class Visit:
    """`confirmed` is blank until the visitor has shown who they are; `typed` is a form
    that was not taken, to be shown again with what is wrong."""

    consent_id: UUID
    generation: int
    confirmed: str = ""
    typed: dict[str, str] | None = None

    def confirm(self, consent: Consent) -> Visit:
        return replace(self, confirmed=_confirmation(consent), typed=None)

    def forget(self) -> Visit:
        return replace(self, typed=None)

    def keep(self, typed: Mapping[str, str], names: Iterable[str]) -> Visit:
        """With these members of a form, as far as a cookie can hold them."""
        return replace(self, typed={n: typed.get(n, "")[:KEPT_LENGTH] for n in names})

    def is_confirmed(self, consent: Consent) -> bool:
        return self.confirmed == _confirmation(consent)


def path_of(consent_id: UUID) -> str:
    return f"/c/v/{consent_id}/"


def remember(response: HttpResponse, visit: Visit) -> None:
    value = asdict(visit)
    del value["consent_id"]
    response.set_cookie(
        COOKIE,
        _signer(visit.consent_id).sign_object(value, compress=True),
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
    return Visit(consent_id, **value)


def _signer(consent_id: UUID) -> TimestampSigner:
    return TimestampSigner(salt=f"hosted.consent.{consent_id}")


def _confirmation(consent: Consent) -> str:
    # Of what was asked for: an edit of the draft to another person asks again.
    subject = consent.report.subject or {}
    known = (subject.get("dateOfBirth", ""), subject.get("idNumber", ""))
    return keyed_hash("confirmed", consent.pk, *known).hex()[:32]
