"""The one place that chooses who is asked.

Sandbox has one provider and never looks at the table of live ones; production never
gets the sandbox's. Where there is no live source of employments, a referee is asked
through a page of ours, which `checks.refereeing` does. `configure` is called once, when
the app of the checks is ready.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, ClassVar

from verification.providers.base import Finding, Inquiry, Provider, Refused
from verification.providers.sandbox import Sandbox

REFEREES_CHECK = "EMPLOYER_VERIFICATION"
# Stands for every country that is not named.
EVERYWHERE = "*"
_sandbox = Sandbox()


@dataclass(frozen=True, slots=True)
class Route:
    """Who is asked, in this order; `lacking` are named in it and not configured."""

    providers: tuple[Provider, ...]
    lacking: tuple[str, ...] = ()
    # Calls of these are counted, limited and recorded.
    is_live: bool = False


# Source -> provider, and check -> country -> route.
_live: dict[str, Provider] = {}
_routes: dict[str, dict[str, Route]] = {}


def configure(
    sources: Mapping[str, tuple[str, Mapping[str, Any]]],
    routes: Mapping[str, Mapping[str, Sequence[str]]],
) -> None:
    """Make the live providers from {source: (dotted path, options)}, and their routes
    from {check: {country: sources}}."""
    _live.clear()
    _routes.clear()
    for source, (path, options) in sources.items():
        module, _, name = path.rpartition(".")
        _live[source] = getattr(import_module(module), name)(**options)
    for check, by_country in routes.items():
        _routes[check] = {
            country: _route(names) for country, names in by_country.items()
        }


def route_for(check: str, environment: str, country: str) -> Route:
    """Who answers this check in this environment, about subjects of this country."""
    if environment != "production":
        return _in_sandbox
    by_country = _routes.get(check, {})
    route = by_country.get(country) or by_country.get(EVERYWHERE)
    return route if route and route.providers else _nowhere


def among(route: Route, names: Collection[str]) -> Route:
    """The part of a live route that these sources are on."""
    if not route.is_live or all(one.name in names for one in route.providers):
        return route
    kept = tuple(one for one in route.providers if one.name in names)
    return replace(route, providers=kept) if kept else _not_consented


def sources_of(check: str) -> list[Provider]:
    """All that the check may ask, about subjects of any country."""
    found = [
        one for route in _routes.get(check, {}).values() for one in route.providers
    ]
    return list({one.name: one for one in found}.values())


def is_answered(check: str, environment: str, country: str) -> bool:
    """Whether this installation has anybody who answers this check, about subjects of
    this country; not whether they can be reached now."""
    if environment != "production" or asks_referee(check, environment):
        return True
    return route_for(check, environment, country).is_live


def asks_referee(check: str, environment: str) -> bool:
    """Whether we ask a referee ourselves, where no live source is asked."""
    return environment == "production" and check == REFEREES_CHECK


def live_sources() -> list[str]:
    """All that are configured, whether or not they are on any route."""
    return sorted(_live)


def provider_named(source: str) -> Provider | None:
    """The live source of this name, if it is configured."""
    return _live.get(source)


def _route(names: Sequence[str]) -> Route:
    found = tuple(_live[name] for name in names if name in _live)
    return Route(found, tuple(name for name in names if name not in _live), bool(found))


class _NotConfigured:
    name: ClassVar[str] = "none"
    waits_on_network: ClassVar[bool] = False
    repeats_are_free: ClassVar[bool] = True

    def ask(self, inquiry: Inquiry) -> Finding:
        raise Refused(
            "PROVIDER_NOT_CONFIGURED",
            f"This installation has no live source for {inquiry.check}.",
        )


class _NotConsented(_NotConfigured):
    def ask(self, inquiry: Inquiry) -> Finding:
        raise Refused(
            "SOURCE_NOT_CONSENTED",
            f"The sources of {inquiry.check} have changed since the subject agreed. "
            "Order a new report, whose notice names the present ones.",
        )


_in_sandbox = Route((_sandbox,))
_nowhere = Route((_NotConfigured(),))
_not_consented = Route((_NotConsented(),))
