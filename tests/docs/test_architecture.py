"""`docs/engineer/architecture.md` names existing files, functions and packages."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "engineer" / "architecture.md").read_text("utf-8")
NAMED = re.compile(r"`([\w/]+\.(?:py|md|toml))`(?:[ ]`(\w+)`(?: and `(\w+)`)?)?")
FOLDERS = re.compile(r"`([\w/]+/)`")
TOP = ("docs", "monitoring", "templates", "tests", "webhooks", "workspaces")
PACKAGES = ("verification", "workspaces", "monitoring", "webhooks")


def path_of(name: str) -> Path:
    first = name.split("/")[0]
    return (
        ROOT / name
        if first in TOP or name == "pyproject.toml"
        else (ROOT / "verification" / name)
    )


def names_in(path: Path) -> set[str]:
    found = set()
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
    return found


def test_page_names_existing_files():
    named = {file for file, *_ in NAMED.findall(PAGE)}

    assert {file for file in named if not path_of(file).is_file()} == set()


def test_page_names_existing_functions_and_classes():
    for file, *names in NAMED.findall(PAGE):
        for name in filter(None, names):
            assert name in names_in(path_of(file)), (file, name)


def test_page_names_all_packages():
    rooms = PAGE.split("## Rooms")[1].split("## Layers")[0]
    named = {room for line in rooms.splitlines() for room in FOLDERS.findall(line)[:1]}

    packages = {
        f"{path.parent.name}/" for path in (ROOT / "verification").glob("*/__init__.py")
    } | {"monitoring/", "webhooks/", "workspaces/"}

    assert named == packages
