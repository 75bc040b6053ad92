"""The TypeScript client: built, tested, installed, and its guide followed."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from django.conf import settings

from tests.docs.guides import PRINTED_BY_TABS, code_blocks
from tests.service.conftest import Client
from tests.world.service import Service

ROOT = settings.BASE_DIR
SOURCES = ROOT / "clients" / "typescript"
README = (SOURCES / "README.md").read_text()
QUICK_START = re.findall(r"^```ts\n(.*?)^```", README, re.DOTALL | re.MULTILINE)[0]
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
    built: Path, service: Service, client: Client, tmp_path: Path
):
    install(built, tmp_path)

    for page, expected in PRINTED_BY_TABS.items():
        text = "\n".join(code_blocks(page, "ts"))
        printed = run_program(text, built, service, client, tmp_path)
        assert printed.startswith(expected)


def install(built: Path, folder: Path) -> None:
    (tarball,) = (built / "tarballs").glob("verification-reports-*.tgz")
    (folder / "package.json").write_text("{}")
    run("npm", "install", "--silent", "--offline", tarball, cwd=folder)


def run_program(
    text: str, built: Path, service: Service, client: Client, folder: Path
) -> str:
    """Check the types of a program, run it, and return what it prints."""
    # TypeScript reads the same lines.
    for name in ("order.mjs", "order.mts"):
        (folder / name).write_text(text)
    strict = ["--strict", "--noEmit", "--target", "es2022", "--module", "nodenext"]
    types = ["--types", "node", "--typeRoots", str(built / "node_modules" / "@types")]
    compiler = built / "node_modules" / ".bin" / "tsc"
    assert run(compiler, *strict, *types, "order.mts", cwd=folder) == ""
    return run(
        "node",
        "order.mjs",
        cwd=folder,
        VERIFICATION_API_KEY=client.key,
        VERIFICATION_BASE_URL=service.url,
    )


def test_lock_names_no_address_of_a_registry():
    assert '"resolved"' not in (SOURCES / "package-lock.json").read_text()
