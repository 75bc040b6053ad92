"""Count the migrations that are not applied, without loading them."""

from collections.abc import Iterator
from importlib.util import find_spec
from pkgutil import iter_modules

from django.apps import apps
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder


def unapplied() -> int:
    """Return the number of migrations that are not applied.

    The migrations are loaded only if the database lacks one of their names.
    """
    if set(_names()) <= MigrationRecorder(connection).applied_migrations().keys():
        return 0
    executor = MigrationExecutor(connection)
    return len(executor.migration_plan(executor.loader.graph.leaf_nodes()))


def _names() -> Iterator[tuple[str, str]]:
    for app in apps.get_app_configs():
        package, _ = MigrationLoader.migrations_module(app.label)
        spec = find_spec(package) if package else None
        if spec is not None:
            for module in iter_modules(spec.submodule_search_locations):
                yield app.label, module.name
