from pathlib import Path
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser

from verification.backups.archive import (
    BackupError,
    open_sealed_values,
    read_backup,
    restore_backup,
)

# Names of documents that the command prints.
NAMED = 5


class Command(BaseCommand):
    help = (
        "Restores a backup into an empty database and into the documents' folder or "
        "bucket. Then it migrates to this version, carries out the journal again, "
        "opens sealed values and audits the ledger."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("folder", metavar="FOLDER", type=Path)
        parser.add_argument(
            "--unsealed",
            action="store_true",
            help="Restore a backup of version 1.0, which has no seal. Its statements "
            "run in the database: nobody else may have had access to its folder.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        folder: Path = options["folder"]
        try:
            manifest = read_backup(folder, trusts_unsealed=options["unsealed"])
            differing = restore_backup(folder, manifest)
            rows = sum(manifest.rows.values())
            self.stdout.write(f"Restored {rows} rows of {manifest.made_at}.")
            if differing:
                names = ", ".join(differing[:NAMED])
                self.stdout.write(
                    f"{len(differing)} documents differ from the backup's and stay as "
                    f"they are: {names}."
                )
            call_command("migrate", verbosity=0)
            call_command("replay_erasures", stdout=self.stdout)
            opened = open_sealed_values()
        except BackupError as e:
            raise CommandError(str(e)) from e
        except OSError as e:
            raise CommandError(f"The backup cannot be restored: {e}.") from e
        self.stdout.write(f"Opened {opened} sealed values.")
        call_command("audit_ledger", stdout=self.stdout)
