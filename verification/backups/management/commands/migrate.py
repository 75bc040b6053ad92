"""`migrate` beside a running service: it waits for locks without stopping the others.

A statement that waits for a lock on a table makes all later statements on this table
wait behind it. So one that changes a table gives up after LOCK_SECONDS, its migration
is rolled back, and `migrate` tries again. It also tries again after a deadlock: the
build of an index waits for transactions, and one of them may wait for the build.

After the type of a column has changed, PostgreSQL refuses statements that a session has
prepared before: each console page of version 1.0 would fail until its web server is
restarted. So `migrate` ends idle sessions of web servers, which then open new ones.
"""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import OperationalError, ProgrammingError, connection
from psycopg import sql
from psycopg.errors import DeadlockDetected, LockNotAvailable

from verification.db import startup
from verification.db.base import SESSION_SETTINGS, run_sql
from verification.jobs.queue import advisory_lock

LOCK_SECONDS = 2
STATEMENT_SECONDS = 30
PAUSE_SECONDS = 5
PATIENCE_SECONDS = 600
# These statements block neither reads nor writes, and take as long as they have to.
HARMLESS = re.compile(r"\bCONCURRENTLY\b|\bVALIDATE CONSTRAINT\b")
# A build that was interrupted leaves its index behind, and the next build would find
# the name taken.
UNFINISHED_INDEXES = """
SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE NOT i.indisvalid AND c.relnamespace = current_schema()::regnamespace
    AND NOT EXISTS (
        SELECT FROM pg_stat_progress_create_index WHERE index_relid = c.oid
    )
"""
OLDEST_TRANSACTION = """
SELECT pid, extract(epoch FROM now() - xact_start)::int FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
ORDER BY xact_start LIMIT 1
"""
COLUMN_TYPES = """
SELECT attrelid, attnum, atttypid, atttypmod
FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')
    AND attnum > 0 AND NOT attisdropped
"""
# Within a request a session is seldom idle for so long. A request whose session is, as
# during a call of another server, fails as it does if the database restarts.
WEB_SESSIONS = """
SELECT pid, state = 'idle'
    AND state_change < clock_timestamp() - interval '100 milliseconds'
FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'verification web'
"""
SESSIONS_SECONDS = 10


class Command(migrate.Command):
    _types: dict[tuple[int, int], list[int]]

    def migration_progress_callback(
        self, action: str, migration: Any = None, fake: bool = False
    ) -> None:
        super().migration_progress_callback(action, migration, fake)
        if action in ("apply_start", "unapply_start"):
            self._types = _column_types()
        elif action in ("apply_success", "unapply_success"):
            now = _column_types()
            if any(
                now.get(column, kind) != kind for column, kind in self._types.items()
            ):
                self._end_web_sessions()

    def _end_web_sessions(self) -> None:
        stop_at = time.monotonic() + SESSIONS_SECONDS
        outdated = dict(run_sql(WEB_SESSIONS))
        while outdated and time.monotonic() < stop_at:
            for pid in (pid for pid, is_idle in outdated.items() if is_idle):
                # Without the right to it the advice below follows.
                with suppress(ProgrammingError):
                    run_sql("SELECT pg_terminate_backend(%s)", [pid])
            time.sleep(0.05)
            sessions = run_sql(WEB_SESSIONS)
            outdated = {pid: idle for pid, idle in sessions if pid in outdated}
        if outdated:
            self.stderr.write(
                f"{len(outdated)} sessions of web servers may fail now, because the "
                "type of a column has changed: restart these web servers soon."
            )

    def handle(self, *args: Any, **options: Any) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        startup.require_no_later_schema()
        while not self._migrate_alone(*args, **options):
            if time.monotonic() > deadline:
                raise CommandError(
                    f"The locks were not free for {PATIENCE_SECONDS} seconds. Whatever "
                    "was migrated is complete; run migrate again later."
                )
            time.sleep(PAUSE_SECONDS)

    def _migrate_alone(self, *args: Any, **options: Any) -> bool:
        """Migrate; return False if another `migrate` runs or a table is in use."""
        with ExitStack() as held:
            # Try the lock instead of waiting: the build of an index waits for all
            # transactions, including a transaction that waits for this lock.
            if not held.enter_context(advisory_lock("migrate")):
                self.stderr.write("Another migrate runs; waiting for it.")
                return False
            held.enter_context(_limits())
            try:
                _drop_unfinished_indexes()
                super().handle(*args, **options)
            except OperationalError as e:
                if not isinstance(e.__cause__, LockNotAvailable | DeadlockDetected):
                    raise
                self.stderr.write(f"A table is in use{_oldest()}; trying again.")
                return False
        return True


@contextmanager
def _limits() -> Iterator[None]:
    """Limit the waits and durations of statements that block others."""
    run_sql(f"SET lock_timeout = '{LOCK_SECONDS}s'")
    run_sql(f"SET statement_timeout = '{STATEMENT_SECONDS}s'")
    try:
        with connection.execute_wrapper(_lift_limits):
            yield
    finally:
        for name in ("lock_timeout", "statement_timeout"):
            run_sql(f"SET {name} = '{SESSION_SETTINGS[name]}'")


def _lift_limits(
    execute: Callable[..., Any], statement: Any, params: Any, many: bool, context: Any
) -> Any:
    if not HARMLESS.search(str(statement)):
        return execute(statement, params, many, context)
    bare = context["cursor"].cursor
    bare.execute("SET lock_timeout = 0")
    bare.execute("SET statement_timeout = 0")
    result = execute(statement, params, many, context)
    bare.execute(f"SET lock_timeout = '{LOCK_SECONDS}s'")
    bare.execute(f"SET statement_timeout = '{STATEMENT_SECONDS}s'")
    return result


def _drop_unfinished_indexes() -> None:
    with connection.cursor() as cursor:
        cursor.execute(UNFINISHED_INDEXES)
        for (name,) in cursor.fetchall():
            drop = "DROP INDEX CONCURRENTLY IF EXISTS {}"
            cursor.execute(sql.SQL(drop).format(sql.Identifier(name)))


def _column_types() -> dict[tuple[int, int], list[int]]:
    return {(table, column): kind for table, column, *kind in run_sql(COLUMN_TYPES)}


def _oldest() -> str:
    for pid, seconds in run_sql(OLDEST_TRANSACTION):
        if seconds is not None:
            return f" (the oldest transaction is {seconds} s old, process {pid})"
    return ""
