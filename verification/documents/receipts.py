"""Receipts of consents, references and payments, as PDF/UA documents."""

from datetime import datetime
from decimal import Decimal
from typing import Any, cast

from django.conf import settings
from django.urls import reverse
from django.utils import translation
from django.utils.translation import gettext

from verification.consents.models import REASON_CODES, ConsentRecord
from verification.consents.notices import check_headings
from verification.documents import pdf
from verification.payments.models import Checkout
from verification.payments.payer_messages import receipt_of
from verification.payments.registry import LABELS
from verification.references.models import Reference
from verification.reports.models import Report, SubjectType
from verification.values.formats import one_line
from verification.values.local_time import FULL_FORMAT, format_nairobi
from workspaces.models import Environment

# The name, content and type of a file.
Attachment = tuple[str, bytes, str]
LANGUAGES = frozenset({"en", "sw"})
# Members of the evidence that the receipt shows as they are, on one line
SHOWN_MEMBERS = ("purpose", "requester", "typedName", "position", "reason")
# Members that the subject's browser sent; a receipt omits those of staff.
BROWSER_MEMBERS = ("address", "userAgent")


def consent_receipt_pdf(record: ConsentRecord) -> bytes:
    """Render the receipt with the exact notice, or a remark that it was erased."""
    data = _consent_receipt(record)
    return pdf.render_document("consent_receipt.typ", record.created_at, data)


def reference_receipt_pdf(reference: Reference) -> bytes:
    """Render the receipt of a submitted or declined reference, without its answers."""
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
    return pdf.render_document("reference_receipt.typ", at, data)


def payment_receipt_pdf(checkout: Checkout, language: str) -> bytes:
    """Render the receipt of a checkout that paid a report or topped up a balance."""
    with translation.override(language):
        data = _payment_receipt(checkout, language)
    return pdf.render_document(
        "payment_receipt.typ", cast(datetime, checkout.paid_at), data
    )


def reference_attachments(context: dict[str, Any]) -> list[Attachment]:
    """Return a reference receipt for its e-mail, whose context has `referenceId`."""
    rows = Reference.objects.select_related("report__workspace")
    reference = rows.get(pk=context["referenceId"])
    return _attachments(reference.number, reference_receipt_pdf(reference))


def consent_attachments(context: dict[str, Any]) -> list[Attachment]:
    """Return a consent receipt for its e-mail, whose context has `recordId`."""
    rows = ConsentRecord.objects.select_related("report__workspace")
    record = rows.get(pk=context["recordId"])
    return _attachments(record.number, consent_receipt_pdf(record))


def payment_attachments(context: dict[str, Any]) -> list[Attachment]:
    """Return a payment receipt for its e-mail, whose context has `checkoutId`."""
    rows = Checkout.objects.select_related("report__workspace", "account__workspace")
    checkout = rows.get(pk=context["checkoutId"])
    document = payment_receipt_pdf(checkout, checkout.language or "en")
    return _attachments(checkout.number, document)


def _attachments(number: str, document: bytes) -> list[Attachment]:
    return [(f"{number}.pdf", document, "application/pdf")]


def _consent_receipt(record: ConsentRecord) -> dict[str, Any]:
    evidence = record.evidence or {}
    moment = _moment(record.created_at, record.language)
    reason = evidence.get("reason")
    shown = SHOWN_MEMBERS if record.is_by_staff else SHOWN_MEMBERS + BROWSER_MEMBERS
    return {
        **moment,
        **dict.fromkeys(BROWSER_MEMBERS, ""),
        **{name: one_line(evidence.get(name) or "") for name in shown},
        "made": evidence.get("made") or "",
        "byStaff": record.is_by_staff,
        "number": record.number,
        "decision": record.decision,
        "reasonCode": reason if reason in REASON_CODES else "",
        "checks": check_headings(
            evidence.get("checks") or [], record.notice_version, moment["language"]
        ),
        # Without a challenge, only possession of the link confirms the subject.
        "confirmedBy": (evidence.get("confirmedBy") or "LINK") if evidence else "",
        "codeSentTo": evidence.get("codeSentTo") or "",
        "codeAddress": evidence.get("codeAddress") or "",
        "linkGiven": "" if record.is_by_staff else _link_origin(evidence),
        "ofClient": evidence.get("ofClient") or [],
        "report": record.report.number,
        # Companies have no such page.
        "myData": settings.BASE_URL + reverse("my-data")
        if record.report.subject_type == SubjectType.INDIVIDUAL
        else "",
        **_contacts(record.report),
        "version": record.notice_version,
        "hash": bytes(record.notice_sha256 or b"").hex(),
        "erased": record.evidence is None,
        "paragraphs": (evidence.get("text") or "").splitlines(),
    }


def _link_origin(evidence: dict[str, Any]) -> str:
    """Return "sent" if we sent the link, "handed" if the client passed it on.

    It is empty without an answer, and for older records, which do not say it.
    """
    if not evidence.get("confirmedBy") or evidence.get("linkSentTo") is None:
        return ""
    return "sent" if evidence["linkSentTo"] else "handed"


def _contacts(report: Report) -> dict[str, str]:
    """Return today's contacts, however old the receipt is."""
    return {
        "requesterContact": report.workspace.requester.contact,
        "operator": settings.OPERATOR_NAME,
        "operatorContact": settings.OPERATOR_CONTACT,
    }


def _moment(at: datetime, language: str) -> dict[str, Any]:
    """Format the time in this language, or in English if the language is unknown."""
    language = language if language in LANGUAGES else "en"
    with translation.override(language):
        text = format_nairobi(at, FULL_FORMAT)
    return {"language": language, "at": text}


def _payment_receipt(checkout: Checkout, language: str) -> dict[str, Any]:
    receipt = receipt_of(checkout)
    currency = checkout.paid_currency
    # Several checkouts may have paid one payment in parts.
    paid = [checkout]
    if checkout.payment_id:
        paid = list(Checkout.objects.paying(checkout.payment_id).order_by("id"))
    total = sum((one.counted_amount for one in paid), Decimal(0))
    surplus = sum((one.paid_amount or 0 for one in paid), Decimal(0)) - total
    parts = [f"{one.number}: {currency} {one.counted_amount:,.2f}" for one in paid]
    return {
        "language": language,
        "number": checkout.number,
        "at": format_nairobi(cast(datetime, checkout.paid_at), FULL_FORMAT),
        "amount": f"{currency} {total:,.2f}",
        "parts": parts if len(parts) > 1 else [],
        "surplus": f"{currency} {surplus:,.2f}" if surplus else "",
        "workspace": one_line(receipt["payer"]["name"]) if checkout.account else "",
        "requester": one_line(receipt["requester"]),
        "purpose": one_line(receipt["purpose"]),
        "reference": one_line(receipt["reference"]),
        "payee": settings.OPERATOR_NAME,
        "contact": settings.OPERATOR_CONTACT,
        "requesterContact": checkout.report.workspace.requester.contact
        if checkout.report
        else "",
        "provider": LABELS.get(checkout.provider, ""),
        "transaction": one_line(checkout.transaction),
        "report": checkout.report.number if checkout.report else "",
        "isPlay": checkout.environment == Environment.SANDBOX,
        "checks": [
            {
                "name": gettext(item["name"]),
                "price": f"{Decimal(item['price']):,.2f}",
            }
            for item in receipt["checks"]
        ],
    }
