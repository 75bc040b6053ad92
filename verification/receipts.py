"""Receipts as PDF/UA documents: the same record gives the same bytes, everywhere."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any, Literal
from zoneinfo import ZoneInfo

import orjson
import typst
from django.conf import settings
from django.utils import translation
from django.utils.dateformat import format as formatted

from verification.consents.models import ConsentRecord

FOLDER = Path(settings.BASE_DIR) / "templates" / "pdf"
NAIROBI = ZoneInfo("Africa/Nairobi")
LANGUAGES = frozenset({"en", "sw"})
# Members of the evidence that are shown as they are.
SHOWN = ("purpose", "requester", "typedName", "reason", "address", "userAgent")


def consent_receipt_pdf(record: ConsentRecord) -> bytes:
    """Carries the exact text that was shown, or says that it was erased."""
    return _pdf("consent_receipt.typ", record.created_at, _consent_receipt(record))


def attachments(context: dict[str, Any]) -> list[tuple[str, bytes, str]]:
    """Of the e-mail with a receipt, whose context names its record: `recordId`."""
    record = ConsentRecord.objects.get(pk=context["recordId"])
    name = f"{record.number}.pdf"
    return [(name, consent_receipt_pdf(record), "application/pdf")]


def _consent_receipt(record: ConsentRecord) -> dict[str, Any]:
    evidence = record.evidence or {}
    language = record.language if record.language in LANGUAGES else "en"
    at = record.created_at.astimezone(NAIROBI)
    with translation.override(language):
        moment = f"{formatted(at, 'j F Y, H:i:s')} (UTC+3)"
    return {
        **{name: evidence.get(name) or "" for name in SHOWN},
        "number": record.number,
        "decision": record.happened,
        "language": language,
        "at": moment,
        "date": {"year": at.year, "month": at.month, "day": at.day},
        "checks": evidence.get("checks") or [],
        # Where the report knows nothing to ask for, having the link is all there was.
        "confirmedBy": (evidence.get("confirmedBy") or "LINK") if evidence else "",
        "report": str(record.report_id),
        "version": record.notice_version,
        "hash": bytes(record.notice_sha256 or b"").hex(),
        "erased": record.evidence is None,
        "paragraphs": (evidence.get("text") or "").splitlines(),
    }


def _pdf(template: str, at: datetime, receipt: dict[str, Any]) -> bytes:
    inputs = {"receipt": orjson.dumps(receipt).decode()}
    try:
        return _compiled(template, at, inputs, "ua-1")
    except typst.TypstError:
        # A name in letters that our fonts lack: the standard forbids the empty boxes
        # that stand for them, and a receipt with boxes is better than none.
        return _compiled(template, at, inputs, "1.7")


def _compiled(
    template: str,
    at: datetime,
    inputs: dict[str, str],
    standard: Literal["ua-1", "1.7"],
) -> bytes:
    # One compiler each: threads cannot share one.
    made = typst.compile(
        FOLDER / template,
        root=FOLDER,
        # Those of the system are different on every machine.
        ignore_system_fonts=True,
        format="pdf",
        sys_inputs=inputs,
        pdf_standards=standard,
        timestamp=int(at.timestamp()),
    )
    if not isinstance(made, bytes):
        raise TypeError(f"{template} did not become one document")
    return made
