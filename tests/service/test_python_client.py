"""The Python client and its guide against the running service."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.clients.python_client import SOURCES, install_client
from tests.service.conftest import Client
from tests.world.service import Service

README = (SOURCES / "README.md").read_text()
(QUICK_START,) = re.findall(r"^```python\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with the client."""
    return install_client(tmp_path_factory.mktemp("client"))


@pytest.fixture(scope="module")
def environment(service: Service, client: Client) -> dict[str, str]:
    return {
        "VERIFICATION_API_KEY": client.key,
        "VERIFICATION_BASE_URL": service.url,
        "NO_PROXY": "*",
        "PATH": os.environ["PATH"],
    }


def test_quick_start_ends_with_a_completed_report(
    programs: Path, environment: dict[str, str], tmp_path: Path
):
    (tmp_path / "order.py").write_text(QUICK_START)

    done = subprocess.run(
        [programs / "python", "order.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout == "READY LOW\n", done.stderr
    assert len([line for line in QUICK_START.splitlines() if line]) <= 12
