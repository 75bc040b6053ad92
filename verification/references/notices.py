"""The notice that a referee reads before answering: versioned text in `texts/`.

The page shows the parts of a Notice. The evidence of the answer keeps `Notice.text`,
which is the same as plain text.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from django.conf import settings

from verification.references.models import Reference
from verification.values.wire import one_line

FOLDER = Path(__file__).parent / "texts"
VERSION = "referee-2026-11"


@dataclass(frozen=True, slots=True)
class Notice:
    """`consent` says who holds a record of the subject's consent; blank for nobody."""

    version: str
    title: str
    lead: str
    consent: str
    points: tuple[tuple[str, str], ...]
    names: tuple[str, ...]

    @property
    def text(self) -> str:
        points = (f"{heading}: {text}" for heading, text in self.points)
        return "\n".join([self.title, self.lead, self.consent, *points])

    @property
    def sha256(self) -> str:
        return sha256(self.text.encode()).hexdigest()

    @property
    def kept(self) -> dict[str, str]:
        """Its members of the evidence of an answer."""
        return {
            "noticeVersion": self.version,
            "noticeSha256": self.sha256,
            "noticeText": self.text,
        }


def notice_for(reference: Reference, consent_status: str, language: str) -> Notice:
    """Return the present notice for this reference in one of LANGUAGES."""
    source, report = _source(VERSION, language), reference.report
    subject, requester = report.subject or {}, report.workspace.requester
    operator = (settings.OPERATOR_NAME, settings.OPERATOR_CONTACT)
    contacts = [(requester.name, requester.contact), operator]
    client = one_line(requester.name)
    name, employer = (
        one_line(subject.get(k, "")) for k in ("fullName", "employerName")
    )
    values = {
        "client": client,
        "name": name,
        "employer": employer,
        "service": settings.OPERATOR_NAME,
        "purpose": one_line(report.purpose),
        "retention_days": report.workspace.retention_days,
        "contacts": "; ".join(f"{n}, {at}" for n, at in contacts if at),
    }
    points = ((p["heading"], p["text"].format(**values)) for p in source["points"])
    return Notice(
        version=VERSION,
        title=source["title"].format(**values),
        lead=source["lead"].format(**values),
        consent=source["consent"].get(consent_status, "").format(**values),
        points=tuple((heading, text) for heading, text in points if text != "."),
        names=(client, name, employer),
    )


@cache
def _source(version: str, language: str) -> dict[str, Any]:
    return tomllib.loads((FOLDER / f"{version}.{language}.toml").read_text("utf-8"))
