import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection
from psycopg import sql

from verification.backups.archive import PARTIAL
from verification.backups.models import RestoreDrill
from verification.jobs.processes import parent_death_hook
from verification.jobs.queue import advisory_lock

# Of the name of a database in PostgreSQL
NAME_LENGTH = 63
SUFFIX = "_restore_drill"


class Command(BaseCommand):
    help = (
        "Tries whether a backup can be restored: restores it into a new database on "
        "the same server, makes the checks of `restore`, and drops that database. It "
        "removes what a drill left that was killed. Run it every month. The role needs "
        "CREATEDB."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("folder", metavar="FOLDER", type=Path)
        parser.add_argument(
            "--documents",
            metavar="DIR",
            type=Path,
            help="The folder with room for a copy of the backup's documents, which "
            "the drill removes again. By default it is the folder of the backups.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        began = time.monotonic()
        backup: Path = options["folder"].absolute()
        # Each service has one of this name, so the next drill finds it.
        name = connection.settings_dict["NAME"][: NAME_LENGTH - len(SUFFIX)] + SUFFIX
        parent: Path = (options["documents"] or backup.parent).absolute()
        with advisory_lock("restore_drill") as is_mine:
            if not is_mine:
                raise CommandError("Another restore drill runs; wait for its end.")
            drill = RestoreDrill.objects.create()
            try:
                code = _try(backup, name, parent / f"{name}{PARTIAL}")
            except psycopg.errors.InsufficientPrivilege:
                raise CommandError(
                    "The role of DATABASE_URL may not create databases; give it the "
                    "right: ALTER ROLE ... CREATEDB"
                ) from None
            except psycopg.Error as e:
                reason = str(e).partition("\n")[0]
                raise CommandError(f"{name} cannot be made or dropped: {reason}") from e
            except OSError as e:
                raise CommandError(
                    f"{parent} cannot take documents: {e}. Name another folder by "
                    "--documents."
                ) from e
            if code:
                raise CommandError("The backup cannot be restored; see above.")
            drill.succeeded, drill.seconds = True, time.monotonic() - began
            drill.save()
        self.stdout.write(f"The backup can be restored: {drill.seconds:.0f} s.")


def _try(backup: Path, name: str, documents: Path) -> int:
    """Restore the backup into a new database and folder, and remove both.

    Return the code of `restore`. A drill that was killed may have left both.
    """
    database = sql.Identifier(name)
    with psycopg.connect(settings.DATABASE_DIRECT_URL, autocommit=True) as server:
        _drop(server, database)
        server.execute(sql.SQL("CREATE DATABASE {}").format(database))
        try:
            shutil.rmtree(documents, ignore_errors=True)
            documents.mkdir(mode=0o700)
            return _restore(backup, name, documents)
        finally:
            _drop(server, database)
            shutil.rmtree(documents, ignore_errors=True)


def _drop(server: psycopg.Connection[Any], database: sql.Identifier) -> None:
    """Drop a drill's database if it exists."""
    drop = sql.SQL("DROP DATABASE IF EXISTS {}").format(database)
    try:
        # This ends autovacuum, which FORCE may not do for a role that is no superuser.
        server.execute(drop)
    except psycopg.errors.ObjectInUse:
        # A session of a drill that was killed.
        server.execute(drop + sql.SQL(" WITH (FORCE)"))


def _restore(backup: Path, database: str, documents: Path) -> int:
    """Run `restore` in a process of its own, which ends with this one."""
    joint = "&" if "?" in settings.DATABASE_DIRECT_URL else "?"
    # The last name of a database in a URL counts.
    url = f"{settings.DATABASE_DIRECT_URL}{joint}dbname={quote(database)}"
    environment = {
        **os.environ,
        "DATABASE_URL": url,
        "DATABASE_DIRECT_URL": url,
        # The service may have its URL in a file.
        "DATABASE_URL_FILE": "",
        "DATABASE_DIRECT_URL_FILE": "",
        "DOCUMENTS_BUCKET": "",
        "DOCUMENTS_DIR": str(documents),
    }
    return subprocess.run(  # noqa: S603
        [sys.executable, *sys.argv[:1], "restore", str(backup)],
        env=environment,
        preexec_fn=parent_death_hook(),
        check=False,
    ).returncode
