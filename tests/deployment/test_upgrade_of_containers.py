"""`deploy/upgrade-containers`, with programs in place of `docker` and `chown`."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.world.web_proxies import DEPLOY
from verification import __version__

pytestmark = pytest.mark.slow

# It logs its arguments, and fails at the command that FAILS names.
DOCKER = """#!/bin/sh
echo "$*" >> "$LOG"
case $* in "$FAILS"*) exit 1 ;; esac
"""
ROLLING = [
    "compose up -d --wait database",
    "compose run --rm --no-deps setup verification migrate",
    "compose up -d jobs",
    "compose up -d --wait --wait-timeout 120 web1",
    "compose up -d --wait --wait-timeout 120 web2",
    "compose up -d proxy",
    "compose up -d --remove-orphans proxy",
]


class Installation:
    """A folder with the files of this version, and the next release beside it."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.folder, self.release = base / "installed", base / "release"
        shutil.copytree(DEPLOY, self.folder)
        shutil.copytree(DEPLOY, self.folder / "released")
        shutil.copytree(DEPLOY, self.release)
        edit(self.release / "compose.yaml", f"service:{__version__}", "service:9.9.9")
        (base / "bin").mkdir()
        for name, text in (("docker", DOCKER), ("chown", "#!/bin/sh\n")):
            (base / "bin" / name).write_text(text)
            (base / "bin" / name).chmod(0o755)

    def upgrade(
        self, fails: str = "nothing"
    ) -> tuple[subprocess.CompletedProcess[str], list[str]]:
        """Run the script; return what it said, and the commands of Docker."""
        return self.run(self.release / "upgrade-containers", self.folder, fails=fails)

    def run(
        self, *command: object, fails: str = "nothing"
    ) -> tuple[subprocess.CompletedProcess[str], list[str]]:
        log = self.base / "log"
        log.write_text("")
        variables = {"LOG": str(log), "FAILS": fails}
        path = f"{self.base / 'bin'}:{os.environ['PATH']}"
        done = subprocess.run(
            [str(part) for part in command],
            cwd=self.folder,
            env={**os.environ, **variables, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        return done, log.read_text().splitlines()


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    return Installation(tmp_path)


def test_upgrade_replaces_one_container_after_the_other(installation: Installation):
    done, commands = installation.upgrade()

    assert done.returncode == 0, done.stderr
    changes = [c for c in commands if re.match("compose (up|run|exec)", c)]
    (reload,) = [c for c in changes if c.startswith("compose exec -T proxy caddy")]
    assert changes[0] == "compose run --rm backup"
    assert changes[1:-2] == [*ROLLING[:-1], reload, ROLLING[-1]]
    assert changes[-2] == "compose run --rm --no-deps setup"
    assert changes[-1].startswith("compose exec -T web2 python")
    assert "9.9.9" in (installation.folder / "compose.yaml").read_text()
    assert __version__ in (installation.folder / "previous/compose.yaml").read_text()


def test_way_back_of_the_page_has_the_former_files_and_reloads_the_proxy(
    installation: Installation,
):
    edit(installation.release / "Caddyfile", "max_size 13MB", "max_size 14MB")
    installation.upgrade()
    page = (DEPLOY.parent / "docs/operator/upgrades.md").read_text()
    block = page.split("To go back, in `/srv/verification`:\n\n```sh\n")[1]

    done, commands = installation.run("sh", "-ec", block.split("```")[0])

    assert done.returncode == 0, done.stderr
    assert "max_size 13MB" in (installation.folder / "Caddyfile").read_text()
    proxy = commands.index("compose up -d jobs proxy")
    assert commands[proxy + 1].startswith("compose exec -T proxy caddy reload ")


@pytest.mark.parametrize("command", ["image", "compose run --rm backup", *ROLLING])
def test_upgrade_stops_at_the_first_error_and_goes_on_later(
    installation: Installation, command: str
):
    stopped, commands = installation.upgrade(fails=command)
    done, later = installation.upgrade()

    assert stopped.returncode == 1
    assert commands[-1].startswith(command)
    assert "upgrade-containers stopped in this step: " in stopped.stderr
    assert done.returncode == 0, done.stderr
    assert [c for c in later if c in ROLLING] == ROLLING
    assert __version__ in (installation.folder / "previous/compose.yaml").read_text()


def test_upgrade_keeps_your_changes_and_takes_those_of_the_release(
    installation: Installation,
):
    example = "https://reports.example.com"
    edit(installation.folder / "address.env", example, "https://reports.acacia.test")
    edit(installation.release / "address.env", "# Hosts of", "# The hosts of")

    done, _ = installation.upgrade()

    text = (installation.folder / "address.env").read_text()
    assert "https://reports.acacia.test" in text
    assert "# The hosts of" in text
    assert "+# The hosts of" in done.stdout


def test_upgrade_begins_nothing_while_a_change_contradicts_yours(
    installation: Installation,
):
    ours, theirs = installation.folder / "Caddyfile", installation.release / "Caddyfile"
    edit(ours, "max_size 13MB", "max_size 20MB")
    edit(theirs, "max_size 13MB", "max_size 14MB")

    stopped, commands = installation.upgrade()
    (advice,) = re.findall(r"run: (.*)", stopped.stderr)
    subprocess.run(["sh", "-ec", advice], check=True)
    done, _ = installation.upgrade()

    assert stopped.returncode == 1
    assert "the same lines of ./Caddyfile" in stopped.stderr
    assert commands == []
    assert done.returncode == 0, done.stderr
    assert "max_size 20MB" in ours.read_text()
