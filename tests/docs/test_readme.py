"""The commands of the README, run as they stand there."""

import json
import os
import re
import subprocess
import time
from html import unescape

import requests
from django.conf import settings

from tests.live import Service

README = (settings.BASE_DIR / "README.md").read_text()
COMMANDS = re.findall(r"^```sh\n(curl .*?)^```", README, re.MULTILINE | re.DOTALL)


def test_the_curl_commands_order_a_report_and_read_it_ready(service: Service):
    order, read = COMMANDS
    key = _test_key(service)

    created = _run(order, service, KEY=key)
    report_id = created["reports"][0]["id"]

    report = _run(read, service, KEY=key, REPORT_ID=report_id)
    deadline = time.monotonic() + 10
    while report["status"] != "READY" and time.monotonic() < deadline:
        time.sleep(0.1)
        report = _run(read, service, KEY=key, REPORT_ID=report_id)
    assert report["status"] == "READY"


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


def test_the_make_commands_of_the_readme_exist():
    makefile = (settings.BASE_DIR / "Makefile").read_text()

    for target in re.findall(r"^make (\S+)", README, re.MULTILINE):
        assert f"\n{target}:" in makefile


def test_every_page_that_the_readme_links_is_there():
    for page in re.findall(r"\]\((docs/[^)#]+)[^)]*\)", README):
        assert (settings.BASE_DIR / page).exists(), page


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
