import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from psycopg import sql


class Command(BaseCommand):
    help = (
        "Tries whether a backup can be restored: restores it into a new database on "
        "the same server, makes the checks of `restore`, and drops that "
        "database. Run it every month. The role needs CREATEDB."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("folder", metavar="FOLDER", type=Path)

    def handle(self, *args: Any, **options: Any) -> None:
        name = f"verification_drill_{os.getpid()}"
        began = time.monotonic()
        database = sql.Identifier(name)
        with psycopg.connect(settings.DATABASE_DIRECT_URL, autocommit=True) as server:
            try:
                server.execute(sql.SQL("CREATE DATABASE {}").format(database))
            except psycopg.errors.InsufficientPrivilege:
                raise CommandError(
                    "The role of DATABASE_URL may not create databases; give it the "
                    "right: ALTER ROLE ... CREATEDB"
                ) from None
            try:
                done = self._restore(options["folder"], name)
            finally:
                drop = sql.SQL("DROP DATABASE {} WITH (FORCE)").format(database)
                server.execute(drop)
        if done:
            raise CommandError("The backup cannot be restored; see above.")
        seconds = time.monotonic() - began
        self.stdout.write(f"The backup can be restored: {seconds:.0f} s.")

    def _restore(self, folder: Path, database: str) -> int:
        """Run `restore` in a process of its own, with its own documents."""
        url = (
            urlsplit(settings.DATABASE_DIRECT_URL)
            ._replace(path=f"/{database}")
            .geturl()
        )
        with tempfile.TemporaryDirectory() as documents:
            environment = {
                **os.environ,
                "DATABASE_URL": url,
                "DATABASE_DIRECT_URL": url,
                "DOCUMENTS_BUCKET": "",
                "DOCUMENTS_DIR": documents,
            }
            command = [sys.executable, *sys.argv[:1], "restore", str(folder.absolute())]
            return subprocess.run(command, env=environment, check=False).returncode  # noqa: S603
