"""Backups of the tests' database, and documents that come back from one."""

import hashlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import psycopg
import pytest
from django.conf import settings
from django.core.files.storage import FileSystemStorage
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection, transaction
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client, override_settings
from django.utils.timezone import now

from tests.configuration.test_refusals_to_start import database_url
from tests.golive.applications import draft
from tests.world.members import create_member, create_user
from verification.accounts.models import Session
from verification.backups import archive
from verification.backups.archive import (
    BackupError,
    read_backup,
    restore_backup,
    restore_documents,
    write_backup,
)
from verification.db import embedded, startup
from verification.db.startup import DatabaseRefused, require_schema
from workspaces.models import Workspace

CONTENT = b"the content of a sealed document"
# It notes how it was called, and does what it should.
SHIM = """#!/bin/sh
echo "$@" "password in the environment: $PGPASSWORD" >> {log}
exec {program} "$@"
"""
# It tells its number, and never ends by itself.
ENDLESS = """#!/bin/sh
[ "$1" = --version ] && exec echo "pg_dump (PostgreSQL) 99.0"
echo $$ > {begun}
exec sleep infinity
"""


@pytest.fixture(autouse=True)
def _everybody_reads() -> Any:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def url(db: None, settings: Any, tmp_path: Path) -> str:
    """Name the tests' database for backups; return its URL."""
    settings.STORAGES = settings.STORAGES | {"documents": storage_of(tmp_path / "docs")}
    (tmp_path / "docs/erasures/2026-11").mkdir(parents=True)
    (tmp_path / "docs/erasures/2026-11/a.json").write_bytes(b"{}")
    url = database_url("postgres", connection.settings_dict["NAME"])
    settings.DATABASE_DIRECT_URL = url
    return url


@pytest.fixture(scope="module")
def backup_of_the_module(
    django_db_setup: None, django_db_blocker: Any, tmp_path_factory: Any
) -> Path:
    folder = tmp_path_factory.mktemp("backup")
    put(folder / "docs", **{"erasures/2026-11/a.json": b"{}"})
    with (
        django_db_blocker.unblock(),
        transaction.atomic(),
        override_settings(
            STORAGES=settings.STORAGES | {"documents": storage_of(folder / "docs")},
            DATABASE_DIRECT_URL=database_url(
                "postgres", connection.settings_dict["NAME"]
            ),
        ),
    ):
        made = write_backup(folder / "backups")
        transaction.set_rollback(True)
    return made


@pytest.fixture
def made(url: str, backup_of_the_module: Path, tmp_path: Path) -> Path:
    """A copy of a backup of the database without rows, for the test to change."""
    copy = tmp_path / "backups" / backup_of_the_module.name
    return shutil.copytree(backup_of_the_module, copy)


@pytest.fixture
def new_database(url: str) -> Iterator[str]:
    """Create an empty database for a restore; return its URL."""
    name = f"{connection.settings_dict['NAME']}_restored"
    with psycopg.connect(url, autocommit=True) as server:
        server.execute(f"DROP DATABASE IF EXISTS {name}")
        server.execute(f"CREATE DATABASE {name}")
        yield database_url("postgres", name)
        server.execute(f"DROP DATABASE {name}")


def storage_of(folder: Path) -> dict[str, Any]:
    return {
        "BACKEND": "django.core.files.storage.FileSystemStorage",
        "OPTIONS": {"location": folder},
    }


def put(folder: Path, **files: bytes) -> None:
    for name, content in files.items():
        path = folder / "erasures" / name if name.startswith("j_") else folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def test_only_the_owner_can_read_a_backup(url: str, tmp_path: Path):
    made = write_backup(tmp_path / "new" / "backups")

    paths = [made.parent, made, *made.rglob("*")]
    assert {p.stat().st_mode & 0o777 for p in paths if p.is_dir()} == {0o700}
    assert {p.stat().st_mode & 0o777 for p in paths if p.is_file()} == {0o600}
    assert (made / "documents/erasures/2026-11/a.json").is_file()


def test_backup_has_no_sessions(
    transactional_db: None, url: str, tmp_path: Path
) -> None:
    user = create_user("grace")
    Client().force_login(user)
    made = write_backup(tmp_path / "backups")

    found = read_dump(made)
    assert user.email in found
    for (key,) in Session.objects.values_list("session_key"):
        assert key not in found
    assert "accounts_session" not in read_backup(made).rows


def test_backup_fails_when_the_folder_of_the_documents_is_not_mounted(
    transactional_db: None, url: str, workspace: Workspace, tmp_path: Path
):
    draft(create_member(workspace, "OWNER"))
    (tmp_path / "docs").rename(tmp_path / "elsewhere")

    with pytest.raises(BackupError, match=r"none of the \d documents .* mounted"):
        write_backup(tmp_path / "later")

    assert not [*(tmp_path / "later").iterdir()]


@pytest.mark.parametrize("is_recent", [True, False])
def test_old_backups_are_deleted_first_but_not_the_newest(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_recent: bool
) -> None:
    folder = tmp_path / "backups"
    days = [now() - timedelta(days=n) for n in (12, 15, 16)]
    recent, old, older = (f"{day:%Y%m%dT%H%M%SZ}" for day in days)
    others = ["base-2026-11-01", "20261101", "lost+found", f"{older}.md5"]
    incomplete = [f"{old}.partial", f"{recent}.partial"]
    for name in [old, older, *incomplete, *others, *([recent] if is_recent else [])]:
        (folder / name / "database").mkdir(parents=True)
    # As on a full disk
    monkeypatch.setattr(archive, "_dump", Mock(side_effect=OSError("full")))

    with pytest.raises(CommandError):
        call_command("backup", str(folder), keep_days=14)

    left = {path.name for path in folder.iterdir()}
    newest = recent if is_recent else old
    assert left == {newest, f"{recent}.partial", *others}


def read_dump(made: Path) -> str:
    """Return all statements of a backup's database."""
    program = embedded.programs() / "pg_restore"
    command = [program, "--file=-", made / "database"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_backup_has_its_name_when_all_of_it_is_on_the_disk(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    before: list[str] = []
    fsync, rename = os.fsync, Path.rename

    def noted_fsync(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    def noted_rename(path: Path, target: Path) -> Path:
        before.extend(synced)
        synced.clear()
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(Path, "rename", noted_rename)
    made = write_backup(tmp_path)

    partial = Path(f"{made}.partial")
    parts = {str(partial / path.relative_to(made)) for path in made.rglob("*")}
    assert len(parts) > 10
    assert {*parts, str(partial), str(tmp_path)} <= set(before)
    assert synced == [str(tmp_path)]


def test_programs_get_all_parameters_of_the_url(
    url: str, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They use the server that has the snapshot, and nobody sees the password."""
    host = connection.settings_dict["HOST"]
    settings.DATABASE_DIRECT_URL = (
        f"postgresql://postgres:sesame@/{connection.settings_dict['NAME']}"
        f"?host=127.0.0.1,{host}&port=1,5432&target_session_attrs=read-write"
        "&sslmode=prefer&keepalives_idle=7&tcp_user_timeout=9000"
        "&options=-c%20work_mem%3D5MB"
    )
    log, shim = tmp_path / "log", tmp_path / "bin" / "pg_dump"
    shim.parent.mkdir()
    shim.write_text(SHIM.format(log=log, program=embedded.programs() / "pg_dump"))
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", f"{shim.parent}:{os.environ['PATH']}")

    write_backup(tmp_path / "backups")

    call = log.read_text().splitlines()[-1]
    for part in (
        "target_session_attrs=read-write",
        "sslmode=prefer",
        "keepalives_idle=7",
        "tcp_user_timeout=9000",
        "options='-c work_mem=5MB'",
        f"host={host} ",
    ):
        assert part in call
    assert "127.0.0.1" not in call
    assert call.count("sesame") == 1
    assert call.endswith("password in the environment: sesame")


def test_password_of_a_key_is_not_shown_to_others(
    url: str, settings: Any, tmp_path: Path
) -> None:
    settings.DATABASE_DIRECT_URL = f"{url}?sslpassword=sesame"

    with pytest.raises(BackupError, match="use a key without one"):
        write_backup(tmp_path / "backups")

    assert not list((tmp_path / "backups").iterdir())


def test_backup_names_the_newest_migrations_whatever_their_names(made: Path) -> None:
    named = json.loads((made / "manifest.json").read_text())["migrations"]
    newest = MigrationLoader(None).graph.leaf_nodes()
    assert named == {app: [name] for app, name in newest}
    applied = MigrationRecorder(connection).applied_migrations()
    assert ("webhooks", "0005_rights") in applied
    assert named["webhooks"] != ["0005_rights"]


def test_backup_names_migrations_of_a_later_version(
    transactional_db: None, url: str, tmp_path: Path
) -> None:
    """Older code may back up newer tables; `restore` of older code refuses them."""
    recorder = MigrationRecorder(connection)
    for name in ("0001_earlier_name", "9999_later"):
        recorder.record_applied("webhooks", name)
    try:
        made = write_backup(tmp_path / "backups")
    finally:
        for name in ("0001_earlier_name", "9999_later"):
            recorder.record_unapplied("webhooks", name)

    with pytest.raises(BackupError, match=r"webhooks\.0001_earlier_name"):
        read_backup(made)


@pytest.mark.parametrize(
    ("name", "is_known"), [("0005_rights", True), ("0006_later", False)]
)
def test_manifest_of_the_first_format_is_read(
    made: Path, name: str, is_known: bool
) -> None:
    """It names one migration of each app, and that may have been replaced since."""
    change_manifest(made, format=1, migrations={"webhooks": name})

    if is_known:
        manifest = read_backup(made, trusts_unsealed=True)
        assert manifest.migrations == {"webhooks": [name]}
        with pytest.raises(BackupError, match="has no seal"):
            read_backup(made)
    else:
        with pytest.raises(BackupError, match="of a newer version"):
            read_backup(made, trusts_unsealed=True)


def change_manifest(backup: Path, **members: Any) -> None:
    manifest = backup / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | members))


def test_backup_that_somebody_else_wrote_is_refused(made: Path):
    """A dump is a list of statements, and whoever can write it can hash it, too."""
    toc = made / "database/toc.dat"
    toc.write_bytes(toc.read_bytes() + b"DROP TABLE reports_report;")
    files = json.loads((made / "manifest.json").read_text())["files"]
    files["database/toc.dat"] = hashlib.sha256(toc.read_bytes()).hexdigest()
    change_manifest(made, files=files)

    with pytest.raises(BackupError, match="seal is not its own"):
        read_backup(made, trusts_unsealed=True)


def test_backup_of_a_former_lookup_key_is_restored_with_that_one(
    made: Path, settings: Any
) -> None:
    """With the newer one a restore would stop before it erases again."""
    former = settings.LOOKUP_KEY
    settings.LOOKUP_KEY = (*former, b"n" * 32)

    with pytest.raises(BackupError, match="leave out the newer ones"):
        read_backup(made)
    settings.LOOKUP_KEY = former
    assert read_backup(made).is_sealed


def test_file_that_the_backup_did_not_write_is_refused(made: Path):
    """A file of the journal would erase the reports that it names."""
    (made / "documents/erasures/2026-11/b.json").write_text("{}")

    with pytest.raises(BackupError, match=r"did not write .*erasures/2026-11/b\.json"):
        read_backup(made)


def test_link_in_a_backup_is_refused(made: Path, tmp_path: Path):
    document = made / "documents/erasures/2026-11/a.json"
    (tmp_path / "secret").write_bytes(document.read_bytes())
    document.unlink()
    document.symlink_to(tmp_path / "secret")

    with pytest.raises(BackupError, match=r"Links .* a\.json"):
        read_backup(made)


@pytest.mark.parametrize(
    "manifest", [{"format": 3}, {"format": 3, "parts": ["database"]}]
)
def test_format_of_a_later_version_is_named(tmp_path: Path, manifest: Any):
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))

    with pytest.raises(BackupError, match="has format 3, and this version reads 2"):
        read_backup(tmp_path)


@pytest.mark.parametrize("manifest", ["", "[]", "{}", '{"format": 2}'])
def test_folder_without_a_manifest_is_no_backup(tmp_path: Path, manifest: str):
    (tmp_path / "manifest.json").write_text(manifest)

    with pytest.raises(BackupError, match="is no backup"):
        read_backup(tmp_path)


def test_backup_of_1_0_is_restored_after_a_way_back(
    made: Path, settings: Any, new_database: str
) -> None:
    """It counts each partition beside the table that has its rows."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname FROM pg_class WHERE relispartition AND relkind = 'r'"
        )
        partitions = {name: 0 for (name,) in cursor.fetchall()}
    assert partitions
    manifest = read_backup(made)
    settings.DATABASE_DIRECT_URL = new_database

    restore_backup(made, replace(manifest, rows=manifest.rows | partitions))


def test_nothing_starts_on_a_database_whose_restore_was_interrupted(
    made: Path, settings: Any, new_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows may be there without their constraints."""
    settings.DATABASE_DIRECT_URL = new_database
    monkeypatch.setattr(archive, "_run", interrupt)
    with pytest.raises(KeyboardInterrupt):
        restore_backup(made, read_backup(made))
    with psycopg.connect(new_database) as restored:
        left = restored.execute(archive.TABLES).fetchall()
    with connection.cursor() as cursor:
        for (table,) in left:
            cursor.execute(f"CREATE TABLE {table} ()")

    with pytest.raises(DatabaseRefused, match="restore of this database has not ended"):
        require_schema()


def interrupt(*arguments: object) -> None:
    raise KeyboardInterrupt


def test_restore_replaces_copies_that_were_interrupted(tmp_path: Path):
    documents = FileSystemStorage(tmp_path / "documents")
    put(tmp_path / "backup", half=CONTENT, empty=CONTENT, j_half=CONTENT, lacks=CONTENT)
    put(tmp_path / "documents", half=CONTENT[:9], empty=b"", j_half=CONTENT[:9])

    assert restore_documents(tmp_path / "backup", documents) == []

    files = [p for p in (tmp_path / "documents").rglob("*") if p.is_file()]
    assert len(files) == 4
    assert {path.read_bytes() for path in files} == {CONTENT}
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}


def test_restore_names_documents_that_differ_and_keeps_them(tmp_path: Path):
    documents = FileSystemStorage(tmp_path / "documents")
    put(tmp_path / "backup", same=CONTENT, longer=CONTENT, other=CONTENT)
    put(tmp_path / "documents", same=CONTENT, longer=CONTENT + b"!", other=b"other")

    found = restore_documents(tmp_path / "backup", documents)

    assert found == ["longer", "other"]
    assert (tmp_path / "documents/longer").read_bytes() == CONTENT + b"!"
    assert (tmp_path / "documents/other").read_bytes() == b"other"


def test_restore_removes_what_a_killed_one_was_writing(tmp_path: Path):
    """It may have been a restore of another backup."""
    documents = FileSystemStorage(tmp_path / "documents")
    put(tmp_path / "backup", one=CONTENT)
    put(tmp_path / "documents", **{"other.partial": CONTENT[:9]})

    assert restore_documents(tmp_path / "backup", documents) == []

    files = [p for p in (tmp_path / "documents").rglob("*") if p.is_file()]
    assert [path.name for path in files] == ["one"]


def test_interrupted_restore_leaves_no_half_of_a_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = FileSystemStorage(tmp_path / "documents")
    put(tmp_path / "backup", one=CONTENT)

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        restore_documents(tmp_path / "backup", documents)
    monkeypatch.undo()
    assert not documents.exists("one")
    assert restore_documents(tmp_path / "backup", documents) == []

    (kept,) = (tmp_path / "documents").iterdir()
    assert kept.name == "one"
    assert kept.read_bytes() == CONTENT


def test_restore_into_a_missing_database_is_refused_with_advice(
    made: Path, url: str, settings: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("DATABASE_URL", url)
    settings.DATABASE_DIRECT_URL = database_url("postgres", "missing")

    with pytest.raises(OperationalError) as refused:
        call_command("restore", made)

    assert "create that database" in startup.explain_error(refused.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sent", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_interrupted_backup_takes_its_program_with_it(
    sent: signal.Signals, code: int, url: str, tmp_path: Path
):
    begun = tmp_path / "begun"
    os.mkfifo(begun)
    program = tmp_path / "pg_dump"
    program.write_text(ENDLESS.format(begun=begun))
    program.chmod(0o700)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    backup = subprocess.Popen(
        [sys.executable, "manage.py", "backup", str(tmp_path / "backups")],
        cwd=settings.BASE_DIR,
        env=os.environ | {"DATABASE_URL": url, "PATH": path},
        stderr=subprocess.PIPE,
        text=True,
        # A shell lets what it starts in the background ignore SIGINT.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    told = os.open(begun, os.O_RDWR)
    try:
        assert select.select([told], [], [], 60)[0]
        dumping = int(os.read(told, 20))
        ended = os.pidfd_open(dumping)
        backup.send_signal(sent)
        has_ended = select.select([ended], [], [], 10)[0]
        os.close(ended)
        if not has_ended:
            os.kill(dumping, signal.SIGKILL)
    finally:
        os.close(told)
        _, said = backup.communicate(timeout=30)

    assert has_ended
    assert backup.returncode == code
    assert said == ("Interrupted.\n" if sent == signal.SIGINT else "")
