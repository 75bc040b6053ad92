"""The Python client, generated once for each state of its sources."""

import fcntl
import runpy
import shutil
import subprocess
import sys
import sysconfig
from hashlib import sha256
from pathlib import Path

from django.conf import settings

ROOT = settings.BASE_DIR
SOURCES = ROOT / "clients" / "python"
GENERATED = ROOT / ".data" / "clients"


def generate_client() -> Path:
    """Return the folder with the package; other workers wait for the first one."""
    folder = GENERATED / _digest()
    GENERATED.mkdir(parents=True, exist_ok=True)
    with (GENERATED / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            for old in GENERATED.glob("*/"):
                shutil.rmtree(old)
            work = GENERATED / "work"
            build = runpy.run_path(str(SOURCES / "build.py"))
            build["generate_package"](work)
            work.rename(folder)
    return folder


def _digest() -> str:
    names = ["docs/openapi.yaml", "pyproject.toml", "requirements-dev.lock"]
    files = [path for path in SOURCES.rglob("*") if path.suffix in {".py", ".jinja"}]
    found = sha256()
    for path in sorted([*files, *(ROOT / name for name in names)]):
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


def install_client(folder: Path) -> Path:
    """Build the wheel, install it into an empty environment, return its `bin`.

    The dependencies are those of the tests, which the lock compares.
    """
    wheels, environment = folder / "wheels", folder / "environment"
    build = [sys.executable, str(SOURCES / "build.py"), str(wheels)]
    subprocess.run(build, check=True, capture_output=True)
    venv = [sys.executable, "-m", "venv", "--without-pip", str(environment)]
    subprocess.run(venv, check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(environment / "bin/python")]
    install = ["install", "--quiet", "--no-deps", "--no-index"]
    (wheel,) = wheels.glob("*.whl")
    subprocess.run([*pip, *install, str(wheel)], check=True, capture_output=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "tests.pth").write_text(sysconfig.get_path("purelib"))
    return environment / "bin"
