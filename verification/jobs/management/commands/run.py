import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from io import StringIO
from multiprocessing.context import ForkProcess
from os.path import relpath
from typing import Any

from django.conf import settings
from django.core.management import CommandError, call_command
from django.core.management.base import BaseCommand
from django.core.management.sql import emit_post_migrate_signal
from django.db import DEFAULT_DB_ALIAS, OperationalError, connections

from verification.db import embedded, startup
from verification.db.base import reconnect
from verification.jobs import processes, queue
from verification.jobs.cluster import Cluster, preload
from verification.jobs.processes import parent_death_hook
from verification.jobs.worker import GRACE_SECONDS
from verification.web import server
from verification.web.server import HOST, RELEASE_SECONDS

# It takes five on an idle machine.
READY_SECONDS = 180
# The jobs have the longest stop; afterwards the parts that are left are killed.
STOP_SECONDS = GRACE_SECONDS + 3
# A stop that takes longer says why.
QUIET_SECONDS = 2
DISK_SECONDS = 5
# Longer than the moment in which a crash ends and recovery begins
STUCK_SECONDS = 5
# A part that ends this often within a minute does not work at all.
MAX_RESTARTS = 3

ORDER = settings.BASE_DIR / "docs" / "order.json"
# Ten rows of 80 columns; the commands work as they are copied.
WELCOME = """  The service runs at {url}; Ctrl-C stops it.
"""
WAITING = (
    f"  Waits up to {GRACE_SECONDS:.0f} seconds for running jobs; "
    "Ctrl-C again stops at once."
)
DEMO = r"""  Console   {ownerUrl}
  Admin     {staffUrl}
  Messages  {url}/dev/mail
  API       {url}/docs
  Key       export KEY={key}
  Order     curl -s {url}/api/v1/reports -d @{order} \
            -H "Authorization: Bearer $KEY" -H "Content-Type: application/json"
  Read      curl -s {url}/api/v1/reports/ID \
            -H "Authorization: Bearer $KEY"
"""


class Part:
    """One of the two parts of the service: a process that is forked from this one.

    This process has loaded what both need, so a killed part is replaced quickly.
    """

    def __init__(self, name: str, work: Callable[..., None]) -> None:
        self.name = name
        self._work = work
        self._starts: list[float] = []
        self._gate: int | None = None
        self._process: ForkProcess | None = None

    def prepare(self) -> None:
        """Start the process, which loads the rest and then waits for `start`."""
        theirs, self._gate = os.pipe()
        self._start(self._wait_at_gate, theirs, self._gate)
        os.close(theirs)

    def start(self) -> None:
        if self._gate is not None:
            os.close(self._gate)
            self._gate = None
            if not self.has_ended():
                return
        self._start(self._work)

    def _start(self, work: Callable[..., None], *arguments: object) -> None:
        self._starts.append(time.monotonic())
        connections.close_all()
        self._process = processes.fork(self.name, work, *arguments)

    def _wait_at_gate(self, gate: int, ours: int) -> None:
        os.close(ours)
        self._work(gate)

    def has_ended(self) -> bool:
        return self._process is None or self._process.exitcode is not None

    def restarts_too_often(self) -> bool:
        minute_ago = time.monotonic() - 60
        return sum(start > minute_ago for start in self._starts) > MAX_RESTARTS

    def request_stop(self) -> None:
        if self._process is not None:
            self._process.terminate()

    def kill(self) -> None:
        """Kill the process and its group, unless it has ended."""
        if self._process is not None and not self.has_ended():
            processes.kill_group(self._process)


class Command(BaseCommand):
    help = "Runs everything in the foreground: database, web server and jobs."
    requires_system_checks: list[str] = []
    # Set by a second Ctrl-C.
    _hurrying = False
    # When the embedded database was first seen stuck, unless it has worked since.
    _stuck_since: float | None = None
    # The process that fills the demo
    _filling: subprocess.Popen[bytes] | None = None

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self._run()
        except embedded.EmbeddedServerError as e:
            raise CommandError(str(e)) from e

    def _run(self) -> None:
        for sign in (signal.SIGINT, signal.SIGTERM):
            signal.signal(sign, _exit)
        server.refuse_public_development()
        _require_own_folder()
        jobs = Cluster(f"{socket.gethostname()}-{settings.PORT}")
        web_server = Part("web server", server.main)
        self.parts = [web_server, Part("job cluster", jobs.run)]
        server.require_free_port()
        preload()
        try:
            # Loading takes as long as the preparations that run at the same time.
            web_server.prepare()
            self._prepare()
            for part in self.parts:
                part.start()
            self._wait_until_ready()
            self._welcome()
            while True:
                self._restart_ended()
                time.sleep(0.5)
        finally:
            self._stop()

    def _prepare(self) -> None:
        if embedded.is_used():
            embedded.acquire(settings.DATA_DIR)
        self._lasting(_migrate)
        self._lasting(call_command, "setup_checks", stdout=StringIO())
        self._lasting(call_command, "setup_schedules")
        connections.close_all()

    def _lasting(
        self, work: Callable[..., object], *arguments: str, **options: Any
    ) -> None:
        """Run the work, and repeat it if the embedded database is killed during it."""
        for attempt in range(MAX_RESTARTS):
            try:
                work(*arguments, **options)
                return
            except OperationalError:
                if not embedded.is_used() or attempt == MAX_RESTARTS - 1:
                    raise
                connections.close_all()
                self._restart_database()
                # After a crash the server recovers before it answers.
                if not reconnect(embedded.START_SECONDS):
                    raise

    def _wait_until_ready(self) -> None:
        started_at = time.monotonic()
        # Before the first beat each request would be logged as an error.
        while not (_has_beat_since(started_at) and _is_ready()):
            self._restart_ended()
            if time.monotonic() > started_at + READY_SECONDS:
                raise CommandError("The service does not become ready; see above.")
            time.sleep(0.2)
        connections.close_all()

    def _welcome(self) -> None:
        url = settings.BASE_URL
        self.stdout.write(WELCOME.format(url=url), ending="")
        if settings.DEBUG and embedded.is_used():
            output = StringIO()
            self._lasting(call_command, "setup_demo", stdout=output)
            demo = json.loads(output.getvalue().splitlines()[-1])
            self.stdout.write(DEMO.format(url=url, order=relpath(ORDER), **demo))
        # Flush, because the output may go to a file or a pipe.
        self.stdout.flush()
        if settings.DEBUG and embedded.is_used() and os.environ.get("DEMO") != "0":
            self._filling = subprocess.Popen(
                [sys.executable, "manage.py", "fill_demo"],
                cwd=settings.BASE_DIR,
                # Log lines of this request would only disturb the start-up text.
                env=os.environ | {"LOG_LEVEL": "WARNING"},
                start_new_session=True,
                preexec_fn=parent_death_hook(),
            )

    def _restart_database(self) -> None:
        if not embedded.is_used():
            return
        self._stop_stuck_database()
        if embedded.is_running(settings.DATA_DIR):
            return
        self._tell("The database ended and is started again.")
        # A server that fails to start also removes files: afterwards there seems to be
        # room.
        was_full = embedded.is_disk_full(settings.DATA_DIR)
        try:
            embedded.start(settings.DATA_DIR)
        except embedded.EmbeddedServerError:
            if not (was_full or embedded.is_disk_full(settings.DATA_DIR)):
                raise
            # It starts once there is room; until then every answer is 503.
            self._tell(f"The disk of {settings.DATA_DIR} is full: make room.")
            time.sleep(DISK_SECONDS)

    def _stop_stuck_database(self) -> None:
        if not embedded.is_stuck(settings.DATA_DIR):
            self._stuck_since = None
        elif self._stuck_since is None:
            self._stuck_since = time.monotonic()
        elif time.monotonic() - self._stuck_since > STUCK_SECONDS:
            self._stuck_since = None
            self._tell("The database is stuck after a crash and is stopped.")
            embedded.stop(settings.DATA_DIR, ["immediate"])

    def _tell(self, text: str) -> None:
        """Write to stderr, and go on if its disk is full."""
        with suppress(OSError):
            self.stderr.write(text)

    def _restart_ended(self) -> None:
        self._restart_database()
        for part in self.parts:
            if not part.has_ended():
                continue
            if part.restarts_too_often():
                raise CommandError(f"The {part.name} keeps ending; see above.")
            self._tell(f"The {part.name} ended and is started again.")
            part.start()

    def _stop(self) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, self._hurry)
        for part in self.parts:
            part.request_stop()
        self._wait_for_parts()
        for part in self.parts:
            part.kill()
        if self._filling:
            # It uses the database, which therefore would not be stopped.
            self._filling.kill()
            self._filling.wait()
        connections.close_all()
        embedded.release(settings.DATA_DIR)

    def _hurry(self, *_: Any) -> None:
        self._hurrying = True

    def _wait_for_parts(self) -> None:
        """Return when all parts have ended, at a second Ctrl-C, or after the time."""
        began, is_quiet = time.monotonic(), True
        while not (self._hurrying or all(part.has_ended() for part in self.parts)):
            waited = time.monotonic() - began
            if waited > STOP_SECONDS:
                return
            if waited > QUIET_SECONDS and is_quiet:
                self._tell(WAITING)
                is_quiet = False
            time.sleep(0.05)


def _migrate() -> None:
    startup.require_no_later_schema()
    if startup.count_unapplied_migrations():
        call_command("migrate", verbosity=0)
    else:
        # Roles and the like are those of the code whether or not a migration is new.
        emit_post_migrate_signal(verbosity=0, interactive=False, db=DEFAULT_DB_ALIAS)


def _exit(*_: object) -> None:
    raise SystemExit(0)


def _has_beat_since(started_at: float) -> bool:
    try:
        age = queue.heartbeat_age_seconds()
    except OperationalError:
        # The embedded database was killed; start it again.
        connections.close_all()
        return False
    return age is not None and age < time.monotonic() - started_at


def _require_own_folder() -> None:
    """Refuse a folder in which the service runs already.

    The lock ends with this process and the parts that it has forked.
    """
    if not embedded.is_used():
        return
    lock = embedded.open_lock(settings.DATA_DIR, "run.lock")
    deadline = time.monotonic() + RELEASE_SECONDS
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # The parts of a service that was killed end a moment later.
            if time.monotonic() > deadline:
                raise CommandError(
                    f"The service already runs in {settings.DATA_DIR}; stop it, or set "
                    "DATA_DIR to another folder and PORT to another port."
                ) from None
            time.sleep(0.1)
        else:
            return


def _is_ready() -> bool:
    url = f"http://{os.environ.get('HOST') or HOST}:{settings.PORT}/readyz"
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except OSError:
        # Also an answer that is not 200.
        return False
