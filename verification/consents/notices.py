"""What a subject is told before deciding: versioned text, kept as data.

`texts/<version>.<language>.toml` holds one version in one language, in the order of the
page. The page shows the parts of a Notice and `text` is the same as plain text, so that
what is kept as evidence is what was shown.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from django.conf import settings

from verification.consents.models import Consent
from verification.reports.models import PaymentMode, Report, SubjectType
from verification.wire import one_line

FOLDER = Path(__file__).parent / "texts"
# The text of each jurisdiction (the subject's country), and of all others.
VERSIONS: dict[str, str] = {"KE": "ke-2026-11c"}
ANYWHERE = "ke-2026-11c"


@dataclass(frozen=True, slots=True)
class Point:
    heading: str
    text: str

    def __str__(self) -> str:
        return f"{self.heading}: {self.text}"


@dataclass(frozen=True, slots=True)
class Notice:
    """`paragraphs` stand in plain sight, `full` below them, collapsed. `agreement`,
    `not_me` and `withdrawal` are what the subject declares by the respective button."""

    version: str
    language: str
    timezone: str
    title: str
    lead: str
    facts: tuple[Point, ...]
    checks: tuple[Point, ...]
    paragraphs: tuple[Point, ...]
    full: tuple[Point, ...]
    agreement: str
    not_me: str
    withdrawal: str

    @property
    def text(self) -> str:
        points = (*self.facts, *self.checks, *self.paragraphs, *self.full)
        return "\n".join([self.title, self.lead, *map(str, points), self.agreement])

    @property
    def sha256(self) -> str:
        return sha256(self.text.encode()).hexdigest()


def notice_for(consent: Consent, language: str) -> Notice:
    """The present text for this consent; `language` is one of LANGUAGES."""
    report = consent.report
    version = VERSIONS.get(report.country, ANYWHERE)
    source, values = _source(version, language), _values(report)
    form = "_company" if report.subject_type == SubjectType.COMPANY else ""
    return Notice(
        version=version,
        language=language,
        timezone=source["timezone"],
        title=source[f"title{form}"].format(**values),
        lead=source["lead"].format(**values),
        facts=tuple(_facts(source["facts"], report)),
        checks=tuple(_points_of_checks(source["checks"], report.checks_requested)),
        paragraphs=_points(source["duties"], values),
        full=_points(source["full"], values),
        agreement=source[f"agreement{form}"].format(**values),
        not_me=source["not_me"].format(**values),
        withdrawal=source["withdrawal"].format(**values),
    )


def check_headings(names: Iterable[str], version: str, language: str) -> list[str]:
    """What the text of this version calls these checks. Where no text was shown (staff
    can withdraw for a subject) it is the present one."""
    if not (FOLDER / f"{version}.{language}.toml").exists():
        version = ANYWHERE
    texts = _source(version, language)["checks"]
    return [point.heading for point in _points_of_checks(texts, names)]


@cache
def _source(version: str, language: str) -> dict[str, Any]:
    return tomllib.loads((FOLDER / f"{version}.{language}.toml").read_text("utf-8"))


def _values(report: Report) -> dict[str, Any]:
    return {
        "client": report.workspace.requester.name,
        "service": settings.OPERATOR_NAME,
        "contact": settings.OPERATOR_CONTACT,
        "retention_days": report.workspace.retention_days,
    }


def _points(entries: list[dict[str, str]], values: dict[str, Any]) -> tuple[Point, ...]:
    return tuple(
        Point(entry["heading"].format(**values), entry["text"].format(**values))
        for entry in entries
        if "needs" not in entry or values[entry["needs"]]
    )


def _facts(words: dict[str, str], report: Report) -> Iterable[Point]:
    yield Point(words["why"], one_line(report.purpose))
    if report.reference:
        yield Point(words["reference"], one_line(report.reference))
    payment = getattr(report, "payment", None)
    if report.payment_mode == PaymentMode.CANDIDATE and payment and payment.amount:
        amount = f"{payment.currency} {payment.amount}"
        yield Point(words["cost"], words["priced"].format(amount=amount))
    else:
        yield Point(words["cost"], words["free"])


def _points_of_checks(
    texts: dict[str, dict[str, str]], names: Iterable[str]
) -> Iterable[Point]:
    for name in names:
        text = texts.get(name, texts["other"])
        yield Point(text["heading"].format(name=name), text["text"])
