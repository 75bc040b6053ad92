"""The figures of `/metrics` for Prometheus.

They are business figures, so the page requires METRICS_TOKEN. Counts of requests come
from the processes of this web server, all others from the database, where every web
server reads the same. Job clusters need no page: the database has their state. A scrape
costs about twenty queries, each by an index, for any number of reports.
"""

import hmac
import logging
import os
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import DatabaseError
from django.db.models import Count, Min, Q, QuerySet
from django.db.models.functions import Coalesce, Now
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import (
    CONTENT_TYPE_PLAIN_0_0_4,
    CollectorRegistry,
    Counter,
    Histogram,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from verification.audit_trail.export import lag
from verification.audit_trail.models import TrailState
from verification.backups.models import Backup, RestoreDrill
from verification.checks.due_checks import count_given_up
from verification.db.base import run_sql
from verification.db.standbys import read_standbys, writes_waiting_seconds
from verification.jobs.queue import count_working_clusters
from verification.notifications.delivery import waiting_notifications
from verification.notifications.models import Notification, NotificationError
from verification.payments.alerts import recent_failed_openings
from verification.payments.models import Checkout, LedgerAudit
from verification.privacy.requests import count_open_requests
from verification.providers.registry import live_sources
from verification.sources.calls import count_calls_in_doubt
from verification.sources.health import Health, health_by_source
from verification.sources.models import Source
from verification.values.clock import now
from verification.web.health import READINESS_PARTS, read_readiness
from workspaces.models import Environment

logger = logging.getLogger(__name__)

PREFIX = "verification"
# Seconds; a page takes 10 ms, an order of 500 reports a quarter of a second.
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
# Queue -> the number of due rows, and the seconds since the oldest was due
QUEUES = """
SELECT 'checks', sum(rows), max(oldest) FROM (
    SELECT count(*) AS rows, max(statement_timestamp() - next_attempt_at) AS oldest
    FROM checks_checkresult
    WHERE waits_for = '' AND next_attempt_at <= statement_timestamp()
    UNION ALL
    -- Another partial index has these.
    SELECT count(*), max(statement_timestamp() - next_attempt_at)
    FROM checks_checkresult
    WHERE waits_for <> '' AND next_attempt_at <= statement_timestamp()
) AS checks
UNION ALL
SELECT 'deliveries', count(*), max(statement_timestamp() - d.next_attempt_at)
FROM webhooks_delivery d JOIN webhooks_configuration c ON c.id = d.configuration_id
JOIN workspaces_workspace w ON w.id = c.workspace_id AND w.suspended_at IS NULL
WHERE d.next_attempt_at <= statement_timestamp() AND c.enabled
    AND (c.resting_until IS NULL OR c.resting_until <= statement_timestamp())
UNION ALL
SELECT 'jobs', count(*), max(statement_timestamp() - due_at) FROM jobs_job
WHERE due_at <= statement_timestamp() AND claimed_by = '' AND gave_up_at IS NULL
"""
# The running reports without a change for the longest time. It leaves out reports whose
# open checks all wait for a referee or for an announced answer. The limit bounds the
# time of a scrape: 10,000 of a million reports take half a second. The oldest may all
# wait for referees, so half are the newest that are old enough for the alert.
UNFINISHED = """
SELECT r.environment, count(*), max(statement_timestamp() - r.updated_at)
FROM (
    (
        SELECT id, workspace_id, environment, updated_at FROM reports_report
        WHERE status IN ('RUNNING', 'PARTIAL') AND completed_at IS NULL
        ORDER BY updated_at LIMIT %(limit)s
    ) UNION (
        SELECT id, workspace_id, environment, updated_at FROM reports_report
        WHERE status IN ('RUNNING', 'PARTIAL') AND completed_at IS NULL
            AND updated_at < statement_timestamp() - interval '10 minutes'
        ORDER BY updated_at DESC LIMIT %(limit)s
    )
) AS r
JOIN workspaces_workspace w ON w.id = r.workspace_id AND w.suspended_at IS NULL
CROSS JOIN LATERAL (
    SELECT bool_and(
        EXISTS (
            SELECT FROM references_reference
            WHERE result_id = c.id AND attempt = c.attempt AND status = 'PENDING'
        ) OR coalesce((
            SELECT "end" FROM sources_call
            WHERE result_id = c.id ORDER BY id DESC LIMIT 1
        ) = 'NOT_YET', false)
    ) AS by_others
    FROM checks_checkresult c
    WHERE c.report_id = r.id AND c.revision = 0 AND c.status IN ('PENDING', 'RUNNING')
) AS waits
WHERE waits.by_others IS NOT TRUE
GROUP BY 1
"""
UNFINISHED_LIMIT = 5000
JOBS = """
SELECT
    (SELECT count(*) FROM jobs_job WHERE gave_up_at IS NULL AND claimed_by <> ''),
    (SELECT count(*) FROM jobs_job WHERE gave_up_at IS NOT NULL
        AND dismissed_at IS NULL)
"""
CONNECTIONS = """
SELECT coalesce(state, 'other'), count(*) FROM pg_stat_activity
WHERE datname = current_database() GROUP BY 1
"""
# Without the rights of `pg_monitor`, a role sees the transactions of its own sessions.
DATABASE = """
SELECT
    pg_database_size(current_database()),
    (SELECT sum(numbackends) FROM pg_stat_database),
    current_setting('max_connections')::int
        - current_setting('superuser_reserved_connections')::int,
    (SELECT coalesce(extract(epoch FROM max(statement_timestamp() - xact_start)), 0)
        FROM pg_stat_activity
        WHERE datname = current_database() AND backend_type LIKE 'client%'),
    (SELECT CASE current_setting('archive_mode') WHEN 'off' THEN 0 ELSE
        extract(epoch FROM statement_timestamp()
            - coalesce(last_archived_time, pg_postmaster_start_time())) END
        FROM pg_stat_archiver)
"""
INSTALLED = """
SELECT extract(epoch FROM statement_timestamp() - min(applied)) FROM django_migrations
"""


# `web.server` chooses before it loads this module where they count: in this process, or
# in a folder for all processes of the server.
requests = Counter(
    f"{PREFIX}_http_requests",
    "Requests by route, method and status.",
    ["route", "method", "status"],
)
request_seconds = Histogram(
    f"{PREFIX}_http_request_seconds",
    "How long the answers to requests took.",
    ["route", "method"],
    buckets=BUCKETS,
)
dropped_records = Counter(
    f"{PREFIX}_request_records_dropped",
    "Records of API requests that were not written.",
)


def count_request(route: str | None, method: str, status: int, seconds: float) -> None:
    """Count an answered request; requests of no page share one route."""
    name = route or "none"
    requests.labels(name, method, str(status)).inc()
    request_seconds.labels(name, method).observe(seconds)


@never_cache
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    if not settings.METRICS_TOKEN:
        raise Http404
    given = request.headers.get("Authorization", "")
    wanted = f"Bearer {settings.METRICS_TOKEN}"
    if not hmac.compare_digest(given.encode(), wanted.encode()):
        return HttpResponse(status=401, headers={"WWW-Authenticate": "Bearer"})
    registry = CollectorRegistry()
    registry.register(DatabaseCollector(request))
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        MultiProcessCollector(registry)
    else:
        for family in (requests, request_seconds, dropped_records):
            registry.register(family)
    return HttpResponse(
        generate_latest(registry), content_type=CONTENT_TYPE_PLAIN_0_0_4
    )


class DatabaseCollector(Collector):
    """Read the figures from the database at each scrape."""

    def __init__(self, request: HttpRequest) -> None:
        self._request = request

    def collect(self) -> Iterator[Metric]:
        version = InfoMetricFamily(f"{PREFIX}_build", "The version of the service.")
        version.add_metric([], {"version": settings.VERSION})
        yield version
        parts, age = read_readiness(self._request)
        text = "1 if this part of the service is ready."
        ready = {part: parts[part] == "ok" for part in READINESS_PARTS}
        yield _gauges("ready", text, ready, "part")
        if age is not None:
            text = "Seconds since work last flowed through a job cluster."
            yield _gauge("job_heartbeat_age_seconds", text, age)
        # While the database is away, the counts of requests are still in the answer.
        # While only its writes wait or fail, so are all figures.
        if parts["migrations"] == "ok":
            try:
                yield from [one for one in _database_figures() if one.samples]
            except DatabaseError as e:
                logger.warning("figures not read: %s", type(e).__name__)


def _database_figures() -> Iterator[Metric]:
    yield from _work_figures()
    yield from _report_figures()
    yield from _payment_figures()
    yield from _trail_figures()
    yield from _source_figures()
    yield from _request_figures()
    yield from _server_figures()
    yield from _backup_figures()


def _gauge(name: str, text: str, value: float | None) -> Metric:
    return GaugeMetricFamily(f"{PREFIX}_{name}", text, value=value)


def _gauges(
    name: str, text: str, values: Mapping[Any, float | None], *labels: str
) -> Metric:
    """Make a figure for each label, or tuple of labels, whose value is not None."""
    family = GaugeMetricFamily(f"{PREFIX}_{name}", text, labels=labels)
    for key, value in values.items():
        if value is not None:
            family.add_metric([key] if len(labels) == 1 else key, value)
    return family


def _age(moment: datetime | None) -> float | None:
    return None if moment is None else (now() - moment).total_seconds()


def _seconds(interval: timedelta | None) -> float:
    return max(0, interval.total_seconds()) if interval else 0


def _work_figures() -> Iterator[Metric]:
    queues = {name: (due, _seconds(age)) for name, due, age in run_sql(QUEUES)}
    [(running, given_up)] = run_sql(JOBS)
    messages = {row["channel"]: row for row in count_messages()}
    waits = [now() - row["due_since"] for row in messages.values() if row["due"]]
    number = sum(row["due"] for row in messages.values())
    queues["messages"] = number, _seconds(max(waits, default=None))
    text = "Rows that are due and that no worker has."
    numbers = {name: due for name, (due, _) in queues.items()}
    yield _gauges("queue_due", text, numbers, "queue")
    text = "How long the oldest of them is due."
    ages = {name: age for name, (_, age) in queues.items()}
    yield _gauges("queue_age_seconds", text, ages, "queue")
    text = "Messages that were not taken and are tried again."
    retrying = {name: row["retrying"] or None for name, row in messages.items()}
    yield _gauges("messages_retrying", text, retrying, "channel")
    text = "How long one of them has been tried."
    refused = {name: _age(row["retrying_since"]) for name, row in messages.items()}
    yield _gauges("messages_retrying_seconds", text, refused, "channel")
    text = "Messages of the last hour, by what has become of them."
    # The index in the order of creation has messages with a recipient.
    recent = Notification.objects.filter(
        created_at__gt=now() - timedelta(hours=1), recipient__isnull=False
    )
    fates = recent.values_list("channel", "status").annotate(Count("pk"))
    ended = {(channel, status): number for channel, status, number in fates}
    yield _gauges("messages_last_hour", text, ended, "channel", "status")
    text = (
        "How long the oldest message waits for a mail server or provider that is away."
    )
    away = {name: _age(row["away_since"]) for name, row in messages.items()}
    yield _gauges("messages_away_seconds", text, away, "channel")
    yield _gauge("jobs_running", "Jobs that a worker has.", running)
    yield _gauge("jobs_given_up", "Jobs that failed again and again.", given_up)
    text = "Job clusters in which work flowed within 30 seconds."
    yield _gauge("job_clusters", text, count_working_clusters())
    text = "The number of them that EXPECTED_JOB_CLUSTERS says."
    yield _gauge("job_clusters_expected", text, settings.EXPECTED_JOB_CLUSTERS)
    text = "Checks that the engine gave up within a day."
    yield _gauge("checks_given_up", text, count_given_up(timedelta(days=1)))


def count_messages() -> QuerySet[Notification, Any]:
    """Count unsent messages by channel: due ones, and ones whose sending failed."""
    not_taken = ~Q(error="")
    # An e-mail counts no attempt if the server is unreachable or refuses the log-in.
    is_away = Q(error=NotificationError.UNREACHABLE) | (Q(attempts=0) & not_taken)
    # The first attempt counts, also of a message that staff send again.
    since = Coalesce("counted_at", "created_at")
    return (
        waiting_notifications()
        .values("channel")
        .annotate(
            due=Count("pk", filter=Q(next_attempt_at__lte=Now())),
            due_since=Min("next_attempt_at"),
            retrying=Count("pk", filter=not_taken & Q(leased_until=None)),
            retrying_since=Min(since, filter=not_taken),
            away_since=Min(since, filter=is_away),
        )
    )


def _report_figures() -> Iterator[Metric]:
    rows = run_sql(UNFINISHED, {"limit": UNFINISHED_LIMIT})
    none = dict.fromkeys(Environment.values, 0)
    text = "Reports that run and wait for no person and no announced answer."
    numbers = none | {name: number for name, number, _ in rows}
    yield _gauges("reports_unfinished", text, numbers, "environment")
    text = "How long the status and score of one of them have not changed."
    ages = none | {name: _seconds(oldest) for name, _, oldest in rows}
    yield _gauges("reports_unfinished_age_seconds", text, ages, "environment")


def _payment_figures() -> Iterator[Metric]:
    text = "Checkouts that a payment provider did not open since the last hour began."
    yield _gauges("checkouts_not_opened", text, recent_failed_openings(), "provider")
    doubted = Checkout.objects.exclude(review_flags=[]).count()
    text = "Checkouts with a review flag, which wait for a person."
    yield _gauge("payments_in_doubt", text, doubted)
    text = "Payments of which a refund needs a person."
    flagged = Checkout.objects.with_flagged_refunds().count()
    yield _gauge("refunds_waiting", text, flagged)
    if audit := LedgerAudit.objects.order_by("-made_at").first():
        text = "Differences that the last audit of the ledger found."
        yield _gauge("ledger_differences", text, audit.differences)
        text = "How old that audit is."
        yield _gauge("ledger_audit_age_seconds", text, _age(audit.made_at))
        text = "Each row was compared within this time."
        yield _gauge("ledger_all_audited_seconds", text, _age(audit.all_since))


def _trail_figures() -> Iterator[Metric]:
    state = TrailState.objects.first()
    if state and state.checked_at:
        text = "Faults that the last check of the audit trail found."
        yield _gauge("audit_trail_faults", text, state.faults)
        text = "How old that check is."
        yield _gauge("audit_trail_check_age_seconds", text, _age(state.checked_at))
    if settings.AUDIT_EXPORT_URL:
        waiting, age = lag()
        text = "Audit events that the log store of AUDIT_EXPORT_URL has not taken."
        yield _gauge("audit_export_waiting", text, waiting)
        text = "How old the oldest of them is."
        yield _gauge("audit_export_age_seconds", text, age)


def _source_figures() -> Iterator[Metric]:
    sources = live_sources()
    doubts = dict.fromkeys(sources, 0) | count_calls_in_doubt()
    text = "Paid calls without a known answer that staff have not settled."
    yield _gauges("source_calls_in_doubt", text, doubts, "source")
    # Alerts need a steady figure while calls probe a source between its rests. A source
    # may get none any more, as another is called first or the route was changed.
    recently = now() - timedelta(minutes=15)
    tripped = Source.objects.filter(resting_until__gt=recently)
    resting = set(tripped.values_list("name", flat=True))
    text = "1 in the rest of a live source and 15 minutes after, if unanswered, else 0."
    rests = {name: name in resting for name in sources}
    yield _gauges("source_resting", text, rests, "source")
    calls: dict[tuple[str, str], int] = {}
    latencies: dict[tuple[str, str], float | None] = {}
    known = health_by_source()
    for name in sources:
        health = known.get(name, Health())
        for end in ("answered", "refused", "unavailable"):
            calls[name, end] = getattr(health, end)
        for quantile, ms in (("0.5", health.median_ms), ("0.95", health.slow_ms)):
            latencies[name, quantile] = None if ms is None else ms / 1000
    text = "Calls of a live source in the last hour, by how they ended."
    yield _gauges("source_calls_last_hour", text, calls, "source", "end")
    text = "How long the answers of a live source took in the last hour."
    yield _gauges("source_latency_seconds", text, latencies, "source", "quantile")


def _request_figures() -> Iterator[Metric]:
    requests = count_open_requests()
    text = "Requests of data subjects without an answer, by the right that they use."
    waiting = {kind: number for kind, (number, _) in requests.items()}
    yield _gauges("subject_requests_open", text, waiting, "kind")
    text = "Requests of data subjects whose deadline has passed without an answer."
    overdue = {kind: late for kind, (_, late) in requests.items()}
    yield _gauges("subject_requests_overdue", text, overdue, "kind")


def _server_figures() -> Iterator[Metric]:
    states = dict(run_sql(CONNECTIONS))
    [(size, used, limit, oldest, archived)] = run_sql(DATABASE)
    yield _gauges(
        "database_connections", "Connections by their state.", states, "state"
    )
    text = "Connections to all databases of the server."
    yield _gauge("database_server_connections", text, used)
    text = "The number of them that the server allows."
    yield _gauge("database_server_connections_limit", text, limit)
    yield _gauge("database_size_bytes", "The size of the database.", size)
    text = "How long the oldest transaction is open."
    yield _gauge("database_oldest_transaction_seconds", text, float(oldest))
    text = "How long ago a file of the write-ahead log was archived; 0 without archive."
    yield _gauge("database_archive_age_seconds", text, float(archived))
    text = "How long a commit has waited for a synchronous standby."
    yield _gauge("database_writes_waiting_seconds", text, writes_waiting_seconds())
    standbys = read_standbys()
    number = sum(one.number for one in standbys)
    yield _gauge("database_standbys", "Standbys that follow the database.", number)
    text = "The number of them that EXPECTED_STANDBYS says."
    yield _gauge("database_standbys_expected", text, settings.EXPECTED_STANDBYS)
    text = "How long a standby takes to apply what the database writes."
    seconds = {one.name: one.lag_seconds for one in standbys}
    yield _gauges("database_standby_lag_seconds", text, seconds, "standby")
    text = "How much a standby has not yet applied."
    behind = {one.name: one.lag_bytes for one in standbys}
    yield _gauges("database_standby_lag_bytes", text, behind, "standby")


def _backup_figures() -> Iterator[Metric]:
    if newest := Backup.objects.order_by("-made_at").first():
        text = "How old the newest backup is."
        yield _gauge("backup_age_seconds", text, _age(newest.made_at))
    if drill := RestoreDrill.objects.order_by("-made_at").first():
        text = "How long ago the last restore drill began."
        yield _gauge("restore_drill_age_seconds", text, _age(drill.made_at))
        text = "1 if it succeeded, 0 if it failed, was killed or still runs."
        yield _gauge("restore_drill_succeeded", text, drill.succeeded)
    [(age,)] = run_sql(INSTALLED)
    text = "How long ago the first migration was applied."
    yield _gauge("installation_age_seconds", text, float(age))
