"""The commands, links and picture of the README and of the pages beside it."""

import json
import os
import re
import subprocess
import time
from html import unescape
from pathlib import Path

import pytest
import requests
from django.conf import settings

from tests.world.service import Service

README = (settings.BASE_DIR / "README.md").read_text()
COMMANDS = re.findall(r"^```sh\n(curl .*?)^```", README, re.MULTILINE | re.DOTALL)
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CHANGELOG.md",
    *sorted(f"docs/{page.name}" for page in (settings.BASE_DIR / "docs").glob("*.md")),
]
# A link within the repository: a file, a heading, or both.
LINK = re.compile(r"\]\(((?!https?:)[\w./-]*)(?:#([\w-]+))?\)")


def test_readme_command_orders_a_report_that_becomes_ready(service: Service):
    (order,) = COMMANDS
    key = _test_key(service)

    created = _run(order, service, KEY=key)

    address = f"{service.url}/api/v1/reports/{created['reports'][0]['id']}"
    status, deadline = "", time.monotonic() + 10
    while status != "READY" and time.monotonic() < deadline:
        time.sleep(0.1)
        headers = {"Authorization": f"Bearer {key}"}
        status = requests.get(address, headers=headers, timeout=10).json()["status"]
    assert status == "READY"


def test_the_commands_of_the_documentation_work_as_copied(service: Service, tmp_path):
    html = requests.get(f"{service.url}/docs", timeout=10).text
    commands = {
        name: unescape(text)
        for name, text in re.findall(
            r'data-run="(\w+)"><code>(.*?)</code>', html, re.DOTALL
        )
    }
    key = _test_key(service)

    created = _run(commands["order"], service, KEY=key)
    report_id = created["reports"][0]["id"]
    again = _run(commands["order"], service, KEY=key)
    read = _run(commands["read"], service, KEY=key, REPORT_ID=report_id)
    subjects = _run(commands["subjects"], service, KEY=key)
    problem = _run(commands["problem"], service, KEY=key)
    done = subprocess.run(
        ["bash", "-c", commands["pdf"]],
        env={"KEY": key, "REPORT_ID": report_id, "PATH": os.environ["PATH"]},
        cwd=tmp_path,
        check=False,
    )

    assert again["reports"][0]["id"] == read["id"] == report_id
    assert any("90000003" in str(row) for row in subjects["content"])
    assert (problem["status"], problem["code"]) == (400, "validation-failed")
    assert done.returncode == 0
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")


def test_order_is_the_same_everywhere(service: Service):
    html = unescape(requests.get(f"{service.url}/docs", timeout=10).text)
    body = (settings.BASE_DIR / "docs" / "order.json").read_text().strip()

    assert f"-d '{body}'" in COMMANDS[0]
    assert f"-d '{body}'" in html


@pytest.mark.parametrize("page", PAGES)
def test_make_commands_exist(page: str):
    makefile = (settings.BASE_DIR / "Makefile").read_text()

    for target in re.findall(r"^make (\S+)", _text(page), re.MULTILINE):
        assert f"\n{target}:" in makefile


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files_and_headings(page: str):
    folder = (settings.BASE_DIR / page).parent
    gone = [
        f"{file}#{heading}"
        for file, heading in LINK.findall(_text(page))
        if not (folder / (file or Path(page).name)).exists()
        or (heading and heading not in _headings(folder / (file or Path(page).name)))
    ]

    assert gone == []


def test_picture_is_small_and_shown_by_the_readme():
    picture = settings.BASE_DIR / "docs" / "images" / "report.png"

    assert "(docs/images/report.png)" in README
    assert picture.stat().st_size < 150_000


def test_list_of_decisions_stays_a_list():
    page = _text("docs/decisions.md")
    rows = [line for line in page.splitlines() if line.startswith("| 1")]

    assert len(page.encode()) <= 5_000
    assert all(re.fullmatch(r"\| \d\d-\d\d \| .+[.] \| \[.+\) \|", r) for r in rows)
    assert len(rows) > 30


def _text(page: str) -> str:
    return (settings.BASE_DIR / page).read_text()


def _headings(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", t.lower()).replace(" ", "-") for t in titles}


def _test_key(service: Service) -> str:
    made = json.loads(
        service.manage("create_workspace", "Readme", "--owner", "o@readme.test")
    )
    arguments = ["create_key", made["workspaceId"], "--environment", "sandbox"]
    return json.loads(service.manage(*arguments))["key"]


def _run(command: str, service: Service, **variables: str) -> dict:
    here = command.replace("http://localhost:8000", service.url)
    done = subprocess.run(
        ["bash", "-c", here], env=variables, capture_output=True, check=True
    )
    return json.loads(done.stdout)
