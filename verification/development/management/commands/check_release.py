"""Refuse a commit whose dump, changelog or API document is not that of its version.

`deploy/build-release` runs it. Later versions are tested with the dump, and
`check_migrations` treats its migrations as released: with a dump older than the code, a
later version could change tables that no test has tried.
"""

import re
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db.migrations.loader import MigrationLoader

from verification.development.management.commands.check_migrations import (
    RELEASES,
    SUFFIX,
    present_names,
    read_dump,
)

CHANGELOG = settings.BASE_DIR / "CHANGELOG.md"
# `make check` compares the documents of later versions with the documents kept here.
DOCUMENTS = settings.BASE_DIR / "tests" / "api" / "released"
OPEN = re.compile(r"^## \[Unreleased\]$(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
# Migrations that the command names.
NAMED = 5


class Command(BaseCommand):
    help = "Refuses to release with an old dump or API document, or an open changelog."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        version: str = settings.VERSION
        _require_dump(version, RELEASES / f"{version}{SUFFIX}")
        _require_document(version, DOCUMENTS / f"{version}.yaml")
        open_lines = OPEN.search(CHANGELOG.read_text())
        if open_lines and open_lines[1].strip():
            raise CommandError(
                "CHANGELOG.md has lines under [Unreleased]: move them under "
                f"[{version}], and commit. If {version} is released, raise the version "
                "first."
            )


def _require_dump(version: str, dump: Path) -> None:
    """Raise CommandError unless the dump has exactly the migrations of the code."""
    if not dump.exists():
        raise CommandError(
            f"The commit has no dump of {version}: run make dump, and commit what it "
            "writes."
        )
    loader = MigrationLoader(None)
    dumped = present_names(loader, read_dump(dump))
    newest = set(loader.graph.leaf_nodes())
    if differing := newest - dumped or dumped - newest:
        names = ", ".join(".".join(key) for key in sorted(differing)[:NAMED])
        raise CommandError(
            f"The dump of {version} has other migrations than the code ({names}): run "
            f"make dump, and commit what it writes. If {version} is released, raise "
            "the version first."
        )


def _require_document(version: str, kept: Path) -> None:
    """Raise CommandError unless the kept document is that of the code."""
    document: Path = settings.OPENAPI_FILE
    if not kept.exists() or kept.read_bytes() != document.read_bytes():
        raise CommandError(
            f"The commit does not keep the API document of {version}: run cp "
            f"docs/openapi.yaml tests/api/released/{version}.yaml, and commit it. If "
            f"{version} is released, raise the version first."
        )
