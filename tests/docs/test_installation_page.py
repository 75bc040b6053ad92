"""The commands of `docs/operator/installation.md` that need no new machine."""

import json
import re
import subprocess
import time
from pathlib import Path

import requests
from django.conf import settings
from django.core.management import get_commands

from tests.docs.guides import read_guide
from tests.world.service import Service

PAGE = read_guide("docs/operator/installation.md")
BLOCKS = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
SANDBOX, LIVE = (block for block in BLOCKS if "curl $BASE_URL/api" in block)
SOURCE = re.compile(r"verification_report_service-[\d.]+/([\w./-]+)")
# What the page's machine has and the test's has not.
STANDINS = """
verification() { (cd "$ROOT" && "$PYTHON" manage.py "$@"); }
sleep() { :; }
"""


def run_blocks(service: Service, folder: Path, *blocks: str) -> list[dict]:
    """Run blocks in one shell, and return what its calls of the API answered."""
    (folder / "env").write_text(f"BASE_URL={service.url}\n")
    page = "\n".join(blocks).replace("/etc/verification/address.env", "$ENV_FILE")
    page = SOURCE.sub(r"$ROOT/\1", page).replace("curl ", "curl -s -w '\\n' ")
    done = subprocess.run(
        ["bash", "-ec", STANDINS + page],
        env={
            **service.environment,
            "DATABASE_URL": service.database_url,
            "ROOT": str(settings.BASE_DIR),
            "PYTHON": str(settings.BASE_DIR / ".venv/bin/python"),
            "ENV_FILE": str(folder / "env"),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines() if line[:1] == "{"]


def test_orders_of_the_page_work_as_far_as_sources_exist(
    service: Service, tmp_path: Path
):
    show_key = 'printf \'{"key": "%s"}\\n\' "$TEST_KEY"'
    made, _, topped_up, refused, none, shown = run_blocks(
        service, tmp_path, SANDBOX, LIVE, show_key
    )

    address = f"{service.url}/api/v1/reports/{made['reports'][0]['id']}"
    headers = {"Authorization": f"Bearer {shown['key']}"}
    deadline = time.monotonic() + 90
    status = ""
    while status != "READY":
        assert time.monotonic() < deadline
        status = requests.get(address, headers=headers, timeout=60).json()["status"]
        time.sleep(0.2)
    assert topped_up["balance"] == 1000
    # The live order lacks nothing but a source.
    assert [error["code"] for error in refused["errors"]] == ["check-not-available"]
    assert none["totalElements"] == 0


def test_page_names_existing_files_and_commands():
    files = {name for block in BLOCKS for name in SOURCE.findall(block)}
    systemctl = " ".join(re.findall(r"^systemctl .*", "".join(BLOCKS), re.MULTILINE))
    units = re.findall(r"verification-[a-z-]+@?(?:\.timer)?", systemctl)
    commands = re.findall(
        r"^(?:.*\$\()?verification (\w+)", "".join(BLOCKS), re.MULTILINE
    )
    folder = settings.BASE_DIR / "deploy" / "systemd"

    assert "deploy/make-secrets" in files
    assert {n for n in files if not (settings.BASE_DIR / n).exists()} == set()
    assert set(commands) - get_commands().keys() == set()
    assert len(set(commands)) > 6
    assert len(units) > 6
    for unit in units:
        name = unit if "." in unit else f"{unit}.service"
        assert (folder / name).exists(), unit
