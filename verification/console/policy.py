"""The policy: its rules as sentences, its drafts with their dry runs, its versions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.http import HttpResponse
from django.utils.translation import get_language, gettext_lazy
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from verification.checks.models import CheckDefinition
from verification.console import forms
from verification.console.base import PAGE_SIZE, Page, Place, member_required
from verification.db.ids import number_of_id
from verification.decisions import policies
from verification.decisions.models import (
    Decision,
    DecisionStatus,
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
    MAX_RULES,
    NUMBERS,
    Condition,
    Gone,
    Rule,
    RuleFault,
    Rules,
    find_faults,
    read_rules,
)
from workspaces.members import Permission

# What a condition says, by fact and comparison
ABOUT_REPORT = {
    ("score", "AT_LEAST"): gettext_lazy(
        "the score of the report is at least %(value)s"
    ),
    ("score", "BELOW"): gettext_lazy("the score of the report is below %(value)s"),
    ("level", "IS"): gettext_lazy("the level of the report is %(value)s"),
    ("level", "IS_NOT"): gettext_lazy("the level of the report is not %(value)s"),
    ("flag", "IS"): gettext_lazy("a check has the flag %(value)s"),
    ("flag", "IS_NOT"): gettext_lazy("no check has the flag %(value)s"),
    ("package", "IS"): gettext_lazy("the package is %(value)s"),
    ("package", "IS_NOT"): gettext_lazy("the package is not %(value)s"),
}
ABOUT_CHECK = {
    ("score", "AT_LEAST"): gettext_lazy("the score of %(check)s is at least %(value)s"),
    ("score", "BELOW"): gettext_lazy("the score of %(check)s is below %(value)s"),
    ("level", "IS"): gettext_lazy("the level of %(check)s is %(value)s"),
    ("level", "IS_NOT"): gettext_lazy("the level of %(check)s is not %(value)s"),
    ("flag", "IS"): gettext_lazy("%(check)s has the flag %(value)s"),
    ("flag", "IS_NOT"): gettext_lazy("%(check)s does not have the flag %(value)s"),
}
ABOUT_NUMBER = {
    "AT_LEAST": gettext_lazy("the %(number)s of %(check)s is at least %(value)s"),
    "BELOW": gettext_lazy("the %(number)s of %(check)s is below %(value)s"),
}
ABOUT_STATE = {
    ("COMPLETED", "IS"): gettext_lazy("%(check)s was completed"),
    ("COMPLETED", "IS_NOT"): gettext_lazy("%(check)s was not completed"),
    ("FAILED", "IS"): gettext_lazy("%(check)s failed"),
    ("FAILED", "IS_NOT"): gettext_lazy("%(check)s did not fail"),
    ("MISSING", "IS"): gettext_lazy("the report does not have %(check)s"),
    ("MISSING", "IS_NOT"): gettext_lazy("the report has %(check)s"),
}
SENTENCES = {
    "APPROVED": gettext_lazy("If %(conditions)s, approve."),
    "DECLINED": gettext_lazy("If %(conditions)s, decline: %(codes)s."),
    "REVIEW": gettext_lazy("If %(conditions)s, a person reviews it."),
}
FAULTS = {
    Gone.CHECK: gettext_lazy("Rule %(rule)s: the check %(name)s is not offered."),
    Gone.FLAG: gettext_lazy("Rule %(rule)s: the check has no flag %(name)s."),
    Gone.NUMBER: gettext_lazy("Rule %(rule)s: the check does not tell %(name)s."),
    Gone.PACKAGE: gettext_lazy("Rule %(rule)s: the package %(name)s is not offered."),
    Gone.CODE: gettext_lazy("Rule %(rule)s: the reason %(name)s is not offered."),
}
OUTCOMES = {
    DecisionStatus.APPROVED.value: gettext_lazy("Approve"),
    DecisionStatus.DECLINED.value: gettext_lazy("Decline"),
    DecisionStatus.REVIEW.value: gettext_lazy("A person reviews it"),
}
DECIDED = {
    DecisionStatus.APPROVED.value: gettext_lazy("Was approved"),
    DecisionStatus.DECLINED.value: gettext_lazy("Was declined"),
    DecisionStatus.REVIEW.value: gettext_lazy("Left to a person"),
    None: gettext_lazy("Nobody has decided"),
}


def sentence_of(rule: Rule, checks: dict[str, str]) -> str:
    """Return the rule as one sentence; `checks` has the names that people know."""
    conditions = _(" and ").join(_phrase(one, checks) for one in rule.when)
    words = {"conditions": conditions, "codes": ", ".join(rule.codes)}
    return str(SENTENCES[rule.then]) % words


def _phrase(condition: Condition, checks: dict[str, str]) -> str:
    check, comparison = condition.check, condition.comparison.value
    words = {"value": forms.value_text(condition.value)}
    if check is None:
        return str(ABOUT_REPORT[condition.fact, comparison]) % words
    words["check"] = checks.get(check, check)
    if condition.fact in NUMBERS:
        words["number"] = str(forms.NUMBER_NAMES[condition.fact])
        return str(ABOUT_NUMBER[comparison]) % words
    if condition.fact == "state":
        return str(ABOUT_STATE[str(condition.value), comparison]) % words
    return str(ABOUT_CHECK[condition.fact, comparison]) % words


def why_of(decision: Decision) -> list[str]:
    """Return why a policy has decided so, in sentences; nothing for other decisions."""
    version, basis = decision.policy_version, decision.policy
    if version is None or not basis:
        return []
    if basis["isBroken"]:
        return [_("The version of the policy named something that was gone.")]
    said = _("No rule matched, so a person reviews it.")
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


@member_required()
def overview(place: Place) -> HttpResponse:
    """Show the version that decides, the draft, and the former versions."""
    versions = list(versions_of(place.client))
    active = _first(versions, PolicyState.ACTIVE)
    shown: dict[str, Any] = {
        "active": active,
        "draft": _first(versions, PolicyState.DRAFT),
        "versions": _with_names(v for v in versions if v.state != PolicyState.DRAFT),
    }
    if active:
        rules = read_rules(active.rules)
        faults = find_faults(rules, known_to(place.workspace))
        shown |= {"sentences": _sentences(rules), "faults": _fault_texts(faults)}
    return place.render("policy/overview", shown)


def _first(versions: list[PolicyVersion], state: PolicyState) -> PolicyVersion | None:
    return next((one for one in versions if one.state == state), None)


def _with_names(versions: Iterable[PolicyVersion]) -> list[dict[str, Any]]:
    rows = list(versions)
    users = [row.activated_by_user for row in rows if row.activated_by_user]
    found = {one.pk: one.get_full_name() for one in User.objects.filter(pk__in=users)}
    return [
        {"row": row, "member": found.get(row.activated_by_user or 0)} for row in rows
    ]


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
            form = forms.ActivationForm(
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
    number = place.page_number
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
        "page": Page(differing, len(dry.differences), number),
    }


@require_POST
@member_required(Permission.MANAGE_SETTINGS)
def open_draft(place: Place) -> HttpResponse:
    """Open a draft with the rules of the version that the form names, or with none."""
    own = versions_of(place.client)
    base_id = place.request.POST.get("base", "")
    base = own.filter(pk=base_id).first() if _is_uuid(base_id) else None
    by = place.by.actor
    try:
        made = policies.open_draft(place.client, place.member, by, base)
    except PolicyRefused as e:
        return place.to("policy", error=_(e.obstacle))
    return place.to("policy-version", version=made.pk)


def _is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True


@member_required(Permission.MANAGE_SETTINGS)
def add_rule(place: Place, version: UUID) -> HttpResponse:
    return _edit_rules(place, version, None)


@member_required(Permission.MANAGE_SETTINGS)
def edit_rule(place: Place, version: UUID, number: int) -> HttpResponse:
    return _edit_rules(place, version, number)


def _edit_rules(place: Place, version_id: UUID, number: int | None) -> HttpResponse:
    draft = _get_draft(place, version_id)
    rules = list(read_rules(draft.rules))
    if number is not None and not 0 < number <= len(rules):
        raise PolicyVersion.DoesNotExist
    form = forms.PolicyRuleForm(
        place.posted,
        known=known_to(place.workspace),
        codes=_code_choices(place),
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


def _get_draft(place: Place, version_id: UUID) -> PolicyVersion:
    drafts = versions_of(place.client).filter(state=PolicyState.DRAFT)
    draft: PolicyVersion = drafts.get(pk=version_id)
    return draft


def _code_choices(place: Place) -> list[tuple[str, str]]:
    key = "textSw" if get_language() == "sw" else "text"
    active = [row for row in codes_of(place.workspace) if row.active]
    return [(row.code, f"{row.words[key]} ({row.code})") for row in active]


@require_POST
@member_required(Permission.MANAGE_SETTINGS)
def move_rule(place: Place, version: UUID, number: int) -> HttpResponse:
    """Let a rule be read before the one above it."""

    def move(rules: list[Rule]) -> None:
        if number > 1:
            rules.insert(number - 2, rules.pop(number - 1))

    return _change_rules(place, version, number, move)


@require_POST
@member_required(Permission.MANAGE_SETTINGS)
def remove_rule(place: Place, version: UUID, number: int) -> HttpResponse:
    return _change_rules(place, version, number, lambda rules: rules.pop(number - 1))


def _change_rules(
    place: Place,
    version_id: UUID,
    number: int,
    change: Callable[[list[Rule]], object],
) -> HttpResponse:
    draft = _get_draft(place, version_id)
    rules = list(read_rules(draft.rules))
    if not 0 < number <= len(rules):
        raise PolicyVersion.DoesNotExist
    change(rules)
    return _save(place, draft, place.request.POST.get("seen", ""), rules)


def _save(
    place: Place, draft: PolicyVersion, seen: str, rules: list[Rule]
) -> HttpResponse:
    what = SeenDraft(draft.pk, seen)
    by = place.by.actor
    return _do(
        place,
        draft.pk,
        lambda: policies.save_draft(place.client, what, rules, place.member, by),
        _("Saved."),
    )


@require_POST
@member_required(Permission.MANAGE_SETTINGS)
def activate(place: Place, version: UUID) -> HttpResponse:
    """Switch a draft on, as its member has seen it."""
    versions_of(place.client).get(pk=version)
    form = forms.ActivationForm(place.posted)
    if not form.is_valid():
        error = _("Choose what it does once it is switched on.")
        return place.to("policy-version", error=error, version=version)
    typed, by = form.cleaned_data, place.by.actor
    what = SeenDraft(version, typed["seen"])
    return _do(
        place,
        version,
        lambda: policies.activate(place.client, what, typed["mode"], place.member, by),
        _("The version is switched on. It looks at each report that ends from now on."),
    )


@require_POST
@member_required(Permission.MANAGE_SETTINGS)
def discard(place: Place, version: UUID) -> HttpResponse:
    by = place.by.actor
    try:
        policies.discard_draft(place.client, version, place.member, by)
    except PolicyRefused as e:
        return place.to("policy", error=_(e.obstacle))
    return place.to("policy", success=_("The draft is deleted."))


@require_POST
@member_required(Permission.MANAGE_SETTINGS)
def switch_off(place: Place, version: UUID) -> HttpResponse:
    by = place.by.actor
    try:
        policies.switch_off(place.client, version, place.member, by)
    except PolicyRefused as e:
        return place.to("policy", error=_(e.obstacle))
    return place.to("policy", success=_("The policy is switched off."))


def _do(
    place: Place, version_id: UUID, verb: Callable[[], object], done: str
) -> HttpResponse:
    """Call a verb about a draft, and show the version with what came of it."""
    try:
        verb()
    except PolicyRefused as e:
        error = _(e.obstacle)
        return place.to("policy-version", error=error, version=version_id)
    return place.to("policy-version", success=done, version=version_id)
