import re
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po
from django.conf import settings

from verification.api.problem_kinds import PROBLEM_KINDS

CATALOGUE = Path(settings.BASE_DIR, "verification/api/locale/sw/LC_MESSAGES/django.po")
PAGES = [
    "landing",
    "403",
    "403_network",
    "404",
    "404_file",
    "500",
    "503",
    "503_overloaded",
    "problems/index",
    "problems/detail",
]
MARKED = re.compile(r"""{% translate (?:"([^"]+)"|'([^']+)') %}""")


def messages(catalogue: Catalog) -> dict[str, str]:
    return {str(m.id): str(m.string) for m in catalogue if m.id}


def translations() -> dict[str, str]:
    with CATALOGUE.open("rb") as file:
        return messages(read_po(file))


@pytest.mark.parametrize("page", PAGES)
def test_every_text_of_the_pages_is_translated(page: str) -> None:
    html = Path(settings.BASE_DIR, f"templates/{page}.html").read_text()
    texts = {double or single for double, single in MARKED.findall(html)}

    assert {text for text in texts if not translations().get(text)} == set()


def test_every_text_of_the_problems_is_translated() -> None:
    texts = {
        t for k in PROBLEM_KINDS.values() for t in (k.title, k.explanation, k.way_out)
    }

    assert {text for text in texts if not translations().get(text)} == set()


def test_catalogue_has_no_unused_text() -> None:
    html = "".join(
        Path(settings.BASE_DIR, f"templates/{page}.html").read_text() for page in PAGES
    )
    shown = {double or single for double, single in MARKED.findall(html)}
    shown |= {
        t for k in PROBLEM_KINDS.values() for t in (k.title, k.explanation, k.way_out)
    }

    assert set(translations()) == shown
