"""Backups of the running service, and their restore into another database."""

import base64
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from django.conf import settings

from tests.service.conftest import Client
from tests.world.clients import person
from tests.world.commands import run_command
from tests.world.database import drop_database
from tests.world.service import DATABASE, Service
from tests.world.waiting import until
from verification.backups import archive

pytestmark = pytest.mark.slow
RESTORED = f"{DATABASE}_restored"
BACKUPS = "SELECT count(*) FROM backups_backup"
HOLD = """
INSERT INTO privacy_hold
    (id, report_id, reason, held_by, released_by, created_at, ends_at)
SELECT gen_random_uuid(), %s, 'A court asks', 'staff', '', now(), now() + interval '9 d'
"""
EXPIRE = """
UPDATE reports_report SET completed_at = now() - interval '9 years' WHERE id = %s
"""
RUN_RETENTION = """
INSERT INTO jobs_job (function, arguments, due_at)
VALUES ('verification.privacy.retention.erase_expired_reports', '[]', now())
"""
IS_ERASED = "SELECT erased_at IS NOT NULL FROM reports_report WHERE id = %s"


class Elsewhere:
    """Another installation with the same keys: an empty database and no documents."""

    def __init__(self, service: Service) -> None:
        self.url = urlsplit(service.database_url)._replace(path=f"/{RESTORED}").geturl()
        self.documents = Path(service.environment["DATA_DIR"]) / RESTORED
        self._environment = {
            **service.environment,
            "DATABASE_URL": self.url,
            "DOCUMENTS_DIR": str(self.documents),
        }

    def manage(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess:
        return run_command(self._environment | variables, *arguments)


def run(
    service: Service, *arguments: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a management command as the role of the service, which may fail."""
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=settings.BASE_DIR,
        env=service.environment | variables,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def elsewhere(service: Service) -> Iterator[Elsewhere]:
    # A killed run may have left it.
    drop_database(RESTORED)
    with service.connect() as server:
        server.execute(f"CREATE DATABASE {RESTORED}")
    elsewhere = Elsewhere(service)
    yield elsewhere
    shutil.rmtree(elsewhere.documents, ignore_errors=True)
    drop_database(RESTORED)


@pytest.fixture(scope="module")
def kept_backup(
    service: Service, client: Client, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Order a report, let it become READY, and back everything up."""
    order_ready(client)
    return back_up(service, tmp_path_factory.mktemp("backup"))


@pytest.fixture
def backup(kept_backup: Path, tmp_path: Path) -> Path:
    """Copy the backup, for a test that harms it or restores it."""
    copy = tmp_path / "backups" / kept_backup.name
    return shutil.copytree(kept_backup, copy)


def order_ready(client: Client) -> str:
    (made,) = client.order(person())
    until(lambda: client.status(made["id"]) == "READY")
    return made["id"]


def back_up(service: Service, folder: Path) -> Path:
    return Path(service.manage("backup", str(folder / "backups")).strip())


def test_backup_is_restored_with_every_row(
    service: Service, client: Client, elsewhere: Elsewhere, tmp_path: Path
) -> None:
    order_ready(client)
    document = Path(service.environment["DATA_DIR"]) / "documents" / "sealed"
    document.parent.mkdir(exist_ok=True)
    document.write_bytes(b"of the backup")
    backup = back_up(service, tmp_path)
    document.unlink()
    elsewhere.documents.mkdir()
    (elsewhere.documents / "sealed").write_bytes(b"newer")

    done = elsewhere.manage("restore", str(backup))

    assert done.returncode == 0, done.stderr
    assert "The ledger adds up" in done.stdout
    assert "differ from the backup's and stay as they are: sealed." in done.stdout
    manifest = json.loads((backup / "manifest.json").read_text())
    with psycopg.connect(elsewhere.url) as db:
        reports = db.execute("SELECT count(*) FROM reports_report").fetchone()[0]
    assert reports == manifest["rows"]["reports_report"] > 0


def test_restored_hold_does_not_bring_back_whom_the_retention_erased(
    service: Service, client: Client, elsewhere: Elsewhere, tmp_path: Path
) -> None:
    report = order_ready(client)
    with service.connect() as db:
        db.execute(HOLD, [report])
        backup = back_up(service, tmp_path)
        db.execute("UPDATE privacy_hold SET released_at = now(), released_by = 'staff'")
        db.execute(EXPIRE, [report])
        db.execute(RUN_RETENTION)
        until(lambda: db.execute(IS_ERASED, [report]).fetchone()[0])
    journal = Path(service.environment["DATA_DIR"]) / "documents" / "erasures"
    shutil.copytree(journal, elsewhere.documents / "erasures")

    done = elsewhere.manage("restore", str(backup))

    assert done.returncode == 0, done.stderr
    with psycopg.connect(elsewhere.url) as db:
        assert db.execute(IS_ERASED, [report]).fetchone()[0]


def test_backup_holds_no_key(backup: Path, service: Service):
    secrets = [
        service.environment.get(name) or ""
        for name in ("SECRET_KEY", "FIELD_KEYS", "LOOKUP_KEY")
    ]
    with service.connect() as db:
        pg_restore = archive._find_program("pg_restore", archive._major_version(db))
    read = [pg_restore, "-f", "-", str(backup / "database")]
    rows = subprocess.run(read, capture_output=True, check=True).stdout
    assert b"COPY public.reports_report " in rows
    files = [path.read_bytes() for path in backup.rglob("*") if path.is_file()]
    for content in (rows, *files):
        assert not [s for s in secrets if s and s.encode() in content]


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"k1": b"w"}, "FIELD_KEYS has another key as k1"),
        ({"k1": b"f"}, "FIELD_KEYS lacks k2"),
        ({"k1": b"f", "k2": b"w"}, "k2 in FIELD_KEYS does not open"),
    ],
    ids=["another first", "a lacking second", "another second"],
)
def test_backup_with_wrong_keys_writes_nothing(
    service: Service, tmp_path: Path, keys: dict[str, bytes], reason: str
) -> None:
    ring = [f"{id}:{base64.b64encode(key * 32).decode()}" for id, key in keys.items()]
    with service.connect() as db:
        sealed = b"\x01\x02k2" + bytes(40)
        db.execute("INSERT INTO backoffice_keyprobe VALUES (2, %s)", [sealed])
        try:
            done = run(service, "backup", str(tmp_path), FIELD_KEYS=",".join(ring))
        finally:
            db.execute("DELETE FROM backoffice_keyprobe WHERE id = 2")

    assert done.returncode == 1
    (said,) = done.stderr.splitlines()
    assert reason in said
    assert not list(tmp_path.iterdir())


def test_restore_refuses_a_database_with_tables(backup: Path, elsewhere: Elsewhere):
    with psycopg.connect(elsewhere.url, autocommit=True) as db:
        db.execute("CREATE TABLE something (id int)")

    done = elsewhere.manage("restore", str(backup))

    assert done.returncode != 0
    assert "not empty" in done.stderr


@pytest.mark.parametrize(
    "harm", ["partial", "changed", "missing", "key", "another key", "newer"]
)
def test_restore_refuses_a_backup_that_cannot_be_used(
    backup: Path, elsewhere: Elsewhere, harm: str
):
    words = {
        "partial": "not complete",
        "changed": "were changed",
        "missing": "are missing",
        "key": "FIELD_KEYS lacks",
        "another key": "k1 in FIELD_KEYS is not the key of this backup",
        "newer": "newer version",
    }
    manifest = backup / "manifest.json"
    members = json.loads(manifest.read_text())
    file = next(p for p in (backup / "database").iterdir() if p.name != "toc.dat")
    variables: dict[str, str] = {}
    if harm == "partial":
        backup = backup.rename(f"{backup}.partial")
    elif harm == "changed":
        file.write_bytes(file.read_bytes() + b"x")
    elif harm == "missing":
        file.unlink()
    elif harm == "key":
        manifest.write_text(json.dumps(members | {"field_keys": {"lost": "x"}}))
    elif harm == "another key":
        variables["FIELD_KEYS"] = "k1:" + base64.b64encode(b"w" * 32).decode()
    else:
        later = members["migrations"] | {"reports": ["9999_later"]}
        manifest.write_text(json.dumps(members | {"migrations": later}))

    done = elsewhere.manage("restore", str(backup), **variables)

    assert done.returncode != 0
    assert words[harm] in done.stderr
    with psycopg.connect(elsewhere.url) as db:
        tables = db.execute("SELECT count(*) FROM pg_tables WHERE schemaname='public'")
        assert tables.fetchone()[0] == 0


@pytest.mark.parametrize("size", ["100k", "600k"])
def test_full_disk_leaves_no_half_of_a_backup(
    service: Service, client: Client, tmp_path: Path, size: str
) -> None:
    """The larger one has room for the database and not for the documents."""
    with service.connect() as db:
        before = db.execute(BACKUPS).fetchone()
    big = Path(service.environment["DATA_DIR"]) / "documents" / "big"
    big.parent.mkdir(exist_ok=True)
    big.write_bytes(os.urandom(600_000))
    steps = (
        f"mount -t tmpfs -o size={size} none {tmp_path}\n"
        f"{sys.executable} manage.py backup {tmp_path}/backups\n"
        f"echo code $? left $(ls -A {tmp_path}/backups)"
    )
    try:
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", steps],
            cwd=settings.BASE_DIR,
            env=service.environment | {"DATABASE_URL": service.database_url},
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        big.unlink()

    if "mount" in done.stderr:
        pytest.skip("mounting a small disk needs root")
    assert done.stdout == "code 1 left\n"
    (said,) = done.stderr.splitlines()
    assert "No space left on device" in said
    with service.connect() as db:
        assert db.execute(BACKUPS).fetchone() == before


def test_failed_drill_is_recorded(backup: Path, service: Service, tmp_path: Path):
    (backup / "manifest.json").unlink()
    (tmp_path / "room").mkdir()
    owner = {"DATABASE_URL": service.database_url}

    arguments = ("restore_drill", str(backup), f"--documents={tmp_path / 'room'}")
    done = run(service, *arguments, **owner)

    assert done.returncode == 1
    assert "is no backup" in done.stderr
    assert left_by_drills(service, tmp_path / "room") == []
    assert last_drill(service) is False


def test_drill_restores_and_leaves_nothing_also_of_a_killed_one(
    backup: Path, service: Service, tmp_path: Path
) -> None:
    """The URL of the database may be in a file."""
    url = tmp_path / "url"
    url.write_text(service.database_url)
    named = {"DATABASE_URL": "", "DATABASE_URL_FILE": str(url)}
    drill = subprocess.Popen(
        [sys.executable, "manage.py", "restore_drill", str(backup)],
        cwd=settings.BASE_DIR,
        env=service.environment | {"DATABASE_URL": service.database_url},
    )
    until(lambda: len(left_by_drills(service, backup.parent)) == 2 or drill.poll())
    drill.kill()
    drill.wait()
    assert len(left_by_drills(service, backup.parent)) == 2
    assert last_drill(service) is False

    done = run(service, "restore_drill", str(backup), **named)

    assert "The backup can be restored" in done.stdout, done.stderr
    assert left_by_drills(service, backup.parent) == []
    assert last_drill(service) is True


def left_by_drills(service: Service, parent: Path) -> list[str]:
    """Return the databases and folders of drills."""
    with service.connect() as db:
        named = "SELECT datname FROM pg_database WHERE datname LIKE %s"
        # Other tests have drills on the same server.
        own = [f"{db.info.dbname}%drill%"]
        databases = [name for (name,) in db.execute(named, own)]
    return databases + [path.name for path in parent.glob("*drill*")]


def last_drill(service: Service) -> bool:
    with service.connect() as db:
        succeeded = "SELECT succeeded FROM backups_restoredrill ORDER BY id DESC"
        return bool(db.execute(succeeded).fetchone()[0])


@pytest.mark.parametrize(
    ("command", "variables", "advice"),
    [
        ("restore_drill --unmeasured", {}, "may not create databases"),
        ("backup", {"DATABASE_URL": "postgresql://127.0.0.1:1/x"}, "cannot be read"),
    ],
)
def test_refusal_is_one_sentence(
    service: Service, tmp_path: Path, command: str, variables: Any, advice: str
) -> None:
    done = run(service, *command.split(), str(tmp_path), **variables)

    assert done.returncode == 1
    (said,) = done.stderr.splitlines()
    assert advice in said
    assert not list(tmp_path.iterdir())
