"""What `docs/security.md` names is there, and its list is whole."""

import re

from django.conf import settings

PAGE = (settings.BASE_DIR / "docs" / "security.md").read_text()
ROW = re.compile(r"\| (\d+)\.(\d+)\.(\d+) \| [^|]+ \| ([^|]+) \| [^|]+ \|")
ROWS = [line for line in PAGE.splitlines() if re.match(r"\| \d", line)]
# `docs/go-live.md` or `tests/web/test_pages.py::test_x`, and in the same ticks no more.
NAMED = re.compile(r"`([\w./-]+\.(?:html|js|lock|md|py|yaml))(?:::(\w+))?`")
STATES = {"yes", "no", "n.a.", "operator"}
# How many requirements of levels 1 and 2 each chapter of ASVS 5.0.0 has, from V1 on.
REQUIREMENTS = [27, 11, 19, 10, 9, 35, 18, 7, 7, 29, 14, 9, 13, 9, 13, 16, 7]


def test_every_row_has_a_number_a_state_and_a_reason():
    wrong = [r for r in ROWS if not (m := ROW.fullmatch(r)) or m[4] not in STATES]

    assert wrong == []


def test_every_requirement_of_a_chapter_is_there_once_and_in_order():
    numbers = [tuple(map(int, ROW.fullmatch(row).groups()[:3])) for row in ROWS]
    chapters = [chapter for chapter, _, _ in numbers]

    assert numbers == sorted(set(numbers))
    assert [chapters.count(c) for c in range(1, 18)] == REQUIREMENTS


def test_every_file_and_test_that_is_named_exists():
    named = NAMED.findall(PAGE)
    gone = [
        f"{path}::{test}"
        for path, test in named
        if not (settings.BASE_DIR / path).is_file()
        or (test and f"def {test}(" not in (settings.BASE_DIR / path).read_text())
    ]

    assert len(named) > 200
    assert gone == []


def test_every_link_leads_to_a_heading():
    gone = [
        f"{page}#{heading}"
        for page, heading in re.findall(r"\]\(([\w.-]*\.md)?(?:#([\w-]+))?\)", PAGE)
        if heading and heading not in _headings(page or "security.md")
    ]

    assert gone == []


def _headings(page: str) -> set[str]:
    text = (settings.BASE_DIR / "docs" / page).read_text()
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", t.lower()).replace(" ", "-") for t in titles}
