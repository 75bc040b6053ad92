"""`migrate` beside a running service: nobody waits long for its locks."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection

from tests.configuration.test_refusals_to_start import database_url
from tests.upgrades.migrations import AddMigration
from tests.upgrades.migrations import add_migration as add_migration
from tests.upgrades.migrations import take_back as take_back
from verification.backups.management.commands import migrate
from verification.jobs.queue import TRY_LOCK

pytestmark = [pytest.mark.usefixtures("take_back"), pytest.mark.slow]

COLUMN = "migrations.AddField('backup', 'place', models.TextField(null=True))"
INDEX = "AddIndexConcurrently('backup', models.Index('rows', name='backup_rows'))"
IN_USE = "SELECT count(*) FROM backups_backup"
HAS_COLUMN = """
SELECT count(*) FROM information_schema.columns
WHERE table_name = 'backups_backup' AND column_name = 'place'
"""
DROPS = """
SELECT count(*) FROM pg_stat_activity
WHERE query LIKE 'DROP INDEX CONCURRENTLY%' AND wait_event_type = 'Lock'
"""
IS_VALID = "SELECT indisvalid FROM pg_index WHERE indexrelid = 'backup_rows'::regclass"


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrate, "LOCK_SECONDS", 1)
    monkeypatch.setattr(migrate, "PAUSE_SECONDS", 0.5)


def connect() -> psycopg.Connection[Any]:
    url = database_url("postgres", connection.settings_dict["NAME"])
    return psycopg.connect(url, autocommit=True)


@contextmanager
def long_transaction(seconds: float) -> Iterator[None]:
    """Read the table in a transaction that stays open for some seconds."""
    with connect() as db:
        # The build of an index waits for such a snapshot.
        db.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        db.execute(IN_USE)
        end = threading.Timer(seconds, lambda: db.execute("COMMIT"))
        end.start()
        yield
        end.join()


@contextmanager
def readers(waits: list[float]) -> Iterator[None]:
    """Read the table again and again; note how long each read took."""
    stop = threading.Event()

    def read() -> None:
        with connect() as db:
            while not stop.wait(0.02):
                began = time.monotonic()
                db.execute(IN_USE)
                waits.append(time.monotonic() - began)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield
    finally:
        stop.set()
        reader.join()


def value(statement: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchone()[0]


def test_migration_gives_way_to_a_long_transaction(
    add_migration: AddMigration, capsys: pytest.CaptureFixture[str]
) -> None:
    add_migration("0009_column", COLUMN)
    waits: list[float] = []

    with long_transaction(4), readers(waits):
        call_command("migrate", verbosity=0)

    assert value(HAS_COLUMN) == 1
    assert max(waits) < 2
    # It tried at least twice, and the reads went on between.
    assert sum(wait > 0.5 for wait in waits) >= 2
    assert "the oldest transaction is" in capsys.readouterr().err


def test_migration_gives_up_after_a_while(
    add_migration: AddMigration, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrate, "PATIENCE_SECONDS", 1)
    add_migration("0009_column", COLUMN)

    with long_transaction(4), pytest.raises(CommandError, match="were not free"):
        call_command("migrate", verbosity=0)

    assert value(HAS_COLUMN) == 0


def test_index_is_built_beside_a_long_transaction(add_migration: AddMigration) -> None:
    add_migration("0009_index", INDEX, atomic=False)
    waits: list[float] = []

    with long_transaction(3), readers(waits):
        call_command("migrate", verbosity=0)

    assert value(IS_VALID)
    assert max(waits) < 0.5


@pytest.fixture
def unfinished_index(add_migration: AddMigration) -> None:
    """Interrupt the build of an index that a migration builds."""
    add_migration("0009_index", INDEX, atomic=False)
    with connect() as db:
        db.execute("SET statement_timeout = '1s'")
        with long_transaction(2), pytest.raises(psycopg.errors.QueryCanceled):
            db.execute("CREATE INDEX CONCURRENTLY backup_rows ON backups_backup (rows)")
    assert not value(IS_VALID)


def test_unfinished_index_is_built_again(unfinished_index: None) -> None:
    call_command("migrate", verbosity=0)

    assert value(IS_VALID)


def test_migration_tries_again_after_a_deadlock(
    unfinished_index: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """The drop of the index waits for a transaction that waits for the drop."""

    def wait_for_the_drop() -> None:
        with connect() as db, connect() as other:
            db.execute("BEGIN")
            db.execute(IN_USE)
            begun.set()
            while not other.execute(DROPS).fetchone()[0]:
                time.sleep(0.05)
            db.execute("ANALYZE backups_backup")
            db.execute("COMMIT")

    begun = threading.Event()
    transaction = threading.Thread(target=wait_for_the_drop)
    transaction.start()
    begun.wait()
    call_command("migrate", verbosity=0)
    transaction.join()

    assert value(IS_VALID)
    assert "A table is in use" in capsys.readouterr().err


def test_second_migrate_waits_for_the_first(
    add_migration: AddMigration, capsys: pytest.CaptureFixture[str]
) -> None:
    add_migration("0009_column", COLUMN)
    with connect() as first:
        first.execute(TRY_LOCK, ["migrate"])
        threading.Timer(1, first.close).start()

        call_command("migrate", verbosity=0)

    assert "Another migrate runs" in capsys.readouterr().err
    assert value(HAS_COLUMN) == 1


def test_limits_end_with_the_migration() -> None:
    before = value("SHOW lock_timeout"), value("SHOW statement_timeout")

    call_command("migrate", verbosity=0)

    assert (value("SHOW lock_timeout"), value("SHOW statement_timeout")) == before
