import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import psycopg
import pytest

from tests.world.waiting import until
from verification.db import embedded
from verification.db.embedded import EmbeddedServerError

# Servers are started, killed and started again.
pytestmark = pytest.mark.slow

IS_BUSY = """
SELECT pid FROM pg_stat_activity
WHERE state = 'active' AND query LIKE '%generate_series%' AND pid <> pg_backend_pid()
"""
USE = """
import sys, time
from pathlib import Path
from verification.db import embedded
embedded.acquire(Path(sys.argv[1]))
print("up", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def tmp_path():
    # Each start of pytest closes its folder to other users, the server's among them.
    with TemporaryDirectory() as name:
        yield Path(name)


@pytest.fixture
def folder(tmp_path):
    yield tmp_path / "data"
    embedded.stop(tmp_path / "data")


@pytest.fixture(scope="module")
def stopped():
    """The folder of a server that has run: to make it takes longer than to copy it."""
    with TemporaryDirectory() as name:
        embedded.start(Path(name) / "data")
        embedded.stop(Path(name) / "data")
        yield Path(name) / "data"


@pytest.fixture
def used(stopped, folder):
    subprocess.run(["cp", "--archive", stopped, folder], check=True)
    return folder


def connect(folder):
    return psycopg.connect(embedded.url(folder), autocommit=True)


def is_up(folder):
    try:
        connect(folder).close()
    except psycopg.OperationalError:
        return False
    return True


def use_elsewhere(folder):
    return subprocess.Popen(
        [sys.executable, "-c", USE, str(folder)],
        cwd=embedded.BASE_DIR,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def end(process):
    process.communicate()
    assert process.returncode == 0


def kill_server(folder):
    pid_file = folder / "postgres" / "postmaster.pid"
    postmaster = psutil.Process(int(pid_file.read_text().split()[0]))
    family = [postmaster, *postmaster.children(recursive=True)]
    for process in family:
        process.kill()
    psutil.wait_procs(family, 10)
    return pid_file


def test_url_is_known_without_a_server(tmp_path):
    assert embedded.url(tmp_path / "data").endswith("/verification")
    assert not list(tmp_path.iterdir())


def test_stopped_server_keeps_its_data(used):
    embedded.start(used)
    with connect(used) as connection:
        connection.execute("CREATE TABLE kept ()")
    embedded.stop(used)
    assert not is_up(used)

    embedded.start(used)

    with connect(used) as connection:
        connection.execute("SELECT FROM kept")


def test_server_starts_after_it_was_killed(used):
    embedded.start(used)
    kill_server(used)

    embedded.start(used)

    assert is_up(used)


def test_server_starts_though_its_locks_are_empty_or_name_other_processes(used):
    embedded.start(used)
    pid_file = kill_server(used)
    locks = [pid_file, used / "postgres" / ".s.PGSQL.5432.lock"]
    # PostgreSQL heeds only processes that it may signal.
    owner = {"user": embedded.SERVER_USER} if os.geteuid() == 0 else {}
    with subprocess.Popen(["sleep", "60"], **owner) as other:
        for left in (f"{other.pid}\n{used}/postgres\n", "", "?"):
            for lock in locks:
                lock.write_text(left)

            embedded.start(used)

            assert is_up(used)
            embedded.stop(used)
        assert other.poll() is None
        other.kill()


def test_server_starts_while_a_backend_of_the_killed_one_is_busy(used):
    embedded.start(used)
    statement = "SELECT count(*) FROM generate_series(1, 100000000000)"
    with psycopg.connect(embedded.url(used)) as connection:
        connection.pgconn.send_query(statement.encode())
        with psycopg.connect(embedded.url(used), autocommit=True) as other:
            until(lambda: other.execute(IS_BUSY).fetchone())
        pid_file = used / "postgres" / "postmaster.pid"
        postmaster = psutil.Process(int(pid_file.read_text().split()[0]))
        postmaster.kill()
        psutil.wait_procs([postmaster], 10)

        began = time.monotonic()
        embedded.start(used)

        # The statement would run for hours.
        assert time.monotonic() - began < 60
        assert is_up(used)
        connection.close()


def test_unusable_folder_is_refused_with_advice(folder):
    folder.write_text("a file")
    with pytest.raises(EmbeddedServerError, match="set DATA_DIR to a folder that is"):
        embedded.acquire(folder)
    folder.unlink()

    version = folder / "postgres" / "PG_VERSION"
    version.parent.mkdir(parents=True)
    version.write_text("15\n")
    with pytest.raises(EmbeddedServerError, match="set DATA_DIR to another folder"):
        embedded.start(folder)


def test_server_starts_in_a_folder_too_deep_for_a_socket(tmp_path):
    folder = tmp_path.joinpath(*["deep-folder"] * 12)

    embedded.start(folder)

    assert is_up(folder)
    assert embedded.socket_dir(folder).stat().st_mode & 0o077 == 0
    embedded.stop(folder)
    assert not embedded.socket_dir(folder).exists()


def test_server_starts_in_a_folder_that_needs_quotes(tmp_path):
    folder = tmp_path / "Ada's data & more, 100 %"

    embedded.start(folder)

    assert is_up(folder)
    embedded.stop(folder)


def test_socket_folder_of_another_user_is_refused(tmp_path):
    folder = tmp_path.joinpath(*["deep-folder"] * 12)
    theirs = embedded.socket_dir(folder)
    theirs.mkdir(mode=0o777)
    theirs.chmod(0o777)

    with pytest.raises(embedded.EmbeddedServerError, match="somebody else"):
        embedded.start(folder)

    theirs.rmdir()


def test_server_starts_after_an_interrupted_first_start(folder):
    (folder / "postgres.new").mkdir(parents=True)
    (folder / "postgres.new" / "half").write_text("written")

    embedded.start(folder)

    assert is_up(folder)


def test_last_of_many_users_stops_the_server(used):
    users = [use_elsewhere(used) for _ in range(4)]
    for user in users:
        assert user.stdout.readline() == b"up\n"

    for user in users[:3]:
        end(user)
    assert is_up(used)
    end(users[3])

    assert not is_up(used)


def test_server_stops_after_a_user_was_killed(used):
    killed, other = use_elsewhere(used), use_elsewhere(used)
    for user in (killed, other):
        user.stdout.readline()
    killed.send_signal(signal.SIGKILL)
    killed.communicate()

    end(other)

    assert not is_up(used)


def test_server_settings_are_safe(used):
    embedded.start(used)

    with connect(used) as connection:
        settings = dict(
            connection.execute("SELECT name, setting FROM pg_settings").fetchall()
        )

    assert settings["fsync"] == settings["full_page_writes"] == "on"
    assert settings["synchronous_commit"] == "on"
    assert settings["jit"] == "off"
    assert settings["listen_addresses"] == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone has another user")
def test_server_runs_below_a_closed_folder_which_stays_closed(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)

    embedded.start(closed / "data")
    embedded.stop(closed / "data")

    assert closed.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("argv", [["help"], ["migrate", "--help"], ["--version"], []])
def test_commands_without_database_start_no_server(argv, folder, monkeypatch):
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.setenv("DATA_DIR", str(folder))

    embedded.start_if_needed(["manage.py", *argv])

    assert not folder.exists()


def test_no_server_starts_when_database_url_is_set(folder, monkeypatch):
    monkeypatch.setenv("DATABASE_URL", "postgresql://elsewhere/verification")
    monkeypatch.setenv("DATA_DIR", str(folder))

    embedded.start_if_needed(["manage.py", "migrate"])

    assert not folder.exists()
