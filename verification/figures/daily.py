"""The job that counts the days that changed.

Every change of a report writes its timeline (`StatusChange`), and every change of money
the ledger. Both have ids that hold the time, so the job finds what changed since its
last run by their primary keys, and marks those days as due: also a day of last year, if
a report of then was decided today. Then it counts the due days, the newest first. Each
day is counted in a transaction of its own, which also removes its mark, so a job that
is stopped goes on where it was. The first run marks all days since the first report.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from datetime import time as time_of_day
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from verification.db.base import run_sql
from verification.db.ids import first_id_at
from verification.figures.durations import BUCKET
from verification.figures.models import DailyFigure, DueDay, Progress
from verification.jobs.queue import advisory_lock, beat, job, schedule_job
from verification.values.clock import now
from verification.values.local_time import NAIROBI

# Longer than any transaction or difference of clocks, to find late commits
OVERLAP = timedelta(minutes=15)
# The longest time that a run keeps a worker
RUN_SECONDS = 20
MARKED_EVERY = timedelta(minutes=4)
ONE_DAY = timedelta(days=1)

DAY = "({0} AT TIME ZONE 'Africa/Nairobi')::date"
# A correction adds to the report's timeline, so it is found through the report.
MARK_CHANGED = f"""
WITH changed AS MATERIALIZED (
    SELECT DISTINCT report_id AS id FROM reports_statuschange WHERE id >= %(first)s
)
INSERT INTO figures_dueday (workspace_id, environment, day)
SELECT r.workspace_id, r.environment, {DAY.format("r.created_at")}
FROM changed JOIN reports_report r USING (id)
UNION
SELECT r.workspace_id, r.environment, {DAY.format("c.created_at")}
FROM changed JOIN reports_report r USING (id)
JOIN privacy_correction c ON c.report_id = r.id
UNION
SELECT workspace_id, environment, {DAY.format("created_at")}
FROM monitoring_alert WHERE id >= %(first)s
UNION
SELECT a.workspace_id, a.environment, {DAY.format("e.created_at")}
FROM workspaces_ledgerentry e JOIN workspaces_account a ON a.id = e.account_id
WHERE e.id >= %(first)s AND e.result_id IS NOT NULL
ON CONFLICT DO NOTHING
"""  # noqa: S608
# Days without reports, alerts or money are left out, by an index.
MARK_ALL = f"""
INSERT INTO figures_dueday (workspace_id, environment, day)
SELECT s.workspace_id, s.environment, d.day::date
FROM (
    SELECT a.id, a.workspace_id, a.environment, (
        SELECT min(created_at) FROM reports_report r
        WHERE r.workspace_id = a.workspace_id AND r.environment = a.environment
    ) AS at
    FROM workspaces_account a
) s
CROSS JOIN LATERAL generate_series(
    date_trunc('day', s.at AT TIME ZONE 'Africa/Nairobi'),
    %(now)s AT TIME ZONE 'Africa/Nairobi',
    interval '1 day'
) AS d(day)
CROSS JOIN LATERAL (
    SELECT d.day AT TIME ZONE 'Africa/Nairobi' AS start,
        (d.day + interval '1 day') AT TIME ZONE 'Africa/Nairobi' AS end
) b
WHERE s.at IS NOT NULL AND (
    EXISTS (
        SELECT FROM reports_report r WHERE r.workspace_id = s.workspace_id
            AND r.environment = s.environment
            AND r.created_at >= b.start AND r.created_at < b.end
    ) OR EXISTS (
        SELECT FROM workspaces_ledgerentry e WHERE e.account_id = s.id
            AND e.created_at >= b.start AND e.created_at < b.end
    ) OR EXISTS (
        SELECT FROM monitoring_alert a WHERE a.workspace_id = s.workspace_id
            AND a.environment = s.environment
            AND a.created_at >= b.start AND a.created_at < b.end
    )
)
UNION
SELECT r.workspace_id, r.environment, {DAY.format("c.created_at")}
FROM privacy_correction c JOIN reports_report r ON r.id = c.report_id
UNION
SELECT workspace_id, environment, day FROM privacy_erasedcount
ON CONFLICT DO NOTHING
"""  # noqa: S608

OF_DAY = """
{0}.workspace_id = %(workspace)s AND {0}.environment = %(environment)s
    AND {0}.created_at >= %(start)s AND {0}.created_at < %(end)s
"""
REPORTS_OF_DAY = OF_DAY.format("r")
# The decision that counts is the newest final one.
DECISION = """
LEFT JOIN LATERAL (
    SELECT status, final_at FROM decisions_decision
    WHERE report_id = r.id AND state = 'FINAL' ORDER BY number DESC LIMIT 1
) d ON true
"""
REPORTS = f"""
SELECT r.package, NULL AS check_name, count(*) AS created,
    count(*) FILTER (WHERE r.launched_at IS NULL) AS drafts,
    count(*) FILTER (WHERE r.status = 'READY') AS ready,
    count(*) FILTER (
        WHERE r.status = 'PARTIAL' AND r.completed_at IS NOT NULL
    ) AS partial,
    count(*) FILTER (WHERE r.status = 'FAILED') AS failed,
    count(*) FILTER (
        WHERE r.status = 'CANCELLED' AND r.launched_at IS NOT NULL
    ) AS cancelled,
    count(*) FILTER (WHERE r.risk_level = 'LOW') AS low,
    count(*) FILTER (WHERE r.risk_level = 'MEDIUM') AS medium,
    count(*) FILTER (WHERE r.risk_level = 'HIGH') AS high,
    count(*) FILTER (WHERE d.status = 'APPROVED') AS approved,
    count(*) FILTER (WHERE d.status = 'DECLINED') AS declined,
    count(*) FILTER (WHERE d.status = 'REVIEW') AS review
FROM reports_report r {DECISION} WHERE {REPORTS_OF_DAY} GROUP BY r.package
"""  # noqa: S608
HISTOGRAM = """
SELECT package, check_name, json_object_agg(bucket, count) AS {0}
FROM ({1}) counted GROUP BY package, check_name
"""
MILLISECONDS = "extract(epoch FROM {0} - {1}) * 1000"
# One pass over the results, which are many. A reused result took no time.
CHECKS = f"""
SELECT package, check_name, sum(count)::int AS created, sum(completed)::int AS ready,
    sum(failed)::int AS failed, sum(cancelled)::int AS cancelled,
    json_object_agg(bucket, count) FILTER (WHERE bucket IS NOT NULL) AS turnaround
FROM (
    SELECT r.package, c.name AS check_name, CASE
            WHEN c.status = 'COMPLETED' AND c.reused_from_id IS NULL
                AND c.duration_ms IS NOT NULL
            THEN {BUCKET.format("c.duration_ms")}
        END AS bucket, count(*) AS count,
        count(*) FILTER (WHERE c.status = 'COMPLETED') AS completed,
        count(*) FILTER (WHERE c.status = 'FAILED') AS failed,
        count(*) FILTER (WHERE c.status = 'CANCELLED') AS cancelled
    FROM reports_report r JOIN checks_checkresult c ON c.report_id = r.id
    WHERE {REPORTS_OF_DAY} AND r.launched_at IS NOT NULL AND c.revision = 0
    GROUP BY 1, 2, 3
) counted GROUP BY package, check_name
"""  # noqa: S608
TOOK = BUCKET.format(MILLISECONDS.format("r.completed_at", "r.launched_at"))
TURNAROUND = HISTOGRAM.format(
    "turnaround",
    f"""
    SELECT r.package, NULL AS check_name, {TOOK} AS bucket, count(*) AS count
    FROM reports_report r
    WHERE {REPORTS_OF_DAY} AND r.status IN ('READY', 'PARTIAL')
        AND r.completed_at IS NOT NULL
    GROUP BY 1, 3
    """,  # noqa: S608
)
DECIDED = BUCKET.format(MILLISECONDS.format("d.final_at", "r.launched_at"))
DECISIONS = HISTOGRAM.format(
    "decision",
    f"""
    SELECT r.package, NULL AS check_name, {DECIDED} AS bucket, count(*) AS count
    FROM reports_report r {DECISION}
    WHERE {REPORTS_OF_DAY} AND d.status IN ('APPROVED', 'DECLINED')
    GROUP BY 1, 3
    """,  # noqa: S608
)
# A charge names its result. The name of one that is not there any more is empty.
MONEY = """
SELECT e.package, CASE WHEN grouping(e.name) = 0 THEN e.name END AS check_name,
    coalesce(sum(e.cents) FILTER (WHERE e.kind = 'CHARGE'), 0)::bigint * -1 AS charged,
    coalesce(sum(e.cents) FILTER (WHERE e.kind = 'REVERSAL'), 0)::bigint AS reversed
FROM (
    SELECT r.package, coalesce(c.name, '') AS name, e.kind, e.amount * 100 AS cents
    FROM workspaces_account a JOIN workspaces_ledgerentry e ON e.account_id = a.id
    LEFT JOIN reports_report r ON r.id = e.report_id
    LEFT JOIN checks_checkresult c ON c.id = e.result_id
    WHERE a.workspace_id = %(workspace)s AND a.environment = %(environment)s
        AND e.created_at >= %(start)s AND e.created_at < %(end)s
        AND e.kind IN ('CHARGE', 'REVERSAL')
) e
GROUP BY GROUPING SETS ((e.package, e.name), (e.package))
"""
ALERTS = f"""
SELECT r.package, NULL AS check_name, count(*) AS alerts
FROM monitoring_alert a JOIN reports_report r ON r.id = a.report_id
WHERE {OF_DAY.format("a")} GROUP BY r.package
"""  # noqa: S608
# Corrections have no index by time, but ids that hold it.
CORRECTIONS = """
SELECT r.package, NULL AS check_name, count(*) AS corrections,
    count(*) FILTER (WHERE c.status = 'CORRECTED') AS corrected
FROM privacy_correction c JOIN reports_report r ON r.id = c.report_id
WHERE c.id >= %(first)s AND c.id < %(last)s
    AND c.created_at >= %(start)s AND c.created_at < %(end)s
    AND r.workspace_id = %(workspace)s AND r.environment = %(environment)s
GROUP BY r.package
"""
# The counts of erased reports
ERASED = """
SELECT package, NULL AS check_name,
    coalesce(sum(count) FILTER (WHERE what = 'LOW'), 0)::int AS low,
    coalesce(sum(count) FILTER (WHERE what = 'MEDIUM'), 0)::int AS medium,
    coalesce(sum(count) FILTER (WHERE what = 'HIGH'), 0)::int AS high,
    coalesce(sum(count) FILTER (WHERE what = 'ALERT'), 0)::int AS alerts
FROM privacy_erasedcount
WHERE workspace_id = %(workspace)s AND environment = %(environment)s AND day = %(day)s
GROUP BY package
"""
STATEMENTS = (
    REPORTS,
    CHECKS,
    TURNAROUND,
    DECISIONS,
    MONEY,
    ALERTS,
    CORRECTIONS,
    ERASED,
)

# The key of the sum of all packages
ALL = object()
Rows = dict[tuple[Any, str | None], dict[str, Any]]


@job
def count_changed_days() -> None:
    """Count the days that changed since the last run, or that are still due."""
    with advisory_lock("figures") as is_mine:
        if is_mine:
            # A run that continues with due days does not mark today again first.
            recent = Progress.objects.filter(read_to__gt=now() - MARKED_EVERY)
            if not (recent.exists() and DueDay.objects.exists()):
                mark_changed_days()
            if not _count_due_days():
                schedule_job(count_changed_days)


@transaction.atomic
def mark_changed_days() -> None:
    """Mark the days that changed since the last time; at first, all days."""
    until = now()
    found = Progress.objects.first()
    if found:
        run_sql(MARK_CHANGED, {"first": first_id_at(found.read_to - OVERLAP)})
    else:
        run_sql(MARK_ALL, {"now": until})
    Progress.objects.update_or_create(pk=1, defaults={"read_to": until})


def _count_due_days() -> bool:
    """Count due days for RUN_SECONDS; return False if some are left."""
    started = time.monotonic()
    while found := list(DueDay.objects.order_by("-day", "id")[:100]):
        for due in found:
            with transaction.atomic():
                count_day(due.workspace_id, due.environment, due.day)
                due.delete()
            if not beat() or time.monotonic() - started > RUN_SECONDS:
                return not DueDay.objects.exists()
    return True


@transaction.atomic
def count_day(workspace_id: UUID, environment: str, day: date) -> None:
    """Replace the figures of a day."""
    place: dict[str, Any] = {"workspace_id": workspace_id, "environment": environment}
    rows = _read_day(workspace_id, environment, day)
    DailyFigure.objects.filter(**place, day=day).delete()
    DailyFigure.objects.bulk_create(
        DailyFigure(
            **place,
            all_packages=package is ALL,
            day=day,
            package=None if package is ALL else package,
            check_name=check,
            **_columns(figures),
        )
        for (package, check), figures in rows.items()
        if figures
    )


def _columns(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Write each histogram as its buckets and their counts."""
    columns: dict[str, Any] = {}
    for name, value in figures.items():
        if isinstance(value, Counter):
            columns[f"{name}_buckets"] = sorted(value)
            columns[f"{name}_counts"] = [value[bucket] for bucket in sorted(value)]
        else:
            columns[name] = value
    return columns


def _read_day(workspace_id: UUID, environment: str, day: date) -> Rows:
    start, end = _midnight(day), _midnight(day + ONE_DAY)
    values: dict[str, Any] = {
        "workspace": workspace_id,
        "environment": environment,
        "day": day,
        "start": start,
        "end": end,
        # The id is made a moment before or after the time of its row.
        "first": first_id_at(start - OVERLAP),
        "last": first_id_at(end + OVERLAP),
    }
    rows: Rows = defaultdict(dict)
    with connection.cursor() as cursor:
        for statement in STATEMENTS:
            cursor.execute(statement, values)
            names = [column.name for column in cursor.description][2:]
            for package, check, *found in cursor.fetchall():
                figures = dict(zip(names, found, strict=True))
                _add(rows[package, check], figures)
                _add(rows[ALL, check], figures)
    return rows


def _add(to: dict[str, Any], figures: Mapping[str, Any]) -> None:
    """Add the figures that are not zero to `to`."""
    for name, value in figures.items():
        if isinstance(value, dict):
            to.setdefault(name, Counter()).update(
                {int(bucket): count for bucket, count in value.items()}
            )
        elif value:
            to[name] = to.get(name, 0) + value


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time_of_day(), NAIROBI)
