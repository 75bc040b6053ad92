"""Compare the findings of a run with those of the run before, and raise alerts.

The rule is locked while its baselines are read and moved, so each change raises one
alert, however often a run is compared.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils.timezone import now

from monitoring.alerts import alert_event
from monitoring.changes import (
    Change,
    Snapshot,
    find_changes,
    higher_severity,
    message_of,
    title_of,
)
from monitoring.models import Alert, AlertKind, Baseline, Cadence, Rule, Run, Severity
from monitoring.pauses import locked_rules
from verification.checks.models import CheckResult, ResultStatus
from verification.db.bulk_insert import insert
from verification.jobs.batches import sweep
from verification.jobs.queue import job
from verification.values.wire import utc_text
from webhooks.events import event_rows

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
