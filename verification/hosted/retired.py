"""Links that another took the place of: who opens one is told so."""

from __future__ import annotations

from verification.consents.models import RetiredLink


def retired_link(purpose: RetiredLink.Purpose, digest: bytes) -> RetiredLink | None:
    return RetiredLink.objects.filter(digest=digest, purpose=purpose).first()
