"""Static files: caching in browsers, and compression."""

import gzip
import re
from pathlib import Path
from typing import Any

import pytest
from django.contrib.staticfiles import finders
from django.templatetags.static import static
from django.test import Client

from verification.web import static_files

pytestmark = pytest.mark.django_db
CSS = "verification/hosted.css"
GZIP = {"Accept-Encoding": "gzip"}


def body(response: Any) -> bytes:
    content = b"".join(response) if response.streaming else response.content
    response.close()
    return content


@pytest.mark.parametrize("debug", [True, False])
def test_stylesheet_of_a_page_is_cached_for_a_year(
    client: Client, settings: Any, debug: bool
) -> None:
    settings.DEBUG = settings.WHITENOISE_AUTOREFRESH = debug
    page = client.get("/").content.decode()
    address = re.search(r'href="(/static/[^"]+hosted\.css)"', page)
    assert address

    response = client.get(address[1])

    assert response.status_code == 200
    assert response["Cache-Control"] == "public, max-age=31536000, immutable"
    assert response["Content-Type"].startswith("text/css")
    assert body(response) == Path(finders.find(CSS)).read_bytes()


def test_address_changes_with_the_content(monkeypatch: Any, tmp_path: Path) -> None:
    file = tmp_path / "a.css"
    monkeypatch.setattr(static_files, "_find_path", lambda name: str(file))
    file.write_text("a { }")
    before = static("a.css")
    file.write_text("a { color: red }")

    assert static("a.css") != before
    assert re.fullmatch(r"/static/v-[0-9a-f]{16}/a\.css", before)


@pytest.mark.parametrize("address", [f"/static/v-{'0' * 16}/{CSS}", f"/static/{CSS}"])
def test_file_at_an_old_address_is_served_without_caching(
    client: Client, address: str
) -> None:
    response = client.get(address)

    assert response.status_code == 200
    assert "immutable" not in response["Cache-Control"]
    response.close()


@pytest.mark.parametrize(
    "name", ["none.css", f"v-{'0' * 16}/none.css", "../urls.py", "", "verification/"]
)
def test_other_files_are_not_found(client: Client, name: str) -> None:
    assert client.get(f"/static/{name}").status_code == 404
    assert client.get(f"/static/v-{'0' * 16}/{name}").status_code == 404


def test_stylesheets_and_pages_are_compressed(client: Client) -> None:
    for address in (static(CSS), "/problems/", "/api/v1/schema", "/docs"):
        plain = body(client.get(address))
        response = client.get(address, headers=GZIP)

        assert response["Content-Encoding"] == "gzip", address
        assert "Accept-Encoding" in response["Vary"]
        compressed = body(response)
        assert len(compressed) < len(plain)
        assert gzip.decompress(compressed) == plain


def test_unchanged_file_is_not_sent_again(client: Client) -> None:
    first = client.get(f"/static/{CSS}", headers=GZIP)
    tag = first["ETag"]
    first.close()

    again = client.get(f"/static/{CSS}", headers={**GZIP, "If-None-Match": tag})

    assert again.status_code == 304
    assert body(again) == b""


def test_part_of_a_file_is_not_compressed(client: Client) -> None:
    response = client.get(static(CSS), headers={**GZIP, "Range": "bytes=0-999"})

    assert response.status_code == 206
    assert "Content-Encoding" not in response
    assert len(body(response)) == 1000


def test_calls_with_a_key_are_not_compressed(client: Client) -> None:
    headers = {**GZIP, "Authorization": "Bearer x"}

    assert "Content-Encoding" not in client.get("/api/v1/schema", headers=headers)
