"""The queue of reports that wait for a decision, and its part of a report's page.

A tab has the notices of declines to hand over. Clear cases are approved together:
choose, read the left-out cases, confirm.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from django import forms
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpResponse, QueryDict
from django.utils.http import urlencode
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from verification.checks.models import CheckPackage
from verification.console.base import (
    PAGE_SIZE,
    Place,
    Text,
    deciders_of,
    member_name,
    member_required,
    post_required,
)
from verification.console.fields import (
    ALL_CHOICE,
    FilterForm,
    filter_field,
    number_field,
    search_field,
    text_area,
)
from verification.console.words import choices_of
from verification.db.base import read_page
from verification.decisions import cases as verbs
from verification.decisions import notices
from verification.decisions.case_list import (
    MAX_COUNT,
    Holder,
    QueueFilters,
    Wait,
    can_search,
    count_cases,
    count_open,
    list_case_ids,
    list_cases,
)
from verification.decisions.cases import CaseObstacle, CaseRefused
from verification.decisions.clear_cases import (
    MAX_APPROVED,
    MAX_EXAMINED,
    SortedCases,
    Unclear,
    approve_clear,
    count_decided,
    sort_cases,
)
from verification.decisions.models import (
    MAX_NOTE_LENGTH,
    AdverseNotice,
    Case,
    CaseCause,
    CaseNote,
)
from verification.decisions.notices import reports_under_correction
from verification.reports.models import Report, ReportStatus, RiskLevel
from verification.values.clock import now
from verification.web.pages import read_id
from workspaces.members import Permission
from workspaces.models import MAX_DECISION_HOURS, Member

# Cases that are due within this time are marked.
SOON = timedelta(hours=3)


# The number of names of left-out cases that are shown for each reason
MAX_NAMES = 20
WHY_LEFT_OUT: dict[Unclear, Any] = {
    Unclear.CLOSED: _("They no longer need a decision."),
    Unclear.RUNNING: _("Their checks run again."),
    Unclear.TAKEN: _("A colleague has taken them."),
    Unclear.DECIDED: _(
        "They have a decision or proposal, or a person has to review them."
    ),
    Unclear.SECOND: _("They need a second member."),
    Unclear.FINDINGS: _("They have findings to look at, or their risk is not low."),
}


class QueueForm(FilterForm):
    search = search_field(_("Name, ID number or reference"), accesskey="s")
    wait = filter_field(
        _("Needs"),
        [
            (Wait.DECISION, _("A decision")),
            (Wait.SECOND, _("A second member")),
        ],
    )
    level = filter_field(_("Risk"), choices_of("risk"))
    package = filter_field(_("Package"))
    holder = filter_field(
        _("Assigned to"),
        [
            (Holder.MINE, _("You")),
            (Holder.NOBODY, _("Nobody")),
        ],
    )
    # A tab chooses it.
    overdue = forms.BooleanField(
        label=_("Late"), required=False, widget=forms.HiddenInput
    )

    @property
    def tab(self) -> str:
        """The tab of the page that shows what the filters show; empty for none."""
        chosen = {name: value for name, value in self.chosen.items() if value}
        return TABS.get(tuple(chosen.items()), "")

    @property
    def chips(self) -> list[tuple[str, str]]:
        late = self["overdue"]
        is_late = self.chosen[late.name]
        return [*super().chips, *([(late.name, str(late.label))] if is_late else [])]


# Filters -> the tab of the page that shows the same
TABS: dict[tuple[tuple[str, Any], ...], str] = {
    (): "all",
    (("overdue", True),): "overdue",
    (("holder", Holder.MINE),): "mine",
    (("holder", Holder.NOBODY),): "nobody",
    (("wait", Wait.SECOND),): "second",
}


class AssignmentForm(forms.Form):
    """The new assignee of a case; `seen` is the assignee when the page was shown."""

    member = forms.ModelChoiceField(
        queryset=Member.objects.none(),
        label=_("Assign to"),
        required=False,
        empty_label=_("Nobody"),
    )
    seen = forms.UUIDField(required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, members: QuerySet[Member], **more: Any) -> None:
        super().__init__(*args, **more)
        chosen: Any = self.fields["member"]
        chosen.queryset = members
        chosen.label_from_instance = member_name


class CaseNoteForm(forms.Form):
    text = text_area(_("New note"), MAX_NOTE_LENGTH)


class ServiceLevelForm(forms.Form):
    decision_hours = number_field(
        _("Hours until a report is decided"),
        1,
        MAX_DECISION_HOURS,
        format_lazy(_("Enter 1 to {most} hours, or nothing"), most=MAX_DECISION_HOURS),
        required=False,
        help_text=_(
            "Counted from its end. Empty: only what needs a person is in the queue"
        ),
    )


CAUSES: dict[str, Any] = {
    CaseCause.ENDED: _("The report has ended."),
    CaseCause.PROPOSED: _("A decision was proposed."),
    CaseCause.REVIEW: _("A decision left it to a person to review."),
    CaseCause.CHANGED: _("The findings changed after a decision or proposal."),
    CaseCause.REQUESTED: _("The subject asks a person to decide."),
}


@member_required()
def listing(place: Place) -> HttpResponse:
    """List the open cases; the case with the earliest due time comes first."""
    packages = package_names(place)
    form = queue_form(place, place.request.GET, packages)
    filters = QueueFilters(**form.chosen)
    after = read_id(place.request.GET.get("after", ""))
    found, following = list_cases(
        place.member, place.environment, filters, after=after, size=PAGE_SIZE
    )
    cases = [_case_view(place, case, packages) for case in found]
    place.disclose_risks(case.report for case in found)
    shown = {
        "form": form,
        "cases": cases,
        "disputed": reports_under_correction([one.pk for one in found]),
        "has_offered": not all(case["alone"] for case in cases),
        "after": following,
        "is_continued": after is not None,
        "held": verbs.count_held(place.member, place.environment),
        "tab": form.tab,
        **tab_context(place),
    }
    return place.render("queue", shown)


@member_required()
def list_notices(place: Place) -> HttpResponse:
    """List the notices that somebody has to hand over, those tried last first."""
    rows = to_hand_over_here(place).select_related("report")
    rows = rows.order_by("-undelivered_at", "-id")
    page = read_page(rows, **place.paging)
    return place.render("notices", {"page": page, **tab_context(place)})


def tab_context(place: Place) -> dict[str, Any]:
    """Return the counts of the tabs of the queue."""
    return {
        "counts": count_cases(place.member, place.environment),
        "to_hand_over": to_hand_over_here(place)[: MAX_COUNT + 1].count(),
        "most": MAX_COUNT,
    }


def to_hand_over_here(place: Place) -> QuerySet[AdverseNotice]:
    """Return the notices of this workspace and environment to hand over."""
    return notices.notices_to_hand_over().filter(**place.lookups)


def package_names(place: Place) -> dict[str, str]:
    known = CheckPackage.objects.known_to(place.workspace.pk).order_by("name")
    return dict(known.values_list("name", "display_name"))


def queue_form(
    place: Place, typed: QueryDict, packages: Mapping[str, str]
) -> QueueForm:
    form = QueueForm(typed, choices={"package": [*ALL_CHOICE, *packages.items()]})
    text = form.chosen["search"]
    if text and not can_search(*place.where, text):
        form.add_error("search", _("Type three letters or more: many reports wait"))
    return form


@post_required(Permission.DECIDE_REPORTS)
def take_next(place: Place) -> HttpResponse:
    """Give the member the case that is due first, and show its report."""
    # The number of the member's cases when the page was shown
    typed = place.request.POST.get("held", "")
    held = int(typed) if typed.isdecimal() and len(typed) < 8 else None
    try:
        case = verbs.take_next(place.client, place.member, place.by.actor, held=held)
    except CaseRefused:
        error = _("You have taken a report since this page was shown.")
        return place.to("queue", error=error, query=f"holder={Holder.MINE}")
    if case is None:
        return place.to("queue", success=_("Nothing waits for you to take it."))
    return place.to_report(case.pk, success=_("The report is assigned to you."))


@post_required(Permission.DECIDE_REPORTS)
def assign(place: Place, report: UUID) -> HttpResponse:
    """Give a case to a member or to nobody."""
    place.get_report(report)
    form = AssignmentForm(place.posted, members=deciders_of(place.workspace))
    if not form.is_valid():
        # The member left, or the role was taken, since the page was shown.
        error = _("Nothing was done: this member may not decide.")
        return place.to_report(report, error=error)
    to, seen = form.cleaned_data["member"], form.cleaned_data["seen"]
    with place.refusing({CaseRefused: case_refusal}, "reports-detail", report=report):
        verbs.assign(
            place.client,
            report,
            place.member,
            place.by.actor,
            to=to.pk if to else None,
            seen=seen,
        )
    done: Text = _("Nobody has it now.")
    if to:
        done = _("%(name)s has it now.") % {"name": member_name(to)}
    return place.to_report(report, success=done)


@post_required(Permission.DECIDE_REPORTS)
def add_note(place: Place, report: UUID) -> HttpResponse:
    place.get_report(report)
    form = CaseNoteForm(place.posted)
    if not form.is_valid():
        error = _("Nothing was done: write a note of at most 1,000 characters.")
        return place.to_report(report, error=error)
    text = form.cleaned_data["text"]
    with place.refusing({CaseRefused: case_refusal}, "reports-detail", report=report):
        verbs.add_note(place.client, report, place.member, place.by.actor, text)
    return place.to_report(report, success=_("The note is added."))


@member_required(write=Permission.MANAGE_SETTINGS)
def edit_settings(place: Place) -> HttpResponse:
    """Show the service level; a POST sets it for cases from now on."""
    workspace = place.workspace
    initial = {"decision_hours": workspace.decision_hours}
    form = ServiceLevelForm(place.posted, initial=initial)
    if form.is_valid():
        with transaction.atomic():
            workspace.decision_hours = form.cleaned_data["decision_hours"]
            workspace.save(update_fields=["decision_hours"])
            place.record("workspace.changed", workspace, *form.changed_data)
        return place.to("settings-queue", success=_("Saved."))
    return place.render("settings/queue", {"form": form})


def to_next(place: Place, report: UUID, done: str, after: Case | None) -> HttpResponse:
    """Show the next case after a decision, or the same report if it had no case.

    `after` is the case before the decision.
    """
    if after is None:
        return place.to_report(report, success=done)
    case = verbs.next_case(place.client, place.member, place.by.actor, after)
    if case is None:
        nothing = _("No other case is left for you.")
        return place.to("queue", success=f"{done} {nothing}")
    left: Any = count_open(*place.where)
    if left > MAX_COUNT:
        left = _("more than %(most)s") % {"most": MAX_COUNT}
    said = _("This is the next case. Left: %(left)s.")
    if case.assignee_id:
        said = _("The next case is yours. Left: %(left)s.")
    return place.to_report(case.pk, success=f"{done} {said % {'left': left}}")


def open_case_of(place: Place, report: UUID) -> Case | None:
    return Case.objects.filter(pk=report, closed_at=None, **place.lookups).first()


def case_context(place: Place, report: Report) -> dict[str, Any]:
    """Return what the page of a report shows of its case and notes."""
    cases = Case.objects.filter(closed_at=None).select_related("assignee__user")
    case = cases.filter(pk=report.pk).first()
    if case:
        case.report = report
    notes = list(CaseNote.objects.filter(report=report))
    authors = User.objects.filter(pk__in={note.author_user for note in notes})
    users = {one.pk: one.get_full_name() or one.email for one in authors}
    may_decide = Permission.DECIDE_REPORTS in place.offered
    shown: dict[str, Any] = {
        "case": _case_view(place, case) if case else None,
        "has_queue": case or (report.is_ended and place.workspace.decision_hours),
        "case_notes": [(n, users.get(n.author_user) or n.author) for n in notes],
        "is_mine": bool(case and case.assignee_id == place.member.pk),
    }
    if may_decide:
        shown["held"] = verbs.count_held(place.member, place.environment)
    if may_decide and not report.erased_at:
        shown["note_form"] = CaseNoteForm()
    if may_decide and case:
        initial = {"member": case.assignee_id, "seen": case.assignee_id}
        members = deciders_of(place.workspace)
        shown["assignment"] = AssignmentForm(initial=initial, members=members)
    return shown


def _case_view(
    place: Place, case: Case, packages: Mapping[str, str] | None = None
) -> dict[str, Any]:
    package, at = case.package or "", now()
    return {
        "row": case,
        "cause": CAUSES[case.cause],
        "package": (packages or {}).get(package, package),
        "assignee": member_name(case.assignee) if case.assignee else "",
        "is_mine": case.assignee_id == place.member.pk,
        "is_overdue": case.due_at is not None and case.due_at < at,
        "is_soon": case.due_at is not None and case.due_at < at + SOON,
        "alone": _why_alone(place, case),
    }


def _why_alone(place: Place, case: Case) -> Text:
    """Return why the case is not approved with others; empty if it may be clear."""
    report = case.report
    if not report.is_ended:
        return _("Checks that run again")
    if case.assignee and case.assignee_id != place.member.pk:
        return f"{_('Assigned to')}: {member_name(case.assignee)}"
    if case.cause != CaseCause.ENDED:
        return CAUSES[case.cause]
    if report.status == ReportStatus.READY and report.risk_level == RiskLevel.LOW:
        return ""
    return _("Only complete reports with low risk are approved together.")


def case_refusal(refused: CaseRefused) -> Text:
    if refused.obstacle == CaseObstacle.CLOSED:
        return _("Nothing was done: the report does not wait for a decision any more.")
    if refused.obstacle == CaseObstacle.TOO_MANY:
        return _("Nothing was done: the report has too many notes.")
    if refused.assignee:
        name = member_name(refused.assignee)
        return _("Nothing was done: %(name)s has it now.") % {"name": name}
    return _("Nothing was done: somebody gave it back meanwhile.")


@member_required(Permission.DECIDE_REPORTS)
def approve(place: Place) -> HttpResponse:
    """Show which of the chosen cases are clear; a POST with `confirmed` approves them.

    `all` stands for all cases that the filters show. The page then asks about the next
    ones, until none is left.
    """
    asked = place.request.POST or place.request.GET
    form = queue_form(place, asked, package_names(place))
    chosen = [read_id(one) for one in asked.getlist("report")[:MAX_EXAMINED]]
    ids = [one for one in chosen if one]
    if "confirmed" in place.request.POST:
        return _approve(place, form, ids)
    # Invalid filters would list more cases than the page showed.
    if is_all := "all" in asked and form.is_valid():
        ids = _listed(place, form)
    elif not ids:
        error = _("Choose at least one report first.")
        return place.to("queue", error=error, query=_query(form))
    found = sort_cases(place.client, place.member, ids)
    return _ask(place, form, found, len(ids), is_all=is_all)


def _listed(place: Place, form: QueueForm) -> list[UUID]:
    filters = QueueFilters(**form.chosen)
    return list_case_ids(place.member, place.environment, filters, MAX_EXAMINED)


def _ask(
    place: Place, form: QueueForm, found: SortedCases, examined: int, *, is_all: bool
) -> HttpResponse:
    clear = found.clear[:MAX_APPROVED]
    left_out = [
        (WHY_LEFT_OUT[why], len(cases), cases[:MAX_NAMES])
        for why, cases in found.left_out.items()
    ]
    shown = [*clear, *(case for _why, _count, cases in left_out for case in cases)]
    place.disclose(one.pk for one in shown)
    context = {
        "clear": clear,
        "left_out": left_out,
        "left_out_count": sum(count for _why, count, _cases in left_out),
        "later": len(found.clear) - len(clear),
        "filters": _filters(form),
        "is_all": is_all,
        "back": _query(form),
        "is_cut": examined == MAX_EXAMINED,
        "most": MAX_EXAMINED,
    }
    return place.render("queue_approve", context)


def _approve(place: Place, form: QueueForm, ids: list[UUID]) -> HttpResponse:
    done, left = approve_clear(place.client, place.member, place.by.actor, ids)
    texts = [_("Approved: %(done)s.") % {"done": done}]
    # A colleague has decided them, or the first press of the same button.
    if decided := count_decided(place.client, ids) - done:
        texts.append(_("Decided already: %(count)s.") % {"count": decided})
    if changed := len(ids) - left - done - decided:
        text = _("Left out, as they changed since the page was shown: %(count)s.")
        texts.append(text % {"count": changed})
    if left:
        texts.append(_("Not approved yet: %(count)s.") % {"count": left})
    said = " ".join(texts)
    if "all" in place.request.POST and form.is_valid():
        listed = _listed(place, form)
        if sort_cases(place.client, place.member, listed).clear:
            query = _query(form, all="on")
            return place.to("queue-approve", success=said, query=query)
    return place.to("queue", success=said, query=_query(form))


def _query(form: QueueForm, **more: str) -> str:
    """Return the query of a page with the filters that the list had."""
    return urlencode({**_filters(form), **more})


def _filters(form: QueueForm) -> dict[str, str]:
    return {
        name: "on" if value is True else str(value)
        for name, value in form.chosen.items()
        if value
    }
