"""The policy: its rules as sentences, its drafts with their dry runs, its versions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from django import forms
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.utils.text import format_lazy
from django.utils.translation import get_language
from django.utils.translation import gettext_lazy as _

from verification.checks.models import CheckDefinition
from verification.console.base import (
    PAGE_SIZE,
    Place,
    Refusals,
    Text,
    member_required,
    post_required,
)
from verification.console.fields import (
    REQUIRED_ERROR,
    Choices,
    ChoicesForm,
    check_reasons,
    decision_field,
    reasons_field,
)
from verification.db.base import ResultPage
from verification.db.ids import number_of_id
from verification.decisions import policies
from verification.decisions.models import (
    Decision,
    DecisionStatus,
    PolicyMode,
    PolicyState,
    PolicyVersion,
)
from verification.decisions.policies import (
    PolicyRefused,
    SeenDraft,
    digest_of,
    dry_run,
    known_to,
    versions_of,
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
    Gone,
    Known,
    Rule,
    RuleFault,
    Rules,
    find_faults,
    read_rules,
    words_for,
)
from verification.web.pages import read_id
from workspaces.members import Permission

REPORT_FACTS = {
    Fact.SCORE: _("The report: score"),
    Fact.LEVEL: _("The report: level"),
    Fact.FLAG: _("The report: flag of any check"),
    Fact.PACKAGE: _("The report: package"),
}
CHECK_FACTS = {
    Fact.SCORE: _("score"),
    Fact.LEVEL: _("level"),
    Fact.FLAG: _("flag"),
    Fact.STATE: _("state"),
}
NUMBER_NAMES = {
    "creditScore": _("credit score"),
    "probabilityOfDefault": _("probability of default"),
    "openAccounts": _("number of open accounts"),
    "nonPerformingAccounts": _("number of non-performing accounts"),
    "totalBalance": _("total balance"),
    "totalOverdue": _("total overdue"),
    "worstDaysInArrears": _("longest arrears in days"),
    "enquiriesLast12Months": _("number of enquiries in 12 months"),
    "bouncedChequesLast12Months": _("number of bounced cheques in 12 months"),
}
COMPARISONS = {
    Comparison.AT_LEAST: _("is at least"),
    Comparison.BELOW: _("is below"),
    Comparison.IS: _("is"),
    Comparison.IS_NOT: _("is not"),
}
NUMERIC = {Comparison.AT_LEAST, Comparison.BELOW}
CONDITION_FIELDS = ("fact", "comparison", "value")
CONDITION_NUMBERS = range(1, MAX_CONDITIONS + 1)
NO_FACT = [("", _("Choose"))]
# As many conditions of a rule are shown at once; more can be opened.
SHOWN_CONDITIONS = 2


class PolicyRuleForm(ChoicesForm):
    """A rule of a policy: conditions that all have to hold, and what follows."""

    then = decision_field(_("Then"), _("A person reviews the report"))
    codes = reasons_field()
    seen = forms.CharField(required=False, widget=forms.HiddenInput)

    def __init__(
        self,
        typed: Any,
        *,
        known: Known,
        choices: Mapping[str, Choices],
        rule: Rule | None = None,
        seen: str = "",
    ) -> None:
        self.known = known
        super().__init__(typed, choices=choices, initial={"seen": seen})
        about = [*NO_FACT, *_fact_choices(known)]
        for n in CONDITION_NUMBERS:
            self._add_condition(n, about)
        if rule:
            self._show(rule)
        names = [f"{name}_{n}" for n in CONDITION_NUMBERS for name in CONDITION_FIELDS]
        self.order_fields([*names, "then", "codes", "seen"])

    @property
    def rows(self) -> list[tuple[int, list[Any]]]:
        """The fields of each condition with its number."""
        return [
            (n, [self[f"{name}_{n}"] for name in CONDITION_FIELDS])
            for n in CONDITION_NUMBERS
        ]

    @property
    def first_rows(self) -> list[tuple[int, list[Any]]]:
        return self.rows[:SHOWN_CONDITIONS]

    @property
    def further_rows(self) -> list[tuple[int, list[Any]]]:
        return self.rows[SHOWN_CONDITIONS:]

    @property
    def has_further(self) -> bool:
        return any(f.value() or f.errors for _, row in self.further_rows for f in row)

    @property
    def words(self) -> list[str]:
        """The words that conditions can name, for the browser to offer."""
        found = {*words_for(None, Fact.LEVEL, self.known)}
        found |= {*words_for(None, Fact.FLAG, self.known)}
        found |= {*self.known.packages, *CheckState}
        return sorted(found)

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

    def _add_condition(self, n: int, about: Any) -> None:
        self.fields[f"fact_{n}"] = forms.ChoiceField(
            label=format_lazy(_("Condition {n}: what"), n=n),
            choices=about,
            required=False,
        )
        self.fields[f"comparison_{n}"] = forms.ChoiceField(
            label=format_lazy(_("Condition {n}: comparison"), n=n),
            choices=COMPARISONS.items(),
            required=False,
        )
        self.fields[f"value_{n}"] = forms.CharField(
            label=format_lazy(_("Condition {n}: value"), n=n),
            max_length=40,
            required=False,
            widget=forms.TextInput(attrs={"list": "words", "autocomplete": "off"}),
        )

    def _show(self, rule: Rule) -> None:
        for n, one in enumerate(rule.when, 1):
            self.initial[f"fact_{n}"] = fact_key(one.check, one.fact)
            self.initial[f"comparison_{n}"] = one.comparison
            self.initial[f"value_{n}"] = value_text(one.value)
        self.initial["then"], self.initial["codes"] = rule.then, list(rule.codes)

    def _read_condition(self, n: int, typed: dict[str, Any]) -> Condition | None:
        about, value = typed.get(f"fact_{n}"), typed.get(f"value_{n}", "").strip()
        if not about:
            if value:
                self.add_error(f"fact_{n}", _("Choose what the condition is about"))
            return None
        check, _separator, fact = about.rpartition(".")
        is_number = fact == Fact.SCORE or fact in NUMBERS
        comparison = Comparison(typed.get(f"comparison_{n}") or Comparison.IS)
        if (comparison in NUMERIC) != is_number:
            choose = _("Choose “is” or “is not”")
            if is_number:
                choose = _("Choose “is at least” or “is below”")
            self.add_error(f"comparison_{n}", choose)
            return None
        read = self._read_number if is_number else self._read_word
        found = read(n, check or None, fact, value)
        if found is None:
            return None
        return Condition(
            check=check or None, fact=fact, comparison=comparison, value=found
        )

    def _read_number(
        self, n: int, check: str | None, fact: str, value: str
    ) -> float | None:
        most = 100 if fact == Fact.SCORE else MAX_NUMBER
        try:
            number = float(value.replace(",", ""))
        except ValueError:
            number = -1
        if 0 <= number <= most:
            return number
        error = format_lazy(_("Enter a number from 0 to {most}"), most=most)
        self.add_error(f"value_{n}", error)
        return None

    def _read_word(
        self, n: int, check: str | None, fact: str, value: str
    ) -> str | None:
        words = {word.casefold(): word for word in words_for(check, fact, self.known)}
        if found := words.get(value.casefold()):
            return found
        listed = ", ".join(words.values())
        self.add_error(
            f"value_{n}",
            format_lazy(_("Enter one of these: {words}"), words=listed)
            if words
            else _("There is none that could be named here"),
        )
        return None


def fact_key(check: str | None, fact: str) -> str:
    return f"{check}.{fact}" if check else fact


def value_text(value: float | str) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


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
                format_lazy("{}: {}", check.display_name, name),
            )
            for fact, name in names.items()
        ]
        choices.append((check.display_name, group))
    return choices


class ActivationForm(forms.Form):
    """How a version works once it is switched on."""

    mode = forms.ChoiceField(
        label=_("Once it is switched on"),
        choices=[
            (PolicyMode.PROPOSE, _("It proposes, and a member confirms")),
            (PolicyMode.DECIDE, _("It decides, and the subject can ask for a person")),
        ],
        widget=forms.RadioSelect,
        error_messages=REQUIRED_ERROR,
    )
    seen = forms.CharField(required=False, widget=forms.HiddenInput)


# What a condition says, by fact and comparison
ABOUT_REPORT = {
    ("score", "AT_LEAST"): _("the score of the report is at least %(value)s"),
    ("score", "BELOW"): _("the score of the report is below %(value)s"),
    ("level", "IS"): _("the level of the report is %(value)s"),
    ("level", "IS_NOT"): _("the level of the report is not %(value)s"),
    ("flag", "IS"): _("a check has the flag %(value)s"),
    ("flag", "IS_NOT"): _("no check has the flag %(value)s"),
    ("package", "IS"): _("the package is %(value)s"),
    ("package", "IS_NOT"): _("the package is not %(value)s"),
}
ABOUT_CHECK = {
    ("score", "AT_LEAST"): _("the score of %(check)s is at least %(value)s"),
    ("score", "BELOW"): _("the score of %(check)s is below %(value)s"),
    ("level", "IS"): _("the level of %(check)s is %(value)s"),
    ("level", "IS_NOT"): _("the level of %(check)s is not %(value)s"),
    ("flag", "IS"): _("%(check)s has the flag %(value)s"),
    ("flag", "IS_NOT"): _("%(check)s does not have the flag %(value)s"),
}
ABOUT_NUMBER = {
    "AT_LEAST": _("the %(number)s of %(check)s is at least %(value)s"),
    "BELOW": _("the %(number)s of %(check)s is below %(value)s"),
}
ABOUT_STATE = {
    ("COMPLETED", "IS"): _("%(check)s was completed"),
    ("COMPLETED", "IS_NOT"): _("%(check)s was not completed"),
    ("FAILED", "IS"): _("%(check)s failed"),
    ("FAILED", "IS_NOT"): _("%(check)s did not fail"),
    ("MISSING", "IS"): _("the report does not have %(check)s"),
    ("MISSING", "IS_NOT"): _("the report has %(check)s"),
}
SENTENCES = {
    "APPROVED": _("If %(conditions)s, approve."),
    "DECLINED": _("If %(conditions)s, decline: %(codes)s."),
    "REVIEW": _("If %(conditions)s, a person reviews it."),
}
FAULTS = {
    Gone.CHECK: _("Rule %(rule)s: the check %(name)s is not offered."),
    Gone.FLAG: _("Rule %(rule)s: the check has no flag %(name)s."),
    Gone.NUMBER: _("Rule %(rule)s: the check does not tell %(name)s."),
    Gone.PACKAGE: _("Rule %(rule)s: the package %(name)s is not offered."),
    Gone.CODE: _("Rule %(rule)s: the reason %(name)s is not offered."),
}
OUTCOMES = {
    DecisionStatus.APPROVED.value: _("Approve"),
    DecisionStatus.DECLINED.value: _("Decline"),
    DecisionStatus.REVIEW.value: _("A person reviews it"),
}
DECIDED = {
    DecisionStatus.APPROVED.value: _("Was approved"),
    DecisionStatus.DECLINED.value: _("Was declined"),
    DecisionStatus.REVIEW.value: _("Left to a person"),
    None: _("Nobody has decided"),
}


def sentence_of(rule: Rule, checks: dict[str, str]) -> str:
    """Return the rule as one sentence; `checks` has the names that people know."""
    conditions = _(" and ").join(_phrase(one, checks) for one in rule.when)
    words = {"conditions": conditions, "codes": ", ".join(rule.codes)}
    return str(SENTENCES[rule.then]) % words


def _phrase(condition: Condition, checks: dict[str, str]) -> str:
    check, comparison = condition.check, condition.comparison.value
    words = {"value": value_text(condition.value)}
    if check is None:
        return str(ABOUT_REPORT[condition.fact, comparison]) % words
    words["check"] = checks.get(check, check)
    if condition.fact in NUMBERS:
        words["number"] = str(NUMBER_NAMES[condition.fact])
        return str(ABOUT_NUMBER[comparison]) % words
    if condition.fact == "state":
        return str(ABOUT_STATE[str(condition.value), comparison]) % words
    return str(ABOUT_CHECK[condition.fact, comparison]) % words


def why_of(decision: Decision) -> list[Text]:
    """Return why a policy has decided so, in sentences; nothing for other decisions."""
    version, basis = decision.policy_version, decision.policy
    if version is None or not basis:
        return []
    if basis["isBroken"]:
        return [_("The version of the policy named something that was gone.")]
    said: Text = _("No rule matched, so a person reviews it.")
    if false := basis.get("contradicted"):
        contradicted = _("The findings contradict %(codes)s, so a person reviews it.")
        said = contradicted % {"codes": ", ".join(false)}
    if number := basis["rule"]:
        rule = read_rules(version.rules)[number - 1]
        said = sentence_of(rule, check_names())
    if unanswered := basis["unanswered"]:
        listed = ", ".join(map(str, unanswered))
        return [said, _("Rules without an answer: %(rules)s.") % {"rules": listed}]
    return [said]


def check_names() -> dict[str, str]:
    return dict(CheckDefinition.objects.values_list("name", "display_name"))


def _sentences(rules: Rules) -> list[str]:
    checks = check_names()
    return [sentence_of(rule, checks) for rule in rules]


def _fault_texts(faults: Iterable[RuleFault]) -> list[str]:
    return [
        str(FAULTS[one.gone]) % {"rule": one.rule, "name": one.name} for one in faults
    ]


REFUSALS: Refusals = {PolicyRefused: lambda e: _(e.obstacle)}


@member_required()
def overview(place: Place) -> HttpResponse:
    """Show the version that decides, the draft, and the former versions."""
    versions = list(versions_of(place.client))
    active = _first(versions, PolicyState.ACTIVE)
    former = [one for one in versions if one.state != PolicyState.DRAFT]
    users = User.objects.in_bulk({one.activated_by_user or 0 for one in former})
    shown: dict[str, Any] = {
        "active": active,
        "draft": _first(versions, PolicyState.DRAFT),
        "versions": [(v, users.get(v.activated_by_user)) for v in former],
    }
    if active:
        rules = read_rules(active.rules)
        faults = find_faults(rules, known_to(place.workspace))
        shown |= {"sentences": _sentences(rules), "faults": _fault_texts(faults)}
    return place.render("policy/overview", shown)


def _first(versions: list[PolicyVersion], state: PolicyState) -> PolicyVersion | None:
    return next((one for one in versions if one.state == state), None)


@member_required()
def version(place: Place, version: UUID) -> HttpResponse:
    """Show one version; a draft with its dry run, and the form that switches it on."""
    found = versions_of(place.client).get(pk=version)
    rules = read_rules(found.rules)
    shown: dict[str, Any] = {
        "version": found,
        "sentences": _sentences(rules),
        "seen": digest_of(found),
    }
    if found.state == PolicyState.DRAFT:
        faults = find_faults(rules, known_to(place.workspace))
        shown |= {"faults": _fault_texts(faults), "is_full": len(rules) >= MAX_RULES}
        if rules and not faults:
            form = ActivationForm(
                initial={"mode": found.mode, "seen": digest_of(found)}
            )
            shown |= {"form": form, **_dry_run_context(place, rules)}
    return place.render("policy/version", shown)


def _dry_run_context(place: Place, rules: Rules) -> dict[str, Any]:
    """Return what the rules would decide beside what was decided."""
    dry = dry_run(place.client, rules)
    rows = [
        (name, [dry.counts.get((was, would), 0) for would in OUTCOMES])
        for was, name in DECIDED.items()
    ]
    number = place.paging["page"]
    begin = number * PAGE_SIZE
    differing = [
        {
            "report": one.report_id,
            "number": number_of_id("R", one.report_id),
            "at": one.ended_at,
            "was": DECIDED[one.decided],
            "would": OUTCOMES[one.outcome.status],
            "rule": one.outcome.rule,
        }
        for one in dry.differences[begin : begin + PAGE_SIZE]
    ]
    return {
        "dry": dry,
        "outcomes": list(OUTCOMES.values()),
        "matrix": [(name, counts) for name, counts in rows if any(counts)],
        "page": ResultPage(differing, len(dry.differences), number, PAGE_SIZE),
    }


@post_required(Permission.MANAGE_SETTINGS)
def open_draft(place: Place) -> HttpResponse:
    """Open a draft with the rules of the version that the form names, or with none."""
    own = versions_of(place.client)
    base_id = read_id(place.request.POST.get("base", ""))
    base = own.filter(pk=base_id).first() if base_id else None
    with place.refusing(REFUSALS, "policy"):
        made = policies.open_draft(place.client, place.member, place.by.actor, base)
    return place.to("policy-version", version=made.pk)


@member_required(Permission.MANAGE_SETTINGS)
def edit_rule(place: Place, version: UUID, number: int | None = None) -> HttpResponse:
    """Show the form of a rule, or of another one; a POST saves it."""
    draft, rules = _open_rules(place, version, number)
    form = PolicyRuleForm(
        place.posted,
        known=known_to(place.workspace),
        choices={"codes": _code_choices(place)},
        rule=rules[number - 1] if number else None,
        seen=digest_of(draft),
    )
    if not form.is_valid():
        more = {"form": form, "version": draft, "number": number}
        return place.render("policy/rule", more)
    if number is None:
        rules.append(form.rule)
    else:
        rules[number - 1] = form.rule
    return _save(place, draft, form.cleaned_data["seen"], rules[:MAX_RULES])


def _open_rules(
    place: Place, version_id: UUID, number: int | None
) -> tuple[PolicyVersion, list[Rule]]:
    """Return a draft and its rules, which have one with this number."""
    drafts = versions_of(place.client).filter(state=PolicyState.DRAFT)
    draft: PolicyVersion = drafts.get(pk=version_id)
    rules = list(read_rules(draft.rules))
    if number is not None and not 0 < number <= len(rules):
        raise PolicyVersion.DoesNotExist
    return draft, rules


def _code_choices(place: Place) -> list[tuple[str, str]]:
    key = "textSw" if get_language() == "sw" else "text"
    active = [row for row in codes_of(place.workspace) if row.active]
    return [(row.code, f"{row.words[key]} ({row.code})") for row in active]


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
    what = SeenDraft(draft.pk, seen)
    with place.refusing(REFUSALS, "policy-version", version=draft.pk):
        policies.save_draft(place.client, what, rules, place.member, place.by.actor)
    return place.to("policy-version", success=_("Saved."), version=draft.pk)


@post_required(Permission.MANAGE_SETTINGS)
def activate(place: Place, version: UUID) -> HttpResponse:
    """Switch a draft on, as its member has seen it."""
    versions_of(place.client).get(pk=version)
    form = ActivationForm(place.posted)
    if not form.is_valid():
        error = _("Choose what it does once it is switched on.")
        return place.to("policy-version", error=error, version=version)
    what, mode = (
        SeenDraft(version, form.cleaned_data["seen"]),
        form.cleaned_data["mode"],
    )
    with place.refusing(REFUSALS, "policy-version", version=version):
        policies.activate(place.client, what, mode, place.member, place.by.actor)
    done = _(
        "The version is switched on. It looks at each report that ends from now on."
    )
    return place.to("policy-version", success=done, version=version)


@post_required(Permission.MANAGE_SETTINGS)
def discard(place: Place, version: UUID) -> HttpResponse:
    with place.refusing(REFUSALS, "policy"):
        policies.discard_draft(place.client, version, place.member, place.by.actor)
    return place.to("policy", success=_("The draft is deleted."))


@post_required(Permission.MANAGE_SETTINGS)
def switch_off(place: Place, version: UUID) -> HttpResponse:
    with place.refusing(REFUSALS, "policy"):
        policies.switch_off(place.client, version, place.member, place.by.actor)
    return place.to("policy", success=_("The policy is switched off."))
