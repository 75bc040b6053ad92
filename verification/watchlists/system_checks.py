"""Checks of screening for `manage.py check`.

Every start checks the settings; `--database default` checks the lists as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning
from django.utils.timezone import now

from verification.watchlists.models import Edition, ListName

PAGE = "docs/providers.md says how names are screened."
SOURCE = "verification.watchlists.source.WatchLists"


def check_settings(**options: Any) -> list[CheckMessage]:
    found: list[CheckMessage] = []
    thresholds = [of.get("threshold", 1) for _, of in settings.PROVIDERS.values()]
    if not all(0.5 <= threshold <= 1 for threshold in thresholds):
        text = "AML_THRESHOLD has to be between 0.5 and 1."
        found.append(Error(text, hint=PAGE, id="watchlists.E002"))
    known = ", ".join(ListName.values)
    for name in sorted(set(_required_lists()) - set(ListName.values)):
        text = f"AML_LISTS names {name!r}; the lists are {known}."
        found.append(Error(text, hint=PAGE, id="watchlists.E001"))
    return found


def check_lists(
    databases: Sequence[str] | None = None, **options: Any
) -> list[CheckMessage]:
    """Check the lists, if the command may use the database."""
    if not databases:
        return []
    required = _required_lists()
    found = Edition.objects.filter(is_current=True, list__in=required)
    confirmed = {edition.list: edition.confirmed_at for edition in found}
    texts = []
    for name, days in required.items():
        if name not in confirmed:
            texts.append(f"The {name} list has not been loaded.")
        elif confirmed[name] < now() - timedelta(days=days):
            texts.append(f"The {name} list was not loaded for {days} days.")
    hint = "manage.py load_watchlist loads it; until then nobody is screened."
    return [Warning(each, hint=hint, id="watchlists.W001") for each in texts]


def _required_lists() -> dict[str, int]:
    """Return the lists of the settings, and the days after which each is too old."""
    return {
        name: given["days"]
        for path, given in settings.PROVIDERS.values()
        if path == SOURCE
        for name in given["lists"]
    }
