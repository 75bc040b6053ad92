"""The one place that chooses who is asked.

Sandbox has one provider and never looks at the table of live ones; production never
gets the sandbox's. Where there is no live source of employments, a referee is asked
through a page of ours, which `checks.refereeing` does. `configure` is called once, when
the app of the checks is ready.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar

from verification.providers.base import Finding, Inquiry, Provider, Refused
from verification.providers.sandbox import Sandbox

REFEREES_CHECK = "EMPLOYER_VERIFICATION"
# check name -> provider
_live: dict[str, Provider] = {}
_sandbox = Sandbox()


def configure(table: Mapping[str, tuple[str, Mapping[str, Any]]]) -> None:
    """Make the live providers from {check name: (dotted path, options)}."""
    _live.clear()
    for check, (path, options) in table.items():
        module, _, name = path.rpartition(".")
        _live[check] = getattr(import_module(module), name)(**options)


def provider_for(check: str, environment: str) -> Provider:
    """Who answers this check in this environment."""
    if environment != "production":
        return _sandbox
    return _live.get(check, _not_configured)


def asks_referee(check: str, environment: str) -> bool:
    """Whether we ask a referee ourselves, because no live source knows employments."""
    in_production = environment == "production"
    return in_production and check == REFEREES_CHECK and check not in _live


class _NotConfigured:
    name: ClassVar[str] = "none"
    waits_on_network: ClassVar[bool] = False

    def ask(self, inquiry: Inquiry) -> Finding:
        raise Refused(
            "PROVIDER_NOT_CONFIGURED",
            f"This installation has no live source for {inquiry.check}.",
        )


_not_configured = _NotConfigured()
