"""The page that offers the clients, and its files."""

from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.test import Client as Browser

LOCK = Path(settings.BASE_DIR) / "clients/typescript/package-lock.json"
WHEEL = "verification_reports-1.1.0-py3-none-any.whl"


@pytest.fixture
def folder(settings: Any, tmp_path: Path) -> Path:
    settings.CLIENTS_DIR = tmp_path
    return tmp_path


def test_page_offers_the_clients_that_are_built(folder: Path, settings: Any):
    (folder / WHEEL).write_bytes(b"wheel")

    html = Browser().get("/docs/clients").content.decode()
    answer = Browser().get(f"/docs/clients/{WHEEL}")

    assert f"pip install {settings.BASE_URL}/docs/clients/{WHEEL}" in html
    assert "npm install" not in html
    assert b"".join(answer) == b"wheel"
    assert answer["Content-Disposition"] == f'attachment; filename="{WHEEL}"'


@pytest.mark.usefixtures("folder")
def test_page_says_how_the_clients_are_built():
    html = Browser().get("/docs/clients").content.decode()

    assert html.count("make clients") == 2


@pytest.mark.parametrize("name", ["secret.txt", "..%2Fsecret.whl", "other.whl"])
def test_other_files_are_not_offered(folder: Path, name: str):
    (folder / "secret.txt").write_text("secret")
    (folder.parent / "secret.whl").write_text("secret")

    assert Browser().get(f"/docs/clients/{name}").status_code == 404


def test_lock_of_the_typescript_client_names_no_registry():
    assert '"resolved"' not in LOCK.read_text()
