"""The availability of a check: the state of its sources, and their last hour."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from django.core.cache import cache
from django.utils.timezone import now

from verification.providers.registry import asks_referee, route_for
from verification.settings.sources import HOME_COUNTRY
from verification.sources.health import Health, health_by_source
from verification.sources.models import Source
from verification.values.local_time import format_nairobi

Status = Literal["AVAILABLE", "DEGRADED", "UNAVAILABLE"]
# Below this share of answers a source is not well.
MIN_SUCCESS_RATE = 0.95
# Fewer calls than this say little.
MIN_CALLS = 10
CACHE_SECONDS = 15
CACHE_KEY = "sources:states"


@dataclass(frozen=True, slots=True)
class Availability:
    status: Status
    success_rate: float | None = None
    median_ms: int | None = None
    slow_ms: int | None = None


@dataclass(frozen=True, slots=True)
class _State:
    rests: bool
    health: Health


def availability(
    check: str, environment: str, country: str = HOME_COUNTRY
) -> Availability:
    """Return the availability of the first source on the route that does not rest.

    The figures are up to 15 seconds old. The sandbox and referees are always AVAILABLE.
    """
    route = route_for(check, environment, country)
    if not route.is_live:
        always = environment != "production" or asks_referee(check, environment)
        return Availability("AVAILABLE" if always else "UNAVAILABLE")
    of_route = [_state(provider.name) for provider in route.providers]
    asked = next((state for state in of_route if not state.rests), None)
    if asked is None:
        return _told("UNAVAILABLE", of_route[0].health)
    rate = asked.health.success_rate
    is_ill = (
        asked.health.calls >= MIN_CALLS and rate is not None and rate < MIN_SUCCESS_RATE
    )
    well = asked is of_route[0] and not is_ill
    return _told("AVAILABLE" if well else "DEGRADED", asked.health)


def describe_state(source: Source, at: datetime) -> str:
    """Return the state of the source in words, for staff."""
    if source.resting_until is None:
        return "asked"
    if source.resting_until > at:
        return f"rests until {format_nairobi(source.resting_until)}"
    return "is being tried"


def _told(status: Status, health: Health) -> Availability:
    return Availability(status, health.success_rate, health.median_ms, health.slow_ms)


def health_of(name: str) -> Health:
    """Return the figures of the source's last hour, at most 15 seconds old."""
    return _state(name).health


def _state(name: str) -> _State:
    states: dict[str, _State] = (
        cache.get_or_set(CACHE_KEY, _states, CACHE_SECONDS) or {}
    )
    return states.get(name, _State(rests=False, health=Health()))


def _states() -> dict[str, _State]:
    at, health = now(), health_by_source()
    resting = Source.objects.filter(resting_until__gt=at)
    rests = set(resting.values_list("name", flat=True))
    return {
        name: _State(name in rests, health.get(name, Health()))
        for name in rests | health.keys()
    }
