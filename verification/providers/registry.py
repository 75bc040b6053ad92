"""Choose the sources of a check, and name them for the subject's notice.

No other module chooses sources. The sandbox has one provider and never reads the table
of live ones; production never gets the sandbox's. Without a live source of employments,
a referee answers on a hosted page (`verification.references`). The app of the checks
calls `configure` once, when it is ready.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from verification.providers.base import (
    Finding,
    Inquiry,
    Provider,
    Refused,
    covers_subject,
)
from verification.providers.opensanctions import OpenSanctions
from verification.providers.sandbox import Sandbox, reserved_members

REFEREE_CHECK = "EMPLOYER_VERIFICATION"
# Stands for all countries that a check's routes do not name.
EVERYWHERE = "*"
# Advice for a report whose notice does not name the present sources.
ORDER_AGAIN = "Order a new report, whose notice names the sources."
RECIPIENTS = Path(__file__).with_name("recipients.toml")
HOME = "KE"
# This source searches the operator's own lists, so no details leave the installation.
LOCAL_SOURCE = "watchlists"
_sandbox = Sandbox()


@dataclass(frozen=True, slots=True)
class Route:
    """The sources of a check in order; `lacking` are named in it and not configured."""

    providers: tuple[Provider, ...]
    lacking: tuple[str, ...] = ()
    # Calls of live sources are counted, limited and recorded.
    is_live: bool = False

    def about(self, country: str) -> Route | None:
        """Return the route with the sources that cover this country, or None."""
        subject = {"country": country}
        able = tuple(one for one in self.providers if covers_subject(one, subject))
        return replace(self, providers=able) if able else None

    def withheld(self, check: str) -> str:
        """Return why `restrict_route` left no source, or '' if it left one."""
        provider = self.providers[0]
        return provider.text(check) if isinstance(provider, _WithheldSource) else ""


@dataclass(frozen=True, slots=True)
class Recipient:
    """A company that receives details of the subject.

    `register` is the register that it asks in its turn, and `safeguards` protect
    details that leave Kenya; both may be blank.
    """

    name: str
    country: str = ""
    country_code: str = ""
    is_abroad: bool = False
    register: str = ""
    safeguards: str = ""


# Source -> provider, and check -> country -> route.
_live: dict[str, Provider] = {}
_routes: dict[str, dict[str, Route]] = {}


def configure(
    sources: Mapping[str, tuple[str, Mapping[str, Any]]],
    routes: Mapping[str, Mapping[str, Sequence[str]]],
) -> None:
    """Make the live providers and their routes.

    `sources` are {source: (dotted path, options)}, and `routes` are
    {check: {country: sources}}.
    """
    _live.clear()
    _routes.clear()
    for source, (path, options) in sources.items():
        module, _, name = path.rpartition(".")
        _live[source] = getattr(import_module(module), name)(**options)
    for check, by_country in routes.items():
        _routes[check] = {}
        for country, names in by_country.items():
            found = tuple(_live[name] for name in names if name in _live)
            lacking = tuple(name for name in names if name not in _live)
            _routes[check][country] = Route(found, lacking, is_live=bool(found))


def route_for(check: str, environment: str, country: str) -> Route:
    """Return the route of a check in an environment, for subjects of this country."""
    if environment != "production":
        return _sandbox_route
    by_country = _routes.get(check, {})
    route = by_country.get(country) or by_country.get(EVERYWHERE)
    return (route and route.about(country)) or _unconfigured_route


def restrict_route(route: Route, names: Collection[str] | None) -> Route:
    """Return the part of a live route that the subject's notice names.

    `names` is None if the notice named no source of the check.
    """
    if not route.is_live:
        return route
    named = tuple(one for one in route.providers if one.name in (names or ()))
    if not named:
        return _unnamed_sources_route if names is None else _changed_sources_route
    return route if named == route.providers else replace(route, providers=named)


def sources_of(check: str) -> list[Provider]:
    """Return the live sources of a check for all countries."""
    found = [
        one for route in _routes.get(check, {}).values() for one in route.providers
    ]
    return list({one.name: one for one in found}.values())


def has_source(check: str, environment: str, country: str) -> bool:
    """Return whether this installation can answer the check for this country.

    It does not say that the sources are reachable now.
    """
    if environment != "production" or asks_referee(check, environment):
        return True
    return route_for(check, environment, country).is_live


def asks_referee(
    check: str, environment: str, subject: Mapping[str, Any] | None = None
) -> bool:
    """Return whether a referee answers the check, in place of a live source.

    In the sandbox only a referee with the reserved address of the subject does.
    """
    if environment == "production":
        return check == REFEREE_CHECK
    return check == REFEREE_CHECK and "refereeEmail" in reserved_members(subject or {})


def live_sources() -> list[str]:
    """Return the names of all configured sources, on a route or not."""
    return sorted(_live)


def provider_named(source: str) -> Provider | None:
    """Return the live source of this name, or None if it is not configured."""
    return _live.get(source)


@dataclass(frozen=True)
class _NoSource(Provider):
    """The only provider of a route without usable sources: it raises the reason."""

    code: str
    message: str
    name = "none"
    waits_on_network = False
    repeats_are_free = True

    def text(self, check: str) -> str:
        return self.message.format(check=check)

    def ask(self, inquiry: Inquiry) -> Finding:
        raise Refused(self.code, self.text(inquiry.check))


class _WithheldSource(_NoSource):
    """Stands for sources that the subject's notice did not name."""

    def ask(self, inquiry: Inquiry) -> Finding:
        raise Refused(self.code, f"{self.text(inquiry.check)} {ORDER_AGAIN}")


def _withheld_route(message: str) -> Route:
    return Route((_WithheldSource("SOURCE_NOT_CONSENTED", message),))


_sandbox_route = Route((_sandbox,))
_missing = "This installation has no live source for {check}."
_unconfigured_route = Route((_NoSource("PROVIDER_NOT_CONFIGURED", _missing),))
_changed_sources_route = _withheld_route(
    "The sources of {check} have changed since the subject agreed, and the notice that "
    "they read names none of the present ones."
)
_unnamed_sources_route = _withheld_route(
    "The subject agreed to {check} by an earlier notice, which named no source of it."
)


def recipient(source: str, check: str, language: str) -> Recipient | None:
    """Return the recipient, or None for a source that runs in this installation.

    A source without an entry in the file goes by its own name.
    """
    provider = provider_named(source)
    is_own = isinstance(provider, OpenSanctions) and not provider.is_hosted
    if source == LOCAL_SOURCE or is_own:
        return None
    known = _read_recipients()["sources"].get(source)
    if known is None:
        return Recipient(source)
    return Recipient(
        known["name"][language],
        _read_recipients()["countries"][known["country"]][language],
        known["country"],
        known["country"] != HOME,
        known.get("asks", {}).get(check, {}).get(language, ""),
        known.get("safeguards", {}).get(language, ""),
    )


@cache
def _read_recipients() -> dict[str, Any]:
    return tomllib.loads(RECIPIENTS.read_text("utf-8"))
