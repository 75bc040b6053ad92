"""Load a list's file in place of the edition before, completely or not at all."""

from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date
from hashlib import file_digest
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from verification.db.base import run_sql
from verification.values.clock import now
from verification.watchlists.list_formats import (
    FORMATS,
    Entry,
    FileHeader,
    UnreadableFile,
    read_entries,
)
from verification.watchlists.models import Edition, EntryKind, ListEntry, ListName

BATCH = 1_000
# A file with less than this share of the last edition has probably broken off.
MIN_SHARE = 0.5
OVERRIDE = "If that is right, --may-shrink loads it."


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
            help="load it although it is older, or has far less than it should",
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
        file.seek(0)
        if file_digest(file, "sha256").hexdigest() != digest:
            raise UnreadableFile("The file was changed while it was read.")
    if not found:
        raise UnreadableFile("The file has no person or company in it.")
    with transaction.atomic():
        _lock(name)
        before = Edition.objects.filter(list=name, is_current=True).first()
        # A newer version of the service may read more dates of the same file.
        stored = ListEntry.objects.filter(edition=before).order_by("pk")
        dates = list(stored.values_list("birth_dates", flat=True))
        is_same = dates == [entry.births for entry in found]
        if before and before.sha256 == digest and is_same:
            before.confirmed_at = now()
            before.save(update_fields=["confirmed_at"])
            return before, False
        if not may_shrink:
            _check_size(name, before, found)
            _check_age(before, head.published)
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
    key = f"watchlist {name}"
    run_sql("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [key])


def _check_size(name: str, before: Edition | None, found: list[Entry]) -> None:
    """Refuse a file with far too little: of a kind too, if a publisher renames it.

    The limit of a first file depends on the publisher: OFAC's other list has the same
    form and a fortieth of the entries.
    """
    counts = _count((entry.kind, entry.names) for entry in found)
    least = {"entries": FORMATS[ListName(name)].least, "people": 1, "companies": 1}
    expected = "the list has {} at the very least"
    if before:
        least = _count(before.entries.values_list("kind", "names"))
        expected = "the one before had {}"
    for what, count in least.items():
        if counts[what] < (count * MIN_SHARE if before else count):
            raise UnreadableFile(
                f"The file has {counts[what]} {what}, and {expected.format(count)}. "
                + OVERRIDE
            )


def _count(entries: Iterable[tuple[str, Sequence[str]]]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for kind, names in entries:
        counts["entries"] += 1
        counts["people" if kind == EntryKind.PERSON else "companies"] += 1
        counts["names"] += len(names)
    return counts


def _check_age(before: Edition | None, published: date | None) -> None:
    """Refuse a file that is older than the edition that it would replace."""
    newest = before.published_on if before else None
    if published and newest and published < newest:
        raise UnreadableFile(
            f"The file is of {published}, and the one before of {newest}. {OVERRIDE}"
        )
