"""The TypeScript client: built, tested, installed, and its guide followed."""

import json
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest
import requests
from django.conf import settings

from tests.docs.guides import (
    PRINTED_BY_TABS,
    endless_sample,
    offer_packages,
    tab_program,
)
from tests.service.conftest import Client
from tests.world.service import Service, free_port
from tests.world.waiting import until
from verification.api.events import EXAMPLES
from verification.api.examples import CREATE_REQUEST
from webhooks.sender import sign

ROOT = settings.BASE_DIR
SOURCES = ROOT / "clients" / "typescript"
README = (SOURCES / "README.md").read_text()
QUICK_START = re.findall(r"^```ts\n(.*?)^```", README, re.DOTALL | re.MULTILINE)[0]
WEBHOOKS, SECRET = "docs/client/webhooks.md", "correct-horse-battery-staple"
GENERATED = ("node_modules", "dist", "generated")
# What npm says without a network
UNREACHABLE = re.compile(r"ENOTFOUND|EAI_AGAIN|ECONN\w+|ETIMEDOUT|ENETUNREACH|E40\d")


def run(*command: str | Path, cwd: Path, **variables: str) -> str:
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, "NO_UPDATE_NOTIFIER": "1", **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a copy of the sources; return its folder, with `tarballs` in it."""
    work = tmp_path_factory.mktemp("typescript")
    folder = work / "clients" / "typescript"
    shutil.copytree(SOURCES, folder, ignore=shutil.ignore_patterns(*GENERATED))
    (work / "docs").mkdir()
    for name in ("docs/openapi.yaml", "pyproject.toml"):
        shutil.copy(ROOT / name, work / name)
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    build = [folder / "build", folder / "tarballs"]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    if done.returncode and UNREACHABLE.search(done.stderr):
        pytest.skip(f"npm reaches no registry: {done.stderr[-300:]}")
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
    if not (folder / "tarballs").exists():
        pytest.skip("Node is older than 20.19")
    return folder


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_client_passes_its_own_tests(built: Path):
    assert "fail 0" in run("npm", "test", cwd=built)


@pytest.mark.timeout(300)
def test_quick_start_ends_with_a_completed_report(
    built: Path, service: Service, client: Client, tmp_path: Path
):
    install(built, tmp_path)

    assert run_program(QUICK_START, built, service, client, tmp_path) == "READY LOW\n"
    assert len([line for line in QUICK_START.splitlines() if line]) <= 15


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_tabs_of_the_guides_run_as_printed(
    built: Path, service: Service, tmp_path: Path
):
    install(built, tmp_path)
    offer_packages(service)
    client = Client(service, "sandbox")

    for page, expected in PRINTED_BY_TABS.items():
        text = tab_program(page, "ts")
        assert expected in run_program(text, built, service, client, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_receiver_and_follower_of_the_guide_run_as_printed(
    built: Path, service: Service, tmp_path: Path
):
    install(built, tmp_path)
    client, port = Client(service, "sandbox"), free_port()
    receiver = endless_sample(WEBHOOKS, "ts", ".listen(").replace("8080", str(port))
    follower = endless_sample(WEBHOOKS, "ts", ".follow(")

    with running(receiver, built, service, client, tmp_path) as lines:
        until(lambda: is_open(port))
        body = json.dumps(EXAMPLES["report.ready"]).encode()
        answers = [post(port, body, secret) for secret in (SECRET, SECRET, SECRET * 2)]
        assert answers == [204, 204, 400]
        assert lines.readline().startswith("report.ready ")
    client.post("/reports", CREATE_REQUEST)
    with running(follower, built, service, client, tmp_path) as lines:
        assert lines.readline().startswith("report.created ")
        until((tmp_path / "events.cursor").exists)


def is_open(port: int) -> bool:
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0


def post(port: int, body: bytes, secret: str) -> int:
    at = int(time.time())
    headers = {
        "webhook-id": "one",
        "webhook-timestamp": str(at),
        "webhook-signature": sign([secret], "one", at, body),
    }
    return requests.post(
        f"http://127.0.0.1:{port}", body, headers=headers, timeout=60
    ).status_code


def install(built: Path, folder: Path) -> None:
    (tarball,) = (built / "tarballs").glob("verification-reports-*.tgz")
    (folder / "package.json").write_text("{}")
    run("npm", "install", "--silent", "--offline", tarball, cwd=folder)


def run_program(
    text: str, built: Path, service: Service, client: Client, folder: Path
) -> str:
    """Check the types of a program, run it, and return what it prints."""
    write_program(text, built, folder)
    return run("node", "order.mjs", cwd=folder, **variables(service, client))


@contextmanager
def running(
    text: str, built: Path, service: Service, client: Client, folder: Path
) -> Iterator[IO[str]]:
    """Run a program without an end, and yield its output."""
    write_program(text, built, folder)
    with subprocess.Popen(
        ["node", "order.mjs"],
        cwd=folder,
        env={**os.environ, **variables(service, client)},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        try:
            yield process.stdout
        finally:
            process.kill()


def variables(service: Service, client: Client) -> dict[str, str]:
    return {"VERIFICATION_API_KEY": client.key, "VERIFICATION_BASE_URL": service.url}


def write_program(text: str, built: Path, folder: Path) -> None:
    # TypeScript reads the same lines.
    for name in ("order.mjs", "order.mts"):
        (folder / name).write_text(text)
    strict = ["--strict", "--noEmit", "--target", "es2022", "--module", "nodenext"]
    types = ["--types", "node", "--typeRoots", str(built / "node_modules" / "@types")]
    compiler = built / "node_modules" / ".bin" / "tsc"
    assert run(compiler, *strict, *types, "order.mts", cwd=folder) == ""


def test_lock_names_no_address_of_a_registry():
    assert '"resolved"' not in (SOURCES / "package-lock.json").read_text()
