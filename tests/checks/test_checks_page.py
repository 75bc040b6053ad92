from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest

from tests.providers.test_sandbox import ANSWERED, EVERY_CHECK, ask, subject_of
from verification.checks.catalogue import CATALOGUE, Entry
from verification.reports.models import RiskLevel

PAGE = (Path(__file__).parents[2] / "docs" / "client" / "checks.md").read_text("utf-8")


def part_of(entry: Entry) -> str:
    return PAGE.split(f"## {entry.name}\n")[1].split("\n## ")[0]


def names_in(entry: Entry, kind: str) -> list[str]:
    line = re.search(rf"^{kind}: (.+)\.$", part_of(entry), re.MULTILINE)
    return re.findall(r"`(\w+)`", line[1]) if line else []


FLAGS = {
    code: (severity, int(score))
    for code, severity, score in re.findall(
        r"^- `(\w+)`, (\w+), (\d+):", PAGE.split("\n## Flags\n")[1], re.MULTILINE
    )
}


@pytest.mark.parametrize("entry", CATALOGUE, ids=lambda entry: entry.name)
def test_page_lists_output_fields_and_flags_in_order(entry: Entry) -> None:
    fields = PAGE.split("\n## Output fields\n")[1].split("\n## ")[0]

    assert names_in(entry, "Fields") == [*entry.output_fields]
    assert names_in(entry, "Flags") == [*entry.flag_codes]
    explained = "".join(re.findall(r"^- [^:]+:", fields, re.MULTILINE))
    assert {*entry.output_fields} <= {*re.findall(r"`(\w+)`", explained)}
    assert FLAGS.keys() >= set(entry.flag_codes)


def test_page_has_exactly_the_checks_of_the_catalogue() -> None:
    assert re.findall(r"^## ([A-Z_]+)$", PAGE, re.MULTILINE) == [
        e.name for e in CATALOGUE
    ]


def test_severity_of_a_flag_is_the_level_of_its_score() -> None:
    for severity, score in FLAGS.values():
        assert severity == RiskLevel.of(score)


@EVERY_CHECK
def test_sandbox_scores_as_the_page_says(entry: Entry, kind: str) -> None:
    for digit, run in product(ANSWERED, range(20)):
        finding = ask(entry.name, subject_of(kind, digit), reference=f"run-{run}")

        scores = [5, *(FLAGS[flag.code][1] for flag in finding.flags)]
        if credit_score := finding.details.get("creditScore"):
            scores.append(round(100 * (900 - credit_score) / 700))
        assert finding.score == max(scores)
        for flag in finding.flags:
            assert flag.severity == FLAGS[flag.code][0]
