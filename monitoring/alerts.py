"""Compare each run with the run before, and raise alerts.

The rule is locked while its baselines are read and moved, so each change raises one
alert, however often a run is compared. This module also holds what happens to an alert
afterwards: its event, its changes by clients, and its purge.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import orjson
from django.db import transaction
from django.utils.timezone import now

from monitoring.models import (
    Alert,
    AlertKind,
    Baseline,
    Cadence,
    Rule,
    Run,
    Severity,
    alerts_of,
    locked_rules,
)
from verification.checks.models import CheckResult, ResultStatus
from verification.db.bulk_insert import insert
from verification.documents.report import as_text, humanise_name
from verification.jobs.due_rows import execute_in_batches, sweep
from verification.jobs.queue import job
from verification.reports.models import RiskLevel
from verification.values.wire import utc_text
from webhooks.events import NewEvent, event_rows
from webhooks.models import Event
from workspaces.models import Client


def alert_body(alert: Alert) -> dict[str, Any]:
    return {
        "id": str(alert.pk),
        "kind": alert.kind,
        "title": alert.title,
        "message": alert.message,
        "severity": alert.severity,
        "read": alert.read,
        "actioned": alert.actioned,
        "reportId": str(alert.report_id),
        "changes": alert.changes,
        "createdAt": utc_text(alert.created_at),
    }


def alert_event(alert: Alert, rule: Rule) -> NewEvent:
    """Return the event `monitoring.alert.created`."""
    data = {
        "workspaceId": str(alert.workspace_id),
        "monitoringId": str(rule.pk),
        "reportId": str(alert.report_id),
        "subject": {"id": str(rule.subject_id), "type": rule.subject_type},
        "alert": alert_body(alert),
    }
    return NewEvent(
        Event.Name.MONITORING_ALERT_CREATED,
        str(alert.pk),
        alert.workspace_id,
        alert.environment,
        alert.report_id,
        data,
    )


@transaction.atomic
def edit_alert(
    client: Client, alert_id: UUID, *, read: bool | None, actioned: bool | None
) -> Alert:
    """Change an alert; None leaves a field as it is. Raises Alert.DoesNotExist."""
    alert = alerts_of(client).select_for_update(no_key=True).get(pk=alert_id)
    alert.read = alert.read if read is None else read
    alert.actioned = alert.actioned if actioned is None else actioned
    alert.save(update_fields=["read", "actioned"])
    return alert


def mark_all_read(client: Client) -> int:
    """Mark all unread alerts as read; return how many there were."""
    return alerts_of(client).filter(read=False).update(read=True)


DELETE = """
DELETE FROM monitoring_alert WHERE id IN (
    SELECT a.id FROM monitoring_alert a JOIN workspaces_workspace w
        ON w.id = a.workspace_id
    WHERE a.created_at < statement_timestamp() - w.retention_days * interval '1 day'
        -- None keeps them for less: this much is found by the index.
        AND a.created_at < statement_timestamp() - interval '1 day'
            * (SELECT min(retention_days) FROM workspaces_workspace)
    LIMIT %(limit)s FOR UPDATE OF a SKIP LOCKED
)
"""


@job
def purge_alerts() -> None:
    """Delete alerts that are older than their workspace keeps them."""
    execute_in_batches(DELETE)


logger = logging.getLogger(__name__)

BATCH_SIZE = 100
# A rule raises an alert when a check has failed in this many runs in a row. With longer
# cadences one failure suffices, as the next run is a month or more away.
FAILURES_BEFORE_ALERT = {Cadence.DAILY: 3, Cadence.WEEKLY: 2}
# Runs are compared at once. After this time the job must have been lost.
LOST_AFTER = timedelta(minutes=2)


class ComparisonFailed(Exception):
    """Some runs could not be compared; the job has compared all others."""


@job
def compare_runs(*report_ids: str) -> None:
    """Compare the runs that made these reports, and that still have their rule.

    Raises ComparisonFailed if some fail, so that the job runs again.
    """
    ids = [UUID(report_id) for report_id in report_ids]
    batches = range(0, len(ids), BATCH_SIZE)
    failed = sum(_compare_all(ids[start : start + BATCH_SIZE]) for start in batches)
    if failed:
        raise ComparisonFailed(f"{failed} of {len(ids)}")


@job
def compare_lost_runs() -> None:
    """Compare runs whose report has ended and whose job was given up or never made.

    A cancelled report makes no job.
    """
    left = Run.objects.filter(
        compared_at=None,
        created_at__lte=now() - LOST_AFTER,
        report__completed_at__lte=now() - LOST_AFTER,
    )
    sweep(left, _compare_run)


def _compare_run(run_id: UUID) -> None:
    _compare([Run.objects.values_list("report_id", flat=True).get(pk=run_id)])


def _compare_all(report_ids: Sequence[UUID]) -> int:
    """Compare runs in one transaction, or one by one; return how many failed."""
    try:
        _compare(report_ids)
    except Exception as e:
        logger.warning("%s runs compared singly: %s", len(report_ids), type(e).__name__)
        return sum(not _compare_alone(report_id) for report_id in report_ids)
    return 0


def _compare_alone(report_id: UUID) -> bool:
    try:
        _compare([report_id])
    except Exception as e:
        # The message is left out, because it may hold data about the subject.
        logger.error("run of report %s not compared: %s", report_id, type(e).__name__)
        return False
    return True


@transaction.atomic
def _compare(report_ids: Sequence[UUID]) -> None:
    held_rules = locked_rules().filter(runs__report__in=report_ids)
    rules = {rule.pk: rule for rule in held_rules}
    runs = list(
        Run.objects.select_related("report")
        .filter(report__in=report_ids, rule__in=list(rules))
        .order_by("rule_id", "number")
    )
    at = now()
    known = {
        (base.rule_id, base.check_name): base
        for base in Baseline.objects.filter(rule__in=list(rules))
    }
    results = _results(report_ids)
    moved, alerts = set(), []
    for run in runs:
        rule, changes, unanswered = rules[run.rule_id], [], []
        for result in results[run.report_id]:
            told = _compare_result(run, result, known)
            if told is None:
                continue
            moved.add((run.rule_id, result.name))
            changes += told
            base = known[run.rule_id, result.name]
            if result.status == ResultStatus.FAILED and _alerts_no_answer(rule, base):
                unanswered.append(base)
        if changes:
            alerts.append(_change_alert(rule, run, changes, at))
        if unanswered:
            alerts.append(_no_answer_alert(rule, run, unanswered, at))
    _write(alerts, [known[key] for key in moved], rules, at)
    Run.objects.filter(pk__in=[run.pk for run in runs]).update(compared_at=at)


def _results(report_ids: Sequence[UUID]) -> dict[UUID, list[CheckResult]]:
    results = defaultdict(list)
    ended = CheckResult.objects.filter(
        report__in=report_ids, status__in=[ResultStatus.COMPLETED, ResultStatus.FAILED]
    )
    for result in ended.order_by("report_id", "position"):
        # The result was erased: there is nothing to compare.
        if result.finding is not None or result.status == ResultStatus.FAILED:
            results[result.report_id].append(result)
    return results


def _compare_result(
    run: Run, result: CheckResult, known: dict[Any, Baseline]
) -> list[Change] | None:
    """Move the check's baseline and return its changes; None if a later run did."""
    key = (run.rule_id, result.name)
    base = known.setdefault(key, Baseline(rule_id=run.rule_id, check_name=result.name))
    if result.status == ResultStatus.FAILED:
        # The failure was counted before, or a later run has an answer.
        if run.number <= max(base.run_number, base.failed_number):
            return None
        base.failed_number, base.unanswered = run.number, base.unanswered + 1
        return []
    # A later run was faster, or this result was compared before.
    if base.run_number > run.number or base.result_id == result.pk:
        return None
    said = _snapshot(result)
    changes = find_changes(result.name, base.said, said) if base.said else []
    base.result_id, base.run_number, base.said = result.pk, run.number, said
    base.completed_at = result.completed_at
    # If a later run has failed, this one is a retry, and the later failure still
    # counts.
    base.unanswered = 0 if base.failed_number <= run.number else 1
    return changes


def _alerts_no_answer(rule: Rule, base: Baseline) -> bool:
    """Return whether the check has just reached the failures that raise an alert."""
    return base.unanswered == FAILURES_BEFORE_ALERT.get(Cadence(rule.cadence), 1)


def _snapshot(result: CheckResult) -> Snapshot:
    finding = result.finding or {}
    flags: dict[str, str] = {}
    for flag in finding["flags"]:
        code, severity = flag["code"], flag["severity"]
        flags[code] = higher_severity(severity, flags.get(code, severity))
    return {
        "riskLevel": result.risk_level,
        "flags": flags,
        "details": finding["details"],
    }


def _change_alert(rule: Rule, run: Run, changes: list[Change], at: datetime) -> Alert:
    order = list(Severity)
    return Alert(
        workspace_id=rule.workspace_id,
        environment=rule.environment,
        rule_id=rule.pk,
        report=run.report,
        title=title_of(changes),
        message=message_of(changes),
        severity=max((c.severity for c in changes), key=order.index),
        changes=[change.as_json() for change in changes],
        created_at=at,
    )


def _no_answer_alert(
    rule: Rule, run: Run, unanswered: list[Baseline], at: datetime
) -> Alert:
    names = [base.check_name for base in unanswered]
    runs = unanswered[0].unanswered
    times = f"{runs} runs in a row" if runs > 1 else "a run"
    return Alert(
        workspace_id=rule.workspace_id,
        environment=rule.environment,
        rule_id=rule.pk,
        report=run.report,
        kind=AlertKind.NO_ANSWER,
        title=f"{names[0] if len(names) == 1 else f'{len(names)} checks'}: no answer",
        message=" ".join(
            f"{base.check_name} could not be done in {times} and last completed "
            f"{utc_text(base.completed_at) if base.completed_at else 'never'}."
            for base in unanswered
        ),
        severity=Severity.WARNING,
        changes=[],
        created_at=at,
    )


def _write(
    alerts: list[Alert],
    moved: list[Baseline],
    rules: dict[UUID, Rule],
    at: datetime,
) -> None:
    Baseline.objects.bulk_create(
        moved,
        update_conflicts=True,
        unique_fields=["rule", "check_name"],
        update_fields=[
            "result_id",
            "run_number",
            "completed_at",
            "said",
            "unanswered",
            "failed_number",
        ],
    )
    Alert.objects.bulk_create(alerts)
    insert(event_rows([alert_event(a, rules[a.rule_id]) for a in alerts], at))


# An unknown severity counts as low.
RANKS = {RiskLevel.UNKNOWN: 0, RiskLevel.LOW: 0, RiskLevel.MEDIUM: 1, RiskLevel.HIGH: 2}
FLAG_RANKS = {"LOW": 0, "MEDIUM": 1, "HIGH": 2}
MESSAGE_LENGTH = 1000
SORT_KEYS = orjson.OPT_SORT_KEYS
DETAILS = "details."
TITLES = {"riskLevel": "risk level changed", "flags": "flags changed"}

Snapshot = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    check_name: str
    field: str
    old: Any
    new: Any
    severity: Severity

    def as_json(self) -> dict[str, Any]:
        return {
            "checkName": self.check_name,
            "field": self.field,
            "old": self.old,
            "new": self.new,
        }


def find_changes(check_name: str, old: Snapshot, new: Snapshot) -> list[Change]:
    """Return changes of risk level, flags and output fields with their severity.

    A field that only one snapshot has is left out: the definition changed, not the
    subject.
    """
    changes = []

    def add(field: str, before: Any, after: Any, severity: Severity) -> None:
        changes.append(Change(check_name, field, before, after, severity))

    before, after = old["riskLevel"], new["riskLevel"]
    if before != after:
        add("riskLevel", before, after, _level_severity(before, after))
    if old["flags"] != new["flags"]:
        severity = _flags_severity(old["flags"], new["flags"])
        add("flags", _listed(old["flags"]), _listed(new["flags"]), severity)
    for name, after in new["details"].items():
        before = old["details"].get(name)
        if name in old["details"] and _unordered(before) != _unordered(after):
            add(f"{DETAILS}{name}", before, after, Severity.INFO)
    return changes


def higher_severity(one: str, other: str) -> str:
    """Return the higher of two severities."""
    return max(one, other, key=lambda severity: FLAG_RANKS[severity])


def _listed(flags: dict[str, str]) -> list[dict[str, str]]:
    return [{"code": code, "severity": flags[code]} for code in sorted(flags)]


def _unordered(value: Any) -> Any:
    """Make lists with equal members equal, as sources return them in any order."""
    if isinstance(value, dict):
        return {name: _unordered(member) for name, member in value.items()}
    if isinstance(value, list):
        members = [_unordered(member) for member in value]
        return sorted(members, key=lambda m: orjson.dumps(m, option=SORT_KEYS))
    return value


def _level_severity(old: str, new: str) -> Severity:
    if RANKS[RiskLevel(new)] <= RANKS[RiskLevel(old)]:
        return Severity.INFO
    return Severity.CRITICAL if new == RiskLevel.HIGH else Severity.WARNING


def _flags_severity(old: dict[str, str], new: dict[str, str]) -> Severity:
    appeared = [
        severity
        for code, severity in new.items()
        if code not in old or FLAG_RANKS[severity] > FLAG_RANKS[old[code]]
    ]
    if not appeared:
        return Severity.INFO
    return Severity.CRITICAL if "HIGH" in appeared else Severity.WARNING


def title_of(changes: Sequence[Change]) -> str:
    """Return a title of at most 200 characters, without values of fields."""
    checks = list(dict.fromkeys(change.check_name for change in changes))
    if len(checks) > 1:
        return f"{len(checks)} checks changed"
    fields = {change.field for change in changes}
    told = next((title for field, title in TITLES.items() if field in fields), None)
    return f"{checks[0]}: {told or 'details changed'}"


def message_of(changes: Sequence[Change]) -> str:
    """Return a message without data about the subject, which only the changes hold."""
    checks = dict.fromkeys(change.check_name for change in changes)
    told = (
        _describe_check([c for c in changes if c.check_name == name]) for name in checks
    )
    sentences = (f"{name}: {said}." for name, said in zip(checks, told, strict=True))
    return " ".join(sentences)[:MESSAGE_LENGTH]


def describe_changes(changes: Sequence[dict[str, Any]]) -> list[dict[str, str]]:
    """Return an alert's `changes` as text for people; a missing value is blank."""
    return [
        {
            "check": change["checkName"],
            "what": humanise_name(change["field"].removeprefix(DETAILS)),
            "before": _value_text(change["field"], change["old"]),
            "now": _value_text(change["field"], change["new"]),
        }
        for change in changes
    ]


def _value_text(field: str, value: Any) -> str:
    if field != "flags":
        return as_text(value)
    return ", ".join(
        f"{flag['code'].replace('_', ' ').capitalize()} ({flag['severity'].lower()})"
        for flag in value
    )


def _describe_check(changes: Sequence[Change]) -> str:
    """Return the sentence about one check."""
    told, fields = [], []
    for change in changes:
        if change.field == "riskLevel":
            told.append(f"risk level went from {change.old} to {change.new}")
        elif change.field == "flags":
            told += _describe_flags(*map(_codes, (change.old, change.new)))
        else:
            fields.append(change.field.removeprefix(DETAILS))
    if fields:
        told.append(f"other values of {', '.join(fields)}")
    return "; ".join(told)


def _codes(flags: Sequence[dict[str, str]]) -> set[str]:
    return {flag["code"] for flag in flags}


def _describe_flags(old: set[str], new: set[str]) -> list[str]:
    appeared = [f"new flag {code}" for code in sorted(new - old)]
    gone = [f"flag {code} gone" for code in sorted(old - new)]
    return [*appeared, *gone] or ["a flag is graver or less grave"]
