"""pgBackRest takes PostgreSQL back to a moment, by the files of `deploy/`."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.world.waiting import until
from tests.world.web_proxies import DEPLOY
from verification.db import embedded
from verification.web.metrics import DATABASE

# Debian's pgBackRest knows no newer PostgreSQL than Debian's.
PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
pytestmark = pytest.mark.skipif(
    not (shutil.which("pgbackrest") and PROGRAMS),
    reason="needs Debian's PostgreSQL and pgBackRest",
)


class Cluster:
    """A PostgreSQL of Debian with our settings, and a repository, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.data = folder, folder / "data"
        self.run(
            *("initdb", "-D", self.data, "--username=postgres", "--auth=trust"),
            "--encoding=UTF8",
        )
        settings = (DEPLOY / "postgresql.conf").read_text()
        backrest = f"pgbackrest --config={folder}/pgbackrest.conf"
        settings = settings.replace("'pgbackrest ", f"'{backrest} ")
        settings += f"unix_socket_directories = '{folder}'\nlisten_addresses = ''\n"
        with (self.data / "postgresql.conf").open("a") as file:
            file.write(settings)
        common = (DEPLOY / "pgbackrest.conf").read_text()
        common = common.replace("/var/lib/pgbackrest", f"{folder}/repository")
        machine = (
            "repo1-cipher-pass=secret\n"
            f"lock-path={folder}/lock\nspool-path={folder}/spool\n"
            f"[verification]\npg1-path={self.data}\npg1-socket-path={folder}\n"
            "pg1-user=postgres\n"
        )
        (folder / "pgbackrest.conf").write_text(common + "[global]\n" + machine)

    def run(self, program: str, *arguments: object) -> str:
        command = [program, *map(str, arguments)]
        if os.geteuid() == 0:
            command = embedded.as_server_user(command)
        path = f"{PROGRAMS[-1]}:{os.environ['PATH']}"
        with (self.folder / "output").open("w+") as output:
            # The server inherits the file.
            done = subprocess.run(
                command,
                env={"PATH": path},
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd="/",
                check=False,
            )
            output.seek(0)
            said = output.read()
        assert done.returncode == 0, said
        return said

    def control(self, action: str) -> None:
        log = self.folder / "log"
        self.run("pg_ctl", "-D", self.data, "-w", "-l", log, "-m", "fast", action)

    def backrest(self, *arguments: str) -> str:
        config = f"--config={self.folder}/pgbackrest.conf"
        return self.run("pgbackrest", config, "--stanza=verification", *arguments)

    def ask(self, statement: str) -> tuple[Any, ...]:
        url = f"postgresql://postgres@/postgres?host={self.folder}"
        with psycopg.connect(url, autocommit=True) as client:
            asked = client.execute(statement.encode())
            return (asked.description and asked.fetchone()) or ()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    if os.geteuid() == 0:
        embedded.open_for_server_user(tmp_path)
        os.chown(tmp_path, *embedded.server_ids())
    cluster = Cluster(tmp_path)
    cluster.control("start")
    yield cluster
    if (cluster.data / "postmaster.pid").exists():
        cluster.control("stop")


@pytest.mark.slow
def test_database_goes_back_to_the_moment_before_a_wrong_command(
    cluster: Cluster,
) -> None:
    cluster.backrest("stanza-create")
    assert cluster.backrest("check") == ""
    *_, age = cluster.ask(DATABASE)
    assert 0 < age < 60
    cluster.backrest("--type=full", "backup")
    cluster.ask("CREATE TABLE orders AS SELECT 1 AS id")
    # pgBackRest takes a backup that ended in a former second.
    (moment,) = cluster.ask("SELECT (date_trunc('second', now()) + '1 s')::text")
    cluster.ask(f"SELECT pg_sleep_until('{moment}')")
    cluster.ask("DROP TABLE orders")

    cluster.control("stop")
    cluster.backrest(
        *("--delta", "--type=time", f"--target={moment}"),
        *("--target-action=promote", "restore"),
    )
    cluster.control("start")
    # It may be read before it has read the log.
    until(lambda: cluster.ask("SELECT pg_is_in_recovery()") != (True,))

    assert cluster.ask("SELECT id FROM orders") == (1,)
    # Only with the key can the repository be read.
    info = cluster.folder / "repository/backup/verification/backup.info"
    assert info.read_bytes().startswith(b"Salted__")
