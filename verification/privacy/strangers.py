"""Findings about somebody else, whose number was typed by mistake.

The client sees such a finding, as it says that the number is not the subject's. The
subject sees that the number belongs to somebody else, and can dispute it, but not whose
it is and what the source says about them. After an erasure of the holder, only the
subject's view of the finding stays.
"""

from collections.abc import Collection
from typing import Any
from uuid import UUID

from monitoring.alerts import snapshot_of
from monitoring.models import Alert, Baseline
from verification.checks.models import CheckResult
from verification.db.base import run_sql
from verification.decisions.findings import (
    MISMATCH,
    numbers_asked,
    strangers_results,
)
from verification.privacy.personal_data import KEEP_COUNTS
from verification.reports.models import Report, Subject, subject_id
from verification.sources.models import Call
from webhooks.models import Attempt, Event

SUMMARY = "This number belongs to somebody else, whose details we do not show."


def without_stranger(finding: dict[str, Any]) -> dict[str, Any]:
    """Return the finding without the details of the holder of the number."""
    evidence = finding.get("evidence") or {}
    flags = finding.get("flags") or ()
    return {
        **finding,
        "summary": SUMMARY,
        "details": {"nameMatch": "NO_MATCH"},
        "flags": [flag for flag in flags if flag["code"] == MISMATCH],
        "evidence": {**evidence, "providerReference": None},
    }


def erase_holder(report: Report, subject_ids: Collection[UUID]) -> int:
    """Erase what the findings of a locked report say about the holder of a number.

    Results that a correction has replaced are among them, and so are copies in events,
    baselines and alerts. The caller has locked the rule of a run, too. Returns how many
    findings.
    """
    results = CheckResult.every.filter(report=report, finding__isnull=False)
    every = list(results.select_related("definition"))
    theirs = strangers_results(every, report)
    found = []
    for result in every:
        if result.pk in theirs and not _ids(result, report).isdisjoint(subject_ids):
            left = without_stranger(result.finding or {})
            if result.finding != left:
                result.finding, result.question = left, None
                result.save(update_fields=["finding", "question"])
                found.append(result)
    Call.objects.filter(result__in=found).update(answer=None)
    if found:
        _erase_copies(report, found)
    return len(found)


def _erase_copies(report: Report, found: Collection[CheckResult]) -> None:
    """Erase the former findings from events, baselines and alerts of the report."""
    ids, names = {str(one.pk) for one in found}, {one.name for one in found}
    events = Event.objects.filter(report_id=report.pk, name=Event.Name.CHECK_COMPLETED)
    told = [one.pk for one in events if (one.payload or {}).get("checkResultId") in ids]
    Event.objects.filter(pk__in=told).update(payload=None)
    Attempt.objects.filter(delivery__event__in=told).update(answer=None)
    for result in found:
        for baseline in Baseline.objects.filter(result_id=result.pk):
            baseline.said = snapshot_of(result)
            baseline.save(update_fields=["said"])
    alerts = Alert.objects.filter(report=report)
    quoting = [
        alert.pk
        for alert in alerts
        if names & {change["checkName"] for change in alert.changes}
    ]
    run_sql(KEEP_COUNTS, {"reports": [], "alerts": quoting})
    alerts.filter(pk__in=quoting).delete()


def _ids(result: CheckResult, report: Report) -> set[UUID]:
    """Return the ids that the numbers make with which the check asked."""
    subject = report.subject or {}
    kind = {name: subject[name] for name in ("subjectType", "country")}
    scope = report.workspace_id, report.environment
    return {
        subject_id(*scope, identity)
        for name, value in numbers_asked(result, report)
        for identity in Subject({**kind, name: value}).numbers()
    }
