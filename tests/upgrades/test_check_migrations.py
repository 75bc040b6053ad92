"""Migrations that would stop a running service are refused by `make check`."""

import json
import tarfile
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db.migrations.loader import MigrationLoader

from tests.upgrades.migrations import AddMigration
from tests.upgrades.migrations import add_migration as add_migration
from verification.development.management.commands import check_migrations

COLUMN = "migrations.AddField('backup', 'place', models.{})"
RUN = "migrations.RunSQL('{}')"


@pytest.fixture(scope="module")
def newest() -> dict[str, str]:
    """Return the name of the newest migration of each app."""
    return dict(MigrationLoader(None).graph.leaf_nodes())


@pytest.fixture(autouse=True)
def released(
    newest: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Today's migrations are those of 1.4.0; 1.10.0 is the next release."""
    folder = tmp_path / "releases"
    folder.mkdir()
    monkeypatch.setattr(check_migrations, "RELEASES", folder)
    write_dump(folder / "1.3.0.tar.xz", {"format": 1, "migrations": newest})
    listed = {app: [name] for app, name in newest.items()}
    write_dump(folder / "1.4.0.tar.xz", {"format": 2, "migrations": listed})


def write_dump(path: Path, manifest: dict[str, Any]) -> None:
    content = json.dumps(manifest).encode()
    with tarfile.open(path, "w:xz", preset=0) as dump:
        member = tarfile.TarInfo("manifest.json")
        member.size = len(content)
        dump.addfile(member, BytesIO(content))


def check() -> None:
    call_command(check_migrations.Command())


def refusal() -> str:
    with pytest.raises(CommandError) as refused:
        check()
    return str(refused.value)


# Each can follow the ones before it.
STOPPING = [
    (
        "migrations.AddIndex('backup', models.Index('rows', name='b_rows'))",
        "require-concurrent-index-creation",
    ),
    (COLUMN.format("TextField(default='')"), "ban-drop-default"),
    (RUN.format("ALTER TABLE b ADD x int NOT NULL"), "adding-required-field"),
    (
        "migrations.AddConstraint('backup', models.CheckConstraint("
        "condition=models.Q(rows__gt=0), name='some'))",
        "constraint-missing-not-valid",
    ),
    (
        "migrations.AddConstraint('backup', models.UniqueConstraint("
        "fields=['rows'], name='other'))",
        "disallowed-unique-constraint",
    ),
    (
        "migrations.AlterField('backup', 'rows', models.TextField())",
        "changing-column-type",
    ),
    ("migrations.RemoveField('backup', 'seconds')", "ban-drop-column"),
    ("migrations.RenameField('backup', 'place', 'where')", "renaming-column"),
    ("migrations.RenameModel('Backup', 'Copy')", "renaming-table"),
    ("migrations.DeleteModel('Copy')", "ban-drop-table"),
]


def test_migration_that_stops_the_service_is_refused(
    add_migration: AddMigration,
) -> None:
    for number, (operation, _) in enumerate(STOPPING):
        add_migration(f"{1000 + number}_new", operation)

    said = refusal()

    faults = faults_of(said)
    for number, (operation, rule) in enumerate(STOPPING):
        assert f"({rule})" in faults[f"backups.{1000 + number}_new"], operation
    assert "docs/engineer/migrations.md" in said


def test_migration_that_only_adds_is_accepted(add_migration: AddMigration) -> None:
    add_migration("0009_null", COLUMN.format("TextField(null=True)"))
    add_migration("0010_default", COLUMN.format("TextField(db_default='')"))
    add_migration(
        "0011_index",
        "AddIndexConcurrently('backup', models.Index('rows', name='b_rows'))",
        atomic=False,
    )
    add_migration(
        "0012_table",
        "migrations.CreateModel('Copy', [('id', models.BigAutoField(primary_key=True)),"
        " ('of', models.ForeignKey('backups.Backup', models.CASCADE))])",
    )

    check()


def test_removal_names_a_released_version(add_migration: AddMigration) -> None:
    add_migration("0009_drop_needs_1_4_0", "migrations.RemoveField('backup', 'rows')")
    check()

    add_migration("0010_drop_needs_1_5_0", "migrations.DeleteModel('Backup')")

    assert refusal().startswith(
        "backups.0010_drop_needs_1_5_0: that version is not released, so 1.4.0 still"
    )


def test_rename_is_refused_whatever_version_it_names(
    add_migration: AddMigration,
) -> None:
    rename = "migrations.RenameField('backup', 'rows', 'count')"
    add_migration("0009_rename_needs_1_4_0", rename)

    assert "(renaming-column)" in refusal()


def test_migration_may_say_why_a_rule_is_wrong(add_migration: AddMigration) -> None:
    wider = RUN.format("ALTER TABLE b ALTER c TYPE varchar(200)")
    add_migration("0009_wider", wider, allowed={"changing-column-type": "no rewrite"})
    check()

    add_migration("0010_wider", wider, allowed={"ban-drop-column": "another rule"})

    assert "backups.0010_wider: " in refusal()


PYTHON = "migrations.RunPython(lambda apps, schema_editor: 1 / 0)"


def faults_of(said: str) -> dict[str, str]:
    """Return the faults by migration."""
    faults: dict[str, str] = {}
    for line in said.splitlines()[:-1]:
        name, _, fault = line.partition(": ")
        faults[name] = faults.get(name, "") + fault
    return faults


def test_migration_that_changes_rows_or_locks_is_refused(
    add_migration: AddMigration,
) -> None:
    statements = [
        "UPDATE b SET c = 1",
        "DELETE FROM b",
        "INSERT INTO b SELECT * FROM c",
        "TRUNCATE b",
        "LOCK TABLE b",
        "WITH gone AS (DELETE FROM b RETURNING *) SELECT count(*) FROM gone",
        "DO $$ BEGIN UPDATE b SET c = 1, END $$",
        "SELECT refill()",
        "SET lock_timeout = 0",
        "CREATE TABLE d (e text DEFAULT $$-- a; b$$); /* fill */ UPDATE b SET c = 1",
    ]
    for number, statement in enumerate(statements):
        add_migration(f"{1000 + number}_fill", RUN.format(statement))

    faults = faults_of(refusal())

    refused = "defines nothing; a job changes rows, batch by batch. (no-definition)"
    for number, statement in enumerate(statements):
        assert refused in faults[f"backups.{1000 + number}_fill"], statement


def test_definition_that_rewrites_fills_or_disarms_needs_a_reason(
    add_migration: AddMigration,
) -> None:
    forbidden = [
        ('ALTER TABLE "b" SET UNLOGGED', "rewriting-table"),
        ("alter table b set logged", "rewriting-table"),
        ("ALTER TABLE b ADD c int, SET TABLESPACE other", "rewriting-table"),
        ("ALTER INDEX b_c SET TABLESPACE other", "rewriting-table"),
        ("ALTER TABLE b SET ACCESS METHOD heap", "rewriting-table"),
        ("CREATE TABLE d AS SELECT c FROM b", "filling-table"),
        ("CREATE UNLOGGED TABLE d (c) AS (TABLE b) WITH DATA", "filling-table"),
        ("CREATE MATERIALIZED VIEW d AS SELECT c FROM b", "filling-table"),
        ("ALTER TABLE b DISABLE TRIGGER ALL", "disabling-trigger"),
        ("ALTER TABLE b DISABLE TRIGGER b_append_only", "disabling-trigger"),
        ("DROP TRIGGER\\n/* soon */ b_append_only ON b", "disabling-trigger"),
    ]
    for number, (statement, rule) in enumerate(forbidden):
        reason = {rule: "No more than ten rows."}
        add_migration(f"{1000 + number}_reason", RUN.format(statement), allowed=reason)
    check()

    for number, (statement, _) in enumerate(forbidden):
        add_migration(f"{2000 + number}_silent", RUN.format(statement))

    faults = faults_of(refusal())
    assert len(faults) == len(forbidden)
    for number, (statement, rule) in enumerate(forbidden):
        assert f"({rule})" in faults[f"backups.{2000 + number}_silent"], statement


def test_new_table_with_a_computed_column_fills_nothing(
    add_migration: AddMigration,
) -> None:
    column = "CREATE TABLE d (a bigint, b bigint GENERATED ALWAYS AS (a + 1) STORED)"
    add_migration("0009_table", RUN.format(column))

    check()


def test_operation_that_fills_rows_by_itself_is_refused(
    add_migration: AddMigration,
) -> None:
    add_migration("0009_null", COLUMN.format("TextField(null=True)"))
    add_migration(
        "0010_filled",
        "migrations.AlterField('backup', 'place', models.TextField(default=''))",
    )

    assert '0010_filled: \'UPDATE "backups_backup" SET' in refusal()


def test_definition_of_a_function_that_changes_rows_is_accepted(
    add_migration: AddMigration,
) -> None:
    body = "BEGIN UPDATE b SET c = 1; DELETE FROM d; RETURN NEW; END"
    add_migration(
        "0009_function",
        RUN.format(
            f"CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $f${body}$f$"
        ),
    )

    check()


def test_migration_in_python_is_refused_and_not_run(
    add_migration: AddMigration,
) -> None:
    add_migration("0009_python", PYTHON)
    assert "0009_python: RunPython may take any time; write a job." in refusal()

    add_migration("0010_inside", f"migrations.SeparateDatabaseAndState([{PYTHON}])")

    assert "0010_inside: take RunPython out of" in refusal()


def test_small_change_of_rows_says_why_it_is_allowed(
    add_migration: AddMigration,
) -> None:
    change = RUN.format("UPDATE b SET c = 1")
    reasons = {"no-definition": "At most ten rows.", "runs-python": "The same."}
    add_migration("0009_few", change, PYTHON, allowed=reasons)
    check()

    add_migration("0010_silent", change, allowed={"no-definition": " "})

    assert "0010_silent: " in refusal()


def test_each_operation_without_a_transaction_has_its_migration(
    add_migration: AddMigration,
) -> None:
    index = "AddIndexConcurrently('backup', models.Index('{0}', name='b_{0}'))"
    two = [index.format("rows"), index.format("seconds")]
    add_migration("0009_indexes", *two, atomic=False)

    assert "Give each a migration" in refusal()


def test_migration_that_has_replaced_released_ones_is_known(
    db: None, tmp_path: Path
) -> None:
    """The dumps of 1.0 say `0005_rights`, which sorts after what is newer."""
    loader = MigrationLoader(None)
    app, name = next(
        old for m in loader.disk_migrations.values() for old in reversed(m.replaces)
    )
    newest = dict(loader.graph.leaf_nodes()) | {app: name}
    write_dump(
        tmp_path / "releases" / "1.4.0.tar.xz", {"format": 1, "migrations": newest}
    )

    check()
