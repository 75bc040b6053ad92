"""A visit to a consent: what its cookie holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from uuid import UUID

from django.http import HttpRequest, HttpResponse

from verification.consents.models import Consent
from verification.encryption import keyed_hash
from verification.hosted.cookies import VisitCookie
from verification.notifications.models import Channel
from verification.ordering.telling import REACHED_AT

CONSENT = VisitCookie("/c/v/", "hosted.consent", seconds=3600)
# One more than the longest name that is taken; a cookie has 4 KB.
KEPT_LENGTH = 201


@dataclass(frozen=True, slots=True)
class Visit:
    """`confirmed` is blank until the visitor has shown who they are, and `proved` until
    they have typed the code that was sent to them. `typed` is a form that was not
    taken, to be shown again with what is wrong."""

    consent_id: UUID
    generation: int
    confirmed: str = ""
    proved: str = ""
    typed: dict[str, str] | None = None

    def confirm(self, consent: Consent) -> Visit:
        return replace(self, confirmed=_confirmation(consent), typed=None)

    def prove(self, consent: Consent, channel: str) -> Visit:
        """With the code typed that was sent to the subject by this channel."""
        return replace(self, proved=_proof(consent, channel), typed=None)

    def forget(self) -> Visit:
        return replace(self, typed=None)

    def keep(self, typed: Mapping[str, str], names: Iterable[str]) -> Visit:
        """With these members of a form, as far as a cookie can hold them."""
        return replace(self, typed={n: typed.get(n, "")[:KEPT_LENGTH] for n in names})

    def is_confirmed(self, consent: Consent) -> bool:
        return self.confirmed == _confirmation(consent)

    def proved_by(self, consent: Consent) -> str:
        """The channel that the code went to which was typed; "" if none was."""
        proofs = {_proof(consent, channel): channel for channel in REACHED_AT}
        return proofs.get(self.proved, "")


def remember(response: HttpResponse, visit: Visit) -> None:
    value = asdict(visit)
    del value["consent_id"]
    CONSENT.remember(response, visit.consent_id, value)


def visit_of(request: HttpRequest, consent_id: UUID) -> Visit | None:
    value = CONSENT.value_of(request, consent_id)
    return Visit(consent_id, **value) if value else None


def _proof(consent: Consent, channel: str) -> str:
    # Of the address: an edit of the draft to another one asks again.
    address = (consent.report.subject or {}).get(REACHED_AT[Channel(channel)], "")
    return keyed_hash("proved", consent.pk, channel, address).hex()[:32]


def _confirmation(consent: Consent) -> str:
    # Of what was asked for: an edit of the draft to another person asks again.
    subject = consent.report.subject or {}
    members = ("dateOfBirth", "idNumber", "registrationNumber", "kraPin")
    known = (subject.get(member, "") for member in members)
    return keyed_hash("confirmed", consent.pk, *known).hex()[:32]
