"""The images, compose.yaml, an upgrade under load and a restore: `make containers`.

It takes minutes and needs root and a container engine; `.ci/run` calls it where it
finds both. The tests are steps of one story, in this order. Docker runs in the network
namespace that `make` has opened.
"""

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
import requests
from django.conf import settings

from tests.world.waiting import until
from tests.world.web_proxies import DEPLOY
from verification import __version__

pytestmark = [
    pytest.mark.timeout(900),
    # Caddy's own certificate, for a trial
    pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning"),
]
IMAGES = settings.BASE_DIR / ".data" / "containers"
URL = "https://localhost"
ORDER = json.loads((settings.BASE_DIR / "docs" / "order.json").read_text())
SMALL = 350_000_000
NEXT = "9.9.9"


class Docker:
    """Docker with a folder and a socket of its own, and the installation in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "verification"
        self.release = folder / "release"
        self._engine = folder / "engine"
        self._engine.mkdir()
        self.environment = {
            **os.environ,
            "DOCKER_HOST": f"unix://{self._engine}/socket",
            "DOCKER_CONFIG": str(IMAGES / "docker"),
        }

    def start(self) -> None:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        command = ["dockerd", "--data-root", str(self._engine / "data")]
        command += ["--exec-root", str(self._engine / "run")]
        command += ["--pidfile", str(self._engine / "pid")]
        command += ["--host", self.environment["DOCKER_HOST"]]
        with (self._engine / "log").open("w") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        until(lambda: (self._engine / "socket").exists(), self._read_log)
        until(lambda: self.run("version", check=False).returncode == 0, self._read_log)

    def _read_log(self) -> str:
        return (self._engine / "log").read_text()[-3000:]

    def stop(self) -> None:
        self.run("compose", "down", "--volumes", "--timeout", "1", check=False)
        self._process.terminate()
        self._process.wait(60)

    def run(
        self, *arguments: str, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            ["docker", *arguments],
            cwd=self.folder if self.folder.is_dir() else None,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert not check or done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done

    def compose(self, *arguments: str) -> str:
        return self.run("compose", *arguments).stdout

    def start_services(self) -> None:
        self.compose("up", "-d")
        # Compose can wait for those alone that have a health check.
        self.compose("up", "-d", "--wait", "web1", "web2")

    def verification(self, *arguments: str) -> str:
        return self.compose("exec", "-T", "web1", "verification", *arguments)


@pytest.fixture(scope="module")
def docker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Docker]:
    """Install as docs/operator/installation.md says."""
    docker = Docker(tmp_path_factory.mktemp("containers"))
    docker.start()
    try:
        for archive in IMAGES.glob("*.tar"):
            docker.run("load", "--input", str(archive))
        shutil.copytree(DEPLOY, docker.folder, symlinks=True)
        shutil.copytree(DEPLOY, docker.folder / "released", symlinks=True)
        edit(docker.folder / "address.env", "https://reports.example.com", URL)
        env = docker.folder / "verification.env"
        env.write_text(env.read_text().replace("example.com", "acacia.test"))
        secrets = docker.folder / "secrets"
        subprocess.run([docker.folder / "make-secrets", secrets], check=True)
        for file in (secrets, *secrets.iterdir()):
            of_the_database = {"database_password", "superuser_password"}
            of_the_database.add("pgbackrest.conf")
            os.chown(file, 999 if file.name in of_the_database else 10001, -1)
        docker.compose("run", "--rm", "setup")
        docker.start_services()
        yield docker
    finally:
        docker.stop()


@pytest.fixture(scope="module")
def client(docker: Docker) -> Iterator[requests.Session]:
    said = docker.verification("create_workspace", "Acacia", "--owner", "a@acacia.test")
    made = json.loads(said)["workspaceId"]
    key = docker.verification("create_key", made, "--environment", "sandbox")
    with requests.Session() as session:
        session.trust_env = session.verify = False
        session.headers["Authorization"] = f"Bearer {json.loads(key)['key']}"
        yield session


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def order(client: requests.Session) -> str:
    answer = client.post(f"{URL}/api/v1/reports", json=ORDER, timeout=60)
    assert answer.status_code == 201, answer.text
    (report,) = answer.json()["reports"]
    return str(report["id"])


def report(client: requests.Session, id: str) -> dict[str, Any]:
    answer = client.get(f"{URL}/api/v1/reports/{id}", timeout=60)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_image_is_small_and_holds_no_tools(docker: Docker):
    image = f"verification-report-service:{__version__}"
    size = int(docker.run("image", "inspect", "-f", "{{.Size}}", image).stdout)
    tools = "for name in gcc cc strip apt perl pip pip3; do command -v $name; done"
    found = docker.run("run", "--rm", image, "sh", "-c", f"{tools}; true").stdout

    assert size < SMALL
    assert found == ""


def test_container_has_no_rights_and_writes_nothing(docker: Docker):
    look = (
        "id -u; touch /opt/new 2>&1; grep -E '^(CapEff|NoNewPrivs)' /proc/self/status"
    )
    for service in ("web1", "jobs"):
        said = docker.compose("exec", "-T", service, "sh", "-c", look)
        assert said.startswith("10001\n")
        assert "Read-only file system" in said
        assert re.findall(r"\t(\d+)$", said, re.MULTILINE) == ["0" * 16, "1"]


def test_report_is_ordered_checked_and_printed(
    docker: Docker, client: requests.Session
):
    id = order(client)

    until(lambda: report(client, id)["status"] == "READY")
    pdf = client.get(f"{URL}/api/v1/reports/{id}/pdf", timeout=60)
    assert pdf.content.startswith(b"%PDF")
    docker.compose("exec", "-T", "jobs", "verification", "jobs", "--alive")


def test_upgrade_refuses_no_order(docker: Docker, client: requests.Session):
    old, new = (f"verification-report-service:{v}" for v in (__version__, NEXT))
    docker.run("tag", old, new)
    shutil.copytree(DEPLOY, docker.release, symlinks=True)
    edit(docker.release / "compose.yaml", old, new)
    stop, ordered, refused = Event(), list[str](), list[str]()

    def go_on_ordering() -> None:
        while not stop.is_set():
            try:
                ordered.append(order(client))
            except (AssertionError, requests.RequestException) as e:
                refused.append(str(e)[:200])
            # A key may make 600 requests a minute.
            time.sleep(0.25)

    load = Thread(target=go_on_ordering)
    load.start()
    done = subprocess.run(
        [docker.release / "upgrade-containers", docker.folder],
        env=docker.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    stop.set()
    load.join()

    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert refused == []
    assert len(ordered) > 20
    until(lambda: report(client, ordered[-1])["status"] == "READY")
    running = docker.compose("ps", "--format", "{{.Service}} {{.Image}}").splitlines()
    assert {f"{s} {new}" for s in ("web1", "web2", "jobs")} <= set(running)


def test_restore_brings_back_what_the_backup_has(
    docker: Docker, client: requests.Session
):
    kept = order(client)
    until(lambda: report(client, kept)["status"] == "READY")
    before = report(client, kept)
    said = docker.compose("run", "--rm", "backup")
    (name,) = set(re.findall(r"\d{8}T\d{6}Z", said))
    lost = order(client)

    docker.compose("stop", "proxy", "web1", "web2", "jobs")
    database = ("exec", "-T", "database")
    role = ("--username", "verification")
    docker.compose(*database, "dropdb", *role, "verification")
    empty = ("--template", "template0", "--encoding", "UTF8", "verification")
    docker.compose(*database, "createdb", *role, *empty)
    folder = f"/var/backups/verification/{name}"
    docker.compose("run", "--rm", "backup", "verification", "restore", folder)
    docker.start_services()

    assert report(client, kept) == before
    gone = client.get(f"{URL}/api/v1/reports/{lost}", timeout=60)
    assert gone.status_code == 404
    assert order(client)
