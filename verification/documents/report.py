"""The PDF document of a report."""

from __future__ import annotations

import io
from typing import Any

import segno
from django.conf import settings
from django.utils.translation import override

from verification import links
from verification.checks.events import consent_status_of
from verification.checks.finding_words import (
    flag_text,
    humanise_name,
    label_of,
    summary_text,
    text_of,
)
from verification.checks.models import CheckResult, ResultStatus
from verification.checks.packages import package_of
from verification.consents.models import Consent, ConsentStatus
from verification.decisions.models import DecisionState, DecisionStatus, MakerKind
from verification.documents import pdf
from verification.reports.models import Report, ReportStatus, SubjectType
from verification.values.formats import one_line
from verification.values.local_time import format_nairobi
from workspaces.models import Environment

SHOWN_DIGITS = 4
RESULTS = {
    ResultStatus.PENDING: "Waiting",
    ResultStatus.RUNNING: "Running",
    ResultStatus.FAILED: "Not done",
    ResultStatus.CANCELLED: "Cancelled",
}
MAKERS = {
    MakerKind.MEMBER: "a member",
    MakerKind.API_KEY: "a program",
    MakerKind.POLICY: "a policy, and no person",
}
LEVELS = {"LOW": "Low risk", "MEDIUM": "Medium risk", "HIGH": "High risk"}
STATUSES = {
    ReportStatus.READY: "Complete",
    ReportStatus.PARTIAL: "In part",
    ReportStatus.FAILED: "Failed",
    ReportStatus.CANCELLED: "Cancelled",
}


def report_pdf(report: Report) -> bytes:
    """Render the report as it is now; equal states give equal bytes."""
    results = list(report.results.select_related("definition").order_by("position"))
    with override("en"):
        data = _document(report, results)
    return pdf.render_document(
        "report.typ", report.updated_at, data, qr=_qr(data["genuine"])
    )


def _document(report: Report, results: list[CheckResult]) -> dict[str, Any]:
    ended = report.completed_at
    return {
        "operator": settings.OPERATOR_NAME,
        "number": report.number,
        "requester": report.workspace.requester.name,
        "ordered": format_nairobi(report.created_at),
        "ended": f"Completed {format_nairobi(ended)}" if ended else "Not completed yet",
        "sandbox": report.environment == Environment.SANDBOX,
        "subject": one_line(report.subject_name),
        "about": _about(report),
        "cards": _cards(report, results),
        "checks": [_check(result, report) for result in results],
        "disputed": any(result.disputed_at for result in results),
        "decision": _decision(report),
        "consent": _consent(report),
        "timeline": _timeline(report),
        "genuine": links.genuine_url(report.pk),
    }


def _about(report: Report) -> str:
    """Describe the subject, with its ID number masked."""
    subject = report.subject
    if subject is None:
        return "The subject's details were erased."
    is_person = report.subject_type == SubjectType.INDIVIDUAL
    number = subject.get("idNumber") or ""
    parts = [
        "Person" if is_person else "Company",
        f"ID number {_masked(number)}" if number else "",
        f"Registration number {subject['registrationNumber']}"
        if subject.get("registrationNumber")
        else "",
        f"Born {subject['dateOfBirth']}" if subject.get("dateOfBirth") else "",
        f"Country {report.country}",
    ]
    return " · ".join(one_line(part) for part in parts if part)


def _masked(number: str) -> str:
    return "•" * 4 + number[-SHOWN_DIGITS:] if len(number) > SHOWN_DIGITS else "••••"


def _cards(report: Report, results: list[CheckResult]) -> list[dict[str, str]]:
    completed = [r for r in results if r.status == ResultStatus.COMPLETED]
    flagged = sum(1 for r in completed if (r.finding or {}).get("flags"))
    is_complete = len(completed) == len(results)
    score = "" if report.risk_score is None else f"Score {report.risk_score} of 100"
    return [
        {
            "level": report.risk_level,
            "label": "Overall result",
            "value": LEVELS.get(report.risk_level, "No score"),
            "note": score or "No check has given a score",
        },
        {
            "level": "LOW" if is_complete else "MEDIUM",
            "label": "Checks completed",
            "value": f"{len(completed)} of {len(results)}",
            "note": STATUSES.get(ReportStatus(report.status), "On its way"),
        },
        {
            "level": "MEDIUM" if flagged else "LOW" if is_complete else "UNKNOWN",
            "label": "Checks with flags",
            "value": f"{flagged} of {len(completed)}",
            "note": "Read them below" if flagged else "Of those that are complete",
        },
    ]


def _check(result: CheckResult, report: Report) -> dict[str, Any]:
    finding = result.finding or {}
    is_done = result.status == ResultStatus.COMPLETED
    level = result.risk_level if is_done else "UNKNOWN"
    at = result.completed_at
    return {
        "name": result.definition.display_name,
        "level": level,
        "disputed": result.disputed_at is not None,
        "result": LEVELS.get(level, "No score")
        if is_done
        else RESULTS[ResultStatus(result.status)],
        "summary": summary_text(result.name, finding, result.score)
        or one_line(result.failure_message or ""),
        "at": format_nairobi(at) if at else "",
        "flags": [
            {**flag, "message": flag_text(flag)} for flag in finding.get("flags", ())
        ],
        "details": [
            [label_of(name), _masked(text) if name == "idNumber" else text]
            for name, value in (finding.get("details") or {}).items()
            if (text := text_of(value, name))
        ],
        "source": _source(finding, result, report),
    }


def _source(finding: dict[str, Any], result: CheckResult, report: Report) -> str:
    if not finding:
        return ""
    reused = " An earlier result that was still fresh." if result.reused else ""
    names = map(label_of, result.outdated_details(report.subject))
    outdated = ", ".join(names)
    if outdated:
        outdated = f" Asked before details were corrected: {outdated}."
    return f"Source: {finding['evidence']['provider']}.{reused}{outdated}"


def _decision(report: Report) -> list[list[str]]:
    """Describe the decision that counts, without the note for the client's people."""
    final = report.decisions.filter(state=DecisionState.FINAL)
    decision = final.order_by("number").last()
    if decision is None or decision.final_at is None:
        return []
    maker = MAKERS[MakerKind(decision.made_by_kind)]
    if decision.needs_second:
        maker = f"{maker}; confirmed by a member"
    return [
        ["Outcome", DecisionStatus(decision.status).label],
        *(["Reason", one_line(reason["text"])] for reason in decision.reasons),
        ["Decided", format_nairobi(decision.final_at)],
        ["By", f"{report.workspace.requester.name}: {maker}"],
    ]


def _consent(report: Report) -> list[list[str]]:
    consent: Consent | None = getattr(report, "consent", None)
    rows = [["Purpose", one_line(report.purpose)]]
    if package := package_of(report):
        rows.append(["Package", one_line(package.display_name)])
    if report.reference:
        rows.append(["Reference", one_line(report.reference)])
    if consent is None:
        text = "None of these checks needs the subject's consent."
        if consent_status_of(report) == ConsentStatus.PENDING:
            text = "The draft names none yet."
        return [*rows, ["Consent", text]]
    if consent.mode == Consent.Mode.SERVICE_HOSTED:
        text = f"{consent.status.capitalize()}, asked by {settings.OPERATOR_NAME}"
    elif consent.status == ConsentStatus.PENDING:
        text = "Not obtained yet."
    else:
        text = f"Attested by {report.workspace.requester.name}"
    rows.append(["Consent", text])
    records = report.consent_records.all()
    rows += [["Record", f"{r.number}, {format_nairobi(r.created_at)}"] for r in records]
    return rows


def _timeline(report: Report) -> list[list[str]]:
    return [
        [
            format_nairobi(change.created_at),
            f"{humanise_name(change.trigger)}: {change.target}",
            # Readers need not know which of the client's keys it was.
            change.actor.partition(" ")[0],
        ]
        for change in report.status_changes.all()
    ]


def _qr(text: str) -> str:
    image = io.BytesIO()
    segno.make(text, error="m").save(
        image, kind="svg", scale=4, border=2, dark="#0f3d3a", light="#fff"
    )
    return image.getvalue().decode()
