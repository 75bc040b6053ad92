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

from verification.providers.base import (
    Finding,
    Inquiry,
    NotTold,
    Provider,
    Refused,
    covers_subject,
)
from verification.providers.sandbox import Sandbox

REFEREE_CHECK = "EMPLOYER_VERIFICATION"
# Stands for every country that is not named.
EVERYWHERE = "*"
# The way out where the subject of a report was not shown the present sources.
ORDER_AGAIN = "Order a new report, whose notice names the sources."
_sandbox = Sandbox()


@dataclass(frozen=True, slots=True)
class Route:
    """Who is asked, in this order; `lacking` are named in it and not configured."""

    providers: tuple[Provider, ...]
    lacking: tuple[str, ...] = ()
    # Calls of these are counted, limited and recorded.
    is_live: bool = False

    def about(self, country: str) -> Route | None:
        """The part of it that can be asked about subjects in this country."""
        asked = {"country": country}
        kept = tuple(one for one in self.providers if covers_subject(one, asked))
        return replace(self, providers=kept) if kept else None

    def withheld(self, check: str) -> str:
        """Why `among` left no source of the route; empty if it left one."""
        provider = self.providers[0]
        return provider.told(check) if isinstance(provider, _WithheldSource) else ""


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
        return _sandbox_route
    by_country = _routes.get(check, {})
    route = by_country.get(country) or by_country.get(EVERYWHERE)
    return (route and route.about(country)) or _unconfigured_route


def restrict_route(route: Route, names: Collection[str] | None) -> Route:
    """The part of a live route whose sources the subject was shown. `names` is None
    where the notice named no source of the check."""
    if not route.is_live:
        return route
    kept = tuple(one for one in route.providers if one.name in (names or ()))
    if not kept:
        return _unnamed_sources_route if names is None else _changed_sources_route
    return route if kept == route.providers else replace(route, providers=kept)


def sources_of(check: str) -> list[Provider]:
    """All that the check may ask, about subjects of any country."""
    found = [
        one for route in _routes.get(check, {}).values() for one in route.providers
    ]
    return list({one.name: one for one in found}.values())


def has_source(check: str, environment: str, country: str) -> bool:
    """Whether this installation has anybody who answers this check, about subjects of
    this country; not whether they can be reached now."""
    if environment != "production" or asks_referee(check, environment):
        return True
    return route_for(check, environment, country).is_live


def asks_referee(check: str, environment: str) -> bool:
    """Whether we ask a referee ourselves, where no live source is asked."""
    return environment == "production" and check == REFEREE_CHECK


def live_sources() -> list[str]:
    """All that are configured, whether or not they are on any route."""
    return sorted(_live)


def provider_named(source: str) -> Provider | None:
    """The live source of this name, if it is configured."""
    return _live.get(source)


def _route(names: Sequence[str]) -> Route:
    found = tuple(_live[name] for name in names if name in _live)
    return Route(found, tuple(name for name in names if name not in _live), bool(found))


@dataclass(frozen=True, slots=True)
class _NoSource:
    """The only provider of a route whose sources cannot be asked: it says why."""

    code: str
    message: str
    name: ClassVar[str] = "none"
    waits_on_network: ClassVar[bool] = False
    repeats_are_free: ClassVar[bool] = True
    countries: ClassVar[frozenset[str]] = frozenset()
    not_told: ClassVar[NotTold] = {}

    def told(self, check: str) -> str:
        return self.message.format(check=check)

    def ask(self, inquiry: Inquiry) -> Finding:
        raise Refused(self.code, self.told(inquiry.check))


class _WithheldSource(_NoSource):
    """Stands for sources that the subject was not shown."""

    def ask(self, inquiry: Inquiry) -> Finding:
        raise Refused(self.code, f"{self.told(inquiry.check)} {ORDER_AGAIN}")


_sandbox_route = Route((_sandbox,))
_unconfigured_route = Route(
    (
        _NoSource(
            "PROVIDER_NOT_CONFIGURED",
            "This installation has no live source for {check}.",
        ),
    )
)
_changed_sources_route = Route(
    (
        _WithheldSource(
            "SOURCE_NOT_CONSENTED",
            "The sources of {check} have changed since the subject agreed, and the "
            "notice that they read names none of the present ones.",
        ),
    )
)
_unnamed_sources_route = Route(
    (
        _WithheldSource(
            "SOURCE_NOT_CONSENTED",
            "The subject agreed to {check} by an earlier notice, which named no source "
            "of it.",
        ),
    )
)
