"""The card of a check: given and found values, flags and details."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from verification.checks.finding_words import (
    failure_text,
    flag_text,
    label_of,
    summary_text,
    text_of,
)
from verification.checks.models import CheckResult, ResultStatus
from verification.console.base import Text
from verification.console.charts import duration_text
from verification.reports.models import (
    NAME_PARTS,
    PaymentMode,
    Report,
    ReportStatus,
)
from verification.sources.health import availability

ICONS = {
    "IDENTITY": "fingerprint",
    "TAX": "receipt-text",
    "EMPLOYMENT": "user-round-check",
    "BUSINESS": "building-2",
    "CREDIT": "credit-card",
}
NAMES = ("fullName", "taxpayerName", "registeredName", "employeeName", "name")

# The source looked up the record by these numbers; without a record it repeats them.
NUMBERS = ("idNumber", "kraPin", "registrationNumber")
# The comparison -> the details that it compares, as they are given
COMPARISONS = {
    "nameMatch": ("fullName",),
    "dateOfBirthMatch": ("dateOfBirth",),
    "employerMatch": ("employerName",),
    "jobTitleMatch": ("jobTitle",),
    "datesMatch": ("employmentStart", "employmentEnd"),
}
# (class, icon, words) of a comparison
VERDICTS: dict[str, tuple[str, str, Promise]] = {
    "MATCH": ("good", "check", _("Same")),
    "PARTIAL_MATCH": ("part", "equal-approximately", _("Alike")),
    "NO_MATCH": ("bad", "x", _("Differs")),
}
# The details that say most; all others are folded
KEY_DETAILS = (
    "pinStatus",
    "companyStatus",
    "lifeStatus",
    "listingStatus",
    "creditScore",
    "scoreBand",
    "openAccounts",
    "nonPerformingAccounts",
    "totalBalance",
    "totalOverdue",
    "worstDaysInArrears",
    "hitCount",
)
# The sources' usual names; other names are shown unchanged.
SOURCES = {
    "companies_house": "Companies House",
    "gleif": "GLEIF",
    "kra": "KRA",
    "metropol": "Metropol CRB",
    "opensanctions": "OpenSanctions",
    "prembly": "Prembly",
    "sandbox": "Sandbox",
    "smile_id": "Smile ID",
    "smile_id_v3": "Smile ID",
}
AMOUNTS = ("totalBalance", "totalOverdue")


class Compared(NamedTuple):
    """A given value and the source's; `verdict` is None without a comparison."""

    label: str
    given: str
    found: str
    # The members of the finding's details that the row shows
    names: tuple[str, ...]
    verdict: tuple[str, str, Promise] | None


def result_context(result: CheckResult, report: Report | None = None) -> dict[str, Any]:
    """Return what a page shows of a result, in its report if that is given."""
    outdated = result.outdated_details(report.subject) if report else []
    finding = result.finding or {}
    details: dict[str, Any] = finding.get("details") or {}
    report = report or result.report
    subject = report.subject or {}
    # Other payers get back a part of their payment, which the page shows.
    is_unpaid = report.payment_mode == PaymentMode.SELF and result.status in {
        ResultStatus.FAILED,
        ResultStatus.CANCELLED,
    }
    compared = list(_compare(details, result.inputs or subject))
    shown = {*COMPARISONS}.union(*(row.names for row in compared))
    rest = {name: value for name, value in details.items() if name not in shown}
    source = (finding.get("evidence") or {}).get("provider", "")
    return {
        "name": result.definition.title,
        "icon": ICONS.get(result.definition.category, "shield-check"),
        "status": result.status,
        "is_disputed": result.disputed_at is not None,
        "is_done": result.status == ResultStatus.COMPLETED,
        # Of an erased report it has none.
        "has_finding": bool(finding),
        "level": result.risk_level,
        "score": result.score,
        "summary": summary_text(result.name, finding, result.score)
        or failure_text(result.failure_code, result.failure_message),
        "failure": result.failure_code,
        "flags": [
            {**flag, "message": flag_text(flag)} for flag in finding.get("flags") or ()
        ],
        "compared": compared,
        "key_details": [
            (label_of(name), _amount(rest, name) or text_of(rest[name], name))
            for name in KEY_DETAILS
            if text_of(rest.get(name), name)
        ],
        "details": [
            (label_of(name), texts)
            for name, value in rest.items()
            if name not in KEY_DETAILS and (texts := _texts(value, name))
        ],
        "source": SOURCES.get(source, source),
        "price": result.price,
        "is_unpaid": is_unpaid,
        # A cancelled draft was never charged.
        "refunded": is_unpaid and report.launched_at is not None,
        "reused": result.reused,
        "seconds": round((result.duration_ms or 0) / 1000, 1),
        "outdated": ", ".join(map(label_of, outdated)),
        "at": result.answered_at,
        "wait": _wait_text(result, report),
    }


def _wait_text(result: CheckResult, report: Report) -> Text:
    """Return how soon the answer of a check that runs comes, as far as known."""
    is_running = report.status in {ReportStatus.RUNNING, ReportStatus.PARTIAL}
    if result.completed_at or not is_running:
        return ""
    state, health = availability(result.name, report.environment, report.country)
    if result.tries or state == "UNAVAILABLE":
        return _("The source does not answer at present, and is asked again.")
    if not health.slow_ms:
        return ""
    slow = timedelta(milliseconds=health.slow_ms)
    return _("Most answers come within %(time)s.") % {"time": duration_text(slow)}


def _compare(
    details: Mapping[str, Any], given: Mapping[str, Any]
) -> Iterator[Compared]:
    """Yield the rows of the table, if the source has compared a value."""
    if not any(name in details for name in COMPARISONS):
        return
    found_name = next((details[one] for one in NAMES if details.get(one)), None)
    for name in NUMBERS:
        if given.get(name) and name in details:
            has = details[name] if found_name else None
            same = has is not None and _plain(has) == _plain(given[name])
            yield _row((name,), given[name], has, "MATCH" if same else None)
    for verdict, members in COMPARISONS.items():
        for name in members:
            names: tuple[str, ...] = (name,)
            known, has = given.get(name), details.get(name)
            if name == "fullName":
                parts = [given[part] for part in NAME_PARTS if given.get(part)]
                names, known, has = NAMES, known or " ".join(parts), found_name
            if verdict in details and (known or has):
                yield _row(names, known, has, details[verdict])


def _row(
    names: tuple[str, ...], given: Any, found: Any, verdict: str | None
) -> Compared:
    texts = text_of(given, names[0]), text_of(found, names[0])
    return Compared(label_of(names[0]), *texts, names, VERDICTS.get(verdict or ""))


def _plain(number: Any) -> str:
    return "".join(str(number).split()).upper()


def _amount(details: Mapping[str, Any], name: str) -> str:
    """Return an amount with its currency; empty for another detail."""
    value = details[name]
    if name not in AMOUNTS or not isinstance(value, int | float):
        return ""
    return f"{details.get('currency') or ''} {value:,.2f}".strip()


def _texts(value: Any, name: str) -> list[str]:
    """Return the lines of a detail: each row of a list stands on its own."""
    rows = value if isinstance(value, list) else [value]
    return [text for row in rows if (text := text_of(row, name))]
