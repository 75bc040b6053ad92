"""Load a list's file in place of the edition before, completely or not at all."""

from __future__ import annotations

import math
from argparse import ArgumentParser
from hashlib import file_digest
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connection, transaction

from verification.values.clock import now
from verification.watchlists.list_formats import (
    FORMATS,
    FileHeader,
    UnreadableFile,
    read_entries,
)
from verification.watchlists.models import Edition, ListEntry, ListName

BATCH = 1_000
# A file with less than this share of the last edition has probably broken off.
MIN_SHARE = 0.5


class Command(BaseCommand):
    help = (
        "Load a sanctions list from its publisher's file, in place of the one before. "
        "Run it daily, also where the file is the same: a list that is not confirmed "
        "becomes too old to be searched."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("list", choices=ListName.values)
        parser.add_argument("file", type=Path)
        parser.add_argument(
            "--may-shrink",
            action="store_true",
            help="load it although it has far fewer entries than it should",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            edition, is_new = load_list(
                options["file"], options["list"], may_shrink=options["may_shrink"]
            )
        except (UnreadableFile, OSError) as e:
            raise CommandError(f"{options['list']} was not loaded: {e}") from None
        outcome = "loaded" if is_new else "is the one that was loaded before"
        day = edition.published_on or "an unknown day"
        self.stdout.write(
            f"{edition.list} of {day} {outcome}: {edition.entry_count} entries."
        )


def load_list(
    path: Path, name: str, *, may_shrink: bool = False
) -> tuple[Edition, bool]:
    """Load a file. Returns the edition and whether it is new. Raises UnreadableFile."""
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
        rows = (
            ListEntry(
                edition=made,
                reference=entry.reference,
                kind=entry.kind,
                names=entry.names,
                birth_dates=entry.births,
                countries=entry.countries,
            )
            for entry in found
        )
        ListEntry.objects.bulk_create(rows, batch_size=BATCH)
    return made, True


def _lock(name: str) -> None:
    """Let two loads of one list run one after the other."""
    with connection.cursor() as cursor:
        key = f"watchlist {name}"
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [key])


def _check_size(name: str, before: Edition | None, count: int) -> None:
    """Refuse a file with far too few entries.

    The limit of a first file depends on the publisher: OFAC's other list has the same
    form and a fortieth of the entries.
    """
    least = FORMATS[ListName(name)].least
    expected = f"the list has {least} at the very least"
    if before:
        least = math.ceil(MIN_SHARE * before.entry_count)
        expected = f"the one before had {before.entry_count}"
    if count < least:
        raise UnreadableFile(
            f"The file has {count} entries, and {expected}. "
            "If that is right, --may-shrink loads it."
        )
