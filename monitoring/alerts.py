"""Compare each run with the run before, and raise alerts.

The rule is locked while its baselines are read and moved, so each change raises one
alert, however often a run is compared. Alerts are edited here as well.
"""

import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

import orjson
from django.db import transaction
from django.db.models import Exists, OuterRef, Q

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
from verification.checks.catalogue import CheckName
from verification.checks.events import EventSubject
from verification.checks.finding_words import label_of, text_of
from verification.checks.models import CheckResult, ResultStatus
from verification.jobs.claims import sweep, together_or_alone
from verification.jobs.queue import job
from verification.providers.name_comparison import names_alike
from verification.providers.screening import flags_of
from verification.reports.models import RiskLevel, SubjectType
from verification.values.clock import now
from verification.values.local_time import utc_text
from verification.values.shapes import Shape, Timestamp
from webhooks.events import NewEvent, record_events
from webhooks.models import Event
from workspaces.models import Client

logger = logging.getLogger(__name__)

BATCH_SIZE = 100
# A rule raises an alert when a check has failed in this many runs in a row. At longer
# cadences one failure suffices, as the next run is a month or more away.
FAILURES_BEFORE_ALERT = {Cadence.DAILY: 3, Cadence.WEEKLY: 2}
# Runs are compared at once. After this time the job must have been lost.
LOST_AFTER = timedelta(minutes=2)
# An unknown risk level ranks as low.
LEVEL_RANKS = {
    RiskLevel.UNKNOWN: 0,
    RiskLevel.LOW: 0,
    RiskLevel.MEDIUM: 1,
    RiskLevel.HIGH: 2,
}
FLAG_RANKS = {"LOW": 0, "MEDIUM": 1, "HIGH": 2}
# Flags that only a source which tells this output field can raise.
FLAG_FIELDS = {
    "PIN_INACTIVE": "pinStatus",
    "DECEASED": "lifeStatus",
    "ADVERSE_LISTING": "listingStatus",
    "COMPANY_DISSOLVED": "companyStatus",
    "DOB_MISMATCH": "dateOfBirth",
    "NAME_MISMATCH": "nameMatch",
    "NON_PERFORMING_ACCOUNT": "nonPerformingAccounts",
}
# The flag of a result whose source hides the name; it says nothing of the subject.
NAMELESS = "NAME_NOT_COMPARED"
# Null or hidden in a result of unknown level, or in a nameless one, these fields were
# left open.
NAMES = {"fullName", "registeredName", "taxpayerName"}
LEFT_OPEN = {*FLAG_FIELDS.values(), *NAMES, "dateOfBirthMatch"}
LEFT_OPEN -= {"lifeStatus", "nonPerformingAccounts"}
LEFT_OPEN |= {"companyType", "incorporatedOn", "registeredAddress"}
LEFT_OPEN |= {"directors", "shareholders"}
# Numbers of accounts, null if the source leaves an account's status or arrears open
ACCOUNT_FIGURES = {"openAccounts", "nonPerformingAccounts", "worstDaysInArrears"}
# These fields describe the search of the lists, not the subject.
SEARCH_FIELDS = {"lists", "algorithm", "threshold"}
ALERT_RANKS = list(Severity)
TITLES = {"riskLevel": "risk level changed", "flags": "flags changed"}
MESSAGE_LENGTH = 1000
DETAILS = "details."

# The part of a finding that is compared: {riskLevel, flags: {code: severity}, details}.
Snapshot = dict[str, Any]


class AlertChange(Shape):
    check_name: CheckName
    field: str
    """riskLevel, flags (each with code and severity), or `details.` and the name of an
    output field. Members of a list in another order are no change."""
    old: Any
    new: Any


class EventAlert(Shape):
    id: UUID
    kind: AlertKind
    """CHANGE: a result changed. NO_ANSWER: a check failed in several runs in a row, so
    changes may be unnoticed; such an alert has no changes."""
    title: str
    message: str
    severity: Severity
    read: bool
    actioned: bool
    report_id: UUID
    """The report of the run that raised it."""
    reference: str | None
    """The client's own id of that report: the rule's reference when it ran."""
    changes: list[AlertChange]
    created_at: Timestamp


class AlertData(Shape):
    workspace_id: UUID
    monitoring_id: UUID
    report_id: UUID
    subject: EventSubject
    alert: EventAlert


class ComparisonFailed(Exception):
    """Some runs could not be compared; the job has compared all others."""


@dataclass(frozen=True, slots=True)
class Change:
    check_name: str
    field: str
    old: Any
    new: Any
    severity: Severity

    def as_json(self) -> dict[str, Any]:
        return AlertChange.from_row(self).model_dump(by_alias=True)


@job
def compare_runs(*report_ids: str) -> None:
    """Compare the runs of these reports. Runs of deleted rules are skipped.

    Raises ComparisonFailed if some fail, so that the job runs again.
    """
    ids = [UUID(report_id) for report_id in report_ids]
    batches = range(0, len(ids), BATCH_SIZE)
    failed = [
        one
        for start in batches
        for one in together_or_alone(
            "comparison of runs", _compare, ids[start : start + BATCH_SIZE]
        )
    ]
    if failed:
        raise ComparisonFailed(f"{len(failed)} of {len(ids)}")


@job
def compare_lost_runs() -> None:
    """Compare runs whose report has ended, but which no job has compared.

    The job failed, or there was none because the report was cancelled.
    """
    lost = Run.objects.filter(
        compared_at=None,
        created_at__lte=now() - LOST_AFTER,
        report__completed_at__lte=now() - LOST_AFTER,
    )
    report_ids = Run.objects.values_list("report_id", flat=True)
    sweep(lost, lambda run_id: _compare([report_ids.get(pk=run_id)]))


@transaction.atomic
def _compare(report_ids: Sequence[UUID]) -> None:
    rules = {
        rule.pk: rule for rule in locked_rules().filter(runs__report__in=report_ids)
    }
    # A referee may hold up the end of an earlier run, whose other checks come first.
    later = Run.objects.filter(
        rule=OuterRef("rule"), number__gt=OuterRef("number"), report__in=report_ids
    )
    uncompared = Q(report__in=report_ids) | Q(Exists(later), compared_at=None)
    runs = list(
        Run.objects.select_related("report")
        .filter(uncompared, rule__in=list(rules))
        .order_by("rule_id", "number")
    )
    at = now()
    baselines = {
        (baseline.rule_id, baseline.check_name): baseline
        for baseline in Baseline.objects.filter(rule__in=list(rules))
    }
    results = _results([run.report_id for run in runs])
    moved, alerts = set(), []
    for run in runs:
        rule, run_changes, unanswered = rules[run.rule_id], [], []
        alarming = FAILURES_BEFORE_ALERT.get(Cadence(rule.cadence), 1)
        for result in results[run.report_id]:
            asked = result.inputs or run.report.subject or {}
            if any(rule.subject.get(name) != value for name, value in asked.items()):
                # A correction has changed the rule's subject since.
                continue
            changes = _move_baseline(run, result, baselines)
            if changes is None:
                continue
            moved.add((run.rule_id, result.name))
            run_changes += changes
            baseline = baselines[run.rule_id, result.name]
            # Not equal: a change of the cadence changes the number.
            is_alarming = baseline.unanswered >= alarming
            is_told = baseline.told_number > baseline.run_number
            if result.status == ResultStatus.FAILED and is_alarming and not is_told:
                baseline.told_number = run.number
                unanswered.append(baseline)
        about = {
            "workspace_id": rule.workspace_id,
            "environment": rule.environment,
            "rule_id": rule.pk,
            "report": run.report,
            "created_at": at,
        }
        if run_changes:
            alerts.append(_change_alert(run_changes, **about))
        if unanswered:
            alerts.append(_no_answer_alert(unanswered, **about))
    Baseline.objects.bulk_create(
        [baselines[key] for key in moved],
        update_conflicts=True,
        unique_fields=["rule", "check_name"],
        update_fields=[
            "result_id",
            "run_number",
            "completed_at",
            "said",
            "unanswered",
            "failed_number",
            "told_number",
        ],
    )
    Alert.objects.bulk_create(alerts)
    record_events([alert_event(a, rules[a.rule_id]) for a in alerts], at)
    ended = Run.objects.filter(rule__in=list(rules), report__in=report_ids)
    ended.update(compared_at=at)


def _results(report_ids: Sequence[UUID]) -> dict[UUID, list[CheckResult]]:
    """Return the ended results of each report that may be used, without erased ones."""
    results = defaultdict(list)
    ended = CheckResult.objects.filter(
        report__in=report_ids,
        report__restricted_at=None,
        status__in=[ResultStatus.COMPLETED, ResultStatus.FAILED],
    )
    for result in ended.order_by("report_id", "position"):
        if result.finding is not None or result.status == ResultStatus.FAILED:
            results[result.report_id].append(result)
    return results


def _move_baseline(
    run: Run, result: CheckResult, baselines: dict[Any, Baseline]
) -> list[Change] | None:
    """Move the check's baseline to this result and return the changes.

    Returns None if the baseline is at this or a later result already.
    """
    baseline = baselines.setdefault(
        (run.rule_id, result.name),
        Baseline(rule_id=run.rule_id, check_name=result.name),
    )
    if result.status == ResultStatus.FAILED:
        if run.number <= max(baseline.run_number, baseline.failed_number):
            return None
        baseline.failed_number = run.number
        baseline.unanswered += 1
        return []
    if baseline.run_number > run.number or baseline.result_id == result.pk:
        return None
    old = baseline.said
    new = snapshot_of(result, old)
    baseline.result_id, baseline.run_number, baseline.said = result.pk, run.number, new
    baseline.completed_at = result.completed_at
    baseline.unanswered = 0
    if baseline.failed_number > run.number:
        # This result is of a retry, and the failures of later runs still count.
        baseline.unanswered = CheckResult.objects.filter(
            name=result.name,
            status=ResultStatus.FAILED,
            report__monitoring_run__rule=run.rule_id,
            report__monitoring_run__number__gt=run.number,
            report__monitoring_run__number__lte=baseline.failed_number,
        ).count()
    return find_changes(result.name, old, new) if old else []


def snapshot_of(result: CheckResult, old: Snapshot | None = None) -> Snapshot:
    """Return the result's snapshot; what its source does not tell is as in `old`.

    That is the output fields, flags that rest on them, and a risk level that would fall
    or be unknown for their want.
    """
    finding = result.finding or {}
    told = finding["details"]
    before = old or {"riskLevel": result.risk_level, "flags": {}, "details": {}}
    not_told = {*(finding.get("evidence") or {}).get("fieldsNotTold", [])}
    hidden = _hidden_fields(result.risk_level, finding)
    untold = not_told | hidden
    kept = {
        code: severity
        for code, severity in before["flags"].items()
        if FLAG_FIELDS.get(code) in untold
    }
    flags = dict(kept)
    for flag in finding["flags"]:
        code, severity = flag["code"], flag["severity"]
        flags[code] = max(
            severity, flags.get(code, severity), key=FLAG_RANKS.__getitem__
        )
    level = result.risk_level
    had_values = any(before["details"].get(name) for name in hidden)
    may_rest_on_untold = had_values or bool(not_told & {*FLAG_FIELDS.values()})
    if kept or (level == RiskLevel.UNKNOWN and may_rest_on_untold):
        level = max(
            before["riskLevel"], level, key=lambda one: LEVEL_RANKS[RiskLevel(one)]
        )
    details = {k: v for k, v in before["details"].items() if k in untold} | {
        k: v for k, v in told.items() if k not in untold
    }
    return {"riskLevel": level, "flags": flags, "details": details}


def _hidden_fields(level: str, finding: dict[str, Any]) -> set[str]:
    """Return fields that are blank though the source may know their values."""
    told = finding["details"]
    hidden = {name for name in ACCOUNT_FIGURES & told.keys() if told[name] is None}
    is_nameless = any(flag["code"] == NAMELESS for flag in finding["flags"])
    if level == RiskLevel.UNKNOWN or is_nameless:
        hidden |= {
            name
            for name in LEFT_OPEN & told.keys()
            if not str(told[name] or "").strip("* ")
        }
    return hidden


def find_changes(check_name: str, old: Snapshot, new: Snapshot) -> list[Change]:
    """Return changes of risk level, flags and output fields with their severity.

    A field that only one snapshot has is left out: the definition changed, not the
    subject. So is a name of which a source hides letters, if the others fit. A new hit
    is worth what its flag is, which an earlier hit may have raised.
    """
    changes = []

    def add(field: str, before: Any, after: Any, severity: Severity) -> None:
        changes.append(Change(check_name, field, before, after, severity))

    before, after = old["riskLevel"], new["riskLevel"]
    if before != after:
        add("riskLevel", before, after, _level_severity(before, after))
    had, has = (
        {code: severity for code, severity in one["flags"].items() if code != NAMELESS}
        for one in (old, new)
    )
    if had != has:
        severity = _flags_severity(had, has)
        add("flags", _flag_list(had), _flag_list(has), severity)
    said, says = old["details"], new["details"]
    skipped = {name for name in NAMES if _is_masked(said.get(name), says.get(name))}
    skipped |= SEARCH_FIELDS | ({"nameMatch"} if skipped else set())
    known, hits = _hit_flags(said), _hit_flags(says)
    if said.get("algorithm") != says.get("algorithm"):
        # Another method gives the same hits other scores, and another source other ids.
        skipped |= {"hits"} if known == hits else set()
        known = hits
    for name, after in says.items():
        if name in skipped or name not in said:
            continue
        before = said[name]
        if _unordered(before) != _unordered(after):
            codes = {code for _, code in hits - known if name == "hits"}
            raised = {code: has[code] for code in codes & has.keys()}
            add(f"{DETAILS}{name}", before, after, _flags_severity({}, raised))
    return changes


def _is_masked(before: str | None, after: str | None) -> bool:
    return "*" in f"{before}{after}" and names_alike(before, after) != "NO_MATCH"


def _level_severity(old: str, new: str) -> Severity:
    if LEVEL_RANKS[RiskLevel(new)] <= LEVEL_RANKS[RiskLevel(old)]:
        return Severity.INFO
    return Severity.CRITICAL if new == RiskLevel.HIGH else Severity.WARNING


def _flags_severity(old: dict[str, str], new: dict[str, str]) -> Severity:
    raised = [
        severity
        for code, severity in new.items()
        if code not in old or FLAG_RANKS[severity] > FLAG_RANKS[old[code]]
    ]
    if not raised:
        return Severity.INFO
    return Severity.CRITICAL if "HIGH" in raised else Severity.WARNING


def _hit_flags(details: dict[str, Any]) -> set[tuple[str, str]]:
    """Return each entry of a list that was hit, with each of its flags."""
    hits = details.get("hits") or ()
    return {(hit["entryId"], code) for hit in hits for code in flags_of(hit["topics"])}


def _flag_list(flags: dict[str, str]) -> list[dict[str, str]]:
    return [{"code": code, "severity": flags[code]} for code in sorted(flags)]


def _unordered(value: Any) -> Any:
    """Sort all lists in a value, because sources return them in any order."""
    if isinstance(value, dict):
        return {name: _unordered(member) for name, member in value.items()}
    if isinstance(value, list):
        members = [_unordered(member) for member in value]
        return sorted(
            members, key=lambda m: orjson.dumps(m, option=orjson.OPT_SORT_KEYS)
        )
    return value


def _change_alert(changes: list[Change], **about: Any) -> Alert:
    return Alert(
        title=title_of(changes),
        message=message_of(changes),
        severity=max((c.severity for c in changes), key=ALERT_RANKS.index),
        changes=[change.as_json() for change in changes],
        **about,
    )


def _no_answer_alert(unanswered: list[Baseline], **about: Any) -> Alert:
    names = [baseline.check_name for baseline in unanswered]
    numbers = [baseline.unanswered for baseline in unanswered]
    times = [f"{runs} runs in a row" if runs > 1 else "a run" for runs in numbers]
    return Alert(
        kind=AlertKind.NO_ANSWER,
        title=f"{names[0] if len(names) == 1 else f'{len(names)} checks'}: no answer",
        message=" ".join(
            f"{baseline.check_name} could not be done in {runs} and last completed "
            f"{utc_text(baseline.completed_at) if baseline.completed_at else 'never'}."
            for baseline, runs in zip(unanswered, times, strict=True)
        ),
        severity=Severity.WARNING,
        changes=[],
        **about,
    )


def title_of(changes: Sequence[Change]) -> str:
    """Return a title of at most 200 characters, without values of fields."""
    checks = {change.check_name for change in changes}
    if len(checks) > 1:
        return f"{len(checks)} checks changed"
    fields = {change.field for change in changes}
    titles = [title for field, title in TITLES.items() if field in fields]
    return f"{changes[0].check_name}: {(titles or ['details changed'])[0]}"


def message_of(changes: Sequence[Change]) -> str:
    """Return a message without data about the subject, which only the changes hold."""
    by_check: dict[str, list[Change]] = defaultdict(list)
    for change in changes:
        by_check[change.check_name].append(change)
    sentences = (f"{name}: {_describe_check(c)}." for name, c in by_check.items())
    return " ".join(sentences)[:MESSAGE_LENGTH]


def _describe_check(changes: Sequence[Change]) -> str:
    clauses, fields = [], []
    for change in changes:
        if change.field == "riskLevel":
            clauses.append(f"risk level went from {change.old} to {change.new}")
        elif change.field == "flags":
            old, new = ({flag["code"] for flag in f} for f in (change.old, change.new))
            appeared = [f"new flag {code}" for code in sorted(new - old)]
            gone = [f"flag {code} gone" for code in sorted(old - new)]
            clauses += [*appeared, *gone] or ["a flag's severity changed"]
        else:
            fields.append(change.field.removeprefix(DETAILS))
    if fields:
        clauses.append(f"other values of {', '.join(fields)}")
    return "; ".join(clauses)


def describe_changes(changes: Sequence[dict[str, Any]]) -> list[dict[str, str]]:
    """Return an alert's `changes` as text for people; a missing value is blank."""
    return [
        {
            "check": change["checkName"],
            "what": label_of(change["field"].removeprefix(DETAILS)),
            "before": _value_text(change["field"], change["old"]),
            "now": _value_text(change["field"], change["new"]),
        }
        for change in changes
    ]


def _value_text(field: str, value: Any) -> str:
    if field != "flags":
        return text_of(value, field.removeprefix(DETAILS))
    return ", ".join(
        f"{flag['code'].replace('_', ' ').capitalize()} ({flag['severity'].lower()})"
        for flag in value
    )


def alert_event(alert: Alert, rule: Rule) -> NewEvent:
    """Make monitoring.alert.created."""
    data = AlertData(
        workspace_id=alert.workspace_id,
        monitoring_id=rule.pk,
        report_id=alert.report_id,
        subject=EventSubject(id=rule.subject_id, type=SubjectType(rule.subject_type)),
        alert=EventAlert.from_row(alert),
    )
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
    """Change an alert; a field given as None stays. Raises Alert.DoesNotExist."""
    alerts = alerts_of(client).select_for_update(of=("self",), no_key=True)
    alert = alerts.get(pk=alert_id)
    alert.read = alert.read if read is None else read
    alert.actioned = alert.actioned if actioned is None else actioned
    alert.save(update_fields=["read", "actioned"])
    return alert


@transaction.atomic
def mark_all_read(
    client: Client, until: UUID | None = None, severity: str | None = None
) -> int:
    """Mark unread alerts as read, and return their number.

    `until` is the newest id, and None means all; likewise None for any severity.
    """
    # In the order in which they came, as an erasure deletes them.
    unread = alerts_of(client).select_for_update(no_key=True).order_by("pk")
    if until:
        unread = unread.filter(pk__lte=until)
    if severity:
        unread = unread.filter(severity=severity)
    ids = unread.filter(read=False).values("pk")
    return Alert.objects.filter(pk__in=ids).update(read=True)
