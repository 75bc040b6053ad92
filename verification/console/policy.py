"""The policy: its versions, drafts with their dry runs, and the form of a rule.

Each condition of a rule is chosen from lists.
"""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django import forms
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from verification.console.base import (
    PAGE_SIZE,
    Place,
    Refusals,
    member_required,
    post_required,
)
from verification.console.fields import (
    Choices,
    ChoicesForm,
    check_reasons,
    decision_field,
    reasons_field,
)
from verification.console.policy_words import (
    ABOUT_SCORES,
    NUMBER_NAMES,
    Names,
    fault_texts,
    marked_conditions,
    value_text,
    word_name,
)
from verification.console.words import WORDS
from verification.db.base import ResultPage
from verification.decisions import policies
from verification.decisions.models import (
    DecisionStatus,
    PolicyMode,
    PolicyState,
    PolicyVersion,
    reason_text,
)
from verification.decisions.reason_codes import codes_of
from verification.decisions.rules import (
    MAX_CONDITIONS,
    MAX_NUMBER,
    MAX_RULES,
    NUMBERS,
    CheckState,
    Comparison,
    Condition,
    Fact,
    Known,
    Rule,
    Rules,
    find_faults,
    read_rules,
    words_for,
)
from verification.reports.models import Report
from verification.web.pages import REQUIRED_ERROR, read_id
from workspaces.members import Permission
from workspaces.models import Environment

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
        choose = (
            _("Choose a value") if offered else _("There is nothing to choose from")
        )
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


class ActivationForm(forms.Form):
    """The mode of a version that is switched on."""

    mode = forms.ChoiceField(
        label=_("Once it is switched on"),
        choices=[
            (PolicyMode.PROPOSE, _("It proposes")),
            (PolicyMode.DECIDE, _("It decides")),
        ],
        widget=forms.RadioSelect,
        error_messages=REQUIRED_ERROR,
    )
    seen = forms.CharField(required=False, widget=forms.HiddenInput)


WOULD = {
    DecisionStatus.APPROVED.value: _("Would approve"),
    DecisionStatus.DECLINED.value: _("Would decline"),
    DecisionStatus.REVIEW.value: _("Would review"),
}
DECIDED: dict[str | None, Any] = {
    **{str(code): text for code, text in WORDS["decision"].items()},
    policies.OPEN: _("Not final yet"),
    None: _("Nobody decided"),
}


REFUSALS: Refusals = {policies.PolicyRefused: lambda e: _(e.obstacle)}


@member_required()
def overview(place: Place) -> HttpResponse:
    """Show the version that decides, the draft, and the former versions."""
    versions = list(policies.versions_of(place.client))
    active = _first(versions, PolicyState.ACTIVE)
    former = [one for one in versions if one.state != PolicyState.DRAFT]
    users = User.objects.in_bulk({one.activated_by_user or 0 for one in former})
    shown: dict[str, Any] = {
        "active": active,
        "draft": _first(versions, PolicyState.DRAFT),
        "tried": None
        if place.is_sandbox
        else place.workspace.policy_versions.filter(
            environment=Environment.SANDBOX, state=PolicyState.ACTIVE
        ).first(),
        "versions": [(v, users.get(v.activated_by_user)) for v in former],
    }
    if active:
        rules = read_rules(active.rules)
        faults = find_faults(rules, policies.known_to(place.workspace))
        names = Names.of(place.workspace)
        shown |= {
            "rules": rule_rows(rules, names),
            "faults": fault_texts(faults, names),
        }
    return place.render("policy/overview", shown)


def rule_rows(
    rules: Rules, names: Names, dry: policies.DryRun | None = None
) -> list[dict[str, Any]]:
    """Return the rules as pages show them, with how often each matched in a dry run."""
    return [
        {
            "number": number,
            "conditions": marked_conditions(rule, names),
            "then": rule.then,
            "reasons": names.reasons_of(rule),
            "advice": ABOUT_SCORES if rule.declines_by_score_alone else "",
            "hits": dry.hits.get(number, 0) if dry else None,
        }
        for number, rule in enumerate(rules, 1)
    ]


def _first(versions: list[PolicyVersion], state: PolicyState) -> PolicyVersion | None:
    return next((one for one in versions if one.state == state), None)


@member_required()
def version(place: Place, version: UUID) -> HttpResponse:
    """Show one version; a draft with its dry run, and the form that switches it on."""
    found = policies.versions_of(place.client).get(pk=version)
    rules = read_rules(found.rules)
    names, dry = Names.of(place.workspace), None
    shown: dict[str, Any] = {
        "version": found,
        "seen": policies.digest_of(found),
        "most": MAX_RULES,
    }
    if found.state == PolicyState.DRAFT:
        faults = find_faults(rules, policies.known_to(place.workspace))
        own = policies.versions_of(place.client)
        active = own.filter(state=PolicyState.ACTIVE).first()
        shown |= {"faults": fault_texts(faults, names), "active": active}
        if rules and not faults:
            dry = policies.dry_run(place.client, rules)
            form = ActivationForm(
                initial={"mode": found.mode, "seen": policies.digest_of(found)}
            )
            shown |= {"form": form, **_dry_run_context(place, dry)}
    shown["rules"] = rule_rows(rules, names, dry)
    return place.render("policy/version", shown)


def _dry_run_context(place: Place, dry: policies.DryRun) -> dict[str, Any]:
    """Return the rules' decisions and the real ones, for comparison."""
    matrix = []
    for was, name in DECIDED.items():
        counts = [(would, dry.counts.get((was, would), 0)) for would in WOULD]
        cells = [(count, _css(was, would, count)) for would, count in counts]
        if any(count for _would, count in counts):
            matrix.append((name, cells))
    number = place.paging["page"]
    begin = number * PAGE_SIZE
    shown = dry.differences[begin : begin + PAGE_SIZE]
    reports = Report.objects.in_bulk([one.report_id for one in shown])
    differing = [
        {
            "report": reports[one.report_id],
            "was": one.decided,
            "would": one.outcome.status,
            "rule": one.outcome.rule,
        }
        for one in shown
        if one.report_id in reports
    ]
    return {
        "dry": dry,
        "unmatched": dry.hits.get(None, 0),
        "outcomes": list(WOULD.values()),
        "matrix": matrix,
        "page": ResultPage(differing, len(dry.differences), number, PAGE_SIZE),
    }


def _css(was: str | None, would: str, count: int) -> str:
    if was == would:
        return "same"
    return "other" if was not in {None, policies.OPEN} and count else ""


@post_required(Permission.MANAGE_SETTINGS)
def open_draft(place: Place) -> HttpResponse:
    """Open a draft with the rules of the version that the form names, or with none.

    The version may be one of the other environment.
    """
    base_id = read_id(place.request.POST.get("base", ""))
    every: Any = place.workspace.policy_versions
    base = every.filter(pk=base_id).first()
    with place.refusing(REFUSALS, "policy"):
        made = policies.open_draft(place.client, place.member, place.by.actor, base)
    return place.to("policy-version", version=made.pk)


@member_required(Permission.MANAGE_SETTINGS)
def edit_rule(place: Place, version: UUID, number: int | None = None) -> HttpResponse:
    """Show the form of a rule, or of another one; a POST saves it."""
    draft, rules = _open_rules(place, version, number)
    if number is None and len(rules) >= MAX_RULES:
        raise PolicyVersion.DoesNotExist
    rule = rules[number - 1] if number else None
    given: Any = given_of(rule, policies.digest_of(draft))
    typed = place.posted
    if typed is not None and typed.get("step") == "update":
        # A changed fact of a condition changes its comparisons and values.
        given, typed = typed.dict() | {"codes": typed.getlist("codes")}, None
    codes = [row for row in codes_of(place.workspace) if row.active]
    form = PolicyRuleForm(
        typed,
        known=policies.known_to(place.workspace),
        names=Names.of(place.workspace),
        given=given,
        choices={"codes": [(row.code, reason_text(row.words)) for row in codes]},
    )
    if not form.is_valid():
        more = {"form": form, "version": draft, "number": number}
        return place.render("policy/rule", more)
    if number is None:
        rules.append(form.rule)
    else:
        rules[number - 1] = form.rule
    return _save(place, draft, form.cleaned_data["seen"], rules)


def _open_rules(
    place: Place, version_id: UUID, number: int | None
) -> tuple[PolicyVersion, list[Rule]]:
    """Return a draft and its rules, which have one with this number."""
    drafts = policies.versions_of(place.client).filter(state=PolicyState.DRAFT)
    draft: PolicyVersion = drafts.get(pk=version_id)
    rules = list(read_rules(draft.rules))
    if number is not None and not 0 < number <= len(rules):
        raise PolicyVersion.DoesNotExist
    return draft, rules


@post_required(Permission.MANAGE_SETTINGS)
def move_rule(place: Place, version: UUID, number: int) -> HttpResponse:
    """Let a rule be read before the one above it."""
    draft, rules = _open_rules(place, version, number)
    if number > 1:
        rules.insert(number - 2, rules.pop(number - 1))
    return _save(place, draft, place.request.POST.get("seen", ""), rules)


@post_required(Permission.MANAGE_SETTINGS)
def remove_rule(place: Place, version: UUID, number: int) -> HttpResponse:
    draft, rules = _open_rules(place, version, number)
    del rules[number - 1]
    return _save(place, draft, place.request.POST.get("seen", ""), rules)


def _save(
    place: Place, draft: PolicyVersion, seen: str, rules: list[Rule]
) -> HttpResponse:
    what = policies.SeenDraft(draft.pk, seen)
    with place.refusing(REFUSALS, "policy-version", version=draft.pk):
        policies.save_draft(place.client, what, rules, place.member, place.by.actor)
    return place.to("policy-version", success=_("Saved."), version=draft.pk)


@post_required(Permission.MANAGE_SETTINGS)
def activate(place: Place, version: UUID) -> HttpResponse:
    """Switch a draft on, as its member has seen it."""
    policies.versions_of(place.client).get(pk=version)
    form = ActivationForm(place.posted)
    if not form.is_valid():
        error = _("Choose what it does once it is switched on.")
        return place.to("policy-version", error=error, version=version)
    what = policies.SeenDraft(version, form.cleaned_data["seen"])
    mode = form.cleaned_data["mode"]
    with place.refusing(REFUSALS, "policy-version", version=version):
        policies.activate(place.client, what, mode, place.member, place.by.actor)
    done = _(
        "The version is switched on. It looks at each report that ends from now on."
    )
    return place.to("policy-version", success=done, version=version)


@post_required(Permission.MANAGE_SETTINGS)
def discard(place: Place, version: UUID) -> HttpResponse:
    what = policies.SeenDraft(version, place.request.POST.get("seen", ""))
    with place.refusing(REFUSALS, "policy"):
        policies.discard_draft(place.client, what, place.member, place.by.actor)
    return place.to("policy", success=_("The draft is deleted."))


@member_required(Permission.MANAGE_SETTINGS)
def switch_off(place: Place, version: UUID) -> HttpResponse:
    """Ask whether to switch the policy off; a POST does it."""
    if place.posted is None:
        found = policies.versions_of(place.client).get(pk=version)
        return place.render("policy/off", {"version": found})
    with place.refusing(REFUSALS, "policy"):
        policies.switch_off(place.client, version, place.member, place.by.actor)
    return place.to("policy", success=_("The policy is switched off."))
