"""The policy: its rules as sentences, its drafts with their dry runs, its versions."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django import forms
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.utils.translation import gettext_lazy as _

from verification.console.base import (
    PAGE_SIZE,
    Place,
    Refusals,
    member_required,
    post_required,
)
from verification.console.policy_form import PolicyRuleForm, given_of
from verification.console.policy_words import Names, fault_texts, marked_conditions
from verification.console.words import WORDS, Topic
from verification.db.base import ResultPage
from verification.decisions import policies
from verification.decisions.models import (
    DecisionStatus,
    PolicyMode,
    PolicyState,
    PolicyVersion,
    reason_text,
)
from verification.decisions.notices import reports_under_correction
from verification.decisions.policies import (
    OPEN,
    DryRun,
    PolicyRefused,
    SeenDraft,
    digest_of,
    dry_run,
    known_to,
    versions_of,
)
from verification.decisions.reason_codes import codes_of
from verification.decisions.rules import MAX_RULES, Rule, Rules, find_faults, read_rules
from verification.reports.models import Report
from verification.web.pages import REQUIRED_ERROR, read_id
from workspaces.members import Permission


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
    **{str(code): text for code, text in WORDS[Topic.DECISION].items()},
    OPEN: _("Not final yet"),
    None: _("Nobody decided"),
}


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
        names = Names.of(place.workspace)
        shown |= {
            "rules": rule_rows(rules, names),
            "faults": fault_texts(faults, names),
        }
    return place.render("policy/overview", shown)


def rule_rows(
    rules: Rules, names: Names, dry: DryRun | None = None
) -> list[dict[str, Any]]:
    """Return the rules as pages show them, with how often each matched in a dry run."""
    return [
        {
            "number": number,
            "conditions": marked_conditions(rule, names),
            "then": rule.then,
            "reasons": names.reasons_of(rule),
            "hits": dry.hits.get(number, 0) if dry else None,
        }
        for number, rule in enumerate(rules, 1)
    ]


def _first(versions: list[PolicyVersion], state: PolicyState) -> PolicyVersion | None:
    return next((one for one in versions if one.state == state), None)


@member_required()
def version(place: Place, version: UUID) -> HttpResponse:
    """Show one version; a draft with its dry run, and the form that switches it on."""
    found = versions_of(place.client).get(pk=version)
    rules = read_rules(found.rules)
    names, dry = Names.of(place.workspace), None
    shown: dict[str, Any] = {
        "version": found,
        "seen": digest_of(found),
        "most": MAX_RULES,
    }
    if found.state == PolicyState.DRAFT:
        faults = find_faults(rules, known_to(place.workspace))
        active = versions_of(place.client).filter(state=PolicyState.ACTIVE).first()
        shown |= {"faults": fault_texts(faults, names), "active": active}
        if rules and not faults:
            dry = dry_run(place.client, rules)
            form = ActivationForm(
                initial={"mode": found.mode, "seen": digest_of(found)}
            )
            shown |= {"form": form, **_dry_run_context(place, dry)}
    shown["rules"] = rule_rows(rules, names, dry)
    return place.render("policy/version", shown)


def _dry_run_context(place: Place, dry: DryRun) -> dict[str, Any]:
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
        "disputed": reports_under_correction(reports),
        "page": ResultPage(differing, len(dry.differences), number, PAGE_SIZE),
    }


def _css(was: str | None, would: str, count: int) -> str:
    if was == would:
        return "same"
    return "other" if was not in {None, OPEN} and count else ""


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
    given: Any = given_of(rules[number - 1] if number else None, digest_of(draft))
    typed = place.posted
    if typed is not None and typed.get("step") == "update":
        # A changed fact of a condition changes its comparisons and values.
        given, typed = typed.dict() | {"codes": typed.getlist("codes")}, None
    form = PolicyRuleForm(
        typed,
        known=known_to(place.workspace),
        names=Names.of(place.workspace),
        given=given,
        choices={"codes": _code_choices(place)},
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
    active = [row for row in codes_of(place.workspace) if row.active]
    return [(row.code, reason_text(row.words)) for row in active]


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


@member_required(Permission.MANAGE_SETTINGS)
def switch_off(place: Place, version: UUID) -> HttpResponse:
    """Ask whether to switch the policy off; a POST does it."""
    if place.posted is None:
        found = versions_of(place.client).get(pk=version)
        return place.render("policy/off", {"version": found})
    with place.refusing(REFUSALS, "policy"):
        policies.switch_off(place.client, version, place.member, place.by.actor)
    return place.to("policy", success=_("The policy is switched off."))
