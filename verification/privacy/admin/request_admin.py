"""Admin pages of the register of requests: entry, answer, and CSV."""

from datetime import date, datetime, time, timedelta

from django import forms
from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import FileResponse
from django.shortcuts import redirect
from django.utils.timezone import localdate
from unfold.enums import ActionVariant
from unfold.widgets import (
    UnfoldAdminDateWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
)

from verification.backoffice import audit
from verification.backoffice.approvals import StaffActor, staff_actor
from verification.backoffice.model_admin import (
    DateRangeFilter,
    OtherNumbers,
    ReadOnlyAdmin,
    choice_filter,
    exact_filter,
)
from verification.backoffice.widgets import Facts, FactsForm, dialog_verb
from verification.db.ids import filter_by_number, uuid7
from verification.decisions.cases import reports_in_review
from verification.decisions.decide import (
    Obstacle,
    close_after_review,
    obstacle_of,
    record_change,
)
from verification.decisions.notices import drop_reviews, end_reviews
from verification.documents.statements import csv_file
from verification.privacy.joins import candidates
from verification.privacy.models import Origin, Outcome, RequestKind, SubjectRequest
from verification.privacy.requests import AlreadyAnswered, answer_request, open_request
from verification.privacy.reviews import request_review
from verification.reports.models import Report
from verification.reports.status import locked_reports
from verification.values.clock import now
from verification.values.formats import escape_formula
from verification.values.local_time import NAIROBI, format_nairobi, nairobi_text
from verification.web.pages import read_id
from workspaces.models import Environment, Workspace

# A letter may have come some time before it is entered.
MAX_DAYS_BACK = 365
CSV_HEADINGS = (
    "number",
    "kind",
    "origin",
    "workspace",
    "environment",
    "report",
    "received",
    "due",
    "answered",
    "outcome",
    "overdue",
    "reason",
    "requestedBy",
)

StateFilter = choice_filter(
    "state",
    "state",
    {
        "open": ("open", lambda rows: rows.open()),
        "clocked": ("open, with a deadline", lambda rows: rows.clocked()),
        "overdue": ("overdue", lambda rows: rows.overdue()),
        "answered": ("answered", lambda rows: rows.filter(answered_at__isnull=False)),
    },
)


class RequestForm(forms.ModelForm):
    """A request that came by letter, telephone or at the counter."""

    kind = forms.ChoiceField(
        choices=RequestKind.choices, widget=UnfoldAdminSelectWidget
    )
    received_on = forms.DateField(
        initial=localdate,
        widget=UnfoldAdminDateWidget,
        help_text="The clock runs from this day.",
    )
    report = forms.CharField(
        required=False,
        max_length=36,
        widget=UnfoldAdminTextInputWidget,
        help_text="Its number or id, if the person names one.",
    )
    workspace = forms.ModelChoiceField(
        Workspace.objects.order_by("name"),
        required=False,
        widget=UnfoldAdminSelectWidget,
        help_text="The client, if the request is about one and names no report.",
    )
    text = forms.CharField(
        label="What the person asks for",
        max_length=2000,
        widget=UnfoldAdminTextareaWidget,
        help_text="With the person's name and address. It is encrypted.",
    )
    page = forms.UUIDField(required=False, widget=forms.HiddenInput, initial=uuid7)

    class Meta:
        model = SubjectRequest
        fields = ["kind"]

    def clean_received_on(self) -> date:
        day: date = self.cleaned_data["received_on"]
        if not localdate() - timedelta(days=MAX_DAYS_BACK) <= day <= localdate():
            raise ValidationError("Choose a day of the last twelve months.")
        return day

    def clean_report(self) -> Report | None:
        typed = self.cleaned_data["report"].strip()
        if not typed:
            return None
        reports = filter_by_number(Report.objects.all(), "R", typed)
        if reports is None and read_id(typed):
            reports = Report.objects.filter(pk=typed)
        found = reports.first() if reports is not None else None
        if found is None:
            raise ValidationError("There is no such report.")
        return found

    def enter(self, by: StaffActor) -> SubjectRequest:
        typed, received_at = self.cleaned_data, now()
        if typed["received_on"] != localdate():
            received_at = datetime.combine(typed["received_on"], time(), NAIROBI)
        kind, report = RequestKind(typed["kind"]), typed["report"]
        entry = {
            "details": {"request": typed["text"]},
            "received_at": received_at,
            "request_id": typed["page"],
        }
        if kind == RequestKind.REVIEW and report:
            for notice in report.notices.order_by("-pk"):
                asked = request_review(notice.pk, Origin.STAFF, by.name, **entry)
                if asked:
                    return asked
        return open_request(
            kind,
            Origin.STAFF,
            requested_by=by.name,
            report=report,
            workspace=typed["workspace"],
            **entry,
        )


class AnswerForm(FactsForm):
    outcome = forms.ChoiceField(choices=Outcome.choices, widget=UnfoldAdminSelectWidget)
    reason = forms.CharField(
        required=False,
        max_length=audit.MAX_REASON_LENGTH,
        widget=UnfoldAdminTextInputWidget,
        help_text="A refusal or withdrawal needs one. It names no person.",
    )

    def facts(self) -> Facts:
        row = SubjectRequest.objects.get(pk=self.object_id)
        return [
            ("Request", f"{row.number}: {row.get_kind_display()}"),
            ("Received", format_nairobi(row.received_at)),
            ("Due", format_nairobi(row.due_at)),
            *self._join_facts(row),
            *self._review_facts(row),
        ]

    def _review_facts(self, row: SubjectRequest) -> Facts:
        if row.kind != RequestKind.REVIEW:
            return []
        return [("“Done” means", "A person has looked at it. The subject reads this.")]

    def _join_facts(self, row: SubjectRequest) -> Facts:
        if row.proved_address is None or row.report is None:
            return []
        reports, rules = candidates(row.report)
        asked = [*(one.number for one in reports), *(str(one.pk) for one in rules)]
        return [
            ("Asks for reports and rules without an address", ", ".join(asked)),
            (
                "“Done” means",
                "You know that the visitor is this person. They see these reports, "
                "and can object to them and delete them.",
            ),
        ]

    def clean(self):
        cleaned = super().clean() or {}
        outcome = cleaned.get("outcome")
        needs_reason = outcome in {Outcome.REFUSED, Outcome.WITHDRAWN}
        if needs_reason and not cleaned.get("reason"):
            self.add_error("reason", "Say why it is refused or withdrawn.")
        row = SubjectRequest.objects.get(pk=self.object_id)
        if outcome != Outcome.WITHDRAWN and _waits_for_client(row):
            until = "A member can decide until the deadline; the sandbox has none."
            self.add_error("outcome", until)
        return cleaned


@admin.register(SubjectRequest)
class SubjectRequestAdmin(ReadOnlyAdmin):
    """The register. Pages and verbs write it; staff add what came by other ways."""

    list_display = [
        "number",
        "kind",
        "origin",
        "workspace",
        "received_at",
        "due",
        "answered_at",
        "outcome",
    ]
    list_filter = [
        StateFilter,
        "kind",
        "environment",
        exact_filter("workspace_id", "workspace's id", is_id=True),
        ("received_at", DateRangeFilter),
    ]
    list_filter_submit = True
    list_select_related = ["workspace"]
    list_before_template = "admin/register_export.html"
    search_ids = ("id", "report_id", "workspace_id")
    number_letter = "D"
    other_numbers = OtherNumbers("R", Report, "report")
    fields = [
        "number",
        "kind",
        "origin",
        "workspace",
        "environment",
        "report_page",
        "requested_by",
        "received_at",
        "due",
        "reminded_at",
        "overdue_notified_at",
        "answered_at",
        "outcome",
        "reason",
    ]
    personal_fields = ("details",)
    entry_form = RequestForm
    actions_detail = ["answer", "reveal"]
    # Corrections and erasures have pages of their own.
    offers = {
        "answer": lambda row: (
            not (
                row.answered_at or hasattr(row, "correction") or hasattr(row, "erasure")
            )
        )
    }
    own_pages = {"register.csv": "export"}

    @admin.display(description="Due", ordering="due_at")
    def due(self, row):
        return due_text(row)

    def export(self, request):
        """Return the list, as it is filtered, as CSV."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        try:
            rows = self.get_changelist_instance(request).queryset
        except IncorrectLookupParameters:
            return redirect("admin:privacy_subjectrequest_changelist")
        # The audit trail keeps the names of the filters, as searches may be personal.
        filters = sorted(name for name, value in request.GET.items() if value)
        actor = audit.actor_of(request)
        audit.record("register.exported", actor, request.user, fields=filters)
        name = f"register-{localdate():%Y-%m-%d}.csv"
        file = csv_file(_csv_rows(rows))
        return FileResponse(file, as_attachment=True, filename=name)

    @dialog_verb(
        "Record the answer",
        "Tell the person first. The answer stays in the register, with the time.",
        "Record it",
        AnswerForm,
        description="Answer",
        icon="task_alt",
        variant=ActionVariant.SUCCESS,
        permissions=["answer"],
        refusals=AlreadyAnswered,
    )
    def answer(self, request, form, row):
        outcome = Outcome(form.cleaned_data["outcome"])
        reason, change = form.cleaned_data["reason"], f"answered: {outcome.label}"
        if row.kind == RequestKind.REVIEW and row.report:
            report = locked_reports().get(pk=row.report_id)
            waited = reports_in_review([report.pk])
            same = SubjectRequest.objects.open().filter(report=report, kind=row.kind)
            if outcome == Outcome.DONE:
                end_reviews(report, now())
            # A letter may repeat what the person asked for on the page.
            elif not same.exclude(pk=row.pk).exists():
                drop_reviews(report)
            close_after_review(report)
            if waited - reports_in_review(waited):
                by = staff_actor(request).name
                record_change(report, "review by a person ended", by, now())
        answer_request(row, outcome, reason=reason)
        self.log_change(request, row, change, verb="answered", reason=reason)
        return f"{row.number} is {change}."


def _waits_for_client(row):
    """Return whether a member's decision will answer the request, by `reviews`."""
    return (
        row.kind == RequestKind.REVIEW
        and not row.is_overdue
        and row.report is not None
        and bool(reports_in_review([row.report_id]))
        and obstacle_of(row.report) in {None, Obstacle.NOT_ENDED}
    )


def due_text(row):
    """Return the deadline, and how far away it is while nobody has answered."""
    text = format_nairobi(row.due_at)
    if row.answered_at or row.environment == Environment.SANDBOX:
        return text
    days = (row.due_at - now()).days
    return f"OVERDUE since {text}" if row.is_overdue else f"{text}, {days} d left"


def _csv_rows(rows):
    yield CSV_HEADINGS
    yield from map(_csv_row, rows.select_related("workspace").iterator())


def _csv_row(row):
    cells = (
        row.number,
        row.kind,
        row.origin,
        row.workspace.name if row.workspace else "",
        row.environment,
        str(row.report_id or ""),
        nairobi_text(row.received_at),
        nairobi_text(row.due_at),
        nairobi_text(row.answered_at) if row.answered_at else "",
        row.outcome,
        "yes" if row.is_overdue else "no",
        row.reason,
        row.requested_by,
    )
    return [escape_formula(cell) for cell in cells]
