import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from io import StringIO
from os.path import relpath
from typing import Any

from django.conf import settings
from django.core.management import CommandError, call_command
from django.core.management.base import BaseCommand
from django.db import connections

from verification import embedded
from verification.jobs import heartbeat
from verification.jobs.processes import dying_with_us
from verification.serving import HOST

READY_SECONDS = 60
STOP_SECONDS = 15
# A part that ends so often within a minute does not work at all.
MOST_RESTARTS = 3

ORDER = settings.BASE_DIR / "docs" / "order.json"
# Ten rows of 80 columns; the commands work as they are copied.
WELCOME = """  The service runs at {url}; Ctrl-C stops it.
"""
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
    """One of the two halves of the service, as a process of its own."""

    def __init__(self, name: str, *command: str) -> None:
        self.name = name
        self._command = command
        self._starts: list[float] = []
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._starts.append(time.monotonic())
        self._process = subprocess.Popen(  # noqa: S603
            [sys.executable, *self._command],
            cwd=settings.BASE_DIR,
            # Ctrl-C is for us; we end our parts in order.
            start_new_session=True,
            preexec_fn=dying_with_us(),
        )

    def has_ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def is_hopeless(self) -> bool:
        minute_ago = time.monotonic() - 60
        return sum(start > minute_ago for start in self._starts) > MOST_RESTARTS

    def ask_to_stop(self) -> None:
        if self._process is not None:
            self._process.terminate()

    def wait(self, deadline: float) -> None:
        if self._process is None:
            return
        try:
            self._process.wait(max(0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


class Command(BaseCommand):
    help = "Runs everything in the foreground: database, web server and jobs."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        for sign in (signal.SIGINT, signal.SIGTERM):
            signal.signal(sign, _end)
        self.parts = [
            Part("web server", "-m", "verification.serving"),
            Part("job cluster", "manage.py", "jobs"),
        ]
        try:
            self._prepare()
            for part in self.parts:
                part.start()
            self._wait_until_ready()
            self._welcome()
            self._watch()
        finally:
            self._stop()

    def _prepare(self) -> None:
        _refuse_port_in_use()
        if embedded.is_used():
            try:
                embedded.use(settings.DATA_DIR)
            except embedded.EmbeddedServerError as e:
                raise CommandError(str(e)) from e
        call_command("migrate", verbosity=0)
        call_command("setup_checks", stdout=StringIO())
        call_command("setup_schedules")
        connections.close_all()

    def _wait_until_ready(self) -> None:
        started_at = time.monotonic()
        # By the first beat, as each request too early would be logged as an error.
        while not (_beats_since(started_at) and _status("/readyz") == 200):
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
            call_command("setup_demo", stdout=output)
            told = json.loads(output.getvalue())
            self.stdout.write(DEMO.format(url=url, order=relpath(ORDER), **told))
        # It may go to a file or a pipe, and is wanted now.
        self.stdout.flush()
        if settings.DEBUG and embedded.is_used() and os.environ.get("DEMO") != "0":
            subprocess.Popen(
                [sys.executable, "manage.py", "fill_demo"],
                cwd=settings.BASE_DIR,
                # What it orders is no news to whoever reads the start-up text.
                env=os.environ | {"LOG_LEVEL": "WARNING"},
                start_new_session=True,
                preexec_fn=dying_with_us(),
            )

    def _watch(self) -> None:
        while True:
            self._restart_ended()
            time.sleep(0.5)

    def _restart_ended(self) -> None:
        if embedded.is_used() and not embedded.is_running(settings.DATA_DIR):
            self.stderr.write("The database ended and is started again.")
            embedded.start(settings.DATA_DIR)
        for part in self.parts:
            if not part.has_ended():
                continue
            if part.is_hopeless():
                raise CommandError(f"The {part.name} keeps ending; see above.")
            self.stderr.write(f"The {part.name} ended and is started again.")
            part.start()

    def _stop(self) -> None:
        for sign in (signal.SIGINT, signal.SIGTERM):
            signal.signal(sign, signal.SIG_IGN)
        for part in self.parts:
            part.ask_to_stop()
        deadline = time.monotonic() + STOP_SECONDS
        for part in self.parts:
            part.wait(deadline)
        connections.close_all()
        embedded.release(settings.DATA_DIR)


def _end(*_: object) -> None:
    raise SystemExit(0)


def _beats_since(started_at: float) -> bool:
    age = heartbeat.age_seconds()
    return age is not None and age < time.monotonic() - started_at


def _refuse_port_in_use() -> None:
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind((os.environ.get("HOST") or HOST, settings.PORT))
        except OSError:
            raise CommandError(
                f"Port {settings.PORT} is in use; choose another: PORT=8001 make run"
            ) from None


def _status(path: str, **headers: str) -> int:
    request = urllib.request.Request(
        f"http://{os.environ.get('HOST') or HOST}:{settings.PORT}{path}",
        headers=headers,
    )
    try:
        with urllib.request.urlopen(request, timeout=5) as response:  # noqa: S310
            return int(response.status)
    except urllib.error.HTTPError as e:
        return e.code
    except OSError:
        return 0
