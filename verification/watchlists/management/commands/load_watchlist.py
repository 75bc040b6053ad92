from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from verification.watchlists.editions import load_list
from verification.watchlists.formats import UnreadableFile
from verification.watchlists.models import ListName


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
