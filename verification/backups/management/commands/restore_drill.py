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

from verification.backups.models import RestoreDrill
from verification.db.startup import identify_database
from verification.files.storage import PARTIAL
from verification.jobs.processes import parent_death_hook
from verification.jobs.queue import advisory_lock

# Room that must be left for the service, besides the second database and its
# write-ahead log, which is as large.
RESERVE_BYTES = 2**30
LOCAL_HOSTS = {"", "localhost", "127.0.0.1", "::1"}
# Of the name of a database in PostgreSQL
NAME_LENGTH = 63
SUFFIX = "_restore_drill"


class Command(BaseCommand):
    help = (
        "Tries whether a backup can be restored: restores it into a new database on "
        "the server of DRILL_DATABASE_URL, which is the service's own unless you name "
        "another, makes the checks of `restore`, and drops that database. It removes "
        "what a drill left that was killed. Run it every month. The role needs "
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
        parser.add_argument(
            "--unmeasured",
            action="store_true",
            help="Do not measure the free space of the service's own server: you know "
            "that it has room for a second database.",
        )

        parser.add_argument(
            "--unsealed",
            action="store_true",
            help="Try a backup of version 1.0, which has no seal; see `restore`.",
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
            if not options["unmeasured"]:
                _require_room()
            drill = RestoreDrill.objects.create()
            try:
                restore = [str(backup), *["--unsealed"][: options["unsealed"]]]
                code = _try(restore, name, parent / f"{name}{PARTIAL}")
            except psycopg.errors.InsufficientPrivilege:
                raise CommandError(
                    "The role may not create databases; give it the right: ALTER ROLE "
                    "... CREATEDB"
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


def _require_room() -> None:
    """Raise CommandError if the drill might fill the disk of the service's database.

    A server that is not the service's own can do no harm to it.
    """
    try:
        if settings.DRILL_DATABASE_URL != settings.DATABASE_DIRECT_URL:
            drilled = identify_database(settings.DRILL_DATABASE_URL)
            if drilled[0] != identify_database(settings.DATABASE_DIRECT_URL)[0]:
                return
        with psycopg.connect(settings.DATABASE_DIRECT_URL, autocommit=True) as server:
            size = server.execute("SELECT pg_database_size(current_database())")
            ((bytes_used,),) = size.fetchall()
            free = _find_free_bytes(server)
    except psycopg.Error as e:
        reason = str(e).partition("\n")[0]
        raise CommandError(f"The server cannot be examined: {reason}") from e
    needed = 2 * bytes_used + RESERVE_BYTES
    if free is None:
        raise CommandError(
            f"It cannot be measured whether the server has the {_gigabytes(needed)} "
            "that a second database needs: it runs on another machine, or this role "
            "may not read where its data is (GRANT pg_monitor TO ...). Name "
            "another server by DRILL_DATABASE_URL, or look yourself and add "
            "--unmeasured."
        )
    if free < needed:
        raise CommandError(
            f"The server has {_gigabytes(free)} free, and a second database needs "
            f"{_gigabytes(needed)} with its write-ahead log and a reserve. Make room, "
            "or name another server by DRILL_DATABASE_URL."
        )


def _find_free_bytes(server: psycopg.Connection[Any]) -> int | None:
    """Return the free bytes of the server's data directory, or None if unknown."""
    host = server.info.host
    if not host.startswith("/") and host not in LOCAL_HOSTS:
        return None
    try:
        # The server tells it to superusers and members of pg_monitor.
        shown = server.execute("SHOW data_directory").fetchone()
        disk = os.statvfs(shown[0]) if shown else None
    except (psycopg.errors.InsufficientPrivilege, OSError):
        return None
    return disk.f_bavail * disk.f_frsize if disk else None


def _gigabytes(size: int) -> str:
    return f"{size / 2**30:.1f} GB"


def _try(restore: list[str], name: str, documents: Path) -> int:
    """Restore the backup into a new database and folder, and remove both.

    `restore` has the arguments of that command. Return its code. A drill that was
    killed may have left both.
    """
    database = sql.Identifier(name)
    with psycopg.connect(settings.DRILL_DATABASE_URL, autocommit=True) as server:
        _drop(server, database)
        server.execute(sql.SQL("CREATE DATABASE {}").format(database))
        try:
            shutil.rmtree(documents, ignore_errors=True)
            documents.mkdir(mode=0o700)
            return _restore(restore, name, documents)
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


def _restore(arguments: list[str], database: str, documents: Path) -> int:
    """Run `restore` in a process of its own, which ends with this one."""
    joint = "&" if "?" in settings.DRILL_DATABASE_URL else "?"
    # The last name of a database in a URL counts.
    url = f"{settings.DRILL_DATABASE_URL}{joint}dbname={quote(database)}"
    environment = {
        **os.environ,
        "DATABASE_URL": url,
        "DATABASE_DIRECT_URL": url,
        # The service may have its URL in a file, or from a command.
        "DATABASE_URL_FILE": "",
        "DATABASE_URL_COMMAND": "",
        "DATABASE_DIRECT_URL_FILE": "",
        "DATABASE_DIRECT_URL_COMMAND": "",
        "DOCUMENTS_BUCKET": "",
        "DOCUMENTS_DIR": str(documents),
    }
    return subprocess.run(  # noqa: S603
        [sys.executable, *sys.argv[:1], "restore", *arguments],
        env=environment,
        preexec_fn=parent_death_hook(),
        check=False,
    ).returncode
