"""The PDF document of a report."""

import io
from collections import Counter
from datetime import datetime
from typing import Any

import segno
from django.conf import settings
from django.utils.translation import override

from verification import links
from verification.checks.events import consent_status_of
from verification.checks.finding_words import (
    SEVERITIES,
    failure_text,
    flag_text,
    humanise_name,
    label_of,
    summary_text,
    text_of,
)
from verification.checks.models import CheckResult, ResultStatus
from verification.checks.packages import package_of
from verification.consents.models import Consent, ConsentStatus
from verification.decisions.models import DecisionState, reason_text
from verification.documents import pdf
from verification.reports.models import Report, SubjectType
from verification.values.formats import one_line
from verification.values.local_time import format_nairobi
from workspaces.models import Environment

SHOWN_DIGITS = 4


def report_pdf(report: Report, language: str = "en") -> bytes:
    """Render the report as it is now; equal states give equal bytes."""
    results = list(report.results.select_related("definition").order_by("position"))
    with override(language):
        data = {"language": language, **_document(report, results)}
    return pdf.render_document(
        "report.typ", report.updated_at, data, qr=_qr(data["genuine"])
    )


def _document(report: Report, results: list[CheckResult]) -> dict[str, Any]:
    completed = [r for r in results if r.status == ResultStatus.COMPLETED]
    package = package_of(report)
    return {
        "operator": settings.OPERATOR_NAME,
        "number": report.number,
        "requester": report.workspace.requester.name,
        "ordered": format_nairobi(report.created_at),
        "completed": _time(report.completed_at),
        "sandbox": report.environment == Environment.SANDBOX,
        "subject": one_line(report.subject_name),
        "about": _about(report),
        "risk": [report.risk_level, report.risk_score],
        "worst": _worst(report, completed),
        "status": report.status,
        "done": len(completed),
        "flags": _flags(completed),
        "checks": [_check(result, report) for result in results],
        "restricted": report.restricted_at is not None,
        "disputed": any(result.disputed_at for result in results),
        "decision": _decision(report),
        "purpose": one_line(report.purpose),
        "package": one_line(package.display_name) if package else "",
        "reference": one_line(report.reference or ""),
        "consent": _consent(report),
        "timeline": _timeline(report),
        "genuine": links.genuine_url(report.pk),
    }


def _time(moment: datetime | None) -> str:
    return format_nairobi(moment) if moment else ""


def _about(report: Report) -> str:
    """Describe the subject, with its ID number masked; empty if it was erased."""
    subject = report.subject
    if subject is None:
        return ""
    shown = {
        "idNumber": _masked(subject.get("idNumber") or ""),
        "registrationNumber": subject.get("registrationNumber"),
        "dateOfBirth": subject.get("dateOfBirth"),
        "country": report.country,
    }
    if report.subject_type == SubjectType.COMPANY and not subject.get("idNumber"):
        del shown["idNumber"]
    parts = [f"{label_of(k)} {text_of(v, k)}" for k, v in shown.items() if v]
    return " · ".join([text_of(report.subject_type), *parts])


def _masked(number: str) -> str:
    return "•" * 4 + number[-SHOWN_DIGITS:] if len(number) > SHOWN_DIGITS else "••••"


def _worst(report: Report, completed: list[CheckResult]) -> str:
    """Return the name of the check that gives the report its score."""
    named = (r for r in completed if r.score == report.risk_score)
    return next((r.definition.title for r in named), "")


def _flags(completed: list[CheckResult]) -> list[tuple[str, int]]:
    """Count the flags of each severity, the worst first."""
    counts = Counter(
        flag["severity"]
        for r in completed
        for flag in (r.finding or {}).get("flags", ())
    )
    return [(one, counts[one]) for one in reversed(SEVERITIES) if counts[one]]


def _check(result: CheckResult, report: Report) -> dict[str, Any]:
    finding = result.finding or {}
    is_done = result.status == ResultStatus.COMPLETED
    names = map(label_of, result.outdated_details(report.subject) if finding else ())
    return {
        "name": result.definition.title,
        "state": result.status,
        "level": result.risk_level if is_done else "UNKNOWN",
        "score": result.score if is_done else None,
        "disputed": result.disputed_at is not None,
        "summary": summary_text(result.name, finding, result.score)
        or failure_text(result.failure_code, result.failure_message),
        "flags": [
            {"severity": flag["severity"], "message": flag_text(flag)}
            for flag in sorted(finding.get("flags", ()), key=_rank)
        ],
        "details": [
            [label_of(name), _masked(text) if name == "idNumber" else text]
            for name, value in (finding.get("details") or {}).items()
            if (text := _lines_of(value, name))
        ],
        "source": finding["evidence"]["provider"] if finding else "",
        "at": _time(result.answered_at) if is_done else "",
        "reused": bool(finding) and result.reused,
        "outdated": ", ".join(names),
    }


def _rank(flag: dict[str, Any]) -> int:
    return -SEVERITIES.index(flag["severity"])


def _lines_of(value: Any, name: str) -> str:
    """Return the value for people, with a line for each record of a list."""
    is_list = isinstance(value, list) and any(isinstance(one, dict) for one in value)
    texts = [text_of(one, name) for one in (value if is_list else [value])]
    return "\n".join(filter(None, texts))


def _decision(report: Report) -> dict[str, Any]:
    """Describe the decision that counts, without the note for the client's people."""
    final = report.decisions.filter(state=DecisionState.FINAL)
    decision = final.order_by("number").last()
    if decision is None or decision.final_at is None:
        return {"status": "none", "at": ""}
    return {
        "status": decision.status,
        "reasons": [one_line(reason_text(reason)) for reason in decision.reasons],
        "at": format_nairobi(decision.final_at),
        "maker": decision.made_by_kind,
        "second": decision.needs_second,
    }


def _consent(report: Report) -> dict[str, Any]:
    consent: Consent | None = getattr(report, "consent", None)
    status, mode, by = consent_status_of(report), "none", ""
    if consent is None:
        mode = "draft" if status == ConsentStatus.PENDING else "none"
    elif consent.mode == Consent.Mode.SERVICE_HOSTED:
        mode, by = "HOSTED", settings.OPERATOR_NAME
    elif status == ConsentStatus.PENDING:
        mode = "open"
    else:
        mode, by = "ATTESTED", report.workspace.requester.name
    records = report.consent_records.all()
    return {
        "status": status,
        "mode": mode,
        "by": by,
        "records": [[r.number, format_nairobi(r.created_at)] for r in records],
    }


def _timeline(report: Report) -> list[list[str]]:
    """Return time, status, note and actor of each change; a note changes no status."""
    return [
        [
            format_nairobi(change.created_at),
            change.target,
            humanise_name(change.trigger) if change.source == change.target else "",
            # Readers need not know which of the client's keys it was.
            change.actor.partition(" ")[0],
        ]
        for change in report.status_changes.all()
    ]


def _qr(text: str) -> str:
    image = io.BytesIO()
    segno.make(text, error="m").save(
        image, kind="svg", scale=4, border=2, dark="#13201e", light="#fff"
    )
    return image.getvalue().decode()
