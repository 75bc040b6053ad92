"""The pages of security name existing files, and list all requirements of ASVS."""

import re

from django.conf import settings

FOLDER = settings.BASE_DIR / "docs" / "engineer"
LISTED, OTHERS = (FOLDER / "asvs.md").read_text().split("\n## Does not apply\n")
PAGE = LISTED + OTHERS + (FOLDER / "security.md").read_text()
ROW = re.compile(r"- (\d+)\.(\d+)\.(\d+) [^:]+: .+")
ROWS = [line for line in LISTED.splitlines() if re.match(r"\W*\d+\.\d", line)]
# Only `docs/go-live.md` or `tests/web/test_pages.py::test_x` stands in the ticks.
NAMED = re.compile(r"`([\w./-]+\.(?:html|js|lock|md|py|yaml))(?:::(\w+))?`")
# The number of requirements of levels 1 and 2 in each chapter of ASVS 5.0.0, from V1.
REQUIREMENTS = [27, 11, 19, 10, 9, 35, 18, 7, 7, 29, 14, 9, 13, 9, 13, 16, 7]


def test_each_row_has_number_requirement_and_reason():
    wrong = [row for row in ROWS if not ROW.fullmatch(row)]

    assert wrong == []


def test_chapters_list_each_requirement_once_in_order():
    numbers = [tuple(map(int, ROW.fullmatch(row).groups()[:3])) for row in ROWS]
    others = re.findall(r"\b(\d+)\.(\d+)\.(\d+)\b", OTHERS)
    together = numbers + [tuple(map(int, other)) for other in others]
    chapters = [chapter for chapter, _, _ in together]

    assert numbers == sorted(numbers)
    assert len(together) == len(set(together))
    assert [chapters.count(c) for c in range(1, 18)] == REQUIREMENTS


def test_named_files_and_tests_exist():
    named = NAMED.findall(PAGE)
    gone = [
        f"{path}::{test}"
        for path, test in named
        if not (settings.BASE_DIR / path).is_file()
        or (test and f"def {test}(" not in (settings.BASE_DIR / path).read_text())
    ]

    assert len(named) > 200
    assert gone == []
