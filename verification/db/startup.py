"""Explain database errors at the start in one sentence that says what to do.

It also counts unapplied migrations, without loading them.
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


def _migration_names() -> Iterator[tuple[str, str]]:
    for app in apps.get_app_configs():
        package, _ = MigrationLoader.migrations_module(app.label)
        spec = find_spec(package) if package else None
        if spec is not None:
            for module in iter_modules(spec.submodule_search_locations):
                yield app.label, module.name
