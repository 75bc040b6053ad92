"""Health of the service: `/healthz`, `/readyz` and the figures of `/metrics`.

`/metrics` is for Prometheus. It holds business figures, so it requires METRICS_TOKEN.
The figures come from counters: a scrape costs six queries for any number of checks.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator
from functools import cache

from django.conf import settings
from django.db import DatabaseError, connection
from django.db.models import Count, Q
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.utils.timezone import now
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import (
    CONTENT_TYPE_PLAIN_0_0_4,
    CollectorRegistry,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from verification.db import startup
from verification.jobs import queue
from verification.payments.alerts import recent_failed_openings
from verification.payments.models import REFUND_REVIEW_FLAGS, Checkout
from verification.privacy.models import SubjectRequest
from verification.privacy.requests import count_open_requests
from verification.providers.registry import live_sources
from verification.sources.health import Health, health_by_source
from verification.sources.models import Source

OLDEST_HEARTBEAT_SECONDS = 30
UNKNOWN_WITHOUT_DATABASE = "not known without the database"


@never_cache
@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    return JsonResponse({"status": "ok", "version": settings.VERSION})


@never_cache
@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """Return figures of the service, or 503 with the part that is not ready."""
    age = in_doubt = refunds = unopened = overdue = None
    try:
        parts = {"database": "ok", "migrations": _migrations()}
        # The table exists once the migrations are applied.
        if parts["migrations"] == "ok":
            age = queue.heartbeat_age_seconds()
            doubted = Checkout.objects.exclude(review_flags=[])
            in_doubt, refunds = doubted.aggregate(
                all=Count("pk"),
                refunds=Count("pk", Q(review_flags__overlap=REFUND_REVIEW_FLAGS)),
            ).values()
            unopened = sum(recent_failed_openings().values())
            # A figure for operators: the service is ready all the same.
            overdue = SubjectRequest.objects.overdue().count()
        parts["jobs"] = _jobs(age)
    except DatabaseError:
        parts = {
            "database": "away",
            "migrations": UNKNOWN_WITHOUT_DATABASE,
            "jobs": UNKNOWN_WITHOUT_DATABASE,
        }
    is_ready = set(parts.values()) == {"ok"}
    return JsonResponse(
        {
            "status": "ready" if is_ready else "not ready",
            **parts,
            "jobHeartbeatAgeSeconds": None if age is None else round(age, 1),
            "paymentsInDoubt": in_doubt,
            "refundsWaiting": refunds,
            "checkoutsNotOpened": unopened,
            "subjectRequestsOverdue": overdue,
        },
        status=200 if is_ready else 503,
    )


def _migrations() -> str:
    # Query in any case, to notice a lost database.
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    try:
        _require_applied_migrations()
    except _MigrationsMissing as unapplied:
        return f"{unapplied.args[0]} not applied"
    return "ok"


class _MigrationsMissing(Exception):
    pass


@cache
def _require_applied_migrations() -> None:
    """Raise an error until all migrations are applied.

    They stay applied while this process lives: new ones come with new code.

    An exception is not cached.
    """
    if unapplied := startup.count_unapplied_migrations():
        raise _MigrationsMissing(unapplied)


def _jobs(age: float | None) -> str:
    if age is None:
        return "no heartbeat"
    return "ok" if age <= OLDEST_HEARTBEAT_SECONDS else "heartbeat too old"


@never_cache
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    if not settings.METRICS_TOKEN:
        raise Http404
    given = request.headers.get("Authorization", "")
    wanted = f"Bearer {settings.METRICS_TOKEN}"
    if not hmac.compare_digest(given.encode(), wanted.encode()):
        return HttpResponse(status=401, headers={"WWW-Authenticate": "Bearer"})
    return HttpResponse(
        generate_latest(REGISTRY), content_type=CONTENT_TYPE_PLAIN_0_0_4
    )


class DatabaseCollector(Collector):
    """Read the figures from the database at each scrape."""

    def collect(self) -> Iterator[Metric]:
        yield from _payment_families()
        yield from _job_families()
        yield from _source_families()
        yield from _request_families()


def _payment_families() -> Iterator[Metric]:
    unopened = GaugeMetricFamily(
        "checkouts_not_opened",
        "Checkouts that a payment provider did not open since the last hour began.",
        labels=["provider"],
    )
    for provider, times in recent_failed_openings().items():
        unopened.add_metric([provider], times)
    if unopened.samples:
        yield unopened
    yield GaugeMetricFamily(
        "with_flagged_refunds",
        "Payments of which a refund needs a person.",
        value=Checkout.objects.with_flagged_refunds().count(),
    )


def _job_families() -> Iterator[Metric]:
    age = queue.heartbeat_age_seconds()
    if age is not None:
        yield GaugeMetricFamily(
            "job_heartbeat_age_seconds",
            "Seconds since work last flowed through a job cluster.",
            value=age,
        )


def _source_families() -> Iterator[Metric]:
    calls = GaugeMetricFamily(
        "source_calls_last_hour",
        "Calls of a live source in the last hour, by how they ended.",
        labels=["source", "end"],
    )
    latency = GaugeMetricFamily(
        "source_latency_seconds",
        "How long the answers of a live source took in the last hour.",
        labels=["source", "quantile"],
    )
    resting = GaugeMetricFamily(
        "source_resting",
        "1 while a live source is not called because it did not answer, else 0.",
        labels=["source"],
    )
    health = health_by_source()
    tripped = Source.objects.filter(resting_until__gt=now())
    names_resting = set(tripped.values_list("name", flat=True))
    for name in live_sources():
        figures = health.get(name, Health())
        for end in ("answered", "refused", "unavailable"):
            calls.add_metric([name, end], getattr(figures, end))
        for quantile, value in (("0.5", figures.median_ms), ("0.95", figures.slow_ms)):
            if value is not None:
                latency.add_metric([name, quantile], value / 1000)
        resting.add_metric([name], name in names_resting)
    yield from (family for family in (calls, latency, resting) if family.samples)


def _request_families() -> Iterator[Metric]:
    waiting = GaugeMetricFamily(
        "verification_subject_requests_open",
        "Requests of data subjects without an answer, by the right that they use.",
        labels=["kind"],
    )
    overdue = GaugeMetricFamily(
        "verification_subject_requests_overdue",
        "Requests of data subjects whose deadline has passed without an answer.",
        labels=["kind"],
    )
    for kind, (number, late) in count_open_requests().items():
        waiting.add_metric([kind], number)
        overdue.add_metric([kind], late)
    yield from (waiting, overdue)


REGISTRY = CollectorRegistry()
REGISTRY.register(DatabaseCollector())
