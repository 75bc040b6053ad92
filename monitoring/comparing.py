"""Comparing what a run found with what the run before it did, and saying what changed.

The rule is locked while its baselines are read and moved, so that the same change is
told once, however often and by whomever it is compared.
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

from monitoring.changes import (
    Change,
    Said,
    differences,
    graver,
    message_of,
    title_of,
)
from monitoring.events import alert_event
from monitoring.models import Alert, Baseline, Rule, Run, Severity
from monitoring.pausing import held
from verification.checks.models import CheckResult, ResultStatus
from verification.jobs.sweeping import sweep
from verification.tables import insert
from webhooks.events import event_rows

logger = logging.getLogger(__name__)

AT_ONCE = 100
# A job compares at once; what is left after so long was left by one that died.
SWEPT_AFTER = timedelta(minutes=2)


class NotCompared(Exception):
    """Some runs could not be compared; all others of the job were."""


def compare(report_ids: Sequence[UUID]) -> None:
    """Compare the runs that made these reports, and that still have their rule.

    Raises NotCompared, so that the job is tried again for those.
    """
    failed = 0
    for start in range(0, len(report_ids), AT_ONCE):
        failed += _compare_all(report_ids[start : start + AT_ONCE])
    if failed:
        raise NotCompared(f"{failed} of {len(report_ids)}")


def compare_left() -> None:
    """Those whose report has ended and whose job was given up, or had nothing to end
    with: the report was cancelled."""
    left = Run.objects.filter(
        compared_at=None,
        created_at__lte=now() - SWEPT_AFTER,
        report__completed_at__lte=now() - SWEPT_AFTER,
    )
    sweep(left, _compare_run)


def _compare_run(run_id: UUID) -> None:
    _compare([Run.objects.values_list("report_id", flat=True).get(pk=run_id)])


def _compare_all(report_ids: Sequence[UUID]) -> int:
    """Together, or each alone where that fails; how many failed."""
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
        # The message may hold what the source said of the subject.
        logger.error("run of report %s not compared: %s", report_id, type(e).__name__)
        return False
    return True


@transaction.atomic
def _compare(report_ids: Sequence[UUID]) -> None:
    held_rules = held().filter(runs__report__in=report_ids)
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
        changes = []
        for result in results[run.report_id]:
            if (told := _compare_result(run, result, known)) is not None:
                moved.add((run.rule_id, result.name))
                changes += told
        if changes:
            alerts.append(_alert(rules[run.rule_id], run, changes, at))
    _write(alerts, [known[key] for key in moved], rules, at)
    Run.objects.filter(pk__in=[run.pk for run in runs]).update(compared_at=at)


def _results(report_ids: Sequence[UUID]) -> dict[UUID, list[CheckResult]]:
    results = defaultdict(list)
    completed = CheckResult.objects.filter(
        report__in=report_ids, status=ResultStatus.COMPLETED
    )
    for result in completed.order_by("report_id", "position"):
        # Erased meanwhile: there is nothing to compare.
        if result.finding is not None:
            results[result.report_id].append(result)
    return results


def _compare_result(
    run: Run, result: CheckResult, known: dict[Any, Baseline]
) -> list[Change] | None:
    """What is new in it, its baseline moved on; None where it is no later one."""
    key, said = (run.rule_id, result.name), _said(result)
    base = known.get(key)
    if base is None:
        known[key] = Baseline(
            rule_id=run.rule_id,
            check_name=result.name,
            result_id=result.pk,
            run_number=run.number,
            said=said,
        )
        return []
    # A later run was faster, or this result was compared before.
    if base.run_number > run.number or base.result_id == result.pk:
        return None
    changes = differences(result.name, base.said, said)
    base.result_id, base.run_number, base.said = result.pk, run.number, said
    return changes


def _said(result: CheckResult) -> Said:
    finding = result.finding or {}
    flags: dict[str, str] = {}
    for flag in finding["flags"]:
        code, severity = flag["code"], flag["severity"]
        flags[code] = graver(severity, flags.get(code, severity))
    return {
        "riskLevel": result.risk_level,
        "flags": flags,
        "details": finding["details"],
    }


def _alert(rule: Rule, run: Run, changes: list[Change], at: datetime) -> Alert:
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
        update_fields=["result_id", "run_number", "said"],
    )
    Alert.objects.bulk_create(alerts)
    insert(event_rows([alert_event(a, rules[a.rule_id]) for a in alerts], at))
