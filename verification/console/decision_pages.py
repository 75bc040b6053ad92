"""Decisions: their part of a report's page, the answer to a proposal, and settings."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any
from uuid import UUID

from django.db import transaction
from django.http import HttpResponse
from django.utils.translation import get_language, gettext_lazy
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from verification.console import forms
from verification.console.base import Place, member_required
from verification.console.decline_notices import notices_context
from verification.console.policy import check_names, why_of
from verification.decisions import decide as verbs
from verification.decisions import reason_codes
from verification.decisions.decide import (
    NewDecision,
    Obstacle,
    ReportDecisionRefused,
)
from verification.decisions.findings import find_contradictions
from verification.decisions.models import (
    AdverseNotice,
    Decision,
    DecisionState,
    MakerKind,
    NoticeState,
    ReasonCode,
    notice_rule_of,
    rule_of,
)
from verification.decisions.notices import credit_results
from verification.reports.models import Report
from workspaces.members import Permission, has_permission
from workspaces.models import Member

REFUSALS: dict[Obstacle, Any] = {
    Obstacle.NOT_ENDED: gettext_lazy("The report has not ended."),
    Obstacle.NOT_RUN: gettext_lazy("None of its checks was run."),
    Obstacle.CANCELLED: gettext_lazy("The report was cancelled."),
    Obstacle.RESTRICTED: gettext_lazy("The subject objected to further use."),
    Obstacle.ERASED: gettext_lazy("The personal data of the report was erased."),
    Obstacle.SUSPENDED: gettext_lazy("The workspace is suspended."),
    Obstacle.PROPOSED: gettext_lazy(
        "Nothing was done: somebody proposed a decision meanwhile."
    ),
    Obstacle.DECIDED: gettext_lazy(
        "Nothing was done: somebody decided meanwhile. Read their decision first."
    ),
    Obstacle.ANSWERED: gettext_lazy(
        "Nothing was done: somebody confirmed, refused or withdrew it meanwhile."
    ),
    Obstacle.CHANGED: gettext_lazy(
        "Nothing was done: the findings have changed since it was proposed."
    ),
    Obstacle.SAME_PERSON: gettext_lazy(
        "Another member, with another e-mail address, has to confirm it."
    ),
}

SENT_BEFORE = gettext_lazy("You had sent this already. It was done once.")
S = DecisionState
OUTCOMES: dict[DecisionState, Any] = {
    S.PENDING: gettext_lazy(
        "It is proposed. It counts once another member confirms it."
    ),
    S.WAITING: gettext_lazy(
        "The person gets a notice. The decline counts once its time is up."
    ),
    S.FINAL: gettext_lazy("The decision counts now."),
    S.REFUSED: gettext_lazy("The proposal is refused."),
    S.WITHDRAWN: gettext_lazy("The decline is taken back."),
}
# Of a decline whose notice no message can deliver
UNREACHED: dict[DecisionState, Any] = {
    S.WAITING: gettext_lazy(
        "No message reaches the person. The time begins when you hand the notice over."
    ),
    S.FINAL: gettext_lazy(
        "The decision counts now. No message reaches the person: hand the notice over."
    ),
}


def decision_form(place: Place, report: Report) -> forms.DecisionForm:
    made = list(report.decisions.all())
    present = verbs.waiting_of(made) or verbs.present_of(made)
    codes = [row for row in reason_codes.codes_of(place.workspace) if row.active]
    return forms.DecisionForm(
        place.posted,
        initial={"replaces": present.pk if present else None},
        codes=[(row.code, _text(row.words)) for row in codes],
        bureau_codes={row.code for row in codes if row.from_bureau},
        contradictions=_contradictions(report, codes),
        has_credit_check=credit_results(report).exists(),
    )


def _contradictions(report: Report, codes: Collection[ReasonCode]) -> dict[str, str]:
    """Return why reasons cannot be chosen, by their codes, as members read it."""
    texts, names = {row.code: _text(row.words) for row in codes}, check_names()
    return {
        code: _("“%(reason)s” contradicts the result of %(checks)s. Choose what holds")
        % {"reason": texts[code], "checks": ", ".join(names[one] for one in checks)}
        for code, checks in find_contradictions(report, list(texts)).items()
    }


def decline_context(report: Report, form: forms.DecisionForm) -> dict[str, Any]:
    """Return what the page says that asks whether to decline."""
    new = form.new_decision
    texts = dict(form.fields["codes"].choices)  # type: ignore[attr-defined]
    return {
        "report": report,
        "new": new,
        "reasons": [texts[code] for code in new.codes],
        "follows": verbs.consequences_of(report, new),
    }


def decision_context(
    place: Place, report: Report, form: forms.DecisionForm | None = None
) -> dict[str, Any]:
    """Return what the page of a report shows of its decisions."""
    rows = report.decisions.select_related("policy_version").order_by("-number")
    made = list(rows)
    proposal, names = verbs.proposal_of(made), verbs.names_of(made)
    may_decide = has_permission(place.member, Permission.DECIDE_REPORTS)
    obstacle = verbs.obstacle_of(report)
    is_open = may_decide and not obstacle and not proposal
    return {
        "present": verbs.present_of(made),
        "proposal": proposal,
        "waiting": verbs.waiting_of(made),
        "notices": notices_context(report),
        "is_own_proposal": bool(proposal and place.member.user_id in proposal.makers),
        "decisions": [_decision_view(one, names) for one in made],
        "no_decision": REFUSALS[obstacle] if obstacle else "",
        "form": (form or decision_form(place, report)) if is_open else None,
    }


@require_POST
@member_required(Permission.DECIDE_REPORTS)
def confirm(place: Place, decision: UUID) -> HttpResponse:
    return _answer(place, decision, verbs.confirm, {S.FINAL, S.WAITING})


@require_POST
@member_required(Permission.DECIDE_REPORTS)
def refuse(place: Place, decision: UUID) -> HttpResponse:
    return _answer(place, decision, verbs.refuse, {S.REFUSED})


@require_POST
@member_required(Permission.DECIDE_REPORTS)
def withdraw(place: Place, decision: UUID) -> HttpResponse:
    return _answer(place, decision, verbs.withdraw, {S.WITHDRAWN})


def _answer(
    place: Place,
    decision: UUID,
    verb: Callable[..., Decision],
    after: Collection[str],
) -> HttpResponse:
    """Answer a decision; `after` are the states that the verb leads to."""
    own = Decision.objects.filter(**place.lookups)
    report_id = own.get(pk=decision).report_id
    try:
        answered = verb(place.client, decision, place.member, place.by.actor)
    except ReportDecisionRefused as e:
        if _has_answered(place.member, own.get(pk=decision), after):
            return place.to("reports-detail", success=SENT_BEFORE, report=report_id)
        why = REFUSALS[e.obstacle]
        return place.to("reports-detail", error=why, report=report_id)
    done = outcome_of(answered)
    return place.to("reports-detail", success=done, report=report_id)


def outcome_of(decision: Decision) -> str:
    """Return what a member reads who has just made or answered the decision."""
    notice = AdverseNotice.objects.filter(decision=decision).first()
    if notice and notice.state == NoticeState.UNDELIVERED:
        return str(UNREACHED[S(decision.state)])
    return str(OUTCOMES[S(decision.state)])


def _has_answered(member: Member, decision: Decision, after: Collection[str]) -> bool:
    """Return whether the member has given this answer already, by a double click."""
    is_withdrawn = decision.state == S.WITHDRAWN
    by = decision.withdrawn_by_user if is_withdrawn else decision.second_by_user
    return decision.state in after and by == member.user_id


def is_sent_twice(member: Member, new: NewDecision, made_id: UUID) -> bool:
    """Return whether the decision in the way is the new one, by a double click."""
    made = Decision.objects.filter(pk=made_id, made_by_user=member.user_id).first()
    return made is not None and (
        made.status,
        sorted(made.codes or ()),
        made.note or "",
        made.not_on_bureau or "",
    ) == (new.status, sorted(new.codes), new.note, new.not_on_bureau)


def _decision_view(decision: Decision, names: dict[int, str]) -> dict[str, Any]:
    return {
        "row": decision,
        "maker": _maker(decision, names),
        "second": names.get(decision.second_by_user or 0) or decision.second_by,
        "reasons": [(each["code"], _text(each)) for each in decision.reasons],
        "why": why_of(decision),
    }


def _maker(decision: Decision, names: dict[int, str]) -> str:
    if decision.made_by_kind == MakerKind.MEMBER:
        return names.get(decision.made_by_user or 0) or decision.made_by
    if version := decision.policy_version:
        return _("Version %(number)s of the policy") % {"number": version.number}
    return decision.made_by


def _text(words: dict[str, str]) -> str:
    return words["textSw" if get_language() == "sw" else "text"]


@member_required(write=Permission.MANAGE_SETTINGS)
def edit_settings(place: Place) -> HttpResponse:
    """Show the rule of the second member and the reason codes; a POST sets the rule."""
    rule = rule_of(place.workspace)
    form = forms.SecondMemberForm(place.posted, instance=rule)
    if form.is_valid():
        with transaction.atomic():
            form.save()
            place.record("decision-settings.changed", rule, *form.changed_data)
        return place.to("settings-decisions", success=_("Saved."))
    shown = {
        "form": form,
        "rule": rule,
        "notice_form": forms.NoticeRuleForm(instance=notice_rule_of(place.workspace)),
        "codes": reason_codes.codes_of(place.workspace),
        "can_confirm": _count_deciders(place) > 1,
    }
    return place.render("settings/decisions", shown)


def _count_deciders(place: Place) -> int:
    members = place.workspace.members.filter(user__is_active=True)
    return sum(has_permission(one, Permission.DECIDE_REPORTS) for one in members)


@member_required(Permission.MANAGE_SETTINGS)
def add_reason(place: Place) -> HttpResponse:
    form = forms.NewReasonForm(place.posted)
    if form.is_valid() and _add_reason(place, form):
        return place.to("settings-decisions", success=_("Saved."))
    return place.render("settings/reason", {"form": form})


def _add_reason(place: Place, form: forms.NewReasonForm) -> bool:
    try:
        with transaction.atomic():
            made = reason_codes.add_code(place.workspace, **form.cleaned_data)
            place.record("reason-code.added", made)
    except reason_codes.CodeTaken:
        form.add_error("code", _("There is a reason with this code"))
    except reason_codes.TooManyCodes:
        form.add_error(None, _("There are too many reasons. Reword one of them."))
    return form.is_valid()


@member_required(Permission.MANAGE_SETTINGS)
def edit_reason(place: Place, reason: UUID) -> HttpResponse:
    """Reword a reason, or let it be used no more; decisions keep its former words."""
    found = ReasonCode.objects.filter(workspace=place.workspace).get(pk=reason)
    form = forms.ReasonCodeForm(place.posted, instance=found)
    if form.is_valid():
        with transaction.atomic():
            form.save()
            place.record("reason-code.changed", found, *form.changed_data)
        return place.to("settings-decisions", success=_("Saved."))
    return place.render("settings/reason", {"form": form, "reason": found})
