"""The form of a rule of a policy: each condition is chosen from lists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from verification.console.fields import (
    Choices,
    ChoicesForm,
    check_reasons,
    decision_field,
    reasons_field,
)
from verification.console.policy_words import (
    NUMBER_NAMES,
    Names,
    value_text,
    word_name,
)
from verification.decisions.rules import (
    MAX_CONDITIONS,
    MAX_NUMBER,
    NUMBERS,
    CheckState,
    Comparison,
    Condition,
    Fact,
    Known,
    Rule,
    words_for,
)

REPORT_FACTS = {
    Fact.SCORE: _("The report: risk score"),
    Fact.LEVEL: _("The report: risk level"),
    Fact.FLAG: _("The report: flag of any check"),
    Fact.PACKAGE: _("The report: package"),
}
CHECK_FACTS = {
    Fact.SCORE: _("risk score"),
    Fact.LEVEL: _("risk level"),
    Fact.FLAG: _("flag"),
    Fact.STATE: _("state"),
}
STATES = {
    CheckState.COMPLETED: _("completed"),
    CheckState.FAILED: _("failed"),
    CheckState.MISSING: _("not part of the report"),
}
OF_NUMBERS = {
    Comparison.AT_LEAST: _("is at least"),
    Comparison.BELOW: _("is below"),
}
OF_WORDS = {
    Comparison.IS: _("is"),
    Comparison.IS_NOT: _("is not"),
}
CONDITION_FIELDS = ("fact", "comparison", "value")
CONDITION_NUMBERS = range(1, MAX_CONDITIONS + 1)
CHOOSE = [("", _("Choose"))]
# The number of conditions that are shown at first; the member can open more.
SHOWN_CONDITIONS = 2


class PolicyRuleForm(ChoicesForm):
    """A rule of a policy: conditions that all have to hold, and the decision.

    A condition offers the comparisons and values of its fact. `given` are the member's
    choices so far, after a change of the fact.
    """

    then = decision_field(_("Then"), _("A person reviews the report"))
    codes = reasons_field()
    seen = forms.CharField(required=False, widget=forms.HiddenInput)

    def __init__(
        self,
        typed: Any,
        *,
        known: Known,
        names: Names,
        given: Mapping[str, Any],
        choices: Mapping[str, Choices],
    ) -> None:
        self.known, self.names = known, names
        super().__init__(typed, choices=choices, initial=given)
        source = given if typed is None else typed
        about = [*CHOOSE, *_fact_choices(known)]
        keys = {key for _group, facts in about[1:] for key, _name in facts}
        for n in CONDITION_NUMBERS:
            self.fields[f"fact_{n}"] = forms.ChoiceField(
                label=format_lazy(_("Condition {n}: what"), n=n),
                choices=about,
                required=False,
                # The page asks at once for what fits.
                widget=forms.Select(attrs={"hx-post": ""}),
            )
            key = source.get(f"fact_{n}", "")
            if key in keys:
                self._add_comparison(n, key)
        self.order_fields([name for n in CONDITION_NUMBERS for name in _names(n)])

    @property
    def rows(self) -> list[tuple[int, list[forms.BoundField]]]:
        """The fields of each condition with its number."""
        return [
            (n, [self[name] for name in _names(n) if name in self.fields])
            for n in CONDITION_NUMBERS
        ]

    @property
    def first_rows(self) -> list[tuple[int, list[forms.BoundField]]]:
        return self.rows[:SHOWN_CONDITIONS]

    @property
    def further_rows(self) -> list[tuple[int, list[forms.BoundField]]]:
        return self.rows[SHOWN_CONDITIONS:]

    @property
    def has_further(self) -> bool:
        return any(f.value() or f.errors for _n, row in self.further_rows for f in row)

    def clean(self) -> dict[str, Any]:
        typed: dict[str, Any] = super().clean() or {}
        when = [self._read_condition(n, typed) for n in CONDITION_NUMBERS]
        typed["when"] = [one for one in when if one]
        if not typed["when"] and not self.errors:
            self.add_error("fact_1", _("Choose at least one condition"))
        check_reasons(self, typed.get("then"))
        return typed

    @property
    def rule(self) -> Rule:
        typed = self.cleaned_data
        return Rule(when=typed["when"], then=typed["then"], codes=typed["codes"])

    def _add_comparison(self, n: int, key: str) -> None:
        """Add the fields that fit what the condition is about."""
        check, fact = _parse(key)
        is_number = fact == Fact.SCORE or fact in NUMBERS
        fits = _("Choose “is at least” or “is below”")
        if not is_number:
            fits = _("Choose “is” or “is not”")
        self.fields[f"comparison_{n}"] = forms.ChoiceField(
            label=format_lazy(_("Condition {n}: comparison"), n=n),
            choices=(OF_NUMBERS if is_number else OF_WORDS).items(),
            error_messages=dict.fromkeys(("required", "invalid_choice"), fits),
        )
        label = format_lazy(_("Condition {n}: value"), n=n)
        if is_number:
            most = 100 if fact == Fact.SCORE else MAX_NUMBER
            error = format_lazy(_("Enter a number from 0 to {most}"), most=most)
            self.fields[f"value_{n}"] = NumberField(label, most, error)
            return
        offered = [
            (word, _word(fact, word, self.names))
            for word in words_for(check, fact, self.known)
        ]
        if fact in {Fact.FLAG, Fact.PACKAGE}:
            offered.sort(key=lambda one: str(one[1]))
        choose = _("Choose a value") if offered else _("There is none to choose from")
        self.fields[f"value_{n}"] = forms.ChoiceField(
            label=label,
            choices=[*CHOOSE, *offered],
            error_messages=dict.fromkeys(("required", "invalid_choice"), choose),
        )

    def _read_condition(self, n: int, typed: dict[str, Any]) -> Condition | None:
        key, comparison, value = (typed.get(name) for name in _names(n))
        if not key or not comparison or value in {None, ""}:
            return None
        check, fact = _parse(key)
        return Condition(check=check, fact=fact, comparison=comparison, value=value)


class NumberField(forms.CharField):
    """A number as people write it, such as `1,000.5`."""

    def __init__(self, label: Any, most: float, error: Any) -> None:
        self.most, self.error = most, error
        super().__init__(
            label=label,
            max_length=40,
            widget=forms.TextInput(
                attrs={"inputmode": "decimal", "autocomplete": "off"}
            ),
            error_messages={"required": error},
        )

    def clean(self, value: Any) -> Any:
        text = super().clean(value)
        try:
            number = float(text.replace(",", ""))
        except ValueError:
            number = -1
        if 0 <= number <= self.most:
            return number
        raise forms.ValidationError(self.error)


def given_of(rule: Rule | None, seen: str) -> dict[str, Any]:
    """Return what the form shows of a rule at first."""
    given: dict[str, Any] = {"seen": seen}
    if rule is None:
        return given
    for n, one in enumerate(rule.when, 1):
        given[f"fact_{n}"] = fact_key(one.check, one.fact)
        given[f"comparison_{n}"] = one.comparison.value
        given[f"value_{n}"] = value_text(one.value)
    return given | {"then": rule.then, "codes": list(rule.codes)}


def fact_key(check: str | None, fact: str) -> str:
    return f"{check}.{fact}" if check else fact


def _parse(key: str) -> tuple[str | None, str]:
    check, _separator, fact = key.rpartition(".")
    return check or None, fact


def _word(fact: str, word: str, names: Names) -> Any:
    if fact == Fact.STATE:
        return STATES[CheckState(word)]
    return word_name(fact, word, names)


def _names(n: int) -> list[str]:
    """Return the names of the fields of a condition."""
    return [f"{field}_{n}" for field in CONDITION_FIELDS]


def _fact_choices(known: Known) -> list[Any]:
    choices: list[Any] = [
        (_("The report"), [(fact.value, name) for fact, name in REPORT_FACTS.items()])
    ]
    for check in known.checks.values():
        names = {fact.value: name for fact, name in CHECK_FACTS.items()}
        names |= {n: NUMBER_NAMES[n] for n in NUMBERS if n in check.output_fields}
        group = [
            (
                fact_key(check.name, fact),
                format_lazy("{}: {}", check.title, name),
            )
            for fact, name in names.items()
        ]
        choices.append((check.title, group))
    return choices
