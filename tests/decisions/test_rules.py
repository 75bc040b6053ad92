"""The rules of a policy, as a pure function over stored findings."""

from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from tests.world.policies import condition, rule
from verification.checks.catalogue import CATALOGUE
from verification.decisions.reason_codes import FIRST_CODES
from verification.decisions.rules import (
    HINTS,
    NUMBERS,
    CheckFacts,
    Facts,
    Outcome,
    contradictions,
    evaluate,
    is_about,
    read_rules,
    suggestions,
    write_rules,
)

LOW = CheckFacts("COMPLETED", 10)
HIGH = CheckFacts("COMPLETED", 90, frozenset({"DECEASED"}))
FAILED = CheckFacts("FAILED")
UNSCORED = CheckFacts("COMPLETED", is_whole=False)
# The score is of the flag; the source left something else open.
PARTIAL = CheckFacts("COMPLETED", 35, frozenset({"PAST_DELINQUENCY"}), is_whole=False)
DECLINE = rule("DECLINED", condition("score", "AT_LEAST", 70), codes=["A_CODE"])
APPROVE = rule("APPROVED", condition("score", "BELOW", 30))


def facts(package: str | None = None, **checks: CheckFacts) -> Facts:
    scores = [one.score for one in checks.values() if one.score is not None]
    return Facts(max(scores, default=None), package, checks)


def outcome(stored: Facts, *rules: dict[str, Any]) -> Outcome:
    return evaluate(read_rules(list(rules)), stored)


def answer(stored: Facts, **members: Any) -> str:
    """Return whether a condition holds: "yes", "no" or "unknown"."""
    asked = condition(**members)
    got = outcome(stored, rule("APPROVED", asked))
    if got.unanswered:
        return "unknown"
    return "yes" if got.rule else "no"


@pytest.mark.parametrize(
    ("code", "checks", "expected"),
    [
        ("IDENTITY_NOT_FOUND", {"IDENTITY": LOW}, ["IDENTITY"]),
        ("IDENTITY_NOT_FOUND", {"IDENTITY": HIGH}, ["IDENTITY"]),
        ("IDENTITY_MISMATCH", {"IDENTITY": HIGH}, ["IDENTITY"]),
        ("RECORDED_AS_DECEASED", {"IDENTITY": HIGH}, None),
        # No check that could tell was completed.
        ("IDENTITY_NOT_FOUND", {"IDENTITY": FAILED, "KRA_PIN": LOW}, None),
        ("ADVERSE_CREDIT", {"CRB_SCORE": LOW}, None),
        ("ADVERSE_CREDIT", {"CRB_FULL": LOW}, ["CRB_FULL"]),
        ("INSUFFICIENT_INFORMATION", {"IDENTITY": LOW}, ["IDENTITY"]),
        ("INSUFFICIENT_INFORMATION", {"IDENTITY": LOW, "KRA_PIN": FAILED}, None),
        ("INSUFFICIENT_INFORMATION", {"IDENTITY": LOW, "KRA_PIN": UNSCORED}, None),
        ("INSUFFICIENT_INFORMATION", {"IDENTITY": LOW, "CRB_FULL": PARTIAL}, None),
        ("CONSENT_NOT_GIVEN", {"IDENTITY": FAILED}, ["IDENTITY"]),
        ("OWN_CRITERIA", {"IDENTITY": LOW}, None),
    ],
)
def test_findings_contradict_reasons(code, checks, expected):
    assert contradictions([code], facts(**checks)).get(code) == expected


def flagged(*flags: str) -> CheckFacts:
    return CheckFacts("COMPLETED", 60, frozenset(flags))


@pytest.mark.parametrize(
    ("checks", "expected"),
    [
        ({"IDENTITY": LOW}, []),
        ({"IDENTITY": flagged("NAME_MISMATCH")}, ["IDENTITY_MISMATCH"]),
        # The narrower reason says more.
        ({"IDENTITY": flagged("ID_NOT_FOUND")}, ["IDENTITY_NOT_FOUND"]),
        ({"IDENTITY": flagged("DECEASED")}, ["RECORDED_AS_DECEASED"]),
        ({"CRB_FULL": flagged("LOW_CREDIT_SCORE")}, ["CREDIT_SCORE_TOO_LOW"]),
        ({"CRB_FULL": flagged("FRAUD_ALERT")}, ["ADVERSE_CREDIT"]),
        ({"KRA_PIN": flagged("NAME_MISMATCH")}, ["TAX_PIN_MISMATCH"]),
        ({"IDENTITY": LOW, "KRA_PIN": FAILED}, ["INSUFFICIENT_INFORMATION"]),
        ({"IDENTITY": LOW, "KRA_PIN": UNSCORED}, ["INSUFFICIENT_INFORMATION"]),
    ],
)
def test_findings_suggest_reasons(checks, expected):
    assert suggestions(sorted(FIRST_CODES), facts(**checks)) == expected


@pytest.mark.parametrize("check", CATALOGUE, ids=lambda check: check.name)
def test_no_suggested_reason_is_contradicted(check):
    for flag in check.flag_codes:
        found = facts(**{check.name: flagged(flag)})
        codes = suggestions(sorted(FIRST_CODES), found)
        assert contradictions(codes, found) == {}


@pytest.mark.parametrize(
    ("code", "subjects"),
    [
        ("IDENTITY_NOT_FOUND", ["INDIVIDUAL"]),
        ("COMPANY_NOT_ACTIVE", ["COMPANY"]),
        ("TAX_PIN_MISMATCH", ["INDIVIDUAL", "COMPANY"]),
        ("OWN_CRITERIA", ["INDIVIDUAL", "COMPANY"]),
        ("A_CODE_OF_THE_WORKSPACE", ["INDIVIDUAL", "COMPANY"]),
    ],
)
def test_reason_is_about_subjects_of_its_checks(code, subjects):
    checked = {entry.name: entry.subject_types for entry in CATALOGUE}

    found = [one for one in ("INDIVIDUAL", "COMPANY") if is_about(code, one, checked)]

    assert found == subjects


def test_claims_of_reasons_are_those_of_the_catalogue():
    flags = {entry.name: set(entry.flag_codes) for entry in CATALOGUE}
    for code, (checks, supporting) in HINTS.items():
        assert code in FIRST_CODES
        assert supporting == {one for c in checks for one in flags[c] & supporting}


def test_first_rule_that_matches_decides():
    first = rule("REVIEW", condition("level", "IS", "HIGH"))

    got = outcome(facts(IDENTITY=HIGH), APPROVE, first, DECLINE)

    assert got == Outcome("REVIEW", (), 2, ())


def test_no_match_is_a_review():
    assert outcome(facts(IDENTITY=CheckFacts("COMPLETED", 50)), APPROVE, DECLINE) == (
        Outcome("REVIEW")
    )
    assert outcome(facts(IDENTITY=LOW)) == Outcome("REVIEW")


def test_all_conditions_of_a_rule_have_to_hold():
    both = rule(
        "APPROVED",
        condition("score", "BELOW", 30),
        condition("package", "IS", "loan"),
    )

    assert outcome(facts("loan", IDENTITY=LOW), both).status == "APPROVED"
    assert outcome(facts("rent", IDENTITY=LOW), both).status == "REVIEW"


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"fact": "score", "comparison": "AT_LEAST", "value": 90}, "yes"),
        ({"fact": "score", "comparison": "BELOW", "value": 90}, "no"),
        ({"fact": "level", "comparison": "IS", "value": "HIGH"}, "yes"),
        ({"fact": "level", "comparison": "IS_NOT", "value": "HIGH"}, "no"),
        ({"fact": "flag", "comparison": "IS", "value": "DECEASED"}, "yes"),
        ({"fact": "flag", "comparison": "IS", "value": "DOB_MISMATCH"}, "no"),
        ({"fact": "package", "comparison": "IS", "value": "loan"}, "no"),
        ({"fact": "package", "comparison": "IS_NOT", "value": "loan"}, "yes"),
    ],
)
def test_report_answers_conditions_about_it(members, expected):
    stored = facts(IDENTITY=HIGH, KRA_PIN=LOW)

    assert answer(stored, **members) == expected


@pytest.mark.parametrize(
    ("check", "members", "expected"),
    [
        ("KRA_PIN", ("score", "BELOW", 30), "yes"),
        ("KRA_PIN", ("level", "IS", "LOW"), "yes"),
        ("KRA_PIN", ("level", "IS", "HIGH"), "no"),
        ("KRA_PIN", ("flag", "IS_NOT", "PIN_INACTIVE"), "yes"),
        ("KRA_PIN", ("state", "IS", "COMPLETED"), "yes"),
        ("IDENTITY", ("score", "BELOW", 30), "unknown"),
        ("IDENTITY", ("flag", "IS_NOT", "DECEASED"), "unknown"),
        ("IDENTITY", ("state", "IS", "FAILED"), "yes"),
        ("AML_SCREENING", ("state", "IS", "FAILED"), "unknown"),
        ("AML_SCREENING", ("state", "IS_NOT", "COMPLETED"), "unknown"),
        ("CRB_SCORE", ("creditScore", "BELOW", 400), "unknown"),
        ("CRB_SCORE", ("state", "IS", "MISSING"), "yes"),
        ("CRB_SCORE", ("state", "IS_NOT", "COMPLETED"), "yes"),
    ],
)
def test_check_answers_conditions_about_it(check, members, expected):
    cancelled = CheckFacts("CANCELLED")
    stored = facts(IDENTITY=FAILED, KRA_PIN=LOW, AML_SCREENING=cancelled)
    fact, comparison, value = members

    asked = {"fact": fact, "comparison": comparison, "value": value}
    assert answer(stored, check=check, **asked) == expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [(399, "yes"), (400, "no"), (None, "unknown"), ("399", "unknown")],
)
def test_number_of_a_finding_is_compared(found, expected):
    scored = CheckFacts("COMPLETED", 10, numbers={"creditScore": found})
    asked = {"fact": "creditScore", "comparison": "BELOW", "value": 400}

    assert answer(facts(CRB_SCORE=scored), check="CRB_SCORE", **asked) == expected


@pytest.mark.parametrize("fact", ["totalBalance", "totalOverdue"])
@pytest.mark.parametrize(
    ("currency", "expected"), [("KES", "yes"), ("USD", "unknown"), (None, "unknown")]
)
def test_amount_in_another_currency_is_not_compared(fact, currency, expected):
    numbers = {fact: 500, "currency": currency}
    scored = CheckFacts("COMPLETED", 10, numbers=numbers)
    asked = {"fact": fact, "comparison": "BELOW", "value": 1000}

    assert answer(facts(CRB_FULL=scored), check="CRB_FULL", **asked) == expected


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        # What is missing could be worse than what is known, and not better.
        ({"fact": "score", "comparison": "BELOW", "value": 30}, "unknown"),
        ({"fact": "score", "comparison": "AT_LEAST", "value": 5}, "yes"),
        ({"fact": "level", "comparison": "IS", "value": "LOW"}, "unknown"),
        ({"fact": "level", "comparison": "IS_NOT", "value": "HIGH"}, "unknown"),
        ({"fact": "flag", "comparison": "IS_NOT", "value": "DECEASED"}, "unknown"),
    ],
)
def test_failed_check_leaves_the_report_open(members, expected):
    assert answer(facts(IDENTITY=LOW, CRB_SCORE=FAILED), **members) == expected


def test_worst_level_is_known_though_a_check_failed():
    asked = {"fact": "level", "comparison": "IS", "value": "HIGH"}

    assert answer(facts(IDENTITY=HIGH, CRB_SCORE=FAILED), **asked) == "yes"


def test_completed_check_without_a_score_leaves_the_score_open():
    stored = facts(IDENTITY=LOW, KRA_PIN=UNSCORED)

    assert outcome(stored, APPROVE) == Outcome("REVIEW", unanswered=(1,))


@pytest.mark.parametrize("check", ["KRA_PIN", None])
@pytest.mark.parametrize("comparison", ["IS", "IS_NOT"])
def test_completed_check_without_a_score_leaves_absent_flags_open(check, comparison):
    unscored = replace(UNSCORED, flags=frozenset({"NAME_NOT_COMPARED"}))
    stored = facts(IDENTITY=LOW, KRA_PIN=unscored)
    asked = {"fact": "flag", "comparison": comparison, "check": check}

    assert answer(stored, value="NAME_MISMATCH", **asked) == "unknown"
    known = "yes" if comparison == "IS" else "no"
    assert answer(stored, value="NAME_NOT_COMPARED", **asked) == known


@pytest.mark.parametrize("check", ["CRB_FULL", None])
@pytest.mark.parametrize(
    ("members", "expected"),
    [
        (("score", "AT_LEAST", 35), "yes"),
        (("score", "AT_LEAST", 36), "unknown"),
        (("score", "BELOW", 35), "no"),
        (("score", "BELOW", 40), "unknown"),
        (("level", "IS_NOT", "LOW"), "yes"),
        (("level", "IS", "MEDIUM"), "unknown"),
        (("flag", "IS", "PAST_DELINQUENCY"), "yes"),
        (("flag", "IS_NOT", "FRAUD_ALERT"), "unknown"),
    ],
)
def test_incomplete_finding_with_a_score_can_only_be_worse(check, members, expected):
    fact, comparison, value = members
    asked = {"fact": fact, "comparison": comparison, "value": value, "check": check}

    assert answer(facts(IDENTITY=LOW, CRB_FULL=PARTIAL), **asked) == expected


def test_outcome_that_hangs_on_an_outage_is_a_review():
    """An earlier rule without an answer could have decided otherwise."""
    poor = condition("creditScore", "BELOW", 400, "CRB_SCORE")
    decline = rule("DECLINED", poor, codes=["A_CODE"])
    approve = rule("APPROVED", condition("level", "IS", "LOW", "IDENTITY"))
    stored = facts(IDENTITY=LOW, CRB_SCORE=FAILED)

    assert outcome(stored, decline, approve).status == "REVIEW"
    assert outcome(stored, approve, decline).status == "APPROVED"


@pytest.mark.parametrize("code", ["ADVERSE_CREDIT", "CREDIT_SCORE_TOO_LOW"])
@pytest.mark.parametrize("checks", [{}, {"CRB_STANDARD": FAILED}])
def test_reason_that_no_check_could_confirm_is_a_review(code, checks):
    pin = CheckFacts("COMPLETED", 75, frozenset({"PIN_INACTIVE"}))
    inactive = condition("score", "AT_LEAST", 70)
    decline = rule("DECLINED", inactive, codes=[code, "TAX_PIN_MISMATCH"])

    expected = Outcome("REVIEW", contradicted=(code,))
    assert outcome(facts(KRA_PIN=pin, **checks), decline) == expected


def test_outcome_that_is_the_same_in_any_case_counts():
    poor = condition("creditScore", "BELOW", 400, "CRB_SCORE")
    stored = facts(IDENTITY=HIGH, CRB_SCORE=FAILED)
    first = rule("DECLINED", poor, codes=["A_CODE"])

    assert outcome(stored, first, DECLINE) == Outcome("DECLINED", ("A_CODE",), 2, (1,))
    # A person would review the report if the first rule matched.
    first = rule("DECLINED", poor, codes=["IDENTITY_NOT_FOUND"])
    assert outcome(stored, first, DECLINE) == Outcome("REVIEW", unanswered=(1,))


BELOW_30 = condition("score", "BELOW", 30)
NO_FIT, NO_FACT = "comparison does not fit", "nothing has this fact"


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (rule("APPROVED"), "at least 1 item"),
        (rule("DECLINED", BELOW_30), "a decline needs a reason"),
        (rule("CANCELLED", BELOW_30), "'APPROVED', 'DECLINED' or 'REVIEW'"),
        (rule("APPROVED", condition("score", "IS", 30)), NO_FIT),
        (rule("APPROVED", condition("score", "BELOW", "30")), NO_FIT),
        (rule("APPROVED", condition("score", "BELOW", -1)), "or equal to 0"),
        (rule("APPROVED", condition("level", "BELOW", "HIGH")), NO_FIT),
        (rule("APPROVED", condition("level", "IS", "AWFUL")), "no such level"),
        (rule("APPROVED", condition("state", "IS", "FAILED")), NO_FACT),
        (rule("APPROVED", condition("state", "IS", "GONE", "IDENTITY")), "such state"),
        (rule("APPROVED", condition("package", "IS", "loan", "IDENTITY")), NO_FACT),
        (rule("APPROVED", condition("weather", "IS", "fine")), NO_FACT),
        (rule("APPROVED", *[BELOW_30] * 6), "at most 5 items"),
        ({**APPROVE, "unless": []}, "Extra inputs"),
        (rule("APPROVED", BELOW_30, codes=["lower"]), "should match pattern"),
        (rule("APPROVED", BELOW_30, codes=["TWICE", "TWICE"]), "is there twice"),
    ],
)
def test_rule_that_makes_no_sense_is_refused(broken, why):
    with pytest.raises(ValidationError, match=why):
        read_rules([broken])


def test_more_than_30_rules_are_refused():
    with pytest.raises(ValidationError, match="at most 30 items"):
        read_rules([APPROVE] * 31)


def test_stored_rules_read_back_the_same():
    rules = read_rules([APPROVE, DECLINE])

    assert read_rules(write_rules(rules)) == rules


def test_numbers_are_members_of_findings():
    fields = {name for entry in CATALOGUE for name in entry.output_fields}

    assert set(NUMBERS) <= fields
