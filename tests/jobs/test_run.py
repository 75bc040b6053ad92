"""`manage.py run`, which is what `make run` starts, as a person uses it."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urljoin, urlsplit

import psutil
import psycopg
import pytest
import requests
from django.conf import settings
from django.utils.timezone import now

from tests.fakes.metropol import PRIVATE, PUBLIC
from tests.fakes.metropol import metropol as metropol
from tests.world.clients import person
from tests.world.commands import run_command
from tests.world.service import free_port
from tests.world.waiting import until
from verification.db import embedded
from verification.jobs.management.commands.run import ORDER
from verification.providers.metropol import SECONDS
from verification.reports.models import ReportStatus

# The whole service is started and stopped.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

TOKEN = "a-token-of-32-characters-and-more"
SECONDS_TO_START = 400
# At rest 15
SECONDS_TO_RECOVER = 90
OTHER_SESSIONS = """SELECT count(*) FROM pg_stat_activity
WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"""


class Run:
    """`manage.py run` on a port and in a folder of its own."""

    def __init__(self, folder: Path, demo: str = "0", **variables: str) -> None:
        kept = {k: v for k, v in os.environ.items() if k in {"PATH", "HOME"}}
        self.data = folder / "data"
        self._environment = kept | {
            "DJANGO_SETTINGS_MODULE": "verification.settings",
            "DEBUG": "True",
            "PORT": str(free_port()),
            "DATA_DIR": str(self.data),
            "DEMO": demo,
            **variables,
        }
        self._output = self.errors = folder / "output"
        self._process: subprocess.Popen[bytes] | None = None
        self.welcome = ""
        # The report that the first run was ordered
        self.report_id = ""

    def launch(self) -> None:
        self._output.unlink(missing_ok=True)
        with self._output.open("a") as output, self.errors.open("a") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "manage.py", "run"],
                cwd=settings.BASE_DIR,
                env=self._environment,
                stdout=output,
                stderr=errors,
            )

    def start(self) -> str:
        """Start it; the welcome that it prints."""
        self.launch()
        self.welcome = self.wait_for_welcome()
        return self.welcome

    def wait_for_welcome(self) -> str:
        assert self._process
        deadline = time.monotonic() + SECONDS_TO_START
        while "/reports/ID" not in self.output():
            assert self._process.poll() is None, self.output()
            assert time.monotonic() < deadline, self.output()
            time.sleep(0.1)
        return self.output()

    def manage(self, *arguments: str) -> str:
        done = run_command(self._environment, *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def run_again(self) -> subprocess.CompletedProcess[str]:
        """Run it once more in the same folder."""
        return subprocess.run(
            [sys.executable, "manage.py", "run"],
            cwd=settings.BASE_DIR,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS_TO_START,
        )

    def output(self) -> str:
        return self._output.read_text()

    def kill_database(self) -> None:
        self._database().send_signal(signal.SIGQUIT)

    def processes(self, name: str) -> list[psutil.Process]:
        """Return the processes of a part: of the job workers all."""
        assert self._process
        if name == "database":
            return [self._database()]
        if name == "job worker":
            (cluster,) = self.processes("job cluster")
            return cluster.children()
        found = []
        for part in psutil.Process(self._process.pid).children():
            with suppress(psutil.NoSuchProcess):
                # The name that `ps` shows
                found += [part] if part.name() == name else []
        return found

    def is_ready_since(self, moment: float) -> bool:
        """Return True if requests are answered and jobs have run since then."""
        url = f"http://127.0.0.1:{self._environment['PORT']}/readyz"
        try:
            answer = requests.get(url, timeout=2)
        except requests.RequestException:
            return False
        age = answer.json()["jobHeartbeatAgeSeconds"]
        # The age is rounded to tenths.
        return answer.ok and age + 0.1 < time.monotonic() - moment

    @property
    def pid_file(self) -> Path:
        """The file that PostgreSQL has while it runs."""
        return self.data / "postgres" / "postmaster.pid"

    def _database(self) -> psutil.Process:
        return psutil.Process(int(self.pid_file.read_text().split()[0]))

    def press_ctrl_c(self) -> None:
        assert self._process
        self._process.send_signal(signal.SIGINT)

    def interrupt(self) -> int:
        """Press Ctrl-C; return the exit code."""
        self.press_ctrl_c()
        assert self._process
        return self._process.wait(60)

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        if self._process and self._process.poll() is None:
            self._process.kill()
            self._process.wait()


@pytest.fixture(scope="module")
def first_run() -> Iterator[Run]:
    """Run once in a new folder, which takes many times longer than later runs."""
    # The user that PostgreSQL runs as cannot open pytest's folder.
    with TemporaryDirectory() as name:
        run = Run(Path(name))
        try:
            commands = _commands(run.start())
            ordered = _done(commands["Order"], commands)
            run.report_id = ordered["reports"][0]["id"]
            assert run.interrupt() == 0
            yield run
        finally:
            run.kill()
            embedded.stop(run.data)


@contextmanager
def run_again_in_copy(first: Run, **options: str) -> Iterator[Run]:
    """Yield a run whose folder is a copy of the first one's; end it."""
    with TemporaryDirectory() as name:
        subprocess.run(["cp", "--archive", first.data, name], check=True)
        run = Run(Path(name), **options)
        try:
            yield run
        finally:
            run.kill()
            embedded.stop(run.data)


@pytest.fixture
def run(first_run: Run) -> Iterator[Run]:
    with run_again_in_copy(first_run) as run:
        yield run


@pytest.fixture(scope="module")
def started(first_run: Run) -> Iterator[Run]:
    """Run for tests that leave the service as ready as they find it."""
    with run_again_in_copy(first_run) as run:
        run.start()
        yield run


def test_run_prints_its_addresses_and_stops_cleanly(first_run: Run):
    commands = _commands(first_run.welcome)

    again = _commands(first_run.start())

    assert again == commands
    read = commands["Read"].replace("/ID", f"/{first_run.report_id}")
    assert _done(read, commands)["id"] == first_run.report_id
    assert first_run.interrupt() == 0


def test_welcome_fits_ten_rows_of_80_columns_without_log_lines(first_run: Run):
    lines = first_run.welcome.splitlines()

    assert sum(max(1, ceil(len(line) / 80)) for line in lines) <= 10
    # A line of the log is an object, or begins with the level of the web server's.
    assert [line for line in lines if line.startswith(("{", "["))] == []


def test_welcome_links_log_in_on_this_machine_alone(started: Run):
    links = re.findall(r"\S+/dev/login/\S+", started.wait_for_welcome())

    pages = [_opened(link).url for link in links]
    assert [urlsplit(url).path.split("/")[1] for url in pages] == ["console", "admin"]

    for link in links:
        for url, headers in [
            (link[:-1] + ("0" if link[-1] != "0" else "1"), {}),
            (link, {"Host": "rebound.example"}),
            (link, {"X-Forwarded-For": "203.0.113.7"}),
        ]:
            answer = _opened(url, **headers)
            assert answer.status_code == 404
            assert not answer.cookies


def test_second_ctrl_c_does_not_wait_for_a_paid_call(first_run: Run, metropol):
    metropol.anybody, metropol.faults.slow = (700, "003"), 60
    sources = {
        "METROPOL_PUBLIC_KEY": PUBLIC,
        "METROPOL_PRIVATE_KEY": PRIVATE,
        "METROPOL_URL": f"{metropol.url}/v2_1",
        "SOURCE_DEV_HOSTS": metropol.host,
    }
    with run_again_in_copy(first_run, **sources) as run:
        url, _ = _service(run.start())
        live = "--environment=production"
        made = run.manage("create_workspace", "Acacia", "--owner=a@acacia.test")
        workspace = json.loads(made)["workspaceId"]
        made = run.manage("create_key", workspace, live, "--force")
        run.manage("top_up", workspace, live, "--amount=1000")
        items = [{**person(), "checksRequested": ["CRB_SCORE"]}]
        body = json.dumps({"reports": items}).encode()
        _answer(url, json.loads(made)["key"], body)
        until(lambda: metropol.seen, run.output)
        called_at = time.monotonic()

        run.press_ctrl_c()
        while "Ctrl-C again stops at once" not in run.output():
            assert run.is_running()
            time.sleep(0.1)
        assert run.interrupt() == 0
        ended_at = time.monotonic()

    # The call would have ended then.
    assert ended_at - called_at < SECONDS


@pytest.mark.timeout(400)
def test_interrupted_demo_shows_each_state_once(first_run: Run):
    with run_again_in_copy(first_run, demo="1") as run:
        url, key = _service(run.start())
        until(lambda: _answer(url, key)["totalElements"], run.output)
        mine = _answer(url, key, ORDER.read_bytes())["reports"][0]["id"]
        assert run.interrupt() == 0
        # The process that fills the demo has ended too, so nothing uses the database.
        assert not run.pid_file.exists()
        run.start()
        found = _when_filled(url, key)
        books = run.manage("audit_ledger")
        output = run.output()

    created = {report["id"]: report["createdAt"] for report in found}
    assert created.pop(mine) > (now() - timedelta(minutes=10)).isoformat()
    assert {report["status"] for report in found} == set(ReportStatus)
    assert 50 <= len(found) <= 100
    assert min(created.values()) < (now() - timedelta(60)).isoformat()
    # Each run of a rule has the rule's reference.
    named = [
        r["reference"] for r in found if re.match("LN-|SUP-", r["reference"] or "")
    ]
    assert len(named) == len(set(named)) > 50
    assert "adds up" in books
    assert "Traceback" not in output


def test_run_restarts_a_database_that_dies_also_on_a_full_disk(run: Run):
    # The disk of the log
    run.errors = Path("/dev/full")
    (url, key), order = _service(run.start()), ORDER.read_bytes()

    run.kill_database()

    deadline = time.monotonic() + SECONDS_TO_RECOVER
    while _status(url, key, order) == 503 and time.monotonic() < deadline:
        time.sleep(0.2)
    assert _status(url, key, order) == 201


def test_run_restarts_a_database_that_never_ends_its_recovery(started: Run):
    (url, key), order = _service(started.wait_for_welcome()), ORDER.read_bytes()
    for _ in range(5):
        _kill_in_recovery(started.data)
        time.sleep(1)
        if embedded.is_stuck(started.data):
            break

    deadline = time.monotonic() + SECONDS_TO_RECOVER
    while _status(url, key, order) == 503 and time.monotonic() < deadline:
        time.sleep(0.2)
    assert _status(url, key, order) == 201
    assert "The database is stuck after a crash" in started.output()


def _kill_in_recovery(data: Path) -> None:
    """Crash the database, and kill two of the processes that it recovers with."""
    with psycopg.connect(embedded.url(data), autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE recovered AS SELECT n, repeat(md5(n::text), 8)"
            " FROM generate_series(1, 700000) AS n"
        )
        connection.execute("DROP TABLE recovered")
    _part_of_database(data, "walwriter").kill()
    recovering = _part_of_database(data, "startup")
    _part_of_database(data, "io worker").kill()
    time.sleep(0.02)
    with suppress(psutil.NoSuchProcess):
        recovering.kill()


def _part_of_database(data: Path, name: str) -> psutil.Process:
    pid = int((data / "postgres" / "postmaster.pid").read_text().split()[0])
    deadline = time.monotonic() + SECONDS_TO_RECOVER
    while time.monotonic() < deadline:
        for child in psutil.Process(pid).children():
            with suppress(psutil.Error):
                if name in " ".join(child.cmdline()):
                    return child
    raise AssertionError(f"PostgreSQL has no {name}.")


@pytest.mark.timeout(300)
def test_run_waits_while_its_database_recovers(run: Run):
    embedded.start(run.data)
    connect = partial(psycopg.connect, embedded.url(run.data), autocommit=True)
    with connect() as stuck, connect() as killed:
        run.launch()
        while stuck.execute(OTHER_SESSIONS).fetchone() == (1,):
            time.sleep(0.05)
        # The server recovers when all its sessions have ended, which takes it five
        # seconds with one that is stopped.
        os.kill(stuck.info.backend_pid, signal.SIGSTOP)
        os.kill(killed.info.backend_pid, signal.SIGKILL)

    assert run.wait_for_welcome()


@pytest.mark.timeout(500)
def test_service_is_ready_again_after_any_process_is_killed(started: Run):
    for name in ("run", "database", "job cluster", "job worker", "web server"):
        if name == "run":
            started.kill()
            started.launch()
        else:
            for process in started.processes(name):
                process.kill()
        killed_at = time.monotonic()
        while not started.is_ready_since(killed_at):
            waited = time.monotonic() - killed_at
            assert waited < SECONDS_TO_RECOVER, (name, started.output())
            time.sleep(0.1)

    assert "Traceback" not in started.output()


def test_killed_part_is_replaced_without_loading_django(started: Run):
    # Of a processor: to load Django takes two seconds, and with all addresses four.
    for name, most in (("job worker", 0.8), ("web server", 2.5)):
        old = started.processes(name)
        for process in old:
            process.kill()

        killed_at = time.monotonic()
        until(lambda since=killed_at: started.is_ready_since(since), started.output)
        new = [process for process in started.processes(name) if process not in old]
        assert new
        for spent in (process.cpu_times() for process in new):
            assert spent.user + spent.system < most, name


def test_second_run_in_a_folder_ends_at_once(started: Run):
    url, key = _service(started.wait_for_welcome())

    second = started.run_again()

    assert second.returncode == 1
    assert "The service already runs in" in second.stderr
    assert _status(url, key, ORDER.read_bytes()) == 201


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A disk of 160 MB, on which the database has room for a moment."""
    with TemporaryDirectory() as name:
        mount = ["mount", "-t", "tmpfs", "-o", "size=160m,mode=755", "tmpfs", name]
        if os.geteuid() or subprocess.run(mount, check=False).returncode:
            pytest.skip("only root can mount a small disk")
        yield Path(name)
        embedded.stop(Path(name) / "data")
        subprocess.run(["umount", "-l", name], check=True)


@pytest.mark.timeout(500)
def test_service_goes_on_after_a_full_disk(
    first_run: Run, small_disk: Path, tmp_path: Path
):
    subprocess.run(["cp", "--archive", first_run.data, small_disk], check=True)
    # Temporary files of the service are on the same disk.
    run = Run(small_disk, METRICS_TOKEN=TOKEN, TMPDIR=str(small_disk))
    run.errors = tmp_path / "errors"
    filler = small_disk / "filler"
    fill = ["dd", "if=/dev/zero", f"of={filler}", "bs=64k", "oflag=append"]
    fill += ["conv=notrunc", "status=none"]
    try:
        url, key = _service(run.start())
        order = ORDER.read_bytes()
        accepted = [_answer(url, key, order)["reports"][0]["id"]]
        refused, is_named = 0, False
        deadline = time.monotonic() + 150
        while refused < 20:
            # Again and again, because the database removes files, too.
            subprocess.run(fill, check=False)
            answer = _ordered(url, key)
            if answer.status_code == 201:
                accepted.append(answer.json()["reports"][0]["id"])
            else:
                assert answer.status_code == 503, f"{answer.text}\n{run.output()}"
                assert int(answer.headers["Retry-After"]) > 0
                # The database may have removed files since the order.
                subprocess.run(fill, check=False)
                is_named = is_named or _names_full_disk(url)
                refused += is_named
                if refused == 5:
                    run.kill_database()
            assert time.monotonic() < deadline, run.output()

        assert "the disk of the database is full" in run.errors.read_text()
        filler.unlink()
        until(lambda: _ordered(url, key).status_code == 201, run.output)
        kept = {report["id"] for report in _answer(f"{url}?size=200", key)["content"]}
        assert set(accepted) <= kept
        assert "adds up" in run.manage("audit_ledger")
        assert run.interrupt() == 0
    finally:
        run.kill()


def _names_full_disk(url: str) -> bool:
    """Return whether `/readyz` names it, and `/metrics` goes on with all figures."""
    ready = requests.get(urljoin(url, "/readyz"), timeout=60).json()
    if ready["database"] != "disk full":
        return False
    header = {"Authorization": f"Bearer {TOKEN}"}
    figures = requests.get(urljoin(url, "/metrics"), headers=header, timeout=60).text
    return "verification_queue_due" in figures


def _ordered(url: str, key: str) -> requests.Response:
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    return requests.post(url, ORDER.read_bytes(), headers=headers, timeout=60)


def _when_filled(url: str, key: str) -> list[dict]:
    """The demo's reports, once they have been moved into the past."""
    deadline = time.monotonic() + SECONDS_TO_START
    today = str(now().date())
    while True:
        found = _answer(f"{url}?size=200", key)["content"]
        if sum(report["createdAt"] > today for report in found) < len(found) / 2:
            return found
        assert time.monotonic() < deadline
        time.sleep(1)


def _opened(url: str, **headers: str) -> requests.Response:
    return requests.Session().get(url, headers=headers, timeout=60)


def _status(url: str, key: str, body: bytes) -> int:
    try:
        _answer(url, key, body)
    except urllib.error.HTTPError as e:
        return e.code
    return 201


def _commands(welcome: str) -> dict[str, str]:
    """Key, Order and Read of the welcome, as they are printed."""
    found = re.findall(r"^  (Key|Order|Read) +((?:.*\\\n)*.*)$", welcome, re.MULTILINE)
    assert len(found) == 3, welcome
    return dict(found)


def _done(command: str, commands: dict[str, str]) -> dict:
    """Return the answer of a command that is pasted into a terminal."""
    typed = f"{commands['Key']}\n{command}"
    done = subprocess.run(
        ["bash", "-c", typed], cwd=settings.BASE_DIR, capture_output=True, check=True
    )
    return json.loads(done.stdout)


def _service(welcome: str) -> tuple[str, str]:
    """The address of reports, and the key."""
    commands = _commands(welcome)
    (url,) = re.findall(r"http\S+/reports", commands["Order"])
    return url, commands["Key"].partition("=")[2]


def _answer(url: str, key: str, body: bytes | None = None) -> dict:
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    request = urllib.request.Request(url, body, headers)
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)
