"""The commands of `docs/operator/access.md` for staff and the service's role work."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection
from django.test import Client

from tests.accounts.visitor import create_user, is_logged_in, log_in
from tests.configuration.test_refusals_to_start import database_url
from tests.world import staff
from verification.db import embedded

PAGE = (settings.BASE_DIR / "docs" / "operator" / "access.md").read_text()
SHELL = re.compile(r'^verification shell -c "\n(.*?)"$', re.MULTILINE | re.DOTALL)
REPLACE_ADDRESS, REMOVE_FACTOR = SHELL.findall(PAGE)


@pytest.fixture
def grace(db: None) -> User:
    return create_user(is_staff=True)


def run(code: str) -> None:
    for example in ("old@example.com", "grace@example.com"):
        code = code.replace(example, "grace@people.test")
    call_command("shell", command=code, verbosity=0)


def test_address_command_replaces_the_address_and_ends_sessions(grace: User) -> None:
    client = Client()
    log_in(client, grace.email)
    assert grace.sessions.exists()

    run(REPLACE_ADDRESS)

    grace.refresh_from_db()
    entry = EmailAddress.objects.get(user=grace)
    assert grace.email == entry.email == "new@example.com"
    assert not entry.verified
    assert not is_logged_in(client)


def test_factor_command_removes_the_second_factor(grace: User) -> None:
    staff.give_factor(grace)

    run(REMOVE_FACTOR)

    assert not Authenticator.objects.filter(user=grace).exists()


ROLE_BLOCKS = re.findall(
    r"^```sh\n(.*?)^```",
    PAGE.split("\n## A role for the service\n")[1].split("\n## ")[0],
    re.MULTILINE | re.DOTALL,
)
# Programs of the page's machine that the test's machine lacks
STANDINS = """
runuser() { shift 3; "$@"; }
verification() { (cd "$ROOT" && "$PYTHON" manage.py "$@"); }
systemctl() { :; }
"""


@pytest.fixture
def role(db: None) -> Iterator[str]:
    """The name of a role of the server that goes with all of its rights."""
    name = f"{connection.settings_dict['NAME']}_service"
    yield name
    with psycopg.connect(own_url()) as owner:
        owner.execute(f"DROP OWNED BY {name}")
        owner.execute(f"DROP ROLE {name}")


def own_url() -> str:
    return database_url("postgres", connection.settings_dict["NAME"])


@pytest.mark.slow
def test_role_section_gives_web_and_jobs_an_address_of_their_own(
    role: str, tmp_path: Path
) -> None:
    etc = tmp_path / "etc"
    (etc / "verification/secrets").mkdir(parents=True)
    commands = STANDINS + "".join(ROLE_BLOCKS).replace(" /etc/", f" {etc}/")
    commands = commands.replace("-o verification -g verification ", "")
    # An installation has its address in the file of settings.
    url = own_url()

    subprocess.run(
        ["bash", "-euc", commands.replace("verification_service", role)],
        env={
            **os.environ,
            "PATH": f"{embedded.programs()}:{os.environ['PATH']}",
            "PGHOST": str(connection.settings_dict["HOST"]),
            "PGUSER": "postgres",
            "PGDATABASE": "postgres",
            "DATABASE_URL": url,
            "ROOT": str(settings.BASE_DIR),
            "PYTHON": sys.executable,
        },
        capture_output=True,
        check=True,
    )

    secret = etc / "verification/secrets/service_url"
    address = psycopg.conninfo.conninfo_to_dict(secret.read_text().strip())
    assert secret.stat().st_mode & 0o777 == 0o600
    assert (address["user"], address["dbname"]) == (role, "verification")
    assert len(str(address["password"])) == 32
    assert (etc / "verification/service.env").read_text().splitlines() == [
        "DATABASE_URL=",
        "DATABASE_URL_FILE=/etc/verification/secrets/service_url",
    ]
    for unit in ("web@", "jobs"):
        folder = etc / f"systemd/system/verification-{unit}.service.d"
        # systemd reads the files in the order of their names.
        assert (folder / "role.conf").name > "hardening.conf"
        assert (folder / "role.conf").read_text().splitlines() == [
            "[Service]",
            "EnvironmentFile=/etc/verification/service.env",
        ]
    with psycopg.connect(url) as owner:
        rights = "SELECT has_table_privilege(%s, 'reports_report', 'UPDATE')"
        secret_set = "SELECT rolpassword LIKE 'SCRAM%%' FROM pg_authid WHERE rolname=%s"
        assert owner.execute(rights, [role]).fetchone() == (True,)
        monitors = "SELECT pg_has_role(%s, 'pg_monitor', 'USAGE')"
        assert owner.execute(secret_set, [role]).fetchone() == (True,)
        assert owner.execute(monitors, [role]).fetchone() == (True,)
