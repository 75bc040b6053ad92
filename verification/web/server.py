"""The web server: `python -m verification.web.server`.

It has WEB_WORKERS processes, in which `gateway.py` gives each request a thread once it
is read. The main process loads Django before it forks them: they share that memory, and
a killed one is replaced at once.
"""

import errno
import logging
import multiprocessing
import os
import socket
import sys
import time
from importlib import import_module
from ipaddress import ip_address
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory, gettempdir

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import OperationalError, connection
from environs import EnvError
from granian.constants import HTTPModes, Interfaces, RuntimeModes
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server.mp import MPServer
from prometheus_client import values

from verification.db.base import name_sessions
from verification.db.startup import (
    DatabaseRefused,
    KeysRefused,
    RightsMissing,
    refuse_transaction_pooler,
    require_schema,
)
from verification.jobs.processes import bind_children_to_parent
from verification.values import clock
from verification.web.gateway import keys_refused, stopping

logger = logging.getLogger(__name__)
APPLICATION = "verification.asgi"
HOST = "127.0.0.1"
LOOPBACK = {HOST, "::1", "localhost"}
CONNECTIONS = 2048
IDLE_MILLISECONDS = 15_000
# Longer than a page's call to a payment provider, whose answer is recorded afterwards.
STOP_SECONDS = 25
# A process that was killed a moment ago may still hold its folder and its port.
RELEASE_SECONDS = 5
# The folder of a web server's counts; the number of its process follows.
COUNTS = "verification-metrics-"
# They are mapped: the kernel ends a process whose page finds no room on a full disk.
MEMORY = Path("/dev/shm")  # noqa: S108


class WebServer(MPServer):
    """Granian that tells proxies of its end before it stops."""

    def shutdown(self, exit_code: int = 0) -> None:
        """Answer 503 at /healthz for WEB_DRAIN_SECONDS, still serve, and then stop.

        A second signal ends the wait.
        """
        if settings.WEB_DRAIN_SECONDS and self.interrupt_signal:
            stopping.set()
            self.main_loop_interrupt.clear()
            self.main_loop_interrupt.wait(settings.WEB_DRAIN_SECONDS)
        try:
            super().shutdown(exit_code)
        except SystemExit:
            # A process that died meanwhile is no failure of the stop.
            if not self.interrupt_signal:
                raise


def main(gate: int | None = None) -> None:
    """Serve requests; with a `gate`, wait until that pipe's other end is closed."""
    # Python 3.14 would start workers that share no memory and outlive this process.
    multiprocessing.set_start_method("fork", force=True)
    bind_children_to_parent()
    clock.follow_database()
    name_sessions("web")
    # The server reads settings before it loads the application, which sets it, too.
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "verification.settings")
    try:
        refuse_public_development()
    except (ImproperlyConfigured, EnvError) as e:
        sys.exit(str(e))
    place = MEMORY if os.access(MEMORY, os.W_OK) else Path(gettempdir())
    remove_abandoned_folders(place)
    # The processes of this server count requests in a folder of their own.
    prefix = f"{COUNTS}{os.getpid()}-"
    with TemporaryDirectory(prefix=prefix, dir=place) as folder:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
        # The library has chosen when it was imported, as django-q2 does before.
        values.ValueClass = values.get_value_class()
        _serve(gate)


def refuse_public_development(host: str = "") -> None:
    """Exit if a service with development secrets would listen to other machines."""
    host = host or os.environ.get("HOST") or HOST
    if settings.DEBUG and host not in LOOPBACK:
        sys.exit(
            f"With DEBUG the service has development secrets and does not listen on "
            f"{host}: remove HOST, or DEBUG and set the secrets."
        )


def remove_abandoned_folders(place: Path) -> None:
    """Remove the counts of web servers that were killed."""
    for folder in place.glob(f"{COUNTS}*-*"):
        process = folder.name.removeprefix(COUNTS).partition("-")[0]
        # A restarted container gives its web server the number of the former one.
        if process == str(os.getpid()) or (process.isdecimal() and _is_gone(process)):
            rmtree(folder, ignore_errors=True)


def _is_gone(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        # It is another user's, or none of ours.
        pass
    return False


def require_free_port() -> None:
    """Exit if the server cannot listen at HOST and PORT, or another process does.

    The kernel lets web servers of one user listen at one port, and each would get a
    part of the requests, even if they have different databases.
    """
    host, port = os.environ.get("HOST") or HOST, settings.PORT
    deadline = time.monotonic() + RELEASE_SECONDS
    while error := _bind_error(host, port):
        if error.errno != errno.EADDRINUSE:
            sys.exit(
                f"The web server cannot listen at {host}, port {port} "
                f"({error.strerror}); set HOST to an IP address of this machine and "
                "PORT to one of 1024 to 65535."
            )
        if time.monotonic() > deadline:
            sys.exit(
                f"Port {port} is in use: stop the process that listens there, or "
                "choose another, such as PORT=8001."
            )
        time.sleep(0.1)


def _bind_error(host: str, port: int) -> OSError | None:
    try:
        is_ipv6 = ip_address(host).version == 6
        with socket.socket(socket.AF_INET6 if is_ipv6 else socket.AF_INET) as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.bind((host, port))
    except (OverflowError, ValueError) as e:
        return OSError(errno.EINVAL, str(e))
    except OSError as e:
        return e
    return None


def _serve(gate: int | None) -> None:
    try:
        import_module(APPLICATION)
    except (ImproperlyConfigured, EnvError) as e:
        sys.exit(str(e))
    if gate is not None:
        with open(gate, "rb") as pipe:
            pipe.read()
    _check_database()
    require_free_port()
    WebServer(
        f"{APPLICATION}:application",
        address=os.environ.get("HOST") or HOST,
        port=settings.PORT,
        interface=Interfaces.ASGINL,
        # If the server had to choose between HTTP 1 and 2, it would wait for a first
        # byte without a limit.
        http=HTTPModes.http1,
        workers=settings.WEB_WORKERS,
        # In the multi-threaded mode, a stopping worker may miss the signal that its
        # threads have ended, and wait until it is killed. That mode is not faster.
        runtime_mode=RuntimeModes.st,
        # The limit counts idle connections too; with a low one, few clients could shut
        # out all others.
        backpressure=CONNECTIONS,
        backlog=CONNECTIONS,
        http1_settings=HTTP1Settings(header_read_timeout=IDLE_MILLISECONDS),
        websockets=False,
        log_level=LogLevels.warning,
        log_access=False,
        respawn_failed_workers=True,
        workers_kill_timeout=STOP_SECONDS,
    ).serve()


def _check_database() -> None:
    """Exit if this version cannot run on the database; continue if it is unreachable.

    The server also runs with wrong keys or a role without rights: the database refuses
    every connection, requests get 503, and `/readyz` tells monitoring why. With wrong
    keys `/healthz` is 503, too: another web server may still have the right ones.
    """
    try:
        require_schema()
        refuse_transaction_pooler(settings.DATABASE_URL)
    except (KeysRefused, RightsMissing) as e:
        logger.error(str(e))
        if isinstance(e, KeysRefused):
            keys_refused.set()
    except DatabaseRefused as e:
        sys.exit(str(e))
    except OperationalError:
        pass
    finally:
        connection.close()


if __name__ == "__main__":
    main()
