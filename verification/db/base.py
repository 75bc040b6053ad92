"""Django's PostgreSQL backend, with limits for each session.

A connection that has lost the primary server fails with OperationalError, whatever the
error was, and the next statement opens another one.

`name_sessions` gives all sessions of a process a name. `run_sql` executes a statement,
`force_custom_plan` plans chosen statements each time they run, and `read_page` reads
one page of a list.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import psycopg
from django.db import (
    IntegrityError,
    InterfaceError,
    OperationalError,
    connection,
)
from django.db.backends.postgresql import base, features
from django.db.utils import DatabaseErrorWrapper

from verification import tracing
from verification.values import clock

if TYPE_CHECKING:
    from django.db.models import QuerySet

logger = logging.getLogger(__name__)
Row = TypeVar("Row")

# Set by a statement and not by the connection's `options`, which PgBouncer refuses or
# drops. By the last five the server notices within about ten seconds that a client's
# host has vanished, and frees the locks that it held.
SESSION_SETTINGS = {
    "statement_timeout": "30s",
    "lock_timeout": "10s",
    "idle_in_transaction_session_timeout": "60s",
    "tcp_keepalives_idle": "5s",
    "tcp_keepalives_interval": "2s",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "10s",
    "client_connection_check_interval": "5s",
}
# The server has become a standby, or has ended a transaction that was idle or too long.
# PostgreSQL counts these among the errors of the program.
LOST_SESSION = {"25006", "25P03", "25P04"}
# The function of PostgreSQL that refuses a prepared statement after a migration has
# changed the type of a column. Its message is in the language of the server.
PLAN_CHECK = "RevalidateCachedQuery"
DISK_FULL = "53100"
# A server that has no room for a file that each new session writes refuses connections,
# which come without an SQLSTATE.
NO_ROOM = "No space left on device"
# While the disk stays full, each process says so this often.
DISK_FULL_PAUSE = 300
RECONNECT_PAUSE = 0.5
# A clock that was set wrong is noticed within this time.
CLOCK_SECONDS = 10


def run_sql(sql: str, values: Any = None) -> list[tuple[Any, ...]]:
    """Execute a statement, and return the rows that it returns."""
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return cursor.fetchall() if cursor.description else []


@contextmanager
def force_custom_plan() -> Iterator[None]:
    """Plan the statements within for the values they come with.

    PostgreSQL plans repeated statements once, for average values. That plan is wrong if
    one value has a million rows and another has none.
    """
    connection.ensure_connection()
    used, connection.connection.prepare_threshold = (
        connection.connection.prepare_threshold,
        None,
    )
    try:
        yield
    finally:
        if connection.connection:
            connection.connection.prepare_threshold = used


@dataclass(frozen=True, slots=True)
class ResultPage(Generic[Row]):
    """One page of a list, the first of which is 0."""

    rows: list[Row]
    total: int
    number: int
    size: int
    has_uncounted: bool = False
    """True if there are more rows than `total`, up to which they were counted."""

    @property
    def first(self) -> int:
        return self.number * self.size + 1

    @property
    def last(self) -> int:
        return self.number * self.size + len(self.rows)

    @property
    def before(self) -> int | None:
        return self.number - 1 if self.number else None

    @property
    def after(self) -> int | None:
        has_more = self.last < self.total or self.has_uncounted
        return self.number + 1 if has_more and self.rows else None


# A page beyond this row is read from the nearer end of its list.
FAR = 100_000


@force_custom_plan()
def read_page(
    rows: QuerySet[Any],
    page: int,
    size: int,
    *,
    count: Callable[[], int] | None = None,
    count_up_to: int | None = None,
) -> ResultPage[Any]:
    """Return one page of ordered rows, and the number of rows on all pages.

    `count` counts them faster than the query does. `count_up_to` is the number of rows
    at which counting stops, unless the page itself shows more.
    """
    first = page * size
    if count and first >= FAR and (total := count()) < 2 * first:
        # The end is nearer than the beginning.
        rest = max(total - first, 0)
        found = list(rows.reverse()[max(rest - size, 0) : rest])
        return ResultPage(found[::-1], total, page, size)
    found = list(rows[first : first + size + 1])
    # Nothing follows the last page, so the total is known without a count.
    if len(found) <= size and (found or not first):
        return ResultPage(found, first + len(found), page, size)
    del found[size:]
    if count_up_to is None:
        total = count() if count else rows.count()
        return ResultPage(found, total, page, size)
    if found and first + size >= count_up_to:
        return ResultPage(found, first + size, page, size, has_uncounted=True)
    counted = rows.order_by()[: count_up_to + 1].count()
    total = min(counted, count_up_to)
    return ResultPage(found, total, page, size, counted > count_up_to)


def broken_constraint(error: IntegrityError) -> str:
    """Return the name of the constraint that the statement broke."""
    broken = error.__cause__
    return (isinstance(broken, psycopg.Error) and broken.diag.constraint_name) or ""


def is_disk_full(error: BaseException) -> bool:
    """Return whether a statement or a connection failed for want of disk space."""
    return _is_disk_full(error.__cause__)


def _is_disk_full(error: BaseException | None) -> bool:
    if not isinstance(error, psycopg.OperationalError):
        return False
    return error.sqlstate == DISK_FULL or NO_ROOM in str(error)


def _needs_new_session(error: BaseException | None) -> bool:
    if not isinstance(error, psycopg.Error):
        return False
    is_outdated = error.diag.source_function == PLAN_CHECK
    return is_outdated or error.sqlstate in LOST_SESSION


class _ErrorWrapper(DatabaseErrorWrapper):
    """Translates errors of psycopg to Django's, and logs that the disk is full."""

    wrapper: DatabaseWrapper
    _said_at = -inf

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        if _is_disk_full(exc_value):
            self._say_disk_is_full()
        if _needs_new_session(exc_value) and self.wrapper.connection:
            self.wrapper.errors_occurred = True
            # `is_usable` sees it, and Django opens another one.
            self.wrapper.connection.close()
            raise OperationalError(*exc_value.args).with_traceback(
                traceback
            ) from exc_value
        super().__exit__(exc_type, exc_value, traceback)

    @classmethod
    def _say_disk_is_full(cls) -> None:
        if time.monotonic() > cls._said_at + DISK_FULL_PAUSE:
            cls._said_at = time.monotonic()
            logger.error("the disk of the database is full: writes fail")


class DatabaseFeatures(features.DatabaseFeatures):
    # PostgreSQL 15, the oldest supported version, has it. Django would connect to ask
    # for the version, also in `check`.
    supports_nulls_distinct_unique_constraints = True


class DatabaseWrapper(base.DatabaseWrapper):
    features_class = DatabaseFeatures
    connection: psycopg.Connection[Any] | None
    session_settings = SESSION_SETTINGS
    _clock_read_at = 0.0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if tracing.is_on():
            self.execute_wrappers.append(tracing.trace_statement)

    @cached_property
    def wrap_database_errors(self) -> DatabaseErrorWrapper:
        return _ErrorWrapper(self)

    def init_connection_state(self) -> None:
        super().init_connection_state()
        if self.connection is not None:
            with self.wrap_database_errors:
                self.prepare_session(self.connection)

    def prepare_session(self, connection: psycopg.Connection[Any]) -> None:
        """Set the limits of a new session."""
        calls = ", ".join(["set_config(%s, %s, false)"] * len(self.session_settings))
        values = [text for pair in self.session_settings.items() for text in pair]
        self._read_clock(connection, f", {calls}", values)

    def is_usable(self) -> bool:
        """Return whether the server has kept the connection open since its last use.

        Django asks before each request. Its own SELECT 1 is a round trip; the end of
        the connection shows on this side of the socket. Once in a while this reads the
        database's clock.
        """
        if self.connection is None:
            return False
        try:
            # The end of the stream comes after the server's last messages.
            for _ in range(2):
                self.connection.pgconn.consume_input()
            status = self.connection.info.transaction_status
            is_idle = status == psycopg.pq.TransactionStatus.IDLE
            is_old = time.monotonic() > self._clock_read_at + CLOCK_SECONDS
            if is_idle and is_old and self.connection.autocommit:
                self._read_clock(self.connection)
        except psycopg.Error:
            return False
        return status != psycopg.pq.TransactionStatus.INERROR

    def _read_clock(
        self,
        session: psycopg.Connection[Any],
        more: str = "",
        values: Sequence[str] = (),
    ) -> None:
        row = session.execute(f"SELECT clock_timestamp(){more}", values).fetchone()
        self._clock_read_at = time.monotonic()
        if row:
            clock.compare(row[0])


def name_sessions(program: str) -> None:
    """Name the sessions of this process, as `pg_stat_activity` shows them.

    libpq reads it for each connection, also of `pg_dump`. `?application_name=` of the
    URL wins.
    """
    os.environ["PGAPPNAME"] = f"verification {program}"


def reconnect(seconds: float) -> bool:
    """Wait until the primary server answers; return False if it does not in time.

    Call this outside any transaction, after the connection was lost.
    """
    deadline = time.monotonic() + seconds
    while True:
        connection.close()
        try:
            connection.ensure_connection()
            return True
        except (OperationalError, InterfaceError):
            if time.monotonic() > deadline:
                return False
        time.sleep(RECONNECT_PAUSE)
