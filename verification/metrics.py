"""Figures for a monitoring system, in the text form of Prometheus.

Behind METRICS_TOKEN, since they tell how the business does. They come from counters:
scraping costs five queries, however many checks were run.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.timezone import now
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from verification.jobs import heartbeat
from verification.payments.models import Checkout
from verification.payments.troubles import unopened_lately
from verification.providers.registry import live_sources
from verification.sources.health import Health, last_hour
from verification.sources.models import Source
from verification.sources.resting import TRIPS_AT

KIND = "text/plain; version=0.0.4; charset=utf-8"
HELP = {
    "checkouts_not_opened": "Since the last hour began, by payment provider.",
    "refunds_waiting": "Payments of which a refund needs a person.",
    "job_heartbeat_age_seconds": "Since work last flowed through a job cluster.",
    "source_calls_last_hour": "Calls of a live source in the last hour, by their end.",
    "source_latency_seconds": "How long its answers of the last hour took.",
    "source_resting": "1 while it is not asked, because it did not answer.",
}
Line = tuple[str, dict[str, str], float]


@never_cache
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    if not settings.METRICS_TOKEN:
        raise Http404
    given = request.headers.get("Authorization", "")
    wanted = f"Bearer {settings.METRICS_TOKEN}"
    if not hmac.compare_digest(given.encode(), wanted.encode()):
        return HttpResponse(status=401, headers={"WWW-Authenticate": "Bearer"})
    return HttpResponse("".join(_text()), content_type=KIND)


def _text() -> Iterator[str]:
    told = set()
    for name, labels, value in sorted(_lines(), key=lambda line: line[0]):
        if name not in told:
            told.add(name)
            yield f"# HELP {name} {HELP[name]}\n# TYPE {name} gauge\n"
        shown = ",".join(f'{key}="{text}"' for key, text in labels.items())
        yield f"{name}{{{shown}}} {value:g}\n" if shown else f"{name} {value:g}\n"


def _lines() -> Iterator[Line]:
    age = heartbeat.age_seconds()
    if age is not None:
        yield "job_heartbeat_age_seconds", {}, age
    health, at = last_hour(), now()
    tripped = Source.objects.filter(failures_in_row__gte=TRIPS_AT, resting_until__gt=at)
    resting = set(tripped.values_list("name", flat=True))
    for provider, times in unopened_lately().items():
        yield "checkouts_not_opened", {"provider": provider}, float(times)
    yield "refunds_waiting", {}, float(Checkout.objects.refunds_waiting().count())
    for name in live_sources():
        yield "source_resting", {"source": name}, float(name in resting)
        yield from _of(name, health.get(name, Health()))


def _of(name: str, health: Health) -> Iterator[Line]:
    for end in ("answered", "refused", "unavailable"):
        labels = {"source": name, "end": end}
        yield "source_calls_last_hour", labels, getattr(health, end)
    for quantile, value in (("0.5", health.median_ms), ("0.95", health.slow_ms)):
        if value is not None:
            labels = {"source": name, "quantile": quantile}
            yield "source_latency_seconds", labels, value / 1000
