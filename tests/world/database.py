"""The databases of tests, each a copy of one that `migrate` has filled.

The first run makes the template and the server keeps it until the migrations change;
runs beside each other wait for one that makes it. A process copies it in a tenth of a
second.
"""

import hashlib
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import connection, transaction

from tests.world.flush import install_flush
from tests.world.orders import create_ledger_check
from verification.db import embedded

ROOT = Path(settings.BASE_DIR)
PREFIX = "template_verification_"
# Branches with other migrations that use the same server each have theirs.
KEPT_TEMPLATES = 5
STALE = """
SELECT datname FROM pg_database WHERE starts_with(datname, %s)
ORDER BY oid DESC OFFSET %s
"""


@pytest.fixture(scope="session")
def database_server() -> Iterator[None]:
    """The server of DATABASE_URL, or the embedded one for as long as it is used."""
    if os.environ.get("DATABASE_URL"):
        yield
        return
    embedded.acquire(settings.DATA_DIR)
    yield
    embedded.release(settings.DATA_DIR)


@pytest.fixture(scope="session")
def django_db_setup(
    database_server: None,
    django_test_environment: None,
    django_db_modify_db_settings: None,
    django_db_blocker: Any,
) -> Iterator[None]:
    """Replace pytest-django's, which migrates an empty database in each process."""
    name = connection.settings_dict["TEST"]["NAME"]
    create_database(name)
    connection.settings_dict["NAME"] = name
    with django_db_blocker.unblock():
        # As each installation does.
        call_command("setup_checks", stdout=io.StringIO())
        install_flush()
        create_ledger_check()
    yield
    connection.close()
    drop_database(name)


@pytest.fixture(scope="module")
def module_transaction(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """Keep the rows of the module's fixtures until its last test.

    Each test rolls back to them, so none of these tests may be transactional.
    """
    with django_db_blocker.unblock(), transaction.atomic():
        yield
        transaction.set_rollback(True)


def make_template() -> str:
    """Make the template before the time of a test begins: it may take minutes.

    Returns its name.
    """
    if not os.environ.get("DATABASE_URL"):
        embedded.acquire(settings.DATA_DIR)
    with _server() as server:
        server.execute("SELECT pg_advisory_lock(hashtext(%s))", [PREFIX])
        return _make_template(server)


def create_database(name: str) -> None:
    """Create a migrated database; one of this name from a killed run goes."""
    with _server() as server:
        # Held until the end of the session: nobody else makes or drops the template.
        server.execute("SELECT pg_advisory_lock(hashtext(%s))", [PREFIX])
        template = _make_template(server)
        server.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        server.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        # No test pulls the plug of this server.
        server.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")


def dump_as_migrated(path: Path) -> None:
    """Write a dump of a migrated database: to read it takes a tenth of `migrate`."""
    name = f"dumped_{os.getpid()}"
    create_database(name)
    program = embedded.programs() / "pg_dump"
    dump = [program, "--no-owner", f"--file={path}", database_url(name)]
    subprocess.run(dump, check=True)
    drop_database(name)


def drop_database(name: str) -> None:
    # Threads of a live server, and Playwright's loop, leave their connections open.
    with _server() as server:
        server.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


def database_url(name: str) -> str:
    """Return the URL of a database of the tests' server."""
    return urlsplit(_server_url())._replace(path=f"/{name}").geturl()


def _make_template(server: psycopg.Connection[Any]) -> str:
    """Make the template unless it is there, drop stale ones, and return its name."""
    name = PREFIX + _digest()
    is_there = "SELECT 1 FROM pg_database WHERE datname = %s"
    if not server.execute(is_there, [name]).fetchone():
        new = f"new_{name}"
        server.execute(f"DROP DATABASE IF EXISTS {new} WITH (FORCE)")
        server.execute(f"CREATE DATABASE {new}")
        subprocess.run(
            [sys.executable, "manage.py", "migrate", "--verbosity=0"],
            cwd=ROOT,
            env=os.environ
            | {
                "DJANGO_SETTINGS_MODULE": "tests.world.service_settings",
                "DATABASE_URL": database_url(new),
            },
            check=True,
        )
        server.execute(f"ALTER DATABASE {new} RENAME TO {name}")
        # Not even autovacuum may be in it when it is copied.
        server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    for (stale,) in server.execute(STALE, [PREFIX, KEPT_TEMPLATES]).fetchall():
        server.execute(f"DROP DATABASE {stale}")
    return name


def _digest() -> str:
    """Return a digest of everything that decides what `migrate` writes."""
    files = [
        *ROOT.glob("*/migrations/*.py"),
        *ROOT.glob("*/*/migrations/*.py"),
        ROOT / "verification/backoffice/roles.py",
        ROOT / "verification/db/triggers.py",
        # Other packages have migrations, too.
        ROOT / "requirements.lock",
    ]
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(str(file.relative_to(ROOT)).encode())
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]


@contextmanager
def _server() -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(_server_url(), autocommit=True) as server:
        yield server


def _server_url() -> str:
    return os.environ.get("DATABASE_URL") or embedded.url(settings.DATA_DIR)
