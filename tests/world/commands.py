"""Management commands, run in forks of a process that has loaded Django.

A command alone loads it in two seconds of a processor.
"""

import atexit
import json
import os
import subprocess
import sys
import traceback
from importlib import import_module
from tempfile import TemporaryFile
from typing import IO, Any

import django
from django.conf import settings

from verification.manage import main


class _Loaded:
    """A process that has loaded Django with this environment; it ends with this one."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.environment = environment
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            cwd=settings.BASE_DIR,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        # Not as the process's own, by which tests find the processes of a service.
        self._send(environment)

    def _send(self, value: Any) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(value) + "\n")
        self._process.stdin.flush()

    def run(self, arguments: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
        assert self._process.stdout
        self._send(arguments)
        answer = self._process.stdout.readline()
        assert answer, "the process has ended"
        return subprocess.CompletedProcess(arguments, *json.loads(answer))

    def close(self) -> None:
        self._process.kill()
        # It closes the pipes, too.
        self._process.communicate()


# Those of the last environments: of a service, and of where its backups are restored
_loaded: list[_Loaded] = []
MOST = 2


def run_command(
    environment: dict[str, str], *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Run a management command in a process with this environment."""
    for process in _loaded:
        if process.environment == environment:
            break
    else:
        _close(MOST - 1)
        process = _Loaded(environment)
        _loaded.append(process)
    return process.run(arguments)


@atexit.register
def _close(left: int = 0) -> None:
    while len(_loaded) > left:
        _loaded.pop(0).close()


def _serve() -> None:
    """Read an environment, and answer each line of arguments after it.

    The answer is the command's exit code, its output and its errors.
    """
    os.environ.clear()
    os.environ |= json.loads(sys.stdin.readline())
    django.setup()
    # The checks before most commands read all addresses.
    import_module(settings.ROOT_URLCONF)
    for line in sys.stdin:
        with TemporaryFile("w+") as output, TemporaryFile("w+") as errors:
            child = os.fork()
            if child == 0:
                _run(json.loads(line), output, errors)
            _, status = os.waitpid(child, 0)
            for file in (output, errors):
                file.seek(0)
            code = os.waitstatus_to_exitcode(status)
            answer = json.dumps([code, output.read(), errors.read()])
        sys.stdout.write(answer + "\n")
        sys.stdout.flush()


def _run(arguments: list[str], output: IO[str], errors: IO[str]) -> None:
    """Run a command in this fork, and end it."""
    with open(os.devnull) as nothing:
        for number, file in enumerate((nothing, output, errors)):
            os.dup2(file.fileno(), number)
    sys.argv = ["manage.py", *arguments]
    code = 1
    try:
        main()
        code = 0
    except SystemExit as e:
        if isinstance(e.code, str):
            sys.stderr.write(e.code + "\n")
        else:
            code = e.code or 0
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    _serve()
