"""Inquiries for tests of sources, and assertions about every finding."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from tests.checks.test_checks_page import FLAGS
from verification.checks.catalogue import CATALOGUE
from verification.providers.base import Finding, Inquiry, Provider

ENTRIES = {entry.name: entry for entry in CATALOGUE}


def inquiry(check: str, *, attempt: int = 1, **subject: Any) -> Inquiry:
    kind = "INDIVIDUAL" if "INDIVIDUAL" in ENTRIES[check].subject_types else "COMPANY"
    asked = {"subjectType": kind, "country": "KE", **subject}
    now = datetime.now(UTC)
    return Inquiry(check, asked, "run-1", UUID(int=1), attempt, now)


def ask(provider: Provider, asked: Inquiry) -> Finding:
    """Ask the provider, and check its finding against the check definition."""
    found = provider.ask(asked)
    entry = ENTRIES[asked.check]
    assert list(found.details) == entry.output_fields
    omitted = provider.not_told.get(asked.check, ())
    assert [found.details[name] for name in omitted] == [None] * len(omitted)
    assert found.response_digest
    assert len(found.response_digest) == 64
    for flag in found.flags:
        assert flag.severity == FLAGS[flag.code][0]
    is_absent = any(flag.code.endswith("_NOT_FOUND") for flag in found.flags)
    assert is_absent <= found.is_whole <= (found.score is not None)
    scores = [FLAGS[flag.code][1] for flag in found.flags]
    if credit_score := found.details.get("creditScore"):
        scores.append(round(100 * (900 - credit_score) / 700))
    if found.score is not None:
        assert found.score == max([5, *scores])
    return found


def codes(found: Finding) -> list[str]:
    return [flag.code for flag in found.flags]
