"""Code and tables of different versions: each refusal says what to install or run."""

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client

import verification
from tests.configuration.test_refusals_to_start import database_url
from tests.world.service import free_port
from verification.db import startup
from verification.db.startup import DatabaseRefused

LATER = (
    "The database is one of a later version and needs 99.2.0 or newer; "
    f"this is {verification.__version__}"
)


@pytest.fixture
def recorder(transactional_db: None) -> Iterator[Any]:
    """The rows of applied migrations, as they were at the end."""
    rows = MigrationRecorder.Migration.objects
    before = list(rows.all())
    yield rows
    rows.all().delete()
    rows.bulk_create(before)


def start(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a part of the service until it ends; fail if it keeps running."""
    url = database_url("postgres", connection.settings_dict["NAME"])
    return subprocess.run(
        [sys.executable, *command],
        cwd=settings.BASE_DIR,
        env=os.environ
        | {
            "DATABASE_URL": url,
            "DJANGO_SETTINGS_MODULE": "tests.world.service_settings",
            "PORT": str(free_port()),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )


PARTS = [("-m", "verification.web.server"), ("manage.py", "jobs")]


@pytest.mark.parametrize("command", [*PARTS, ("manage.py", "run")])
@pytest.mark.slow
def test_old_version_refuses_tables_that_need_a_newer_one(
    recorder: Any, command: tuple[str, ...]
) -> None:
    recorder.create(app="reports", name="0099_drop_colour_needs_99_2_0")

    done = start(*command)

    assert done.returncode != 0
    assert done.stderr.startswith(LATER)
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("command", PARTS)
@pytest.mark.slow
def test_new_version_refuses_tables_that_are_not_migrated(
    recorder: Any, command: tuple[str, ...]
) -> None:
    count, _ = recorder.filter(app="backups").delete()

    done = start(*command)

    assert done.returncode != 0
    assert done.stderr == (
        f"Migrations of version {verification.__version__} are not applied ({count}); "
        "run: verification migrate\n"
    )


def test_migrate_refuses_tables_of_a_later_version(recorder: Any) -> None:
    recorder.create(app="reports", name="0099_drop_colour_needs_99_2_0")

    with pytest.raises(DatabaseRefused, match=r"needs 99\.2\.0 or newer"):
        call_command("migrate", verbosity=0)


@pytest.mark.parametrize("command", ["reencrypt", "rehash"])
def test_keys_are_not_changed_by_a_version_that_may_not_know_all_columns(
    recorder: Any, command: str
) -> None:
    recorder.create(app="reports", name="0099_add_colour")

    with pytest.raises(DatabaseRefused, match="0099_add_colour is of a later"):
        call_command(command)


@pytest.mark.parametrize(
    ("name", "needed"),
    [
        ("0099_add_colour", ""),
        ("0099_drop_colour_needs_1_0_0", ""),
        ("0099_drop_colour_needs_99_0_1", "99.0.1"),
        ("0099_drop_colour_needs_99_10_0", "99.10.0"),
    ],
)
def test_old_version_runs_until_what_it_needs_is_removed(
    recorder: Any, client: Client, name: str, needed: str
) -> None:
    recorder.create(app="reports", name=name)

    assert startup.find_needed_version() == needed
    ready = client.get("/readyz").json()["migrations"]
    assert ready == (f"version {needed} needed" if needed else "ok")


def test_newest_needed_version_counts(recorder: Any) -> None:
    for version in ("99_9_0", "99_10_0", "99_2_0"):
        recorder.create(app="reports", name=f"0099_drop_needs_{version}")

    assert startup.find_needed_version() == "99.10.0"
