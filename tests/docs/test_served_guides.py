"""The guides and the reference as the service shows them."""

import gzip
import json
import re
import shlex
from functools import cache
from html import unescape

import pytest
from django.conf import settings
from django.test import Client as Browser

from tests.docs.guides import headings
from verification.api.guides import NAMES, guide_path
from verification.api.reference import EXAMPLE_ADDRESS, curl, operations

FOLDER = settings.BASE_DIR / "docs" / "client"
HTML_BYTES = 12 * 1024
SHEETS_AND_SCRIPT = {"console.css": 12, "guides.css": 3, "guides.js": 5}


@cache
def read(path: str) -> str:
    answer = Browser().get(path)
    assert answer.status_code == 200, path
    return answer.content.decode()


def test_every_page_of_the_folder_is_served():
    assert {path.stem for path in FOLDER.glob("*.md")} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_guide_is_small_and_its_links_lead_somewhere(name: str):
    html = read(guide_path(name))

    assert len(gzip.compress(html.encode())) < HTML_BYTES
    ids = re.findall(r' id="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    for path, anchor in set(re.findall(r'href="(/[^"#]*|)(?:#([^"]*))?"', html)):
        if path.startswith(("/console", "/accounts", "/static", "/api")):
            continue
        there = read(path) if path else html
        assert not anchor or f'id="{anchor}"' in there, f"{path}#{anchor}"


@pytest.mark.parametrize("name", NAMES)
def test_guide_is_there_as_markdown_and_listed_for_programs(name: str):
    answer = Browser().get(f"/docs/{name}.md")

    assert answer["Content-Type"] == "text/markdown; charset=utf-8"
    text = answer.content.decode()
    assert "](../" not in text
    assert f"{settings.BASE_URL}/docs/{name}.md" in read("/llms.txt")


def test_anchors_of_a_guide_are_those_of_its_file():
    shown = set(re.findall(r'<h[23] id="([^"]+)"', read("/docs/checks")))

    assert shown == headings(FOLDER / "checks.md") - {"checks"}


def test_languages_of_a_sample_are_tabs():
    html = read("/docs")

    assert re.findall(r'name="sample-1" value="(\w+)"', html) == [
        *("curl", "python", "ts")
    ]
    samples = set(re.findall(r'name="(sample-\d+)"', html))
    assert html.count(" checked") == len(samples)


def test_guide_obeys_the_policy_of_pages_with_a_script():
    policy = Browser().get("/docs")["Content-Security-Policy"]

    assert "script-src 'self'" in policy
    assert "unsafe" not in policy


def test_unknown_guide_and_operation_are_not_found():
    for path in ("/docs/none", "/docs/none.md", "/docs/reference/none"):
        assert Browser().get(path).status_code == 404


def test_former_name_of_the_first_page_leads_to_it():
    assert Browser().get("/docs/quickstart")["Location"] == "/docs"


@pytest.mark.parametrize(
    ("words", "path"),
    [
        ("webhook-signature", "/docs/webhooks#what-arrives"),
        ("NAME_MISMATCH", "/docs/checks#identity"),
        ("create reports", "/docs/reference/createReports"),
        ("insufficient-balance", "/problems/insufficient-balance"),
    ],
)
def test_search_finds_sections_operations_and_problems(words: str, path: str):
    assert f'href="{path}"' in read(f"/docs/search?q={words}")


def test_search_says_that_nothing_has_the_words():
    html = read("/docs/search?q=<b>zzz</b>")

    assert "No page has all of" in html
    assert "<b>zzz" not in html


def test_reference_has_a_page_for_each_operation():
    for each in operations().values():
        html = unescape(read(each.address))

        assert f">{each.title}</h1>" in html
        assert EXAMPLE_ADDRESS not in html
        assert len(gzip.compress(html.encode())) < HTML_BYTES, each.id


def test_example_of_a_problem_names_this_installation():
    html = read("/problems/not-found")

    assert f"&quot;{settings.BASE_URL}/problems/not-found&quot;" in html


def test_reference_is_filtered_by_words():
    html = read("/docs/reference?filter=post+QUOTE")

    assert html.count('href="/docs/reference/quoteReports"') == 2
    assert 'href="/docs/reference/listReports"' not in html


def test_commands_of_the_reference_are_well_formed():
    for each in operations().values():
        if each.method == "event":
            continue
        words = shlex.split(curl(each, "https://verify.example"))

        assert words[0] == "curl"
        if "-d" in words:
            json.loads(words[words.index("-d") + 1])


def test_files_of_the_docs_are_small():
    for name, most in SHEETS_AND_SCRIPT.items():
        (path,) = settings.BASE_DIR.glob(f"verification/*/static/verification/{name}")
        assert len(gzip.compress(path.read_bytes())) < most * 1024, name
