"""The README and the other pages: commands work, links lead somewhere."""

import os
import re
import subprocess
from functools import partial
from html import unescape
from pathlib import Path

import pytest
import requests
from django.conf import settings

from tests.docs.guides import create_test_key, headings, read_guide, run_command
from tests.world.service import Service
from tests.world.waiting import until

README = (settings.BASE_DIR / "README.md").read_text()
COMMANDS = re.findall(r"^```sh\n(curl .*?)^```", README, re.MULTILINE | re.DOTALL)
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CHANGELOG.md",
    *sorted(map(str, Path("docs").rglob("*.md"))),
]
# A link within the repository: a file, a heading, or both.
LINK = re.compile(r"\]\(((?!https?:)[\w./-]*)(?:#([\w-]+))?\)")


def test_readme_command_orders_a_report_that_becomes_ready(service: Service):
    (order,) = COMMANDS
    key = create_test_key(service)

    created = run_command(order, service, KEY=key)

    address = f"{service.url}/api/v1/reports/{created['reports'][0]['id']}"
    headers = {"Authorization": f"Bearer {key}"}
    read = partial(requests.get, address, headers=headers, timeout=60)
    until(lambda: read().json()["status"] == "READY")


def test_commands_of_the_api_document_work_as_copied(service: Service, tmp_path):
    html = requests.get(f"{service.url}/docs", timeout=60).text
    commands = {
        name: unescape(text)
        for name, text in re.findall(
            r'data-run="(\w+)"><code>(.*?)</code>', html, re.DOTALL
        )
    }
    key = create_test_key(service)

    created = run_command(commands["order"], service, KEY=key)
    report_id = created["reports"][0]["id"]
    other = commands["order"].replace("90000000", "90000003")
    adverse = run_command(other, service, KEY=key)["reports"][0]["id"]
    read = run_command(commands["read"], service, KEY=key, REPORT_ID=report_id)
    subjects = run_command(commands["subjects"], service, KEY=key)
    problem = run_command(commands["problem"], service, KEY=key)
    done = subprocess.run(
        ["bash", "-c", commands["pdf"]],
        env={"KEY": key, "REPORT_ID": report_id, "PATH": os.environ["PATH"]},
        cwd=tmp_path,
        check=False,
    )

    assert read["id"] == report_id != adverse
    assert any("90000003" in str(row) for row in subjects["content"])
    assert (problem["status"], problem["code"]) == (400, "validation-failed")
    assert done.returncode == 0
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")


def test_examples_of_an_order_are_equal(service: Service):
    html = unescape(requests.get(f"{service.url}/docs", timeout=60).text)
    body = (settings.BASE_DIR / "docs" / "order.json").read_text().strip()

    assert f"-d '{body}'" in COMMANDS[0]
    assert f"-d '{body}'" in html


@pytest.mark.parametrize("page", PAGES)
def test_make_commands_exist(page: str):
    makefile = (settings.BASE_DIR / "Makefile").read_text()

    for target in re.findall(r"^make (\S+)", read_guide(page), re.MULTILINE):
        assert f"\n{target}:" in makefile


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files_and_headings(page: str):
    folder = (settings.BASE_DIR / page).parent
    gone = [
        f"{file}#{heading}"
        for file, heading in LINK.findall(read_guide(page))
        if not (folder / (file or Path(page).name)).exists()
        or (heading and heading not in headings(folder / (file or Path(page).name)))
    ]

    assert gone == []


def test_picture_is_small_and_shown_by_the_readme():
    picture = settings.BASE_DIR / "docs" / "images" / "report.png"

    assert "(docs/images/report.png)" in README
    assert picture.stat().st_size < 150_000
