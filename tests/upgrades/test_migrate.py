"""`migrate` beside a running service: nobody waits long for its locks."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import StringIO
from typing import Any

import psycopg
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import OperationalError, close_old_connections, connection

from tests.configuration.test_refusals_to_start import database_url
from tests.upgrades.migrations import AddMigration
from tests.upgrades.migrations import add_migration as add_migration
from tests.upgrades.migrations import take_back as take_back
from tests.world.waiting import until
from verification.backups.management.commands import migrate
from verification.backups.models import Backup
from verification.db.base import run_sql
from verification.jobs.queue import TRY_LOCK

pytestmark = [pytest.mark.usefixtures("take_back"), pytest.mark.slow]

COLUMN = "migrations.AddField('backup', 'place', models.TextField(null=True))"
INDEX = "AddIndexConcurrently('backup', models.Index('rows', name='backup_rows'))"
IN_USE = "SELECT count(*) FROM backups_backup"
HAS_COLUMN = """
SELECT count(*) FROM information_schema.columns
WHERE table_name = 'backups_backup' AND column_name = 'place'
"""
WAITING = """
SELECT count(*) FROM pg_stat_activity WHERE query LIKE %s AND wait_event_type = 'Lock'
"""
BUILDS, DROPS = "CREATE INDEX CONCURRENTLY%", "DROP INDEX CONCURRENTLY%"
IS_VALID = "SELECT indisvalid FROM pg_index WHERE indexrelid = 'backup_rows'::regclass"


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrate, "LOCK_SECONDS", 1)
    monkeypatch.setattr(migrate, "PAUSE_SECONDS", 0.5)


def connect() -> psycopg.Connection[Any]:
    url = database_url("postgres", connection.settings_dict["NAME"])
    return psycopg.connect(url, autocommit=True)


@contextmanager
def long_transaction(is_over: Callable[[], bool]) -> Iterator[None]:
    """Read the table in a transaction that stays open until something is over."""

    def end() -> None:
        until(is_over)
        db.execute("COMMIT")

    with connect() as db:
        # The build of an index waits for such a snapshot.
        db.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        db.execute(IN_USE)
        ending = threading.Thread(target=end)
        ending.start()
        yield
        ending.join()


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


def is_waiting(statement: str) -> bool:
    """Return whether a statement like this one waits for a lock."""
    with connect() as db:
        return db.execute(WAITING, [statement]).fetchone() != (0,)


def value(statement: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchone()[0]


def test_migration_gives_way_to_a_long_transaction(
    add_migration: AddMigration, capsys: pytest.CaptureFixture[str]
) -> None:
    add_migration("0009_column", COLUMN)
    waits: list[float] = []

    def has_tried_twice() -> bool:
        return sum(wait > 0.5 for wait in waits) >= 2

    with long_transaction(has_tried_twice), readers(waits):
        call_command("migrate", verbosity=0)

    # Reads went on between: each waited for one second of a try, and not for all.
    assert value(HAS_COLUMN) == 1
    assert max(waits) < 10
    assert "the oldest transaction is" in capsys.readouterr().err


def test_migration_gives_up_after_a_while(
    add_migration: AddMigration, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrate, "PATIENCE_SECONDS", 1)
    add_migration("0009_column", COLUMN)

    given_up = threading.Event()
    with long_transaction(given_up.is_set):
        with pytest.raises(CommandError, match="were not free"):
            call_command("migrate", verbosity=0)
        given_up.set()

    assert value(HAS_COLUMN) == 0


def test_index_is_built_beside_a_long_transaction(add_migration: AddMigration) -> None:
    add_migration("0009_index", INDEX, atomic=False)
    waits: list[float] = []

    def are_reads_answered_beside_it() -> bool:
        before = len(waits)
        return is_waiting(BUILDS) and until(lambda: len(waits) > before + 10)

    with long_transaction(are_reads_answered_beside_it), readers(waits):
        call_command("migrate", verbosity=0)

    assert value(IS_VALID)


@pytest.fixture
def unfinished_index(add_migration: AddMigration) -> None:
    """Interrupt the build of an index that a migration builds."""
    add_migration("0009_index", INDEX, atomic=False)
    with connect() as db:
        db.execute("SET statement_timeout = '1s'")
        interrupted = threading.Event()
        with long_transaction(interrupted.is_set):
            with pytest.raises(psycopg.errors.QueryCanceled):
                db.execute(
                    "CREATE INDEX CONCURRENTLY backup_rows ON backups_backup (rows)"
                )
            interrupted.set()
    assert not value(IS_VALID)


def test_unfinished_index_is_built_again(unfinished_index: None) -> None:
    call_command("migrate", verbosity=0)

    assert value(IS_VALID)


def test_migration_tries_again_after_a_deadlock(
    unfinished_index: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """The drop of the index waits for a transaction that waits for the drop."""

    def wait_for_the_drop() -> None:
        with connect() as db:
            db.execute("BEGIN")
            db.execute(IN_USE)
            db.execute("SET deadlock_timeout = '1min'")
            begun.set()
            until(lambda: is_waiting(DROPS))
            db.execute("ANALYZE backups_backup")
            db.execute("COMMIT")

    begun = threading.Event()
    transaction = threading.Thread(target=wait_for_the_drop)
    transaction.start()
    begun.wait()
    # PostgreSQL looks once for a deadlock. A busy machine brings it about later.
    run_sql("SET deadlock_timeout = '5s'")
    call_command("migrate", verbosity=0)
    run_sql("RESET deadlock_timeout")
    transaction.join()

    assert value(IS_VALID)
    assert "A table is in use" in capsys.readouterr().err


def test_second_migrate_waits_for_the_first(
    add_migration: AddMigration,
) -> None:
    class Errors(StringIO):
        def write(self, text: str) -> int:
            first.close()
            return super().write(text)

    add_migration("0009_column", COLUMN)
    with connect() as first:
        first.execute(TRY_LOCK, ["migrate"])

        call_command("migrate", verbosity=0, stderr=(said := Errors()))

    assert "Another migrate runs" in said.getvalue()
    assert value(HAS_COLUMN) == 1


def test_limits_end_with_the_migration() -> None:
    before = value("SHOW lock_timeout"), value("SHOW statement_timeout")

    call_command("migrate", verbosity=0)

    assert (value("SHOW lock_timeout"), value("SHOW statement_timeout")) == before


OTHER_TYPE = (
    "migrations.AlterField('backup', 'seconds', "
    "models.DecimalField(max_digits=20, decimal_places=6))"
)


def test_web_servers_get_new_sessions_after_the_type_of_a_column_changed(
    add_migration: AddMigration,
) -> None:
    web, jobs = connect(), connect()
    with web, jobs:
        web.execute("SET application_name = 'verification web'")
        jobs.execute("SET application_name = 'verification jobs'")
        add_migration("0009_column", COLUMN)
        call_command("migrate", verbosity=0)
        web.execute("SELECT 1")

        add_migration("0010_type", OTHER_TYPE)
        call_command("migrate", verbosity=0)

        jobs.execute("SELECT 1")
        with pytest.raises(psycopg.OperationalError):
            web.execute("SELECT 1")


def test_web_server_that_is_busy_is_named_after_the_type_of_a_column_changed(
    add_migration: AddMigration,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(migrate, "SESSIONS_SECONDS", 0.5)
    with connect() as web:
        web.execute("SET application_name = 'verification web'")
        web.execute("BEGIN")
        add_migration("0009_type", OTHER_TYPE)
        call_command("migrate", verbosity=0)

        assert "1 sessions of web servers may fail now" in capsys.readouterr().err
        web.execute("SELECT 1")


def test_prepared_statement_of_before_a_changed_type_fails_once(
    add_migration: AddMigration,
) -> None:
    def read() -> list[Any]:
        return list(Backup.objects.values_list("seconds"))

    for _ in range(10):
        read()
    with connect() as other:
        other.execute("ALTER TABLE backups_backup ALTER seconds TYPE numeric")

    with pytest.raises(OperationalError):
        read()
    # As at the start of the next request
    close_old_connections()
    assert read() == []
    with connect() as other:
        other.execute("ALTER TABLE backups_backup ALTER seconds TYPE float8")
