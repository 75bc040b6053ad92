"""Warnings of `manage.py check`, and so of every start, about the live sources."""

from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning, register
from django.utils.module_loading import import_string

from verification.providers import registry
from verification.settings.providers import (
    EVERYWHERE,
    OTHERS,
    find_sources_on_test_hosts,
)

HINT = "docs/operator/providers.md says how to configure the sources."


class ChecksConfig(AppConfig):
    name = "verification.checks"
    label = "checks"

    def ready(self) -> None:
        register(check_sources)
        registry.configure(settings.PROVIDERS, settings.SOURCE_ROUTES)


def check_sources(**options: Any) -> list[CheckMessage]:
    """Return warnings about credentials, routes and test hosts of the sources."""
    found: list[CheckMessage] = []
    for name in settings.PROVIDERS_LACK:
        text = f"{name} is not set; its source is not asked."
        found.append(Error(text, hint=HINT, id="checks.E001"))
    for text in [*settings.SOURCE_ROUTES_WRONG, *_routes_outside_coverage()]:
        found.append(Error(text, hint=HINT, id="checks.E002"))
    if not settings.DEBUG and (tried := find_sources_on_test_hosts(settings.PROVIDERS)):
        text = f"A test server stands for {', '.join(tried)}: nobody real is looked up."
        found.append(Warning(text, hint=HINT, id="checks.W001"))
    if settings.PROVIDERS and (failing := _routes_without_source()):
        # One message, because every command prints it.
        text = f"Live checks without a source fail: {', '.join(failing)}."
        found.append(Warning(text, hint=HINT, id="checks.W002"))
    return found


def _routes_outside_coverage() -> list[str]:
    """Describe the sources on routes of countries that they do not cover."""
    return [
        f"SOURCES_{check}_{OTHERS if country == EVERYWHERE else country}: {name} is "
        f"asked about subjects in {', '.join(sorted(countries))} alone."
        for check, by_country in settings.SOURCE_ROUTES.items()
        for country, names in by_country.items()
        for name in set(names) & set(settings.PROVIDERS)
        if (countries := import_string(settings.PROVIDERS[name][0]).countries)
        # OTHERS are the countries without a route of their own.
        and not (
            countries - set(by_country)
            if country == EVERYWHERE
            else {country} & countries
        )
    ]


def _routes_without_source() -> list[str]:
    """Return the routes without a configured source."""
    return [
        f"{check} {'elsewhere' if country == EVERYWHERE else f'in {country}'}"
        for check, by_country in settings.SOURCE_ROUTES.items()
        for country, names in by_country.items()
        if not set(names) & set(settings.PROVIDERS)
    ]
