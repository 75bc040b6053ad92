"""Backups of released versions are restored, migrated and used by today's code."""

import json
import os
import re
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.contrib.contenttypes.models import ContentType
from django.db import connection
from django.test import Client, override_settings

from tests.configuration.test_refusals_to_start import database_url
from tests.upgrades.dumps import FOLDER, SUFFIX, UNUSED, manage
from tests.world.clients import Api, person
from verification.db.startup import count_unapplied_migrations, parse_version
from verification.files.storage import read_content
from verification.golive.models import Document
from verification.privacy.models import CorrectionDocument
from workspaces.models import Workspace

pytestmark = pytest.mark.slow

DUMPS = sorted(
    FOLDER.glob(f"*{SUFFIX}"),
    key=lambda path: parse_version(path.name.removesuffix(SUFFIX)),
)
# Versions whose backups have no seal
UNSEALED = "1.0."
DATABASE = f"{settings.DATABASES['default']['TEST']['NAME']}_upgraded"


@dataclass
class Upgraded:
    """A restored and migrated database, to which Django's connection leads now."""

    version: str
    manifest: dict[str, Any]
    # What a client of that version read
    expected: dict[str, Any]
    said: str


@pytest.fixture(scope="module", params=DUMPS, ids=lambda path: path.name)
def upgraded(
    request: pytest.FixtureRequest,
    database_server: None,
    django_db_blocker: Any,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Upgraded]:
    folder = tmp_path_factory.mktemp("upgrade")
    with tarfile.open(request.param) as dump:
        # The argument `filter` is younger than Python 3.11.
        dump.extraction_filter = getattr(tarfile, "data_filter", None)
        dump.extractall(folder / "backup")  # noqa: S202
    name = f"{DATABASE}_{os.getpid()}"
    documents = folder / "documents"
    server = database_url("postgres", "postgres")
    with psycopg.connect(server, autocommit=True) as db:
        db.execute(f"CREATE DATABASE {name}")
    try:
        url = database_url("postgres", name)
        backup, expected = folder / "backup", folder / "expected.json"
        (backup / "expected.json").rename(expected)
        options = ["--unsealed"] if request.param.name.startswith(UNSEALED) else []
        done = manage("restore", str(backup), *options, url=url, documents=documents)
        with django_db_blocker.unblock(), _use(name, documents):
            yield Upgraded(
                version=request.param.name.removesuffix(SUFFIX),
                manifest=json.loads((folder / "backup/manifest.json").read_text()),
                expected=json.loads(expected.read_text()),
                said=done.stdout,
            )
    finally:
        with psycopg.connect(server, autocommit=True) as db:
            db.execute(f"DROP DATABASE {name} WITH (FORCE)")


@contextmanager
def _use(name: str, documents: Path) -> Iterator[None]:
    """Let Django use this database and these documents."""
    stored = {**settings.STORAGES["documents"], "OPTIONS": {"location": documents}}
    before = connection.settings_dict["NAME"]
    connection.close()
    connection.settings_dict["NAME"] = name
    ContentType.objects.clear_cache()
    try:
        with override_settings(STORAGES={**settings.STORAGES, "documents": stored}):
            yield
    finally:
        connection.close()
        connection.settings_dict["NAME"] = before
        ContentType.objects.clear_cache()


def test_dump_is_restored_and_migrated(upgraded: Upgraded) -> None:
    assert count_unapplied_migrations() == 0
    assert "The ledger adds up" in upgraded.said
    opened = int(re.search(r"Opened (\d+) sealed values", upgraded.said)[1])
    assert opened > 100


def test_dump_has_a_row_in_every_table(upgraded: Upgraded) -> None:
    rows = upgraded.manifest["rows"]
    empty = {table for table, count in rows.items() if not count}

    assert sorted(empty) == sorted(UNUSED.keys() & rows.keys())


def test_sealed_documents_are_opened(upgraded: Upgraded) -> None:
    documents = [*Document.objects.all(), *CorrectionDocument.objects.all()]

    assert len(documents) > 1
    assert all(read_content(document).startswith(b"%PDF") for document in documents)


def test_client_reads_the_reports_of_before(upgraded: Upgraded) -> None:
    http = Client(headers={"Authorization": f"Bearer {upgraded.expected['key']}"})

    for report_id, before in upgraded.expected["reports"].items():
        now = http.get(f"/api/v1/reports/{report_id}").json()
        for member in ("status", "subject", "riskLevel", "createdAt"):
            assert now[member] == before[member], report_id
        assert outcomes(now) == outcomes(before), report_id


def test_report_is_ordered_after_the_upgrade(upgraded: Upgraded) -> None:
    workspace = Workspace.objects.get(name="Acacia Lenders")
    api = Api(workspace, "sandbox")

    made = api.create(person())
    api.work()

    assert api.report(made["id"])["status"] == "READY"


def outcomes(report: dict[str, Any]) -> dict[str, tuple[Any, ...]]:
    """Return what each check found; later versions may tell more details."""
    return {
        result["checkName"]: (result["status"], result["summary"], result["score"])
        for result in report["checkResults"]
    }
