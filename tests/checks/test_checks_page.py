from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.providers.test_sandbox import EVERY_CHECK, ask, subject_of
from verification.checks.catalogue import CATALOGUE, Entry
from verification.reports.models import RiskLevel

PAGE = (Path(__file__).parents[2] / "docs" / "client" / "checks.md").read_text("utf-8")


def part_of(entry: Entry) -> str:
    return PAGE.split(f"## {entry.name}\n")[1].split("\n## ")[0]


def flags_of(entry: Entry) -> dict[str, tuple[str, int]]:
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (\d+) \|", part_of(entry), re.MULTILINE)
    return {code: (severity, int(score)) for code, severity, score in rows}


@pytest.mark.parametrize("entry", CATALOGUE, ids=lambda entry: entry.name)
def test_page_lists_output_fields_and_flags_in_order(entry: Entry) -> None:
    rows = re.findall(r"^\| `(\w+)` \|", part_of(entry), re.MULTILINE)

    assert rows == [*entry.output_fields, *entry.flag_codes]
    assert list(flags_of(entry)) == entry.flag_codes


def test_page_has_exactly_the_checks_of_the_catalogue() -> None:
    assert re.findall(r"^## ([A-Z_]+)$", PAGE, re.MULTILINE) == [
        e.name for e in CATALOGUE
    ]


def test_severity_of_a_flag_is_the_level_of_its_score() -> None:
    for entry in CATALOGUE:
        for severity, score in flags_of(entry).values():
            assert severity == RiskLevel.of(score)


@pytest.mark.parametrize("digit", [0, 1, 2, 3, 7])
@EVERY_CHECK
def test_sandbox_scores_as_the_page_says(entry: Entry, kind: str, digit: int) -> None:
    said = flags_of(entry)

    for run in range(20):
        finding = ask(entry.name, subject_of(kind, digit), reference=f"run-{run}")

        scores = [5, *(said[flag.code][1] for flag in finding.flags)]
        if credit_score := finding.details.get("creditScore"):
            scores.append(round(100 * (900 - credit_score) / 700))
        assert finding.score == max(scores)
        for flag in finding.flags:
            assert flag.severity == said[flag.code][0]
