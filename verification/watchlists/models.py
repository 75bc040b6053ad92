"""Editions of sanctions lists and their entries, and the system checks of both.

Every start checks the settings; `check --database default` checks the lists as well.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import models
from django.db.models import Q

from verification.db.models import Row
from verification.values.clock import now


class ListName(models.TextChoices):
    UN = "UN", "United Nations"
    OFAC = "OFAC", "OFAC, United States"
    UK = "UK", "United Kingdom"
    EU = "EU", "European Union"


class EntryKind(models.TextChoices):
    PERSON = "PERSON"
    COMPANY = "COMPANY"


class Edition(Row):
    """One loaded file of a list.

    A newer edition deletes its entries; the row stays, because findings name it.
    """

    list = models.CharField(max_length=4, choices=ListName)
    published_on = models.DateField(null=True)
    sha256 = models.CharField(max_length=64)
    entry_count = models.PositiveIntegerField()
    loaded_at = models.DateTimeField(default=now, editable=False)
    # The last time that this file was known to be the newest.
    confirmed_at = models.DateTimeField(default=now, editable=False)
    is_current = models.BooleanField(default=True)

    class Meta:
        ordering = ["-loaded_at"]
        constraints = [
            models.UniqueConstraint(
                fields=["list"],
                condition=Q(is_current=True),
                name="one_current_edition_a_list",
            ),
            # An empty list would clear everybody.
            models.CheckConstraint(
                name="edition_has_entries", condition=Q(entry_count__gt=0)
            ),
        ]

    def __str__(self) -> str:
        return f"{self.list} {self.version}"

    @property
    def version(self) -> str:
        day = f"{self.published_on} " if self.published_on else ""
        return f"{day}{self.sha256[:8]}"


class ListEntry(models.Model):
    """A person or a company on a list."""

    id = models.BigAutoField(primary_key=True)
    edition = models.ForeignKey(Edition, models.CASCADE, related_name="entries")
    # The list's id of the entry.
    reference = models.CharField(max_length=60)
    kind = models.CharField(max_length=7, choices=EntryKind)
    # The primary name comes first.
    names = ArrayField(models.CharField(max_length=300))
    # YYYY-MM-DD, YYYY-MM, YYYY, or two years: 1960/1965.
    birth_dates = ArrayField(models.CharField(max_length=10), default=list)
    countries = ArrayField(models.CharField(max_length=2), default=list)

    class Meta:
        verbose_name_plural = "listed"

    def __str__(self) -> str:
        return self.reference


HINT = "docs/operator/providers.md says how names are screened."
SOURCE_PATH = "verification.watchlists.source.WatchLists"


@register
def check_settings(**options: Any) -> list[CheckMessage]:
    found: list[CheckMessage] = []
    thresholds = [of.get("threshold", 1) for _, of in settings.PROVIDERS.values()]
    if not all(0.5 <= threshold <= 1 for threshold in thresholds):
        text = "AML_THRESHOLD has to be between 0.5 and 1."
        found.append(Error(text, hint=HINT, id="watchlists.E002"))
    known = ", ".join(ListName.values)
    for name in sorted(set(_required_lists()) - set(ListName.values)):
        text = f"AML_LISTS names {name!r}; the lists are {known}."
        found.append(Error(text, hint=HINT, id="watchlists.E001"))
    return found


@register(Tags.database)
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
    hint = "verification load_watchlist loads it; until then nobody is screened."
    return [Warning(each, hint=hint, id="watchlists.W001") for each in texts]


def _required_lists() -> dict[str, int]:
    """Return the lists of the settings, and the days after which each is too old."""
    return {
        name: given["days"]
        for path, given in settings.PROVIDERS.values()
        if path == SOURCE_PATH
        for name in given["lists"]
    }
