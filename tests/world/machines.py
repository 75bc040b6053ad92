"""Machines of a test: network namespaces on a bridge that only this test has.

    with Network() as network:
        machine = network.add()               # machine.address
        machine.start("some", "command")
        machine.cut()                         # its packets vanish, as with a cut cable
        machine.connect()

`Host` is a machine with web server and jobs, `DatabaseServer` one with PostgreSQL. The
test itself is at `network.address`. All of it needs root and the command `ip`.

The test's thread enters a network namespace of its own, which has the bridge: browsers
of other tests break off their loads when a network beside them changes.
Until the network ends, the thread reaches the tests' own server by Unix sockets alone.
"""

import ctypes
import os
import shlex
import shutil
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import psutil
import psycopg

from tests.world.service import Service, end_family
from verification.db import embedded
from verification.settings.connections import primary_url

PORT = 5432
# Of <sched.h>; `os.setns` comes with Python 3.12.
CLONE_NEWNET = 0x40000000
READY_SECONDS = 90
SETTINGS = {
    "listen_addresses": "*",
    "unix_socket_directories": "",
    "max_connections": "150",
    "shared_buffers": "128MB",
    # A killed process loses nothing that it has written.
    "fsync": "off",
    "timezone": "UTC",
    "wal_keep_size": "512MB",
    "hot_standby": "on",
}
ALLOWED = "host all all all trust\nhost replication all all trust\n"


def missing_tools() -> str:
    """Return why this process can make no network, or ""."""
    if os.geteuid() != 0:
        return "needs root, for network namespaces"
    for tool in ("ip", "setpriv"):
        if shutil.which(tool) is None:
            return f"needs the command {tool}"
    probe = f"probe{os.getpid()}"
    if not _ip("netns", "add", probe, check=False):
        return "may make no network namespaces"
    _ip("netns", "del", probe)
    return ""


class Network:
    def __init__(self) -> None:
        number = os.getpid() % 200
        self._prefix = f"10.231.{number}"
        self._name = f"vr{os.getpid() % 100_000}"
        self.address = f"{self._prefix}.1"
        self._machines: list[Machine] = []

    def __enter__(self) -> Self:
        name = self._name
        _ip("netns", "add", name)
        _ip("-n", name, "link", "set", "lo", "up")
        _ip("-n", name, "link", "add", name, "type", "bridge")
        _ip("-n", name, "addr", "add", f"{self.address}/24", "dev", name)
        _ip("-n", name, "link", "set", name, "up")
        self._outside = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        inside = os.open(f"/run/netns/{name}", os.O_RDONLY)
        _enter_namespace(inside)
        os.close(inside)
        return self

    def __exit__(self, *exc: object) -> None:
        try:
            for machine in self._machines:
                machine.close()
        finally:
            _enter_namespace(self._outside)
            os.close(self._outside)
        _ip("netns", "del", self._name)

    def add(self) -> "Machine":
        number = len(self._machines) + 2
        name = f"{self._name}x{number}"
        machine = Machine(name, f"{self._prefix}.{number}")
        _ip("netns", "add", name)
        self._machines.append(machine)
        _ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
        _ip("link", "set", name, "master", self._name, "up")
        _ip("-n", name, "addr", "add", f"{machine.address}/24", "dev", "eth0")
        _ip("-n", name, "link", "set", "eth0", "up")
        _ip("-n", name, "link", "set", "lo", "up")
        return machine


class Machine:
    def __init__(self, name: str, address: str) -> None:
        self.name = name
        self.address = address

    def inside(self, *command: str) -> list[str]:
        """Return the command that runs this one on the machine."""
        return ["ip", "netns", "exec", self.name, *command]

    def cut(self) -> None:
        _ip("link", "set", self.name, "down")

    def connect(self) -> None:
        _ip("link", "set", self.name, "up")

    def close(self) -> None:
        """End what runs on the machine, and remove it."""
        listed = subprocess.run(
            ["ip", "netns", "pids", self.name],
            capture_output=True,
            text=True,
            check=False,
        )
        for pid in listed.stdout.split():
            with suppress(psutil.Error):
                psutil.Process(int(pid)).kill()
        # The kernel may remove the namespace, and with it the link, after the next
        # network of this process has begun to use the name.
        _ip("link", "del", self.name, check=False)
        _ip("netns", "del", self.name)


class Host(Service):
    """A machine with a web server and jobs."""

    def __init__(self, machine: Machine, folder: Path, database_url: str) -> None:
        super().__init__(folder)
        self.machine = machine
        self.port = 8000
        self.url = f"http://{machine.address}:{self.port}"
        self._database_url = database_url
        self.environment |= {
            "DATABASE_URL": database_url,
            "HOST": machine.address,
            "PORT": str(self.port),
            "BASE_URL": self.url,
            "WEB_WORKERS": "1",
            "JOB_CLUSTER": machine.name,
        }

    @property
    def database_url(self) -> str:
        return self._database_url

    def connect(self) -> psycopg.Connection[Any]:
        """Connect to the primary server; a standby may have less."""
        url = primary_url(self._database_url)
        return psycopg.connect(url, autocommit=True, connect_timeout=3)

    def command(self, *command: str) -> list[str]:
        return self.machine.inside(*super().command(*command))


class DatabaseServer:
    """A PostgreSQL on a machine."""

    def __init__(self, machine: Machine, folder: Path) -> None:
        self.machine = machine
        self.folder = folder
        self.url = f"postgresql://postgres@{machine.address}:{PORT}/postgres"
        self.environment: dict[str, str] = {}
        self._process: subprocess.Popen[bytes] | None = None

    def create(self) -> None:
        self._run("initdb", "-D", self.folder, "-U", "postgres", "-A", "trust", "-N")
        with (self.folder / "pg_hba.conf").open("a") as rules:
            rules.write(ALLOWED)

    def fill(self, dump: Path) -> None:
        stop = "--set=ON_ERROR_STOP=1"
        self._run("psql", "--quiet", stop, f"--file={dump}", self.url)

    def copy(self, primary: "DatabaseServer") -> None:
        """Become a standby of the primary server, with the name `standby`."""
        source = f"{primary.url}?application_name=standby"
        self._run(
            "pg_basebackup",
            *(
                "-D",
                self.folder,
                "-d",
                source,
                "-X",
                "stream",
                "-c",
                "fast",
                "-R",
                "-N",
            ),
        )

    def clear(self) -> None:
        """Delete the data, for another `create` or `copy`."""
        for path in self.folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def start(self, **more: str) -> None:
        options = SETTINGS | more
        command = [
            *("setpriv", "--pdeathsig=KILL"),
            *("env", *(f"{name}={value}" for name, value in self.environment.items())),
            *(str(embedded.programs() / "postgres"), "-D", str(self.folder)),
            *(f"--{name}={value}" for name, value in options.items()),
        ]
        with (self.folder.parent / f"{self.folder.name}.log").open("a") as log:
            self._process = subprocess.Popen(
                self.machine.inside(*embedded.as_server_user(command)),
                cwd="/",
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + READY_SECONDS
        while True:
            try:
                return self.connect().close()
            except psycopg.OperationalError:
                assert time.monotonic() < deadline, self.log()
                time.sleep(0.1)

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self.url, autocommit=True, connect_timeout=3)

    def kill(self) -> None:
        """Kill all processes of the server at once."""
        self._process = end_family(self._process, kill=True)

    def promote(self) -> None:
        """Make this standby the primary server, as Patroni does."""
        with self.connect() as server:
            assert server.execute("SELECT pg_promote()").fetchone() == (True,)

    def log(self) -> str:
        log = self.folder.parent / f"{self.folder.name}.log"
        return log.read_text()[-3000:]

    def _run(self, program: str, *arguments: object) -> None:
        command = [str(embedded.programs() / program), *map(str, arguments)]
        done = subprocess.run(
            self.machine.inside(*embedded.as_server_user(command)),
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{shlex.join(command)}\n{done.stderr}"


def database_folder(parent: Path, name: str) -> Path:
    """Make a folder that PostgreSQL's own user can use."""
    embedded.open_for_server_user(parent)
    folder = parent / name
    folder.mkdir(mode=0o700)
    os.chown(folder, *embedded.server_ids())
    return folder


def _enter_namespace(descriptor: int) -> None:
    """Move this thread, and its later children, to a network namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


def _ip(*arguments: str, check: bool = True) -> bool:
    done = subprocess.run(
        ["ip", *arguments], capture_output=True, text=True, check=False
    )
    assert not check or done.returncode == 0, f"ip {arguments}: {done.stderr}"
    return done.returncode == 0
