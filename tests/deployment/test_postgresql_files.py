"""PostgreSQL's settings and those of pgBackRest in `deploy/`."""

import re
import shutil
import subprocess

import pytest
from django.conf import settings
from django.db import connection

from tests.world.web_proxies import DEPLOY, required
from verification.backups.checks import (
    OTHER_CONNECTIONS,
    WEB_CONNECTIONS,
    WEB_SERVERS,
)
from verification.db import embedded

CONF = (DEPLOY / "postgresql.conf").read_text()
SET = dict(re.findall(r"^(\w+) = '?([^'#\n]*?)'?(?:\s+#.*)?$", CONF, re.MULTILINE))
# By the machine's memory and number of processes, and by the archive.
SIZED = {
    "shared_buffers",
    "effective_cache_size",
    "max_connections",
    "checkpoint_timeout",
}


def test_production_and_the_embedded_server_have_the_same_settings():
    common = (SET.keys() & embedded.SETTINGS.keys()) - SIZED
    # What development alone needs
    alone = embedded.SETTINGS.keys() - SET.keys()

    assert {n: SET[n] for n in common} == {n: embedded.SETTINGS[n] for n in common}
    assert len(common) > 11
    assert alone == {"listen_addresses", "unix_socket_permissions", "log_checkpoints"}


@pytest.mark.django_db
def test_postgresql_knows_each_setting():
    with connection.cursor() as cursor:
        cursor.execute("SELECT lower(name) FROM pg_settings")
        known = {name for (name,) in cursor.fetchall()}

    assert len(SET) > 20
    assert SET.keys() <= known


def test_page_and_settings_count_the_same_connections():
    page = (settings.BASE_DIR / "docs" / "operator" / "machines.md").read_text()
    machine = WEB_SERVERS * 2 * WEB_CONNECTIONS + 4
    limit = int(SET["max_connections"])

    for text in (page, CONF.replace("\n# ", " ")):
        assert f"up to {WEB_CONNECTIONS} connections for each of its" in text
    assert f"2 * {WEB_CONNECTIONS} * WEB_WORKERS" in page
    assert f"{OTHER_CONNECTIONS + machine} for one machine" in page
    assert f"That is {machine} for a" in CONF
    assert f"allows {limit} (`max_connections`)" in page
    # "before you add a fourth such machine"
    room = limit - OTHER_CONNECTIONS
    assert 3 * machine <= room < 4 * machine


def test_systemd_accepts_the_units_of_postgresql(tmp_path):
    host = "/usr/lib/systemd/system"
    shutil.copytree(host, f"{tmp_path}{host}", symlinks=True)
    shutil.copytree(DEPLOY / "systemd", tmp_path / "etc/systemd/system")
    program = tmp_path / "usr/bin/pgbackrest"
    program.parent.mkdir()
    program.touch(mode=0o755)
    timers = [path.name for path in (DEPLOY / "systemd").glob("pgbackrest-*.timer")]

    done = subprocess.run(
        [
            *(required("systemd-analyze"), "verify", f"--root={tmp_path}"),
            *("pgbackrest@full.service", *timers),
        ],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert len(timers) == 2
