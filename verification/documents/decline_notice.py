"""The notice of a decline as a PDF/UA document, for the person and for its proof."""

from typing import Any

from django.conf import settings
from django.utils import translation

from verification.decisions import notices
from verification.decisions.decide import successor_of
from verification.decisions.models import (
    AdverseNotice,
    Decision,
    DecisionState,
    DecisionStatus,
    NoticeFact,
    reason_text,
)
from verification.documents import pdf
from verification.values.formats import one_line
from verification.values.local_time import FULL_FORMAT, format_nairobi
from workspaces.models import Environment

# The later decision -> the state of the decline. A review decides nothing yet.
SUCCEEDED: dict[str, str] = {
    DecisionStatus.APPROVED: "APPROVED",
    DecisionStatus.DECLINED: "REPLACED",
    DecisionStatus.REVIEW: "WITHDRAWN",
}


def notice_pdf(
    notice: AdverseNotice, language: str = "en", *, proof: bool = False
) -> bytes:
    """Render the notice; `proof` adds the proof of its service, for the client."""
    with translation.override(language):
        data = _data_of(notice, language, proof=proof)
    return pdf.render_document("decline_notice.typ", notice.created_at, data)


def _data_of(notice: AdverseNotice, language: str, *, proof: bool) -> dict[str, Any]:
    report, decision = notice.report, notice.decision
    requester = report.workspace.requester
    state = state_of(decision)
    # A decline that counted after its wait keeps the time.
    waits = notice.counts_from if state in {"", DecisionState.WAITING} else None
    return {
        "language": language,
        "number": notice.number,
        "isPlay": report.environment == Environment.SANDBOX,
        "client": one_line(requester.name),
        "contact": requester.contact,
        "person": one_line((report.subject or {}).get("fullName", "")),
        "reference": one_line(report.reference or ""),
        "at": format_nairobi(decision.created_at, FULL_FORMAT),
        "state": "" if waits else state,
        "waitsUntil": format_nairobi(waits, FULL_FORMAT) if waits else "",
        "restsOnBureau": notice.rests_on_bureau,
        "isAutomated": notice.is_automated,
        "canBeReviewed": notice.can_be_reviewed and successor_of(decision) is None,
        "bureaus": [
            {
                "name": one.name,
                "contacts": ", ".join(
                    filter(None, [one.website, one.email, one.phone, one.ussd])
                ),
            }
            for one in notices.bureaus_of(notice)
        ],
        "reasons": [one_line(reason_text(reason)) for reason in decision.reasons],
        "law": notices.law(language),
        "freeCopy": notices.free_copy(language),
        "operator": settings.OPERATOR_NAME,
        "operatorContact": settings.OPERATOR_CONTACT,
        "myData": f"{settings.BASE_URL}/my-data",
        "proof": [_fact(one) for one in notice.facts.all()] if proof else None,
    }


def state_of(decision: Decision) -> str:
    """Return the present state of the decline; "" if it counts."""
    if later := successor_of(decision):
        return SUCCEEDED[later.status]
    return "" if decision.state == DecisionState.FINAL else decision.state


def _fact(fact: NoticeFact) -> dict[str, Any]:
    details = fact.details or {}
    return {
        "kind": fact.kind,
        "at": format_nairobi(fact.at, FULL_FORMAT),
        "channel": fact.channel,
        "address": details.get("address", ""),
        "by": one_line(details.get("by", "")),
        "on": details.get("on", ""),
        "error": fact.error,
    }
