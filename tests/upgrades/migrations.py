"""Migrations that tests add to the app `backups`.

def test_something(add_migration):
    add_migration("0002_colour", "migrations.RunSQL('ALTER TABLE ...')")
"""

import shutil
import sys
from collections.abc import Callable, Iterator
from importlib import invalidate_caches
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db.migrations.loader import MigrationLoader

PACKAGE = "migrations_of_a_test"
AddMigration = Callable[..., None]
TEXT = """
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models

class Migration(migrations.Migration):
    atomic = {atomic}
    allowed = {allowed}
    dependencies = [("backups", {before!r})]
    operations = [{operations}]
"""


@pytest.fixture
def add_migration(
    tmp_path: Path,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    transactional_db: None,
) -> Iterator[AddMigration]:
    """Yield a function that adds a migration, and forget them all at the end.

    A test that applies one asks for `take_back`, too.
    """
    own = Path(apps.get_app_config("backups").path) / "migrations"
    folder = tmp_path / PACKAGE
    shutil.copytree(own, folder, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.syspath_prepend(str(tmp_path))
    settings.MIGRATION_MODULES = {"backups": PACKAGE}

    before = last_migration()

    def add(
        name: str, *operations: str, atomic: bool = True, allowed: Any = None
    ) -> None:
        nonlocal before
        text = TEXT.format(
            before=before,
            operations=", ".join(operations),
            atomic=atomic,
            allowed=allowed or {},
        )
        (folder / f"{name}.py").write_text(text)
        before = name
        invalidate_caches()

    yield add
    for module in [name for name in sys.modules if name.startswith(PACKAGE)]:
        del sys.modules[module]


@pytest.fixture
def take_back(add_migration: AddMigration) -> Iterator[None]:
    """Take the migrations of the test back."""
    before = last_migration()
    yield
    call_command("migrate", "backups", before, verbosity=0)


def last_migration() -> str:
    ((_, name),) = MigrationLoader(None).graph.leaf_nodes("backups")
    return name
