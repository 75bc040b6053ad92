"""Explain database errors at the start in one sentence with the remedy.

It also recognises a pooler that the service cannot use.

It compares the migrations of the database with those of this version, without
loading them. Older code may run on the tables of a newer version, so that an upgrade
can be rolled out and back, until a migration removes what it needs: the name of such a
migration ends with the oldest version that can run afterwards, as in
`0012_drop_colour_needs_1_1_0`.
"""

import re
from collections.abc import Iterator
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import Any, Literal, LiteralString

import psycopg
from django.apps import apps
from django.conf import settings
from django.db import OperationalError, connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Conninfo

from verification import __version__
from verification.db import embedded
from verification.db.base import run_sql

# Messages of a server that is full, ends, starts, recovers or waits for its promotion.
TRANSIENT = (
    "too many (clients|connections)|connection slots are reserved"
    "|starting up|shutting down|recovery mode|not yet accepting"
    "|session is read-only|session is not read-write|closed .*unexpectedly"
)
# Messages of PostgreSQL and its client, and what to do; the first match counts.
ADVICE = {
    r'database ".*" does not exist': "create that database, or name another",
    r'role ".*" (does not exist|is not permitted)|password|pg_hba': (
        "correct its user and password"
    ),
    TRANSIENT: "try again in a minute",
    "read-only transaction": "name the primary server, which takes writes",
    "resolve host|translate host name": "correct its host",
    "refused|timeout|timed out|No such file|unreachable": (
        "start the server, or correct its host and port"
    ),
}


# A table of a database whose restore has not ended: constraints come after the rows.
UNFINISHED_RESTORE = "restore_is_unfinished"
NEEDED_VERSION = re.compile(r"_needs_(\d+)_(\d+)_(\d+)$")
Version = tuple[int, ...]


class DatabaseRefused(OperationalError):
    """The database answers but cannot be used; the text says why."""


class KeysRefused(DatabaseRefused):
    """The database was written with other keys than those of this process."""


class RightsMissing(DatabaseRefused):
    """The role may not read the tables, as after a restore."""


def explain_error(error: OperationalError, name: str = "") -> str:
    """Return what to do about a failed connection, or "" for a failed statement.

    `name` is the variable with the address, if it is not that of this process.
    """
    if isinstance(error, DatabaseRefused):
        return str(error)
    cause = error.__cause__
    # A standby takes connections and no writes.
    is_read_only = isinstance(cause, psycopg.errors.ReadOnlySqlTransaction)
    if getattr(cause, "sqlstate", None) is not None and not is_read_only:
        return ""
    text = str(error)
    said = re.search(r"FATAL: +(.*)", text) or re.search(r"(?:failed: )?(.+)", text)
    why = said[1].strip(" .") if said else type(error).__name__
    if embedded.is_used():
        return f"The embedded database cannot be used ({why}); start the command again."
    advice = next((a for found, a in ADVICE.items() if re.search(found, text)), "")
    name = name or ("DATABASE_DIRECT_URL" if settings.IS_DIRECT else "DATABASE_URL")
    return (
        f"The database that {name} names cannot be used ({why}); "
        f"{advice or f'correct {name}'}."
    )


def is_unreachable(error: OperationalError) -> bool:
    """Return whether the server does not answer, but may do so later."""
    text = str(error)
    refuses = isinstance(error, DatabaseRefused) or "FATAL" in text
    return not refuses or bool(re.search(TRANSIENT, text))


def refuse_transaction_pooler(url: str) -> None:
    """Raise DatabaseRefused if a pooler does not give each client a session.

    Locks, time limits and LISTEN of the service belong to a session.
    """
    with connection.wrap_database_errors:
        if find_pooler(url) == "transaction":
            raise DatabaseRefused(
                "The database is behind a pooler that gives away the session after "
                "each transaction; set pool_mode = session for this service."
            )


def find_pooler(url: str) -> Literal["", "session", "transaction"]:
    """Return how a pooler at this URL shares the server's sessions; "" without one."""
    with psycopg.connect(url, autocommit=True, connect_timeout=5) as first:
        session = _server_process(first)
        # A pooler makes up the number that it tells its client.
        if first.info.backend_pid == session:
            return ""
        with psycopg.connect(url, autocommit=True, connect_timeout=5) as second:
            # A session that is free goes to the client that comes next.
            is_shared = (
                _server_process(first) != session or _server_process(second) == session
            )
    return "transaction" if is_shared else "session"


def identify_database(url: str) -> tuple[int, int]:
    """Return the number of the server's data and that of the database.

    A standby has the numbers of its primary server.
    """
    system, database = _ask(
        url,
        "SELECT system_identifier, d.oid::bigint FROM pg_control_system(),"
        " pg_database d WHERE datname = current_database()",
    )
    return system, database


def tls_mode(url: str) -> str:
    """Return libpq's `sslmode` of connections to this URL, also by PGSSLMODE."""
    defaults = {one.keyword: one.val for one in Conninfo.get_defaults()}
    given = conninfo_to_dict(url).get("sslmode")
    return str(given or (defaults[b"sslmode"] or b"").decode())


def is_superuser(url: str) -> bool:
    """Return whether the role of this URL may do everything on the server."""
    query = "SELECT rolsuper FROM pg_roles WHERE rolname = current_user"
    return bool(_ask(url, query)[0])


def logs_values(url: str) -> bool:
    """Return whether the server's log repeats what a statement with an error holds."""
    (logs,) = _ask(
        url,
        "SELECT current_setting('log_error_verbosity') <> 'terse' OR"
        " current_setting('log_min_error_statement')"
        " NOT IN ('log', 'fatal', 'panic')",
    )
    return bool(logs)


def connection_limit(url: str) -> int:
    """Return how many connections the server allows to roles that are no superusers."""
    (limit,) = _ask(
        url,
        "SELECT current_setting('max_connections')::int"
        " - current_setting('superuser_reserved_connections')::int",
    )
    return int(limit)


def _ask(url: str, query: LiteralString) -> tuple[Any, ...]:
    """Return the row that the query finds in every database."""
    with psycopg.connect(url, autocommit=True, connect_timeout=5) as client:
        (row,) = client.execute(query).fetchall()
    return row


def _server_process(client: psycopg.Connection[Any]) -> int:
    row = client.execute("SELECT pg_backend_pid()").fetchone()
    return int(row[0]) if row else 0


def count_unapplied_migrations() -> int:
    """Return the number of migrations that are not applied.

    The migrations are loaded only if the database lacks one of their names.
    """
    if (
        set(_migration_names())
        <= MigrationRecorder(connection).applied_migrations().keys()
    ):
        return 0
    executor = MigrationExecutor(connection)
    return len(executor.migration_plan(executor.loader.graph.leaf_nodes()))


def require_schema() -> None:
    """Raise DatabaseRefused if this version cannot run on the database's tables."""
    if run_sql("SELECT to_regclass(%s)", [UNFINISHED_RESTORE]) != [(None,)]:
        raise DatabaseRefused(
            "The restore of this database has not ended; if it was interrupted, drop "
            "the database, and restore into a new one."
        )
    require_no_later_schema()
    if unapplied := count_unapplied_migrations():
        raise DatabaseRefused(
            f"Migrations of version {__version__} are not applied ({unapplied}); "
            "run: verification migrate"
        )


def require_own_schema() -> None:
    """Raise DatabaseRefused unless the tables are exactly those of this version.

    Older code may run on newer tables, but a command that has to reach each value of a
    kind would leave out those of columns that it does not know.
    """
    require_schema()
    loader = MigrationLoader(connection)
    known = loader.disk_migrations.keys() | {
        replaced for one in loader.disk_migrations.values() for replaced in one.replaces
    }
    if later := sorted(loader.applied_migrations.keys() - known):
        raise DatabaseRefused(
            "The database has columns that this version may not know: "
            f"{'.'.join(later[0])} is of a later one. Run the command with the newest "
            "version that has migrated the database."
        )


def require_no_later_schema() -> None:
    """Raise DatabaseRefused if a later version has removed what this one needs."""
    has_migrations = MigrationRecorder(connection).has_table()
    if has_migrations and (needed := find_needed_version()):
        raise DatabaseRefused(
            f"The database is one of a later version and needs {needed} or newer; "
            f"this is {__version__}. Install that version."
        )


def find_needed_version() -> str:
    """Return the oldest version that can run on the database, or "" if this one can."""
    query = "SELECT name FROM django_migrations WHERE name ~ %s"
    named = run_sql(query, [NEEDED_VERSION.pattern])
    newest = max((needed_version(name) for (name,) in named), default=())
    return ".".join(map(str, newest)) if newest > parse_version(__version__) else ""


def needed_version(migration: str) -> Version:
    """Return the version that the migration's name ends with, or ()."""
    found = NEEDED_VERSION.search(migration)
    return tuple(map(int, found.groups())) if found else ()


def parse_version(version: str) -> Version:
    """Return the three numbers of a version; 1.1.0rc1 counts as 1.1.0."""
    return tuple(map(int, re.findall(r"\d+", version)[:3]))


def _migration_names() -> Iterator[tuple[str, str]]:
    for app in apps.get_app_configs():
        package, _ = MigrationLoader.migrations_module(app.label)
        spec = find_spec(package) if package else None
        if spec is not None:
            for module in iter_modules(spec.submodule_search_locations):
                yield app.label, module.name
