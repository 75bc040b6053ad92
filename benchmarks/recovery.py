"""The time until the service is ready again after kill -9 of one of its processes.

The bench starts `manage.py run` with its own database, and kills at rest and beside
busy loops. Each loop has a session, because Linux may divide processors by session.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
from django.conf import settings

from benchmarks.figures import Figure, bench
from benchmarks.service import Service, free_port
from verification.db import embedded
from verification.jobs.processes import parent_death_hook

LOOPS = 6
MOST_SECONDS = 15
GIVE_UP_SECONDS = 120
PAUSE_SECONDS = 3
PARTS = ("run", "job cluster", "job worker", "web server", "database")


@bench(rounds=0)
def recovery(service: Service, rounds: int = 3) -> Iterator[Figure]:
    if not rounds:
        return
    # Another folder, because the bench's own holds the lock of its server.
    with TemporaryDirectory(prefix="bench-run-") as folder:
        run = Run(Path(folder))
        try:
            run.start()
            run.wait_until_ready()
            for loops in (0, LOOPS):
                with busy(loops):
                    yield from _figures(run, rounds, loops)
        finally:
            run.close()


def _figures(run: Run, rounds: int, loops: int) -> Iterator[Figure]:
    beside = f" beside {loops} busy loops" if loops else ""
    # The kills take turns, because `run` gives up after three starts of one
    # part in a minute.
    taken = [{name: run.kill(name) for name in PARTS} for _ in range(rounds)]
    for name in PARTS:
        seconds = [of_round[name] for of_round in taken]
        yield Figure(name + beside, seconds, "s", target=MOST_SECONDS)


class RunEnded(Exception):
    """`manage.py run` has ended; the text is the end of its log."""


class Run:
    def __init__(self, folder: Path, **environment: str) -> None:
        self._folder = folder
        self._port = free_port()
        self._environment = os.environ | {
            "DJANGO_SETTINGS_MODULE": "verification.settings",
            "DATABASE_URL": "",
            "DATA_DIR": str(folder),
            "PORT": str(self._port),
            "DEBUG": "True",
            "DEMO": "0",
            **environment,
        }
        self._process: psutil.Popen | None = None

    @property
    def url(self) -> str:
        return f"http://localhost:{self._port}"

    def manage(self, *arguments: str) -> str:
        """Run a management command on this service; return its output."""
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=settings.BASE_DIR,
            env=self._environment,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return done.stdout

    def processes(self) -> list[psutil.Process]:
        """Return the running processes of the service, the database's first."""
        found = []
        with suppress(OSError, IndexError, psutil.Error):
            database = self._part("database")
            found += [database, *database.children(recursive=True)]
        with suppress(psutil.Error):
            assert self._process
            found += [self._process, *self._process.children(recursive=True)]
        return [process for process in found if _is_alive(process)]

    def has_ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def start(self) -> None:
        with (self._folder / "log").open("a") as log:
            self._process = psutil.Popen(
                [sys.executable, "manage.py", "run"],
                cwd=settings.BASE_DIR,
                env=self._environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=parent_death_hook(),
            )

    def kill(self, name: str) -> float:
        """Kill a process. Returns the seconds until the service is ready again."""
        time.sleep(PAUSE_SECONDS)
        process = self._part(name)
        ended = [process, *process.children(recursive=True)]
        killed_at = time.monotonic()
        process.kill()
        if name == "run":
            process.wait()
            self.start()
        while any(map(_is_alive, ended)):
            time.sleep(0.01)
        self.wait_until_ready()
        return time.monotonic() - killed_at

    def wait_until_ready(self) -> None:
        """Wait until the service answers requests and has run a job.

        Raises RunEnded and TimeoutError.
        """
        moment = time.monotonic()
        while not self._is_ready_since(moment):
            if self.has_ended():
                raise RunEnded((self._folder / "log").read_text()[-2000:])
            if time.monotonic() - moment > GIVE_UP_SECONDS:
                raise TimeoutError((self._folder / "log").read_text()[-2000:])
            time.sleep(0.05)

    def _is_ready_since(self, moment: float) -> bool:
        try:
            url = f"http://127.0.0.1:{self._port}/readyz"
            with urllib.request.urlopen(url, timeout=5) as answer:
                age = json.load(answer)["jobHeartbeatAgeSeconds"]
        except OSError:
            return False
        # The age is rounded to tenths.
        return bool(age + 0.1 < time.monotonic() - moment)

    def _part(self, name: str) -> psutil.Process:
        if name == "database":
            pid_file = self._folder / "postgres" / "postmaster.pid"
            return psutil.Process(int(pid_file.read_text().split()[0]))
        assert self._process
        if name == "run":
            return self._process
        # Each process has its part as title, which `ps` shows.
        parts = {part.name(): part for part in self._process.children()}
        if name in parts:
            return parts[name]
        workers: list[psutil.Process] = parts["job cluster"].children()
        return workers[0]

    def close(self) -> None:
        if self._process:
            self._process.terminate()
            self._process.wait()
        embedded.stop(self._folder)


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@contextmanager
def busy(loops: int) -> Iterator[None]:
    command = [sys.executable, "-c", "while True: pass"]
    processes = [
        subprocess.Popen(
            command, start_new_session=True, preexec_fn=parent_death_hook()
        )
        for _ in range(loops)
    ]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()
