"""The rules of a policy: their shape, and their outcome for stored findings.

This module reads and writes no rows, so that a dry run and a real one share the code.

The first rule that matches decides; if none does, a person reviews the report. A
condition is unanswered if its check failed, left the answer open or is not part of the
report; a condition about a check's state, if the check has not run. If an unanswered
rule could change the outcome, a person reviews the report, so that an outage neither
approves nor declines it. A person also reviews it if no finding bears out a reason of
the rule that matches (`_unproven`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from verification.checks.models import CheckDefinition, ResultStatus
from verification.decisions.models import CODE_PATTERN, MAX_CODES, DecisionStatus
from verification.reports.models import RiskLevel
from verification.values.shapes import CURRENCY

MAX_RULES = 30
MAX_CONDITIONS = 5
MAX_NUMBER = 10**12
# The members of findings that are numbers and that a condition can compare
NUMBERS = (
    "creditScore",
    "probabilityOfDefault",
    "openAccounts",
    "nonPerformingAccounts",
    "totalBalance",
    "totalOverdue",
    "worstDaysInArrears",
    "enquiriesLast12Months",
    "bouncedChequesLast12Months",
)
# Those of them that a condition compares in CURRENCY
AMOUNTS = ("totalBalance", "totalOverdue")
# Those of NUMBERS that are the score of a credit bureau
SCORE_NUMBERS = ("creditScore", "probabilityOfDefault")
# The checks that ask for that score alone
SCORE_CHECKS = ("CRB_SCORE", "CREDITBUREAU_SCORE")
# Reason code -> the checks that can tell whether it holds, and the flags of which one
# of them then has at least one. A score alone does not tell of adverse information.
CLAIMS: dict[str, tuple[tuple[str, ...], frozenset[str]]] = {
    "ADVERSE_CREDIT": (
        ("CRB_STANDARD", "CRB_FULL", "CREDITBUREAU_STATUS", "CREDITBUREAU_COMP"),
        frozenset(
            {
                "ADVERSE_LISTING",
                "BOUNCED_CHEQUES",
                "FRAUD_ALERT",
                "LOW_CREDIT_SCORE",
                "NON_PERFORMING_ACCOUNT",
                "PAST_DELINQUENCY",
            }
        ),
    ),
    "COMPANY_DETAILS_MISMATCH": (
        ("BUSINESS_VERIFICATION",),
        frozenset({"COMPANY_NOT_FOUND", "NAME_MISMATCH"}),
    ),
    "COMPANY_NOT_ACTIVE": (
        ("BUSINESS_VERIFICATION",),
        frozenset({"COMPANY_NOT_FOUND", "COMPANY_DISSOLVED"}),
    ),
    "EMPLOYER_NOT_CONFIRMED": (
        ("EMPLOYER_VERIFICATION",),
        frozenset(
            {
                "EMPLOYER_MISMATCH",
                "EMPLOYMENT_NOT_FOUND",
                "NAME_MISMATCH",
                "REFEREE_IS_SUBJECT",
            }
        ),
    ),
    "EMPLOYMENT_DETAILS_MISMATCH": (
        ("EMPLOYER_VERIFICATION",),
        frozenset(
            {
                "DATES_MISMATCH",
                "EMPLOYER_MISMATCH",
                "EMPLOYMENT_NOT_FOUND",
                "JOB_TITLE_MISMATCH",
                "NAME_MISMATCH",
            }
        ),
    ),
    "IDENTITY_MISMATCH": (
        ("IDENTITY",),
        frozenset({"DOB_MISMATCH", "ID_NOT_FOUND", "NAME_MISMATCH"}),
    ),
    "IDENTITY_NOT_FOUND": (("IDENTITY",), frozenset({"ID_NOT_FOUND"})),
    "RECORDED_AS_DECEASED": (("IDENTITY",), frozenset({"DECEASED"})),
    "TAX_PIN_MISMATCH": (
        ("KRA_PIN",),
        frozenset({"NAME_MISMATCH", "PIN_INACTIVE", "PIN_NOT_FOUND"}),
    ),
    "WATCHLIST_MATCH": (
        ("AML_SCREENING",),
        frozenset({"PEP_HIT", "SANCTIONS_HIT", "WATCHLIST_HIT"}),
    ),
}
SCORE_TOO_LOW = "CREDIT_SCORE_TOO_LOW"
# Reason code -> checks, and the flags that speak for it. The absence of these flags
# refutes a reason of CLAIMS alone: a client may require a higher score than the bureau.
HINTS = CLAIMS | {
    SCORE_TOO_LOW: (
        ("CRB_SCORE", "CRB_STANDARD", "CRB_FULL", "CREDITBUREAU_SCORE"),
        frozenset({"LOW_CREDIT_SCORE"}),
    ),
}
# It claims that a check was not completed, or left something open.
INCOMPLETE = "INSUFFICIENT_INFORMATION"
# Workspaces of earlier versions have this code. Checks that ran had their consent.
NO_CONSENT = "CONSENT_NOT_GIVEN"
LEVELS = (RiskLevel.LOW, RiskLevel.MEDIUM, RiskLevel.HIGH)


class Comparison(StrEnum):
    AT_LEAST = "AT_LEAST"
    BELOW = "BELOW"
    IS = "IS"
    IS_NOT = "IS_NOT"


class CheckState(StrEnum):
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    # The report does not have the check.
    MISSING = "MISSING"


class Fact(StrEnum):
    """The facts that a condition can compare, besides the NUMBERS of a check."""

    SCORE = "score"
    LEVEL = "level"
    FLAG = "flag"
    # Of a report only
    PACKAGE = "package"
    # Of a check only
    STATE = "state"


OF_REPORT = (Fact.SCORE, Fact.LEVEL, Fact.FLAG, Fact.PACKAGE)
OF_CHECK = (Fact.SCORE, Fact.LEVEL, Fact.FLAG, Fact.STATE)


class _Shape(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Condition(_Shape):
    """One condition about the report, or about a check if `check` names one."""

    check: Annotated[str, Field(max_length=40)] | None = None
    fact: str
    comparison: Comparison
    value: (
        Annotated[float, Field(ge=0, le=MAX_NUMBER)]
        | Annotated[str, Field(min_length=1, max_length=40)]
    )

    @model_validator(mode="after")
    def _is_whole(self) -> Condition:
        known = (*OF_CHECK, *NUMBERS) if self.check else OF_REPORT
        compared = self.comparison in {Comparison.AT_LEAST, Comparison.BELOW}
        if self.fact not in known:
            raise ValueError("nothing has this fact")
        if not self.is_number == compared == isinstance(self.value, float):
            raise ValueError("the comparison does not fit")
        if self.fact == Fact.LEVEL and self.value not in LEVELS:
            raise ValueError("there is no such level")
        if self.fact == Fact.STATE and self.value not in list(CheckState):
            raise ValueError("there is no such state")
        return self

    @property
    def is_number(self) -> bool:
        return self.fact == Fact.SCORE or self.fact in NUMBERS

    @property
    def is_credit_score(self) -> bool:
        """True if it compares the score of a credit bureau, or what follows from it."""
        if self.check in SCORE_CHECKS and self.fact in {Fact.SCORE, Fact.LEVEL}:
            return True
        return self.fact in SCORE_NUMBERS or self.value == "LOW_CREDIT_SCORE"


class Rule(_Shape):
    """If all conditions hold, the outcome is `then`."""

    when: Annotated[
        tuple[Condition, ...], Field(min_length=1, max_length=MAX_CONDITIONS)
    ]
    then: Literal["APPROVED", "DECLINED", "REVIEW"]
    codes: Annotated[
        tuple[Annotated[str, Field(pattern=f"^{CODE_PATTERN}$")], ...],
        Field(max_length=MAX_CODES),
    ] = ()

    @model_validator(mode="after")
    def _has_reasons(self) -> Rule:
        if self.then == DecisionStatus.DECLINED and not self.codes:
            raise ValueError("a decline needs a reason")
        if len(set(self.codes)) != len(self.codes):
            raise ValueError("a reason is there twice")
        return self

    @property
    def declines_by_score_alone(self) -> bool:
        """True if it declines by a bureau's score, whatever the package or states."""
        scope = {Fact.PACKAGE, Fact.STATE}
        grounds = [one for one in self.when if one.fact not in scope]
        is_decline = self.then == DecisionStatus.DECLINED and bool(grounds)
        return is_decline and all(one.is_credit_score for one in grounds)


Rules = Sequence[Rule]
_RULES = TypeAdapter(Annotated[tuple[Rule, ...], Field(max_length=MAX_RULES)])


def read_rules(stored: Any) -> tuple[Rule, ...]:
    """Return the rules of this JSON. Raises pydantic's ValidationError."""
    return _RULES.validate_python(stored)


def write_rules(rules: Rules) -> list[dict[str, Any]]:
    return [rule.model_dump(mode="json", exclude_none=True) for rule in rules]


@dataclass(frozen=True, slots=True)
class CheckFacts:
    """The facts of one check of a report; flags and numbers only if it completed."""

    status: str
    score: int | None = None
    flags: frozenset[str] = frozenset()
    numbers: Mapping[str, Any] = field(default_factory=dict)
    # False if the source left something open, so that the real score may be higher.
    is_whole: bool = True

    @property
    def is_completed(self) -> bool:
        return self.status == ResultStatus.COMPLETED


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of an ended report."""

    score: int | None
    package: str | None
    checks: Mapping[str, CheckFacts]

    @property
    def is_complete(self) -> bool:
        """True if each finding is whole; otherwise the real score may be higher."""
        return all(one.is_completed and one.is_whole for one in self._all)

    @property
    def _all(self) -> Iterable[CheckFacts]:
        return self.checks.values()


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of the rules; `rule` is the number of the matching one, from 1."""

    status: str
    codes: tuple[str, ...] = ()
    rule: int | None = None
    # Numbers of the rules before it, or of all, that could not be evaluated
    unanswered: tuple[int, ...] = ()
    # Codes of the matching rule that no finding bears out
    contradicted: tuple[str, ...] = ()


def evaluate(rules: Rules, facts: Facts) -> Outcome:
    """Return what the rules say about a report."""
    unanswered: list[int] = []
    for number, rule in enumerate(rules, 1):
        holds = _all_hold(rule, facts)
        if holds is None:
            unanswered.append(number)
        elif holds:
            earlier = [rules[n - 1] for n in unanswered]
            if any(
                one.then != rule.then or contradictions(one.codes, facts)
                for one in earlier
            ):
                break
            if false := _unproven(rule.codes, facts):
                return Outcome(
                    DecisionStatus.REVIEW.value,
                    unanswered=tuple(unanswered),
                    contradicted=false,
                )
            return Outcome(rule.then, rule.codes, number, tuple(unanswered))
    return Outcome(DecisionStatus.REVIEW.value, unanswered=tuple(unanswered))


def contradictions(codes: Iterable[str], facts: Facts) -> dict[str, list[str]]:
    """Return the codes that the findings contradict, with the checks that do so.

    Only completed checks contradict. Codes of a workspace's own claim nothing that the
    service knows.
    """
    done = [name for name, one in facts.checks.items() if one.is_completed]
    found: dict[str, list[str]] = {}
    for code in codes:
        checks, flags = CLAIMS.get(code, ((), frozenset()))
        told = [name for name in checks if name in done]
        if told and not any(flags & facts.checks[name].flags for name in told):
            found[code] = told
        is_whole = code == INCOMPLETE and facts.is_complete
        if is_whole or code == NO_CONSENT:
            found[code] = list(facts.checks)
    return found


def _unproven(codes: Sequence[str], facts: Facts) -> tuple[str, ...]:
    """Return the codes that the findings contradict, or that no check could confirm."""
    false = contradictions(codes, facts)
    done = {name for name, one in facts.checks.items() if one.is_completed}
    return tuple(
        c for c in codes if c in false or (c in HINTS and done.isdisjoint(HINTS[c][0]))
    )


def suggestions(codes: Collection[str], facts: Facts) -> list[str]:
    """Return the codes that the findings speak for: the narrowest for each flag."""
    found: set[str] = set()
    for name, one in facts.checks.items():
        for flag in one.flags if one.is_completed else ():
            hints = [(len(HINTS[c][1]), c) for c in codes if _hints(c, name, flag)]
            found |= {min(hints)[1]} if hints else set()
    if not facts.is_complete:
        found.add(INCOMPLETE)
    return [code for code in codes if code in found]


def _hints(code: str, check: str, flag: str) -> bool:
    checks, flags = HINTS.get(code, ((), frozenset()))
    return check in checks and flag in flags


def is_about(
    code: str, subject_type: str, checked: Mapping[str, Collection[str]]
) -> bool:
    """Return whether a reason can hold for a person, or for a company.

    `checked` has the subject types of each check. A reason about checks of persons
    alone cannot hold for a company; a reason about no check can hold for both.
    """
    checks = CLAIMS.get(code, ((), frozenset()))[0]
    return not checks or any(subject_type in checked.get(one, ()) for one in checks)


def found_values(rule: Rule, facts: Facts) -> list[Any]:
    """Return the value that the report has for each condition of a rule."""
    return [_value(condition, facts) for condition in rule.when]


def _all_hold(rule: Rule, facts: Facts) -> bool | None:
    answers = [_holds(condition, facts) for condition in rule.when]
    if False in answers:
        return False
    return None if None in answers else True


def _holds(condition: Condition, facts: Facts) -> bool | None:
    """Return whether a condition holds, or None if it is unanswered."""
    if condition.comparison == Comparison.IS_NOT:
        same = _is(condition, facts)
        return None if same is None else not same
    if condition.comparison == Comparison.IS:
        return _is(condition, facts)
    is_enough = _is_at_least(condition, facts)
    if condition.comparison == Comparison.AT_LEAST or is_enough is None:
        return is_enough
    return not is_enough


def _is_at_least(condition: Condition, facts: Facts) -> bool | None:
    value = _value(condition, facts)
    if value is None:
        return None
    is_enough: bool = value >= condition.value
    is_final = condition.fact != Fact.SCORE or _is_whole(condition, facts)
    return is_enough if is_enough or is_final else None


def _is(condition: Condition, facts: Facts) -> bool | None:
    value = _value(condition, facts)
    match condition.fact:
        case Fact.FLAG:
            if value is None or condition.value in value:
                return None if value is None else True
            # What was left open may be this flag.
            return False if _is_whole(condition, facts) else None
        case Fact.LEVEL:
            if value is None:
                return None
            is_final = _is_whole(condition, facts)
            rank = LEVELS.index(value)
            asked = LEVELS.index(RiskLevel(str(condition.value)))
            if is_final or rank == len(LEVELS) - 1 or rank > asked:
                return rank == asked
            return None
        case Fact.STATE if value is None:
            return None
    return bool(value == condition.value)


def _is_whole(condition: Condition, facts: Facts) -> bool:
    """Return whether nothing was left open that could add a flag or raise the score."""
    check = facts.checks.get(condition.check or "")
    return check.is_whole if check else facts.is_complete


def _value(condition: Condition, facts: Facts) -> Any:
    """Return the stored value, or None if it is unknown or the package is missing."""
    if condition.check is None:
        match condition.fact:
            case Fact.PACKAGE:
                return facts.package
            case Fact.FLAG:
                return sorted({flag for one in facts._all for flag in one.flags})
        return _score_or_level(condition, facts.score)
    check = facts.checks.get(condition.check)
    if condition.fact == Fact.STATE:
        return _state_of(check)
    if check is None or not check.is_completed:
        return None
    if condition.fact == Fact.FLAG:
        return sorted(check.flags)
    if condition.fact in NUMBERS:
        found = check.numbers.get(condition.fact)
        is_number = isinstance(found, int | float) and not isinstance(found, bool)
        is_foreign = check.numbers.get("currency") != CURRENCY
        is_known = is_number and not (condition.fact in AMOUNTS and is_foreign)
        return found if is_known else None
    return _score_or_level(condition, check.score)


def _state_of(check: CheckFacts | None) -> str | None:
    """Return the CheckState, or None for a check that has not run."""
    if check is None:
        return CheckState.MISSING.value
    return check.status if check.status in list(CheckState) else None


def _score_or_level(condition: Condition, score: int | None) -> Any:
    if condition.fact == Fact.SCORE or score is None:
        return score
    return RiskLevel.of(score).value


class Gone(StrEnum):
    """The kind of a thing that a rule names and the workspace cannot use."""

    CHECK = "CHECK"
    FLAG = "FLAG"
    NUMBER = "NUMBER"
    PACKAGE = "PACKAGE"
    CODE = "CODE"


@dataclass(frozen=True, slots=True)
class RuleFault:
    """A rule that cannot be used as it is, and the name in it that is the cause."""

    rule: int
    gone: Gone
    name: str


@dataclass(frozen=True, slots=True)
class Known:
    """The checks, packages and codes that rules of a workspace can name now."""

    checks: Mapping[str, CheckDefinition]
    packages: Collection[str]
    codes: Collection[str]


def words_for(check: str | None, fact: str, known: Known) -> list[str]:
    """Return the words that a condition about this fact can name."""
    match fact:
        case Fact.LEVEL:
            return [level.value for level in LEVELS]
        case Fact.STATE:
            return [state.value for state in CheckState]
        case Fact.PACKAGE:
            return sorted(known.packages)
    if check is not None:
        return sorted(known.checks[check].flag_codes)
    return sorted({code for one in known.checks.values() for code in one.flag_codes})


def find_faults(rules: Rules, known: Known) -> list[RuleFault]:
    """Return what the rules name and the workspace does not have, or no longer has."""
    return [
        RuleFault(number, gone, name)
        for number, rule in enumerate(rules, 1)
        for gone, name in _names_gone(rule, known)
    ]


def _names_gone(rule: Rule, known: Known) -> Iterable[tuple[Gone, str]]:
    for condition in rule.when:
        check, fact = condition.check, condition.fact
        if check is not None and check not in known.checks:
            yield Gone.CHECK, check
        elif fact in NUMBERS:
            if check and fact not in known.checks[check].output_fields:
                yield Gone.NUMBER, fact
        elif fact != Fact.SCORE and condition.value not in words_for(
            check, fact, known
        ):
            gone = Gone.PACKAGE if fact == Fact.PACKAGE else Gone.FLAG
            yield gone, str(condition.value)
    for code in rule.codes:
        if code not in known.codes:
            yield Gone.CODE, code
