"""The README and the other pages: commands work, links lead somewhere."""

import re
from functools import partial
from pathlib import Path

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


def test_example_of_an_order_is_that_of_the_quick_start():
    body = (settings.BASE_DIR / "docs" / "order.json").read_text().strip()

    assert f"-d '{body}'" in COMMANDS[0]
    assert f"-d '{body}'" in read_guide("docs/client/quickstart.md")


def test_make_commands_exist():
    makefile = (settings.BASE_DIR / "Makefile").read_text()

    for page in PAGES:
        for target in re.findall(r"^make (\S+)", read_guide(page), re.MULTILINE):
            assert f"\n{target}:" in makefile, page


def test_links_lead_to_files_and_headings():
    gone = [
        f"{page}: {file}#{heading}"
        for page in PAGES
        for folder in [(settings.BASE_DIR / page).parent]
        for file, heading in LINK.findall(read_guide(page))
        if not (folder / (file or Path(page).name)).exists()
        or (heading and heading not in headings(folder / (file or Path(page).name)))
    ]

    assert gone == []


def test_picture_is_small_and_shown_by_the_readme():
    picture = settings.BASE_DIR / "docs" / "images" / "report.png"

    assert "(docs/images/report.png)" in README
    assert picture.stat().st_size < 150_000
