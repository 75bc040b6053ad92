"""Erase and stop again what a restored backup has brought back, by the journal."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from verification.privacy.journal import JournalUnavailable
from verification.privacy.replay import replay


class Command(BaseCommand):
    help = (
        "Erase again, and stop again, what a restored backup has brought back."
        " Safe to run twice."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            done, failed = replay()
        except JournalUnavailable as e:
            raise CommandError(f"The journal is away: {e}.") from e
        self.stdout.write(f"{done} files of the journal replayed.")
        if failed:
            raise CommandError(f"{failed} files failed; the log says why.")
