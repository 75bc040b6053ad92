from pathlib import Path
from typing import Any

import psycopg
from django.core.management.base import BaseCommand, CommandError, CommandParser

from verification.backups.archive import BackupError, delete_old_backups, write_backup


class Command(BaseCommand):
    help = (
        "Writes a backup of the database and the documents into a new folder of DIR. "
        "It prints the folder. The keys are not in it: back them up elsewhere."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("dir", metavar="DIR", type=Path)
        parser.add_argument(
            "--keep-days",
            type=int,
            metavar="N",
            help="First delete backups of DIR of N days ago and older, but the newest.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if days := options["keep_days"]:
            delete_old_backups(options["dir"], days)
        try:
            self.stdout.write(str(write_backup(options["dir"])))
        except BackupError as e:
            raise CommandError(str(e)) from e
        except psycopg.Error as e:
            reason = str(e).partition("\n")[0]
            raise CommandError(f"The database cannot be read: {reason}.") from e
        except FileExistsError as e:
            raise CommandError(f"{e.filename} exists; try again in a second.") from e
        except OSError as e:
            raise CommandError(f"The backup cannot be written: {e}.") from e
