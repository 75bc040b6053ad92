from typing import Any

import pytest

from monitoring.changes import find_changes, message_of, title_of


def said(level: str = "LOW", flags: Any = (), **details: Any) -> dict[str, Any]:
    return {"riskLevel": level, "flags": dict(flags), "details": details}


def severities(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    return [change.severity.value for change in find_changes("IDENTITY", old, new)]


@pytest.mark.parametrize(
    ("old", "new", "severity"),
    [
        ("LOW", "HIGH", "CRITICAL"),
        ("MEDIUM", "HIGH", "CRITICAL"),
        ("UNKNOWN", "HIGH", "CRITICAL"),
        ("LOW", "MEDIUM", "WARNING"),
        ("UNKNOWN", "MEDIUM", "WARNING"),
        ("HIGH", "MEDIUM", "INFO"),
        ("HIGH", "LOW", "INFO"),
        ("HIGH", "UNKNOWN", "INFO"),
        ("UNKNOWN", "LOW", "INFO"),
        ("LOW", "UNKNOWN", "INFO"),
    ],
)
def test_a_level_is_as_grave_as_where_it_went(old, new, severity):
    assert severities(said(old), said(new)) == [severity]


@pytest.mark.parametrize(
    ("old", "new", "severity"),
    [
        ({}, {"DECEASED": "HIGH"}, "CRITICAL"),
        ({}, {"NAME_MISMATCH": "MEDIUM"}, "WARNING"),
        ({}, {"NAME_MISMATCH": "LOW"}, "WARNING"),
        ({"NAME_MISMATCH": "LOW"}, {"NAME_MISMATCH": "HIGH"}, "CRITICAL"),
        ({"NAME_MISMATCH": "LOW"}, {"NAME_MISMATCH": "MEDIUM"}, "WARNING"),
        ({"NAME_MISMATCH": "HIGH"}, {"NAME_MISMATCH": "LOW"}, "INFO"),
        ({"NAME_MISMATCH": "HIGH"}, {}, "INFO"),
        ({"DECEASED": "HIGH"}, {"NAME_MISMATCH": "LOW"}, "WARNING"),
    ],
)
def test_a_flag_is_as_grave_as_what_appeared(old, new, severity):
    assert severities(said(flags=old), said(flags=new)) == [severity]


def test_another_value_of_a_field_is_for_information():
    (change,) = find_changes("IDENTITY", said(status="ACTIVE"), said(status="CLOSED"))

    assert change.as_json() == {
        "checkName": "IDENTITY",
        "field": "details.status",
        "old": "ACTIVE",
        "new": "CLOSED",
    }
    assert change.severity == "INFO"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (["a", "b"], ["b", "a"]),
        ([{"a": 1}, {"b": [1, 2]}], [{"b": [2, 1]}, {"a": 1}]),
        ([1, "1", None, 2.5], ["1", 2.5, 1, None]),
        ({"x": [1, 2]}, {"x": [2, 1]}),
    ],
)
def test_what_comes_in_another_order_is_no_change(old, new):
    assert find_changes("IDENTITY", said(found=old), said(found=new)) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [(["a"], ["a", "a"]), (["a"], []), ([], None), ([[1], [2]], [[1, 2]])],
)
def test_other_members_of_a_list_are_a_change(old, new):
    assert severities(said(found=old), said(found=new)) == ["INFO"]


def test_a_field_that_was_added_to_the_definition_or_taken_from_it_is_no_change():
    assert find_changes("IDENTITY", said(gone=1), said(added=2)) == []


def test_flags_are_listed_with_how_grave_they_are():
    old, new = said(flags={"B": "LOW", "A": "HIGH"}), said(flags={"B": "MEDIUM"})

    (change,) = find_changes("IDENTITY", old, new)

    assert change.old == [
        {"code": "A", "severity": "HIGH"},
        {"code": "B", "severity": "LOW"},
    ]
    assert change.new == [{"code": "B", "severity": "MEDIUM"}]


def test_title_and_message_say_what_changed_and_no_values_of_fields():
    old = said("LOW", {"OLD": "LOW"}, name="Wanjiku", phone="0711")
    changes = find_changes(
        "IDENTITY", old, said("HIGH", {"NEW": "HIGH"}, name="Atieno")
    )
    changes += find_changes("KRA_PIN", said(pin="A1"), said(pin="A2"))

    assert title_of(changes[:3]) == "IDENTITY: risk level changed"
    assert title_of(changes) == "2 checks changed"
    assert message_of(changes) == (
        "IDENTITY: risk level went from LOW to HIGH; new flag NEW; flag OLD gone; "
        "other values of name. KRA_PIN: other values of pin."
    )


def test_a_flag_that_is_graver_is_told_in_words():
    changes = find_changes(
        "IDENTITY", said(flags={"A": "LOW"}), said(flags={"A": "HIGH"})
    )
    assert message_of(changes) == "IDENTITY: a flag is graver or less grave."


def test_a_message_of_very_many_changes_fits_its_column():
    old = said(**{f"field{number}": 1 for number in range(500)})
    new = said(**{f"field{number}": 2 for number in range(500)})

    changes = find_changes("IDENTITY", old, new)

    assert len(changes) == 500
    assert len(message_of(changes)) == 1000
    assert len(title_of(changes)) <= 200
