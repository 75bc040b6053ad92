"""Loading a file of a list in place of the one before, all of it or nothing."""

from __future__ import annotations

import math
from hashlib import file_digest
from pathlib import Path

from django.db import connection, transaction
from django.utils.timezone import now

from verification.watchlists.formats import (
    FORMATS,
    Entry,
    FileHeader,
    UnreadableFile,
    read_entries,
)
from verification.watchlists.models import Edition, ListEntry, ListName

BATCH = 1_000
# A list that loses more than this share at once is a file that broke off, more likely.
MIN_SHARE = 0.5


def load_list(
    path: Path, name: str, *, may_shrink: bool = False
) -> tuple[Edition, bool]:
    """The edition, and whether it is a new one. Raises Unreadable."""
    head = FileHeader()
    with path.open("rb") as file:
        digest = file_digest(file, "sha256").hexdigest()
        file.seek(0)
        found = list(read_entries(file, name, head))
    if not found:
        raise UnreadableFile("The file has no person or company in it.")
    with transaction.atomic():
        _lock(name)
        before = Edition.objects.filter(list=name, is_current=True).first()
        if before and before.sha256 == digest:
            before.confirmed_at = now()
            before.save(update_fields=["confirmed_at"])
            return before, False
        if not may_shrink:
            _check_size(name, before, len(found))
        if before:
            Edition.objects.filter(pk=before.pk).update(is_current=False)
            ListEntry.objects.filter(edition=before).delete()
        made = Edition.objects.create(
            list=name,
            sha256=digest,
            published_on=head.published,
            entry_count=len(found),
        )
        rows = (_row(entry, made) for entry in found)
        ListEntry.objects.bulk_create(rows, batch_size=BATCH)
    return made, True


def _lock(name: str) -> None:
    """Two loads of one list, one after the other: both replace what is there."""
    with connection.cursor() as cursor:
        key = f"watchlist {name}"
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [key])


def _check_size(name: str, before: Edition | None, count: int) -> None:
    """Refuse a file that has far too few entries. Of a first one that is a number of
    the publisher: OFAC's other list looks the same, and has a fortieth of them."""
    least, told = (
        FORMATS[ListName(name)].least,
        "the list has {least} at the very least",
    )
    if before:
        least = math.ceil(MIN_SHARE * before.entry_count)
        told = f"the one before had {before.entry_count}"
    if count < least:
        raise UnreadableFile(
            f"The file has {count} entries, and {told.format(least=least)}. "
            "If that is right, --may-shrink loads it."
        )


def _row(entry: Entry, edition: Edition) -> ListEntry:
    return ListEntry(
        edition=edition,
        reference=entry.reference,
        kind=entry.kind,
        names=entry.names,
        birth_dates=entry.births,
        countries=entry.countries,
    )
