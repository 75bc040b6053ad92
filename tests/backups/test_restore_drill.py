"""A restore drill that might fill the disk of the service's database does not begin."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection

from tests.configuration.test_refusals_to_start import database_url
from verification.backups.management.commands import restore_drill
from verification.backups.models import RestoreDrill

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def role() -> Iterator[str]:
    """A role that may create databases, and not read where the server's data is."""
    name = f"{connection.settings_dict['NAME']}_drill"
    with connection.cursor() as cursor:
        # A killed run may have left it.
        cursor.execute(f"DROP ROLE IF EXISTS {name}")
        cursor.execute(f"CREATE ROLE {name} LOGIN CREATEDB")
        yield name
        cursor.execute(f"DROP ROLE {name}")


@pytest.fixture(autouse=True)
def server(settings: Any) -> None:
    url = database_url("postgres", connection.settings_dict["NAME"])
    settings.DATABASE_DIRECT_URL = settings.DRILL_DATABASE_URL = url


def refusal(backup: Path, **options: Any) -> str:
    with pytest.raises(CommandError) as refused:
        call_command("restore_drill", str(backup), **options)
    return str(refused.value)


def test_drill_without_room_for_a_second_database_does_not_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restore_drill, "RESERVE_BYTES", 2**60)

    said = refusal(tmp_path)

    assert "free, and a second database needs 10737418" in said
    assert "DRILL_DATABASE_URL" in said
    assert not RestoreDrill.objects.exists()


@pytest.mark.parametrize("case", ["role", "machine"])
def test_drill_of_unknown_room_does_not_begin(
    tmp_path: Path,
    settings: Any,
    role: str,
    monkeypatch: pytest.MonkeyPatch,
    case: str,
) -> None:
    if case == "role":
        url = database_url(role, connection.settings_dict["NAME"])
        settings.DATABASE_DIRECT_URL = settings.DRILL_DATABASE_URL = url
    else:
        monkeypatch.setattr(psycopg.ConnectionInfo, "host", "db1")

    said = refusal(tmp_path)

    assert said.startswith("It cannot be measured whether the server has the ")
    assert "add --unmeasured" in said
    assert not RestoreDrill.objects.exists()


def test_operator_who_has_looked_lets_the_drill_begin(
    tmp_path: Path, settings: Any, role: str
) -> None:
    url = database_url(role, connection.settings_dict["NAME"])
    settings.DATABASE_DIRECT_URL = settings.DRILL_DATABASE_URL = url

    # The folder is no backup.
    assert "cannot be restored" in refusal(tmp_path, unmeasured=True)

    assert RestoreDrill.objects.get().succeeded is False


def test_other_name_of_the_same_server_is_measured(
    tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.DRILL_DATABASE_URL = database_url("postgres", "postgres")
    monkeypatch.setattr(restore_drill, "RESERVE_BYTES", 2**60)

    assert "free, and a second database needs" in refusal(tmp_path)


def test_drill_on_another_server_is_not_measured(
    tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It begins there, and the server of the service is not asked for a database."""
    own = settings.DATABASE_DIRECT_URL
    settings.DRILL_DATABASE_URL = database_url("nobody_here", "postgres")
    monkeypatch.setattr(restore_drill, "RESERVE_BYTES", 2**60)
    monkeypatch.setattr(
        restore_drill, "identify_database", lambda url: (int(url == own), 1)
    )

    assert 'role "nobody_here" does not exist' in refusal(tmp_path)

    assert RestoreDrill.objects.get().succeeded is False
