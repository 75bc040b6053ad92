"""`make release` refuses a dump, document or changelog of another version."""

from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db.migrations.loader import MigrationLoader

from tests.upgrades.migrations import AddMigration
from tests.upgrades.migrations import add_migration as add_migration
from tests.upgrades.test_check_migrations import write_dump
from verification.development.management.commands import check_release

CLOSED = "# Changelog\n\n## [Unreleased]\n\n## [1.4.0] - 2027-01-02\n\n- All.\n"


@pytest.fixture(autouse=True)
def dump(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """1.4.0 has a dump with today's migrations, its document, a closed changelog."""
    settings.VERSION = "1.4.0"
    changelog, dump = tmp_path / "CHANGELOG.md", tmp_path / "1.4.0.tar.xz"
    changelog.write_text(CLOSED)
    write_dump(dump, {"format": 2, "migrations": newest_migrations()})
    monkeypatch.setattr(check_release, "RELEASES", tmp_path)
    monkeypatch.setattr(check_release, "CHANGELOG", changelog)
    monkeypatch.setattr(check_release, "DOCUMENTS", tmp_path)
    (tmp_path / "1.4.0.yaml").write_bytes(settings.OPENAPI_FILE.read_bytes())
    return dump


def newest_migrations() -> dict[str, list[str]]:
    return {app: [name] for app, name in MigrationLoader(None).graph.leaf_nodes()}


def refusal() -> str:
    with pytest.raises(CommandError) as refused:
        call_command(check_release.Command())
    return str(refused.value)


def test_release_with_its_dump_and_a_closed_changelog_is_ready():
    call_command(check_release.Command())


def test_release_without_the_dump_of_its_version_is_refused(dump: Path):
    dump.unlink()

    assert refusal().startswith("The commit has no dump of 1.4.0: run make dump, ")


def test_dump_from_before_a_migration_is_refused(add_migration: AddMigration):
    add_migration("0009_late", "migrations.RunSQL('CREATE TABLE late (id int)')")

    assert "than the code (backups.0009_late): run make dump, and" in refusal()


def test_dump_with_a_migration_that_the_code_lacks_is_refused(dump: Path):
    later = newest_migrations() | {"backups": ["0002_restore_drill", "0009_gone"]}
    write_dump(dump, {"format": 2, "migrations": later})

    assert "than the code (backups.0009_gone): " in refusal()


@pytest.mark.parametrize("kept", [None, b"openapi: 3.1.1"])
def test_release_without_its_api_document_is_refused(tmp_path: Path, kept: bytes):
    document = tmp_path / "1.4.0.yaml"
    document.write_bytes(kept) if kept else document.unlink()

    assert "does not keep the API document of 1.4.0: run cp " in refusal()


@pytest.mark.parametrize("rest", ["", "\n## [1.4.0] - 2027-01-02\n"])
def test_open_changelog_is_refused(tmp_path: Path, rest: str):
    text = f"# Changelog\n\n## [Unreleased]\n\n### Fixed\n\n- A fault.\n{rest}"
    (tmp_path / "CHANGELOG.md").write_text(text)

    assert "move them under [1.4.0], and commit." in refusal()
