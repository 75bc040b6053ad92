import re
from pathlib import Path

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


def test_catalogue_translates_each_text_and_no_other() -> None:
    html = "".join(
        Path(settings.BASE_DIR, f"templates/{page}.html").read_text() for page in PAGES
    )
    shown = {double or single for double, single in MARKED.findall(html)}
    shown |= {
        t for k in PROBLEM_KINDS.values() for t in (k.title, k.explanation, k.way_out)
    }
    known = translations()

    assert set(known) == shown
    assert {text for text in shown if not known[text]} == set()
