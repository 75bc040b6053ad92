"""Explain database errors at the start in one sentence that says what to do.

It also compares the migrations of the database with those of this version, without
loading them. Older code may run on the tables of a newer version, so that an upgrade
can be rolled out and back, until a migration removes what it needs: the name of such a
migration ends with the oldest version that can run afterwards, as in
`0012_drop_colour_needs_1_1_0`.
"""

import re
from collections.abc import Iterator
from importlib.util import find_spec
from pkgutil import iter_modules

from django.apps import apps
from django.db import OperationalError, connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from verification import __version__
from verification.db import embedded

# Messages of PostgreSQL and its client, and what to do; the first match counts.
ADVICE = {
    r'database ".*" does not exist': "create that database, or name another",
    r'role ".*" (does not exist|is not permitted)|password|pg_hba': (
        "correct its user and password"
    ),
    "too many clients|starting up|shutting down": "try again in a minute",
    "resolve host|translate host name": "correct its host",
    "refused|timeout|timed out|No such file|unreachable": (
        "start the server, or correct its host and port"
    ),
}


NEEDED_VERSION = re.compile(r"_needs_(\d+)_(\d+)_(\d+)$")
Version = tuple[int, ...]


class DatabaseRefused(OperationalError):
    """The database answers but cannot be used; the text says why."""


def explain_error(error: OperationalError) -> str:
    """Return what to do about a failed connection, or "" for a failed statement."""
    if isinstance(error, DatabaseRefused):
        return str(error)
    if getattr(error.__cause__, "sqlstate", None) is not None:
        return ""
    text = str(error)
    said = re.search(r"FATAL: +(.*)", text) or re.search(r"(?:failed: )?(.+)", text)
    why = said[1].strip(" .") if said else type(error).__name__
    if embedded.is_used():
        return f"The embedded database cannot be used ({why}); start the command again."
    advice = next((a for found, a in ADVICE.items() if re.search(found, text)), "")
    return (
        f"The database that DATABASE_URL names cannot be used ({why}); "
        f"{advice or 'correct DATABASE_URL'}."
    )


def is_unreachable(error: OperationalError) -> bool:
    """Return whether the server does not answer, but may do so later."""
    text = str(error)
    refuses = isinstance(error, DatabaseRefused) or "FATAL" in text
    return not refuses or "starting up" in text


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
    require_no_later_schema()
    if unapplied := count_unapplied_migrations():
        raise DatabaseRefused(
            f"Migrations of version {__version__} are not applied ({unapplied}); "
            "run: python manage.py migrate"
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
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT name FROM django_migrations WHERE name ~ %s",
            [NEEDED_VERSION.pattern],
        )
        needed = [needed_version(name) for (name,) in cursor.fetchall()]
    newest = max(needed, default=())
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
