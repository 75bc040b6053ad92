"""Decisions: their part of a report's page, the answer to a proposal, and settings."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from django import forms
from django.db import transaction
from django.http import HttpResponse
from django.utils.translation import gettext_lazy as _

from verification.checks.models import CheckDefinition
from verification.console.base import (
    Place,
    deciders_of,
    member_required,
    names_of_actors,
    post_required,
)
from verification.console.case_pages import open_case_of, to_next
from verification.console.decline_notices import NoticeRuleForm, notices_context
from verification.console.fields import (
    ChoicesForm,
    TextAreaField,
    check_reasons,
    decision_field,
    number_field,
    reasons_field,
    text_field,
)
from verification.console.policy_words import ABOUT_SCORES, why_of
from verification.console.words import WORDS
from verification.decisions import decide as verbs
from verification.decisions import reason_codes
from verification.decisions.decide import (
    Consequences,
    NewDecision,
    Obstacle,
    ReportDecisionRefused,
)
from verification.decisions.findings import weigh_reasons
from verification.decisions.models import (
    CODE_PATTERN,
    MAX_NOTE_LENGTH,
    MAX_TEXT_LENGTH,
    AdverseNotice,
    Case,
    Decision,
    DecisionState,
    DecisionStatus,
    NoticeState,
    ReasonCode,
    SecondMemberRule,
    notice_rule_of,
    reason_text,
    rule_of,
)
from verification.decisions.notices import credit_results
from verification.decisions.rules import SCORE_TOO_LOW, is_about
from verification.reports.models import Report
from verification.web.pages import REQUIRED_ERROR
from workspaces.members import Permission
from workspaces.models import Member


class DecisionForm(ChoicesForm):
    status = decision_field(_("Your decision"), _("Keep in review"))
    codes = reasons_field()
    note = TextAreaField(
        MAX_NOTE_LENGTH,
        label=_("Note"),
        required=False,
        help_text=_("For members and your programs; the subject's page has no notes"),
    )
    not_on_bureau = forms.CharField(
        label=_("Why a decline does not rest on the credit bureau's result"),
        required=False,
        max_length=MAX_NOTE_LENGTH,
        help_text=_("Empty if it does: then the person gets a notice with the reasons"),
    )
    # The decision that the member has read
    replaces = forms.UUIDField(required=False, widget=forms.HiddenInput)
    # True once the member has read the consequences of a decline
    confirmed = forms.BooleanField(required=False, widget=forms.HiddenInput)

    def __init__(
        self,
        typed: Any,
        *,
        bureau_codes: Collection[str],
        suggestions: Collection[str],
        contradictions: Mapping[str, str],
        has_credit_check: bool,
        **more: Any,
    ):
        super().__init__(typed, **more)
        self.bureau_codes, self.contradictions = bureau_codes, contradictions
        self.suggestions = suggestions
        if not has_credit_check:
            del self.fields["not_on_bureau"]

    @property
    def suggested(self) -> list[forms.boundfield.BoundWidget]:
        """The boxes of the reasons that the findings speak for."""
        return [one for one in self["codes"] if one.data["value"] in self.suggestions]

    @property
    def further(self) -> list[tuple[forms.boundfield.BoundWidget, str]]:
        """The boxes of the other reasons, each with its contradiction, if any, last."""
        found = [
            (one, self.contradictions.get(one.data["value"], ""))
            for one in self["codes"]
            if one.data["value"] not in self.suggestions
        ]
        return sorted(found, key=lambda row: bool(row[1]))

    @property
    def shows_all(self) -> bool:
        """True if the other reasons are open: one is chosen, or one is missing."""
        chosen = set(self["codes"].value() or ())
        return bool(self["codes"].errors or chosen - set(self.suggestions))

    def clean(self) -> dict[str, Any]:
        typed: dict[str, Any] = super().clean() or {}
        asks = typed.get("status") == DecisionStatus.DECLINED and not typed["confirmed"]
        if asks and not typed.get("codes", self.suggestions):
            # The next page shows them, and the member can take them out there.
            left_out = self.bureau_codes if typed.get("not_on_bureau") else ()
            typed["codes"] = [one for one in self.suggestions if one not in left_out]
        codes = typed.get("codes", [])
        check_reasons(self, typed.get("status"))
        for one in self["codes"]:
            code = one.data["value"]
            if code in codes and code in self.contradictions:
                text = f"{one.choice_label}: {self.contradictions[code]}"
                self.add_error("codes", text)
        if typed.get("not_on_bureau"):
            if typed.get("status") != DecisionStatus.DECLINED:
                self.add_error("not_on_bureau", _("This is only for declines"))
            elif set(codes) & set(self.bureau_codes):
                why = _("A reason that you chose comes from a credit bureau")
                self.add_error("not_on_bureau", why)
        return typed

    @property
    def has_to_confirm(self) -> bool:
        """True if the member first has to read the consequences."""
        typed = self.cleaned_data
        return typed["status"] == DecisionStatus.DECLINED and not typed["confirmed"]

    @property
    def new_decision(self) -> NewDecision:
        typed = self.cleaned_data
        return NewDecision(
            typed["status"],
            typed["codes"],
            typed["note"],
            typed["replaces"],
            typed.get("not_on_bureau", ""),
        )


def score_field(label: Any, help_text: Any) -> forms.IntegerField:
    error = _("Enter a score from 0 to 100, or nothing")
    return number_field(label, 0, 100, error, required=False, help_text=help_text)


def bureau_field() -> forms.BooleanField:
    return forms.BooleanField(
        label=_("It comes from a credit bureau"),
        required=False,
        help_text=_("A decline for this reason sends the person a notice"),
    )


class SecondMemberForm(forms.ModelForm):
    """When a second member has to confirm a decision."""

    declines = forms.BooleanField(label=_("All declines"), required=False)
    score_from = score_field(
        _("Reports with this score or a higher one"),
        _("Approvals and declines; a higher score is riskier. Empty for none"),
    )
    score_to = score_field(
        _("Reports with this score or a lower one"),
        _("Empty for none"),
    )

    class Meta:
        model = SecondMemberRule
        fields = ["declines", "score_from", "score_to"]


class ReasonCodeForm(forms.ModelForm):
    text = text_field(_("Text in English"), MAX_TEXT_LENGTH)
    text_sw = text_field(_("Text in Kiswahili"), MAX_TEXT_LENGTH)
    from_bureau = bureau_field()
    active = forms.BooleanField(label=_("Offered for new decisions"), required=False)

    class Meta:
        model = ReasonCode
        fields = ["text", "text_sw", "from_bureau", "active"]


class NewReasonForm(forms.Form):
    code = forms.RegexField(
        f"^{CODE_PATTERN}$",
        label=_("Code"),
        max_length=40,
        help_text=_(
            "Capital letters, digits and _, such as RENT_IN_ARREARS. It never changes"
        ),
        error_messages={
            **REQUIRED_ERROR,
            "invalid": _("Enter 2 to 40 capital letters, digits and _"),
        },
    )
    text = text_field(
        _("Text in English"),
        MAX_TEXT_LENGTH,
        help_text=_("The subject and readers of the PDF see it"),
    )
    text_sw = text_field(_("Text in Kiswahili"), MAX_TEXT_LENGTH)
    from_bureau = bureau_field()


REFUSALS: dict[Obstacle, Any] = {
    Obstacle.NOT_ENDED: _("You can decide once the checks have finished."),
    Obstacle.NOT_RUN: _("None of its checks was run."),
    Obstacle.CANCELLED: _("The report was cancelled."),
    Obstacle.RESTRICTED: _(
        "The report cannot be decided: the subject objected to further use."
    ),
    Obstacle.ERASED: _("The personal data of the report was erased."),
    Obstacle.SUSPENDED: _("The workspace is suspended."),
    Obstacle.PROPOSED: _("Nothing was done: somebody proposed a decision meanwhile."),
    Obstacle.DECIDED: _(
        "Nothing was done: somebody decided meanwhile. Read their decision first."
    ),
    **dict.fromkeys(
        (Obstacle.NONE_COUNTS, Obstacle.ANSWERED),
        _("Nothing was done: somebody confirmed, refused or withdrew it meanwhile."),
    ),
    Obstacle.CHANGED: _(
        "Nothing was done: the findings have changed since it was proposed."
    ),
    Obstacle.SAME_PERSON: _(
        "Another member, with another e-mail address, has to confirm it."
    ),
}

CONTRADICTED = _("Contradicts the result of %(checks)s")
# Nobody can decide about such a report any more.
FINAL_OBSTACLES = {Obstacle.ERASED, Obstacle.RESTRICTED, Obstacle.CANCELLED}
SENT_BEFORE = _("You sent this before. It was done once.")
S = DecisionState
OUTCOMES: dict[DecisionState, Any] = {
    S.PENDING: _("It is proposed. It counts once another member confirms it."),
    S.WAITING: _("The person gets a notice. The decline counts once its time is up."),
    S.FINAL: _("The decision counts now."),
    S.REFUSED: _("The proposal is refused."),
    S.WITHDRAWN: _("The decline is taken back."),
}
# Of a decline whose notice no message can deliver
UNREACHED: dict[DecisionState, Any] = {
    S.WAITING: _(
        "No message reaches the person. The time begins when you hand the notice over."
    ),
    S.FINAL: _(
        "The decision counts now. No message reaches the person: hand the notice over."
    ),
}


def decision_form(
    place: Place, report: Report, made: Iterable[Decision]
) -> DecisionForm:
    """Return the form of the next decision; `made` are those of the report."""
    present = verbs.waiting_of(made) or verbs.present_of(made)
    checks = {one.name: one for one in CheckDefinition.objects.all()}
    types = {name: one.subject_types for name, one in checks.items()}
    codes = [
        row
        for row in reason_codes.codes_of(place.workspace)
        if row.active and is_about(row.code, report.subject_type, types)
    ]
    texts = {row.code: reason_text(row.words) for row in codes}
    suggested, contradicted = weigh_reasons(report, list(texts))
    return DecisionForm(
        place.posted,
        initial={"replaces": present.pk if present else None},
        choices={"codes": texts.items()},
        bureau_codes={row.code for row in codes if row.from_bureau},
        suggestions=suggested,
        contradictions={
            code: CONTRADICTED % {"checks": ", ".join(checks[one].title for one in by)}
            for code, by in contradicted.items()
        },
        has_credit_check=credit_results(report).exists(),
    )


def decline_context(report: Report, form: DecisionForm) -> dict[str, Any]:
    """Return what the page says that asks whether to decline."""
    new = form.new_decision
    texts = dict(form.fields["codes"].choices)  # type: ignore[attr-defined]
    reasons = [(code, texts[code]) for code in new.codes]
    follows = verbs.consequences_of(report, new)
    return {"new": new, **_follows_context(report, follows, reasons)}


def _follows_context(
    report: Report, follows: Consequences, reasons: list[tuple[str, str]]
) -> dict[str, Any]:
    is_by_score = [code for code, _text in reasons] == [SCORE_TOO_LOW]
    return {
        "report": report,
        "follows": follows,
        "reasons": reasons,
        "advice": ABOUT_SCORES if is_by_score else "",
        "channels": _(" and ").join(
            str(WORDS["channel"][one]) for one in follows.channels
        ),
    }


def decision_context(
    place: Place, report: Report, form: DecisionForm | None = None
) -> dict[str, Any]:
    """Return what the page of a report shows of its decisions."""
    rows = report.decisions.select_related("policy_version").order_by("-number")
    made = list(rows)
    proposal, names = verbs.proposal_of(made), _names_of(report, made)
    may_decide = Permission.DECIDE_REPORTS in place.offered
    obstacle = verbs.obstacle_of(report)
    is_open = may_decide and not obstacle and not proposal
    notices = notices_context(report)
    return {
        "present": verbs.present_of(made),
        "proposal": proposal,
        "waiting": verbs.waiting_of(made),
        "notices": notices,
        "has_to_hand_over": any(
            one["is_open"] and one["row"].state == NoticeState.UNDELIVERED
            for one in notices
        ),
        "is_own_proposal": bool(proposal and place.member.user_id in proposal.makers),
        "decisions": [_decision_view(one, names) for one in made],
        "no_decision": REFUSALS[obstacle] if obstacle else "",
        "is_undecidable": obstacle in FINAL_OBSTACLES,
        "form": (form or decision_form(place, report, made)) if is_open else None,
        "second_rule": rule_of(place.workspace) if is_open else None,
    }


@post_required(Permission.DECIDE_REPORTS)
def confirm(place: Place, decision: UUID) -> HttpResponse:
    """Make a proposal count. A decline asks first, on a page that says what follows."""
    if "confirmed" not in place.request.POST:
        own = Decision.objects.filter(**place.lookups)
        proposal = own.select_related("report__workspace").get(pk=decision)
        report = proposal.report
        asks = proposal.status == DecisionStatus.DECLINED
        if asks and not verbs.obstacle_to_confirm(report, proposal, place.member):
            follows = verbs.consequences_of_confirming(report, proposal)
            reasons = [(one["code"], reason_text(one)) for one in proposal.reasons]
            shown = _follows_context(report, follows, reasons)
            return place.render("reports/decline", shown)
    return _answer(place, decision, verbs.confirm, {S.FINAL, S.WAITING})


@post_required(Permission.DECIDE_REPORTS)
def refuse(place: Place, decision: UUID) -> HttpResponse:
    return _answer(place, decision, verbs.refuse, {S.REFUSED})


@post_required(Permission.DECIDE_REPORTS)
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
    case = open_case_of(place, report_id)
    try:
        answered = verb(place.client, decision, place.member, place.by.actor)
    except ReportDecisionRefused as e:
        made = own.get(pk=decision)
        is_withdrawn = made.state == S.WITHDRAWN
        by = made.withdrawn_by_user if is_withdrawn else made.second_by_user
        if made.state in after and by == place.member.user_id:
            # A double click
            return place.to_report(report_id, success=SENT_BEFORE)
        return place.to_report(report_id, error=REFUSALS[e.obstacle])
    return after_decision(place, answered, case)


def after_decision(place: Place, decision: Decision, case: Case | None) -> HttpResponse:
    """Say what a member's decision has done, and show the next case.

    The report stays where a member has more to do there: a notice to hand over, or
    another decision after a refusal.
    """
    state, report_id = S(decision.state), decision.report_id
    notice = AdverseNotice.objects.filter(decision=decision).first()
    if notice and notice.state == NoticeState.UNDELIVERED:
        return place.to_report(report_id, success=UNREACHED[state])
    is_over = state not in {S.REFUSED, S.WITHDRAWN}
    return to_next(place, report_id, str(OUTCOMES[state]), case if is_over else None)


def is_sent_twice(member: Member, new: NewDecision, made_id: UUID) -> bool:
    """Return whether the decision in the way is the new one, by a double click."""
    made = Decision.objects.filter(pk=made_id, made_by_user=member.user_id).first()
    return made is not None and (
        made.status,
        sorted(made.codes or ()),
        made.note or "",
        made.not_on_bureau or "",
    ) == (new.status, sorted(new.codes), new.note, new.not_on_bureau)


def _names_of(report: Report, decisions: Sequence[Decision]) -> dict[str, str]:
    """Return the names of the people and keys behind these, by actor.

    A member without a name is known by their e-mail address while they are a member.
    """
    users = verbs.names_of(decisions)
    names = {
        actor: users.get(user or 0, "")
        for one in decisions
        for actor, user in (
            (one.made_by, one.made_by_user),
            (one.second_by, one.second_by_user),
        )
    }
    nameless = [actor for actor, name in names.items() if actor and not name]
    return names | names_of_actors(report.workspace_id, nameless)


def _decision_view(decision: Decision, names: dict[str, str]) -> dict[str, Any]:
    maker = names.get(decision.made_by) or decision.made_by
    if version := decision.policy_version:
        maker = _("Version %(number)s of the policy") % {"number": version.number}
    return {
        "row": decision,
        "maker": maker,
        "second": names.get(decision.second_by) or decision.second_by,
        "reasons": [reason_text(each) for each in decision.reasons],
        "why": why_of(decision),
    }


@member_required(write=Permission.MANAGE_SETTINGS)
def edit_settings(place: Place) -> HttpResponse:
    """Show the rule of the second member and the reason codes; a POST sets the rule."""
    rule = rule_of(place.workspace)
    form = SecondMemberForm(place.posted, instance=rule)
    if form.is_valid():
        return place.save(form, "decision-settings.changed", "settings-decisions")
    shown = {
        "form": form,
        "rule": rule,
        "notice_form": NoticeRuleForm(instance=notice_rule_of(place.workspace)),
        "codes": reason_codes.codes_of(place.workspace),
        "can_confirm": deciders_of(place.workspace).count() > 1,
    }
    return place.render("settings/decisions", shown)


@member_required(Permission.MANAGE_SETTINGS)
def add_reason(place: Place) -> HttpResponse:
    form = NewReasonForm(place.posted)
    if form.is_valid():
        try:
            with transaction.atomic():
                made = reason_codes.add_code(place.workspace, **form.cleaned_data)
                place.record("reason-code.added", made)
            return place.to("settings-decisions", success=_("Saved."))
        except reason_codes.CodeTaken:
            form.add_error("code", _("There is a reason with this code"))
        except reason_codes.TooManyCodes:
            form.add_error(None, _("There are too many reasons. Reword one of them."))
    return place.render("settings/reason", {"form": form})


@member_required(Permission.MANAGE_SETTINGS)
def edit_reason(place: Place, reason: UUID) -> HttpResponse:
    """Reword a reason, or let it be used no more; decisions keep its former words."""
    found = ReasonCode.objects.filter(workspace=place.workspace).get(pk=reason)
    form = ReasonCodeForm(place.posted, instance=found)
    if form.is_valid():
        return place.save(form, "reason-code.changed", "settings-decisions")
    return place.render("settings/reason", {"form": form, "reason": found})
