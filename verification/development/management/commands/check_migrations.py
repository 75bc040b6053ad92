"""Refuse migrations that would stop the service, or the version before it.

Squawk reads their SQL, and a migration only defines: it runs no Python, changes no rows
and takes no lock by itself, because a job does such work in batches. Migrations that
the newest release has are left out: its dump in `tests/upgrades` lists them. A
migration that removes something is accepted if its name ends with a released version
that can run without it, as in `0012_drop_colour_needs_1_1_0`. A migration that a rule
misjudges names the rule and the reason:

    class Migration(migrations.Migration):
        allowed = {"changing-column-type": "A longer varchar is not rewritten."}
"""

import json
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

from django.apps import apps
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import connection
from django.db.migrations import Migration
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations import SeparateDatabaseAndState
from django.db.migrations.operations.base import Operation

from verification.backups.archive import listed_migrations
from verification.db.startup import needed_version, parse_version

RELEASES = settings.BASE_DIR / "tests" / "upgrades"
SUFFIX = ".tar.xz"
PAGE = "docs/engineer/migrations.md"
OLDEST_POSTGRESQL = "15"
# Matters of style, limits that `migrate` sets, and what loosens a table, as older code
# does not notice that.
LEFT_OUT = (
    "ban-char-field",
    "ban-drop-constraint",
    "prefer-bigint-over-int",
    "prefer-bigint-over-smallint",
    "prefer-identity",
    "prefer-robust-stmts",
    "prefer-text-field",
    "prefer-timestamp-tz",
    "require-lock-timeout",
    "require-statement-timeout",
)
# These are right once no version that runs uses the column or the table.
REMOVALS = {
    "adding-not-nullable-field",
    "ban-drop-column",
    "ban-drop-default",
    "ban-drop-function",
    "ban-drop-table",
}
FRAME = re.compile(r"^(BEGIN|COMMIT);$", re.MULTILINE)
# Rules of our own, which Squawk lacks
RUNS_PYTHON, NO_DEFINITION = "runs-python", "no-definition"
# `SET` alone could lift the limits of `migrate`.
DEFINITION = re.compile(
    r"(ALTER|COMMENT ON|CREATE|DROP|GRANT|REVOKE|SET CONSTRAINTS)\b", re.IGNORECASE
)
# Definitions of a rule of our own -> why they are refused. Django's own SQL has none.
FORBIDDEN = {
    "rewriting-table": (
        re.compile(
            r"ALTER (TABLE|INDEX|MATERIALIZED VIEW)\b.*"
            r"\bSET (LOGGED|UNLOGGED|TABLESPACE|ACCESS METHOD)\b",
            re.IGNORECASE,
        ),
        "writes the whole table anew, and nobody can use it meanwhile",
    ),
    "filling-table": (
        re.compile(
            r"CREATE\b.*\b(TABLE|MATERIALIZED VIEW)\b.*"
            r"\bAS [( ]*(SELECT|TABLE|VALUES|WITH|EXECUTE)\b",
            re.IGNORECASE,
        ),
        "copies rows; define the table, and let a job fill it",
    ),
    "disabling-trigger": (
        re.compile(
            r"DROP (TRIGGER|RULE)\b"
            r"|ALTER TABLE\b.*\bDISABLE (TRIGGER|RULE|ROW LEVEL SECURITY)\b",
            re.IGNORECASE,
        ),
        "takes away a rule that the version before relies on; CREATE OR REPLACE "
        "changes a trigger",
    ),
}
COMMENT_OR_QUOTED = re.compile(
    r"(?P<comment>--[^\n]*|/\*.*?\*/)"
    r"|(?P<quote>\$\w*\$).*?(?P=quote)"
    r"|'(?:[^']|'')*'"
    r'|"(?:[^"]|"")*"',
    re.DOTALL,
)


class Command(BaseCommand):
    help = "Refuses migrations that lock out a running service or break older code."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        # The files count, whatever is applied here.
        loader = MigrationLoader(None)
        loader.connection = connection
        version, released = newest_release()
        known = {
            ancestor
            for key in present_names(loader, released)
            if key in loader.graph.nodes
            for ancestor in loader.graph.forwards_plan(key)
        }
        ours = {
            app.label
            for app in apps.get_app_configs()
            if app.name.partition(".")[0] in settings.JOB_PACKAGES
        }
        new = [key for key in sorted(loader.graph.nodes) if key not in known]
        faults = [
            fault
            for key in new
            if released and key[0] in ours
            for fault in _find_faults(loader, key, version)
        ]
        if faults:
            raise CommandError("\n".join([*faults, f"{PAGE} says what to do."]))


def newest_release() -> tuple[str, set[tuple[str, str]]]:
    """Return the version of the newest dump, and its newest migrations."""
    dumps = {
        path.name.removesuffix(SUFFIX): path for path in RELEASES.glob(f"*{SUFFIX}")
    }
    if not dumps:
        return "", set()
    version = max(dumps, key=parse_version)
    return version, read_dump(dumps[version])


def read_dump(dump: Path) -> set[tuple[str, str]]:
    """Return the newest migrations of a dump, by the names that they had then."""
    with tarfile.open(dump) as files:
        manifest = json.load(cast("IO[bytes]", files.extractfile("manifest.json")))
    listed = listed_migrations(manifest)
    return {(app, name) for app, names in listed.items() for name in names}


def present_names(
    loader: MigrationLoader, released: set[tuple[str, str]]
) -> set[tuple[str, str]]:
    """Return these migrations, or the migrations that have replaced them."""
    replacing = {
        old: key for key, one in loader.disk_migrations.items() for old in one.replaces
    }
    return {replacing.get(key, key) for key in released}


def _find_faults(
    loader: MigrationLoader, key: tuple[str, str], released: str
) -> Iterator[str]:
    app, name = key
    migration = loader.graph.nodes[key]
    reasons: dict[str, str] = getattr(migration, "allowed", {})
    allowed = {rule for rule, reason in reasons.items() if reason.strip()}
    needed = needed_version(name)
    if needed > parse_version(released):
        yield f"{app}.{name}: that version is not released, so {released} still runs."
    if not migration.atomic and len(migration.operations) > 1:
        yield (
            f"{app}.{name}: several operations without a transaction; if the second "
            "fails, the first cannot be repeated. Give each a migration."
        )
    if any(_hides_python(operation) for operation in migration.operations):
        # Django would run it to collect the SQL.
        yield f"{app}.{name}: take RunPython out of SeparateDatabaseAndState."
        return
    sql = FRAME.sub("", "\n".join(loader.collect_sql([(migration, False)])))
    for rule, message in (*_find_changes(migration, sql), *_ask_squawk(migration, sql)):
        if rule not in allowed and not (needed and rule in REMOVALS):
            yield f"{app}.{name}: {message} ({rule})"


def _hides_python(operation: Operation) -> bool:
    """Return whether an operation inside this one runs Python."""
    return isinstance(operation, SeparateDatabaseAndState) and any(
        not inner.reduces_to_sql or _hides_python(inner)
        for inner in operation.database_operations
    )


def _find_changes(migration: Migration, sql: str) -> Iterator[tuple[str, str]]:
    """Yield what a migration does besides defining tables: such work is a job's."""
    for operation in migration.operations:
        if not operation.reduces_to_sql:
            name = type(operation).__name__
            yield RUNS_PYTHON, f"{name} may take any time; write a job."
    for statement in _split(sql):
        if not DEFINITION.match(statement):
            what = f"{statement[:60]!r} defines nothing"
            yield NO_DEFINITION, f"{what}; a job changes rows, batch by batch."
        for rule, (pattern, why) in FORBIDDEN.items():
            if pattern.match(statement):
                yield rule, f"{statement[:60]!r} {why}."


def _split(sql: str) -> list[str]:
    """Return the statements without comments."""
    statements = COMMENT_OR_QUOTED.sub(
        lambda found: " " if found["comment"] else found[0].replace(";", ","), sql
    ).split(";")
    return [text for statement in statements if (text := " ".join(statement.split()))]


def _ask_squawk(migration: Migration, sql: str) -> Iterator[tuple[str, str]]:
    """Yield the rules that the SQL of a migration breaks, with what Squawk says."""
    frame = "assume-in-transaction" if migration.atomic else "no-assume-in-transaction"
    done = subprocess.run(  # noqa: S603
        [
            Path(sys.executable).with_name("squawk"),
            *(f"--exclude={','.join(LEFT_OUT)}", f"--pg-version={OLDEST_POSTGRESQL}"),
            *(f"--{frame}", "--reporter=json", "--stdin-filepath=migration.sql"),
        ],
        input=sql,
        capture_output=True,
        text=True,
        check=False,
    )
    if not done.stdout:
        raise CommandError(f"squawk failed: {done.stderr.strip()}")
    for found in json.loads(done.stdout):
        yield found["rule_name"], found["message"]
