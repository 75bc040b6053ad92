"""Receipts as PDF/UA documents."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.conf import settings
from django.utils import translation

from verification import pdf
from verification.consents.models import ConsentRecord
from verification.consents.notices import check_headings
from verification.consents.records import CODES
from verification.local_time import IN_FULL, in_nairobi
from verification.references.models import Reference
from verification.reports.models import Report
from verification.wire import NAIROBI, one_line

LANGUAGES = frozenset({"en", "sw"})
# Members of the evidence that are shown as they are, on one line.
SHOWN = ("purpose", "requester", "typedName", "position", "reason")
# What the subject's browser told; of a withdrawal by staff it is that of staff.
OF_BROWSER = ("address", "userAgent")


def consent_receipt_pdf(record: ConsentRecord) -> bytes:
    """Carries the exact text that was shown, or says that it was erased."""
    data = _consent_receipt(record)
    return pdf.document("consent_receipt.typ", record.created_at, data)


def reference_receipt_pdf(reference: Reference) -> bytes:
    """Of one that was answered or declined; it tells nothing of the answers."""
    at = reference.submitted_at or reference.declined_at
    if at is None:
        raise ValueError(f"{reference} was not answered")
    evidence = reference.evidence or {}
    data = {
        **_moment(at, evidence.get("language", "")),
        "number": reference.number,
        "decision": reference.status,
        "requester": reference.report.workspace.requester.name,
        **_contacts(reference.report),
    }
    return pdf.document("reference_receipt.typ", at, data)


def reference_attachments(context: dict[str, Any]) -> list[tuple[str, bytes, str]]:
    rows = Reference.objects.select_related("report__workspace")
    reference = rows.get(pk=context["referenceId"])
    name = f"{reference.number}.pdf"
    return [(name, reference_receipt_pdf(reference), "application/pdf")]


def attachments(context: dict[str, Any]) -> list[tuple[str, bytes, str]]:
    """Of the e-mail with a receipt, whose context names its record: `recordId`."""
    record = ConsentRecord.objects.select_related("report__workspace").get(
        pk=context["recordId"]
    )
    name = f"{record.number}.pdf"
    return [(name, consent_receipt_pdf(record), "application/pdf")]


def _consent_receipt(record: ConsentRecord) -> dict[str, Any]:
    evidence = record.evidence or {}
    moment = _moment(record.created_at, record.language)
    reason = evidence.get("reason")
    shown = SHOWN if record.is_by_staff else SHOWN + OF_BROWSER
    return {
        **moment,
        **dict.fromkeys(OF_BROWSER, ""),
        **{name: one_line(evidence.get(name) or "") for name in shown},
        "made": evidence.get("made") or "",
        "byStaff": record.is_by_staff,
        "number": record.number,
        "decision": record.happened,
        "reasonCode": reason if reason in CODES else "",
        "checks": check_headings(
            evidence.get("checks") or [], record.notice_version, moment["language"]
        ),
        # Who did not answer a challenge had the link, and that is all.
        "confirmedBy": (evidence.get("confirmedBy") or "LINK") if evidence else "",
        "codeSentTo": evidence.get("codeSentTo") or "",
        "codeAddress": evidence.get("codeAddress") or "",
        "linkGiven": "" if record.is_by_staff else _link_given(evidence),
        "ofClient": evidence.get("ofClient") or [],
        "report": str(record.report_id),
        **_contacts(record.report),
        "version": record.notice_version,
        "hash": bytes(record.notice_sha256 or b"").hex(),
        "erased": record.evidence is None,
        "paragraphs": (evidence.get("text") or "").splitlines(),
    }


def _link_given(evidence: dict[str, Any]) -> str:
    """ "sent", "handed" by the client, or "" where nobody answered or older records do
    not tell."""
    if not evidence.get("confirmedBy") or evidence.get("linkSentTo") is None:
        return ""
    return "sent" if evidence["linkSentTo"] else "handed"


def _contacts(report: Report) -> dict[str, str]:
    """Whom to ask by now, however old the receipt is."""
    return {
        "requesterContact": report.workspace.requester.contact,
        "operator": settings.OPERATOR_NAME,
        "operatorContact": settings.OPERATOR_CONTACT,
    }


def _moment(at: datetime, language: str) -> dict[str, Any]:
    """In this language, or English where nobody knows."""
    language = language if language in LANGUAGES else "en"
    at = at.astimezone(NAIROBI)
    with translation.override(language):
        text = in_nairobi(at, IN_FULL)
    date = {"year": at.year, "month": at.month, "day": at.day}
    return {"language": language, "at": text, "date": date}
