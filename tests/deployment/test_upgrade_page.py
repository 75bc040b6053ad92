"""The upgrade from 1.0.0 by `docs/operator/upgrades.md`, on a machine of its own.

The machine is this one's tree with a layer of its own on top, booted by systemd-nspawn
without any network. 1.0.0 is installed by the page of 1.0.0.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

import psutil
import pytest
from django.conf import settings

from tests.deployment.test_package import build_wheel
from tests.world.web_proxies import required
from verification import __version__
from verification.jobs.processes import parent_death_hook

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

ROOT = settings.BASE_DIR
# The last commit of 1.0.0, with its dump
FIRST = "b1236228"
NAME = "verification_report_service"
BOOT_SECONDS = 180
# Programs of this tree that listen at ports of the service, or only take time
OTHERS = ("nginx", "pgbouncer", "prometheus", "docker", "containerd")
# Run before the commands of a page.
BEGIN = """
cd /root
export PIP_NO_INDEX=1 PIP_FIND_LINKS=/root/wheels PIP_DISABLE_PIP_VERSION_CHECK=1
# The page waits for the service; so does the test, and no longer.
sleep() { curl http://127.0.0.1:8000/readyz; }
curl() { command curl -ks --retry 60 --retry-all-errors --retry-delay 1 "$@"; }
"""
SETTINGS = (
    r"sed -i 's/Acacia Verification Ltd/Acacia Checks/; s/@example.com/@acacia.co.ke/;"
    r" s/reports.example.com/reports.acacia.co.ke/' /etc/verification/verification.env"
)
ORDERS = """
OWNER=a@acacia.co.ke URL=https://reports.acacia.co.ke/api/v1/reports
WORKSPACE=$(verification create_workspace Acacia --owner $OWNER | cut -d '"' -f 4)
KEY=$(verification create_key $WORKSPACE --environment sandbox | cut -d '"' -f 8)
runuser -u postgres -- psql -q verification -c 'UPDATE workspaces_apikey
  SET creates_per_minute = 100000, requests_per_minute = 100000'
# Before, they would only take time from the installation of packages.
until [ -e "/opt/verification-$VERSION/installed" ]; do command sleep 0.1; done
while [ ! -e /root/stop ]; do
  command curl -ks -o /dev/null -w '%{http_code}\\n' $URL \
    -H "Authorization: Bearer $KEY" -H 'Content-Type: application/json' \
    -d @verification_report_service-1.0.0/docs/order.json || true
  # A web server that is missed is away for the seconds of its start.
  command sleep 0.3
done >/root/answers
"""

LOCK = "/run/verification-upgrade.lock"
RESTARTS = "$(systemctl show -P NRestarts verification-jobs)"
JOBS_DROP_IN = "/etc/systemd/system/verification-jobs.service.d/start.conf"


def jobs_start_with(program: str, pause: str) -> str:
    """Let the jobs start only if this program succeeds, by a drop-in.

    `pause`: until systemd starts them again
    """
    return (
        f"mkdir -p $(dirname {JOBS_DROP_IN})\n"
        f"printf '[Service]\\nExecStartPre={program}\\nRestartSec={pause}\\n'"
        f" > {JOBS_DROP_IN}\n"
        "systemctl daemon-reload"
    )


def page_blocks(text: str, begin: str, end: str) -> str:
    part = text.split(f"\n## {begin}\n")[1].split(f"\n## {end}\n")[0]
    return "\n".join(re.findall(r"^```sh\n(.*?)^```", part, re.MULTILINE | re.DOTALL))


def git(*arguments: str) -> bytes:
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip(f"no history of 1.0.0 in this clone: {done.stderr.decode()}")
    return done.stdout


class Machine:
    """This machine's tree, booted with a layer of its own."""

    def __init__(self) -> None:
        # Apart from pytest's folders, in which it deletes what former runs left.
        self._place = Path(mkdtemp(prefix="upgrade-"))
        self.root = self._place / "root"

    def __enter__(self) -> "Machine":
        layer = self._place / "layer"
        for folder in (layer, self.root):
            folder.mkdir()
        # The layer must not lie in the tree below it.
        mount("-t", "tmpfs", "tmpfs", layer)
        for folder in (layer / "upper", layer / "work"):
            folder.mkdir()
        options = f"lowerdir=/,upperdir={layer}/upper,workdir={layer}/work"
        mount("-t", "overlay", "overlay", "-o", options, self.root)
        for unit in OTHERS:
            mask = self.root / f"etc/systemd/system/{unit}.service"
            mask.unlink(missing_ok=True)
            mask.symlink_to("/dev/null")
        with (self._place / "console").open("w") as console:
            self._nspawn = subprocess.Popen(
                [
                    *("systemd-nspawn", "--quiet", "--boot", "--console=pipe"),
                    *("--directory", self.root, "--machine", f"test{os.getpid()}"),
                    *("--private-network", "--register=no", "--keep-unit"),
                    # systemd of Debian 13 on a machine with the old control groups
                    "SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1",
                ],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                preexec_fn=parent_death_hook(),
            )
        deadline = time.monotonic() + BOOT_SECONDS
        while self.run(
            "systemctl is-system-running", check=False
        ).stdout.strip() not in (*("running", "degraded"),):
            assert time.monotonic() < deadline, self.console()
            time.sleep(0.2)
        return self

    def __exit__(self, *exc: object) -> None:
        self._nspawn.terminate()
        self._nspawn.wait(120)
        for folder in (self.root, self._place / "layer"):
            subprocess.run(["umount", folder], check=True)
        shutil.rmtree(self._place)

    def console(self) -> str:
        return (self._place / "console").read_text()

    def command(self) -> list[str]:
        leaders = psutil.Process(self._nspawn.pid).children()
        leader = str(leaders[0].pid) if leaders else "none"
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        enter = ["nsenter", "--target", leader, "--all", "--wdns=/root"]
        return [*enter, "env", "-i", f"PATH={path}", "HOME=/root", "bash", "-es"]

    def run(self, script: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.command(), input=script, capture_output=True, text=True, check=False
        )
        assert not check or done.returncode == 0, (done.stdout + done.stderr)[-5000:]
        return done


def mount(*arguments: object) -> None:
    done = subprocess.run(
        ["mount", *map(str, arguments)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"no machine of its own can be made here: {done.stderr}")


@pytest.fixture
def releases(tmp_path: Path) -> Path:
    """Make the files of 1.0.0 and of this version, and fetch their dependencies."""
    folder = tmp_path / "releases"
    old = folder / f"{NAME}-1.0.0"
    old.mkdir(parents=True)
    archive = git("archive", FIRST)
    subprocess.run(["tar", "-x", "-C", old], input=archive, check=True)
    build_wheel(folder, old)
    build_wheel(folder)
    names = git("ls-files", "-z", "verification/__init__.py", "deploy", "docs")
    prefix = f"s,^,{NAME}-{__version__}/,"
    subprocess.run(
        [
            *("tar", "-cz", "--null", "-T-", "--transform", prefix),
            *("-f", folder / f"{NAME}-{__version__}.tar.gz"),
        ],
        cwd=ROOT,
        input=names,
        check=True,
    )
    # For Debian's Python, as the user of the service cannot read those of this user.
    pip = [sys.executable, "-m", "pip", "--python", "/usr/bin/python3"]
    # Most packages are the same in both.
    locked: set[str] = set()
    for source in (old, ROOT):
        lock = (source / "deploy/requirements.lock").read_text()
        packages = set(re.split(r"\n(?=\w)", re.sub(r"\n +#.*", "", lock).strip()))
        (tmp_path / "new.lock").write_text("\n".join(packages - locked))
        locked |= packages
        subprocess.run(
            [
                *(*pip, "download", "--quiet", "--no-deps"),
                *("--require-hashes", "-r", tmp_path / "new.lock"),
                *("--dest", folder / "wheels"),
            ],
            check=True,
        )
    return folder


@pytest.fixture
def machine() -> Iterator[Machine]:
    for program in ("systemd-nspawn", "caddy", "pg_createcluster"):
        required(program)
    with Machine() as machine:
        yield machine


def test_upgrade_from_1_0_0_by_the_page_refuses_no_order(
    releases: Path, machine: Machine
):
    shutil.copytree(releases, machine.root / "root", dirs_exist_ok=True)
    machine.run(
        "echo 127.0.0.1 reports.acacia.co.ke >> /etc/hosts\n"
        "pg_lsclusters -h | while read -r version name _; do"
        " pg_dropcluster --stop $version $name; done\n"
        "pg_createcluster --start $(ls /usr/lib/postgresql | tail -1) main"
    )
    first = git("show", f"{FIRST}:docs/installation.md").decode()
    install = page_blocks(first, "Install the service", "Log in")
    install = install.replace("\nchown -R", f"\n{SETTINGS}\nchown -R")
    # No authority gives a certificate to this machine, so both files have a change.
    local = r"sed '0,/^{/s//{\n\tlocal_certs/'"
    caddy = "systemctl restart caddy"
    machine.run(
        BEGIN + install.replace(caddy, f"{local} -i /etc/caddy/Caddyfile; {caddy}")
    )
    machine.run(
        f"tar -xzOf {NAME}-{__version__}.tar.gz {NAME}-{__version__}/deploy/Caddyfile"
        f" | {local} > /etc/caddy/Caddyfile-{__version__}"
    )
    with subprocess.Popen(
        machine.command(), stdin=subprocess.PIPE, text=True
    ) as orders:
        assert orders.stdin
        orders.stdin.write(f"{BEGIN}VERSION={__version__}\n{ORDERS}")
        orders.stdin.close()
        try:
            text = (ROOT / "docs/operator/upgrades.md").read_text()
            upgrade, back = page_blocks(text, "Debian", "Containers").split("\n\n")
            back = f"{BEGIN}VERSION={__version__}\n{back}"
            locked = f"exec 8>{LOCK}; flock 8; {BEGIN}{upgrade}"
            busy = machine.run(locked, check=False).stderr
            machine.run(jobs_start_with("false", pause="2s"))
            stopped = machine.run(BEGIN + upgrade, check=False).stderr
            assert "FAILED at: restart the jobs." in stopped
            wait_for_answers(machine)
            # The way back finds systemd waiting to start them once more.
            machine.run(f'until [ "{RESTARTS}" -gt 0 ]; do sleep 0.1; done')
            machine.run(jobs_start_with("true", pause="1h"))
            machine.run(back)
            machine.run(BEGIN + upgrade)
            upgraded = wait_for_answers(machine)
        finally:
            machine.run("touch /root/stop")

    assert "Another upgrade of this machine is running." in busy
    # Caddy resets a connection that opens while it reads its file (000 by curl): never
    # two in turn, as the next order finds its new listener.
    assert set(upgraded) <= {"201", "000"}
    assert "000 000" not in " ".join(upgraded)
    state = machine.run(
        "readlink /opt/verification; cat /etc/verification/verification.env\n"
        "curl -s 127.0.0.1:8000/healthz; curl -s 127.0.0.1:8001/healthz\n"
        "systemctl is-active verification-jobs verification-web@8000"
        " verification-web@8001 caddy"
    ).stdout
    assert state.startswith(f"verification-{__version__}\n")
    assert state.count(f'"version": "{__version__}"') == 2
    assert state.endswith("active\n" * 4)
    assert "\nBASE_URL=" not in state

    machine.run("echo '# of the operator' >> /etc/verification/verification.env")
    machine.run(back)

    settings_now = machine.run("cat /etc/verification/verification.env").stdout
    assert "# of the operator\n" in settings_now
    assert settings_now.count("\nBASE_URL=https://reports.acacia.co.ke\n") == 1
    assert "ExecStartPre=true" in machine.run(f"cat {JOBS_DROP_IN}").stdout
    healthz = machine.run("curl -sk https://reports.acacia.co.ke/healthz").stdout
    assert '"version": "1.0.0"' in healthz


def wait_for_answers(machine: Machine) -> list[str]:
    """Wait for five more orders; return the answers of all."""
    answers = machine.root / "root/answers"
    deadline = time.monotonic() + BOOT_SECONDS
    before = len(answers.read_text().splitlines()) if answers.exists() else 0
    while not answers.exists() or len(answers.read_text().splitlines()) < before + 5:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return answers.read_text().split()
