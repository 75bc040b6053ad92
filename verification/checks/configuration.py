"""What `manage.py check`, and with it every start, says of the live sources."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning

from verification.source_settings import on_test_hosts

PAGE = "docs/providers.md says how to configure the sources."


def check_sources(**options: Any) -> list[CheckMessage]:
    """Registered by the app."""
    found: list[CheckMessage] = []
    for name in settings.PROVIDERS_LACK:
        told = f"{name} is not set; its source is not asked."
        found.append(Error(told, hint=PAGE, id="checks.E001"))
    if not settings.DEBUG and (tried := on_test_hosts(settings.PROVIDERS)):
        told = f"A test server answers {', '.join(tried)}: nobody real is looked up."
        found.append(Warning(told, hint=PAGE, id="checks.W001"))
    return found
