"""Admin pages of the register, corrections, holds, disclosures and erasures."""

from __future__ import annotations

import csv
import io
from datetime import date, datetime, time, timedelta
from tempfile import SpooledTemporaryFile

from django import forms
from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import transaction
from django.http import FileResponse, Http404, HttpResponse
from django.shortcuts import redirect
from django.template.defaultfilters import filesizeformat
from django.urls import path, reverse
from django.utils.html import format_html, format_html_join
from django.utils.timezone import localdate
from unfold.decorators import action
from unfold.enums import ActionVariant
from unfold.widgets import (
    UnfoldAdminDateWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanWidget,
)

from verification.backoffice import audit
from verification.backoffice.approvals import StaffActor, staff_actor
from verification.backoffice.model_admin import (
    ApprovalAdmin,
    DateRangeFilter,
    ReadOnlyAdmin,
    choice_filter,
    exact_filter,
    is_uuid,
)
from verification.backoffice.widgets import (
    Facts,
    FactsForm,
    ReasonForm,
    dialog,
    link,
    link_by_id,
    table,
)
from verification.db.ids import filter_by_number
from verification.documents.report import as_text, humanise_name
from verification.golive.admin import ReviewAdmin
from verification.golive.documents import download
from verification.privacy import certificates, holds
from verification.privacy.corrections import (
    CorrectionRefused,
    confirm,
    correct,
    correctable_details,
    rerun,
    results_with_same_finding,
    take,
)
from verification.privacy.erasure import ReportErased
from verification.privacy.models import (
    OPEN_CORRECTIONS,
    Correction,
    CorrectionStatus,
    Disclosure,
    Erasure,
    Hold,
    Origin,
    Outcome,
    RequestKind,
    RetentionRun,
    StaffErasure,
    SubjectRequest,
)
from verification.privacy.objections import object_to_use
from verification.privacy.requests import (
    AlreadyAnswered,
    answer_request,
    open_request,
)
from verification.privacy.retention import MAX_COUNT, count_expired, kept_until
from verification.privacy.staff_erasures import (
    StaffErasureRefused,
    request_for_person,
    request_for_report,
)
from verification.privacy.staff_erasures import approve as approve_erasure
from verification.privacy.staff_erasures import reject as reject_erasure
from verification.reports.admin import ReportAdmin
from verification.reports.models import Report, SubjectType
from verification.reports.request import InvalidRequest
from verification.values.clock import now
from verification.values.formats import escape_formula
from verification.values.local_time import NAIROBI, format_nairobi, nairobi_text
from workspaces.admin import WorkspaceAdmin
from workspaces.models import Environment, Workspace

# A letter may have come some time before it is entered.
MAX_DAYS_BACK = 365
# A larger CSV file goes to disk.
MAX_BYTES_IN_MEMORY = 1 << 20
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

RETENTION_FIELDS = {
    Environment.PRODUCTION: "retention_days",
    Environment.SANDBOX: "sandbox_retention_days",
}

StateFilter = choice_filter(
    "state",
    "state",
    {
        "open": ("open", lambda rows: rows.open()),
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
        if reports is None and is_uuid(typed):
            reports = Report.objects.filter(pk=typed)
        found = reports.first() if reports is not None else None
        if found is None:
            raise ValidationError("There is no such report.")
        return found

    def open_request(self, by: str) -> SubjectRequest:
        typed, received_at = self.cleaned_data, now()
        if typed["received_on"] != localdate():
            received_at = datetime.combine(typed["received_on"], time(), NAIROBI)
        return open_request(
            RequestKind(typed["kind"]),
            Origin.STAFF,
            requested_by=by,
            report=typed["report"],
            workspace=typed["workspace"],
            details={"request": typed["text"]},
            received_at=received_at,
        )


class AnswerForm(FactsForm):
    outcome = forms.ChoiceField(choices=Outcome.choices, widget=UnfoldAdminSelectWidget)
    reason = forms.CharField(
        required=False,
        max_length=audit.MAX_REASON_LENGTH,
        widget=UnfoldAdminTextInputWidget,
        help_text="A refusal needs one. It names no person.",
    )

    def facts(self) -> Facts:
        row = SubjectRequest.objects.get(pk=self.object_id)
        return [
            ("Request", f"{row.number}: {row.get_kind_display()}"),
            ("Received", format_nairobi(row.received_at)),
            ("Due", format_nairobi(row.due_at)),
        ]

    def clean(self):
        cleaned = super().clean() or {}
        if cleaned.get("outcome") == Outcome.REFUSED and not cleaned.get("reason"):
            self.add_error("reason", "Say why it is refused.")
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
        exact_filter("workspace_id", "workspace's id", is_uuid=True),
        ("received_at", DateRangeFilter),
    ]
    list_filter_submit = True
    list_select_related = ["workspace"]
    list_before_template = "admin/register_export.html"
    search_ids = ("id", "report_id", "workspace_id")
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
    actions_detail = ["answer", "reveal"]

    @admin.display(description="Due", ordering="due_at")
    def due(self, row):
        """Return the deadline, and how far away it is while nobody has answered."""
        text = format_nairobi(row.due_at)
        if row.answered_at or row.environment == Environment.SANDBOX:
            return text
        days = (row.due_at - now()).days
        return f"OVERDUE since {text}" if row.is_overdue else f"{text}, {days} d left"

    @admin.display(description="Report")
    def report_page(self, row):
        return link(row.report, row.report.number) if row.report else "-"

    def get_search_results(self, request, queryset, search_term):
        """Search by the number of a request or report too."""
        own = filter_by_number(queryset, "D", search_term)
        if own is not None:
            return own, False
        reports = filter_by_number(Report.objects.all(), "R", search_term)
        if reports is not None:
            return queryset.filter(report__in=reports), False
        return super().get_search_results(request, queryset, search_term)

    def get_urls(self):
        export = path(
            "register.csv",
            self.admin_site.admin_view(self.export),
            name="privacy_subjectrequest_csv",
        )
        return [export, *super().get_urls()]

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
        return FileResponse(_csv_file(rows), as_attachment=True, filename=name)

    def has_add_permission(self, request):
        return request.user.has_perm("privacy.add_subjectrequest")

    def get_form(self, request, obj=None, change=False, **kwargs):
        if not change:
            kwargs["form"] = RequestForm
        return super().get_form(request, obj, change, **kwargs)

    def get_fields(self, request, obj=None):
        own = [*RequestForm.base_fields]
        return super().get_fields(request, obj) if obj else own

    def save_model(self, request, obj, form, change):
        opened = form.open_request(staff_actor(request).name)
        obj.pk = opened.pk
        obj.refresh_from_db()

    def has_answer_permission(self, request, object_id=None):
        """Return whether staff answer by hand, and not on a page of its own."""
        row = self.changeable_row(request, object_id)
        has_page = hasattr(row, "correction") or hasattr(row, "erasure")
        return row is not None and row.answered_at is None and not has_page

    @action(
        description="Answer",
        icon="task_alt",
        variant=ActionVariant.SUCCESS,
        permissions=["answer"],
        dialog=dialog(
            "Record the answer",
            "Tell the person first. The answer stays in the register, with the time.",
            "Record it",
            AnswerForm,
        ),
    )
    def answer(self, request, form, object_id):
        row, typed = self.get_row(request, object_id), form.cleaned_data
        outcome, reason = Outcome(typed["outcome"]), typed["reason"]
        return self.run_audited(
            request,
            row,
            lambda: answer_request(row, outcome, reason=reason),
            f"{row.number} is answered: {outcome.label}.",
            audited="answered",
            change=f"answered: {outcome.label}",
            reason=reason,
            refusals=AlreadyAnswered,
        )


def _csv_file(rows):
    """Return the complete CSV file (RFC 4180), as statements do."""
    file = SpooledTemporaryFile(max_size=MAX_BYTES_IN_MEMORY)  # noqa: SIM115
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(text)
    writer.writerow(CSV_HEADINGS)
    writer.writerows(map(_csv_row, rows.select_related("workspace").iterator()))
    text.detach()
    file.seek(0)
    return file


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


class HoldForm(ReasonForm):
    ends_on = forms.DateField(
        widget=UnfoldAdminDateWidget,
        help_text="The last day, at most five years away.",
    )

    def facts(self) -> Facts:
        report = Report.objects.select_related("workspace").get(pk=self.object_id)
        kept = report.workspace.retention_of(report.environment, report.created_at)
        return [
            ("Report", report.number),
            ("Workspace", report.workspace.name),
            ("Kept anyway", f"{kept.days} days after its end"),
        ]

    def clean_ends_on(self) -> date:
        day: date = self.cleaned_data["ends_on"]
        last = localdate() + timedelta(days=holds.MAX_DAYS)
        if not localdate() <= day <= last:
            raise ValidationError("Choose a day from today to five years from now.")
        return day

    @property
    def ends_at(self) -> datetime:
        return datetime.combine(self.cleaned_data["ends_on"], time.max, NAIROBI)


admin.site.unregister(Report)


@admin.register(Report)
class HoldableReportAdmin(ReportAdmin):
    """The page of a report with the holds, which its own package does not know."""

    actions_detail = [
        *ReportAdmin.actions_detail,
        "hold",
        "enter_objection",
        "erase_subject",
    ]

    def render_change_form(self, request, context, *arguments, **more):
        report = more["obj"]
        context["kept_until"] = kept_until(report)
        if request.user.has_perm("privacy.view_hold"):
            context["open_holds"] = list(report.holds.open(now()))
        return super().render_change_form(request, context, *arguments, **more)

    def has_hold_permission(self, request, object_id=None):
        if not request.user.has_perm("privacy.add_hold"):
            return False
        report = self.get_object(request, object_id) if object_id else None
        held = report and report.holds.open(now()).exists()
        return report is not None and report.erased_at is None and not held

    @action(
        description="Hold",
        icon="lock_clock",
        permissions=["hold"],
        dialog=dialog(
            "Hold this report",
            "It is kept until this day, even if its retention ends before. Release it "
            "earlier on the list of holds.",
            "Hold it",
            HoldForm,
        ),
    )
    def hold(self, request, form, object_id):
        report = self.get_row(request, object_id)
        reason, by = form.cleaned_data["reason"], staff_actor(request).name
        return self.run_audited(
            request,
            report,
            lambda: holds.hold(report.pk, reason, form.ends_at, by=by),
            f"The report is held until {form.cleaned_data['ends_on']}.",
            audited="held",
            reason=reason,
            refusals=holds.HoldRefused,
        )

    def has_rights_permission(self, request, object_id=None):
        if not request.user.has_perm("privacy.add_stafferasure"):
            return False
        report = self.get_object(request, object_id) if object_id else None
        return report is not None and report.erased_at is None

    @action(
        description="Enter an objection",
        icon="front_hand",
        permissions=["rights"],
        dialog=dialog(
            "Enter an objection of the subject",
            "All reports about the person in this workspace are restricted: results "
            "are not reused, webhooks not sent again, and monitoring pauses.",
            "Enter it",
            ReasonForm,
        ),
    )
    def enter_objection(self, request, form, object_id):
        report, reason = self.get_row(request, object_id), form.cleaned_data["reason"]
        by = staff_actor(request).name
        return self.run_audited(
            request,
            report,
            lambda: object_to_use(
                report.pk, Origin.STAFF, requested_by=by, reason=reason
            ),
            "The reports about this person are restricted.",
            audited="objected",
            change="objection entered",
            reason=reason,
            refusals=ReportErased,
        )

    @action(
        description="Erase the subject",
        icon="delete_forever",
        permissions=["rights"],
        variant=ActionVariant.DANGER,
        dialog=dialog(
            "Erase the subject of this report",
            "It is for all reports about the person in this workspace and environment. "
            "Another member of staff has to approve it.",
            "Request it",
            ReasonForm,
        ),
    )
    def erase_subject(self, request, form, object_id):
        report, reason = self.get_row(request, object_id), form.cleaned_data["reason"]
        return self.run_audited(
            request,
            report,
            lambda: request_for_report(report.pk, reason, by=staff_actor(request)),
            "The erasure waits for another member of staff.",
            audited="erasure-requested",
            reason=reason,
            refusals=StaffErasureRefused,
        )


class RetentionForm(forms.ModelForm):
    """The page of a workspace, with its retention."""

    erases = forms.BooleanField(
        label="Erase old reports",
        required=False,
        widget=UnfoldBooleanWidget,
        help_text="Tick it if the form says that fewer days erase reports.",
    )

    def clean(self):
        """Refuse fewer days until staff have read how many reports they erase."""
        cleaned = super().clean() or {}
        saved = Workspace.objects.get(pk=self.instance.pk)
        for environment, field in RETENTION_FIELDS.items():
            days = cleaned.get(field)
            if days is None or days >= saved.retention(environment).days:
                continue
            count = count_expired(saved, environment, days)
            if count and not cleaned.get("erases"):
                number = f"over {MAX_COUNT:,}" if count > MAX_COUNT else f"{count:,}"
                warning = f"{number} {environment} reports will be erased within hours."
                self.add_error(field, f"{warning} Tick the box below and save again.")
        return cleaned


admin.site.unregister(Workspace)


@admin.register(Workspace)
class RetainingWorkspaceAdmin(WorkspaceAdmin):
    """The page of a customer with its retention, which its own package only stores."""

    fields = [*WorkspaceAdmin.fields, *RETENTION_FIELDS.values(), "erases"]

    def get_form(self, request, obj=None, change=False, **kwargs):
        if change and self.has_change_permission(request, obj):
            kwargs["form"] = RetentionForm
        return super().get_form(request, obj, change, **kwargs)

    def get_fields(self, request, obj=None):
        fields = super().get_fields(request, obj)
        may = obj is None or self.has_change_permission(request, obj)
        return fields if may else [f for f in fields if f != "erases"]

    def save_model(self, request, obj, form, change):
        if change and not {*form.changed_data}.isdisjoint(RETENTION_FIELDS.values()):
            obj.change_retention(obj.retention_days, obj.sandbox_retention_days)
        super().save_model(request, obj, form, change)

    def construct_change_message(self, request, form, formsets, add=False):
        # A tick is no change of the row.
        form.changed_data = [f for f in form.changed_data if f != "erases"]
        return super().construct_change_message(request, form, formsets, add)


HoldFilter = choice_filter(
    "state",
    "state",
    {
        "open": ("open", lambda rows: rows.open(now())),
        "over": ("over", lambda rows: rows.exclude(pk__in=rows.open(now()))),
    },
)


class RowsOfReportsAdmin(ReadOnlyAdmin):
    """Rows that belong to a report; the search takes its number, too."""

    list_select_related = ["report__workspace"]
    search_ids: tuple[str, ...] = ("id", "report_id", "report__workspace_id")

    @admin.display(description="Workspace")
    def workspace(self, row):
        return row.report.workspace

    def get_search_results(self, request, queryset, search_term):
        reports = filter_by_number(Report.objects.all(), "R", search_term)
        if reports is not None:
            return queryset.filter(report__in=reports), False
        return super().get_search_results(request, queryset, search_term)


@admin.register(Hold)
class HoldAdmin(RowsOfReportsAdmin):
    list_display = ["id", "report_page", "workspace", "ends_at", "held_by", "is_open"]
    list_filter = [HoldFilter]
    fields = [
        "report_page",
        "workspace",
        "reason",
        "held_by",
        "created_at",
        "ends_at",
        "released_by",
        "released_at",
    ]
    actions_detail = ["release"]

    @admin.display(boolean=True, description="Open")
    def is_open(self, row):
        return row.is_open

    def has_release_permission(self, request, object_id=None):
        row = self.changeable_row(request, object_id)
        return row is not None and row.is_open

    @action(
        description="Release",
        icon="lock_open",
        permissions=["release"],
        dialog=dialog(
            "Release this hold",
            "If the retention of the report is over, it is erased within the hour. "
            "That cannot be undone.",
            "Release it",
            ReasonForm,
        ),
    )
    def release(self, request, form, object_id):
        row, reason = self.get_row(request, object_id), form.cleaned_data["reason"]
        return self.run_audited(
            request,
            row,
            lambda: holds.release(row.pk, by=staff_actor(request).name),
            "The hold is released.",
            audited="released",
            reason=reason,
            refusals=holds.HoldRefused,
        )


@admin.register(Disclosure)
class DisclosureAdmin(RowsOfReportsAdmin):
    """Who has read which report. Receivers and staff have lists of their own."""

    list_display = [
        "last_at",
        "report_page",
        "workspace",
        "channel",
        "recipient",
        "first_at",
    ]
    list_filter = [
        "channel",
        "report__environment",
        exact_filter("recipient", "recipient"),
        exact_filter("report__workspace_id", "workspace's id", is_uuid=True),
        ("last_at", DateRangeFilter),
    ]
    list_filter_submit = True
    fields = [
        "report_page",
        "workspace",
        "channel",
        "recipient",
        "first_at",
        "last_at",
    ]


@admin.register(RetentionRun)
class RetentionRunAdmin(ReadOnlyAdmin):
    list_display = ["created_at", "workspace", "environment", "before", "report_count"]
    list_filter = ["environment", ("created_at", DateRangeFilter)]
    list_filter_submit = True
    list_select_related = ["workspace"]
    search_ids = ("id", "workspace_id")
    fields = ["id", "workspace", "environment", "before", "report_count", "created_at"]


CorrectionFilter = choice_filter(
    "state",
    "state",
    {
        "open": ("open", lambda rows: rows.filter(status__in=OPEN_CORRECTIONS)),
        "overdue": (
            "overdue",
            lambda rows: rows.filter(
                status__in=OPEN_CORRECTIONS, request__due_at__lt=now()
            ),
        ),
    },
)


class RerunForm(FactsForm):
    """Details of the subject to ask with; an empty field keeps that of the report.

    The name and the number together would be somebody else, and are refused.
    """

    def __init__(self, *arguments, **more):
        super().__init__(*arguments, **more)
        for name in correctable_details(self._correction()):
            self.fields[name] = forms.CharField(
                label=humanise_name(name),
                max_length=200,
                required=False,
                widget=UnfoldAdminTextInputWidget,
                help_text="Leave it empty unless it was wrong. Never change both the "
                "name and the number.",
            )

    @property
    def details(self) -> dict[str, str]:
        return {n: v for n, v in self.cleaned_data.items() if v and n in self.fields}

    def facts(self) -> Facts:
        row = self._correction()
        return [("Correction", row.request.number), ("Check", row.check_name)]

    def _correction(self) -> Correction:
        return Correction.objects.get(pk=self.object_id)


class DecisionForm(FactsForm):
    reason = forms.CharField(
        max_length=1000,
        widget=UnfoldAdminTextareaWidget,
        help_text="The person and the client read it.",
    )

    def facts(self) -> Facts:
        row = Correction.objects.get(pk=self.object_id)
        return [
            ("Correction", row.request.number),
            ("Check", row.check_name),
            ("Run again", row.rerun.status if row.rerun else "no"),
        ]


@admin.register(Correction)
class CorrectionAdmin(RowsOfReportsAdmin, ReviewAdmin):
    """The queue of corrections, with their clocks."""

    refusals = (CorrectionRefused, InvalidRequest)

    list_display = [
        "number",
        "check_name",
        "workspace",
        "status",
        "due",
        "taken_by",
        "rerun_status",
    ]
    list_filter = [CorrectionFilter, "status"]
    list_select_related = ["request", "report__workspace", "rerun"]
    search_ids = (*RowsOfReportsAdmin.search_ids, "result_id")
    audits_opening = True
    fields = [
        "number",
        "report_page",
        "workspace",
        "check_name",
        "status",
        "due",
        "taken_by",
        "taken_at",
        "rerun_status",
        "decided_by",
        "decided_at",
        "same_findings",
    ]
    personal_fields = ("said", "documents", "findings", "reason")
    actions_detail = ["take", "run_again", "correct", "confirm", "reveal"]

    @admin.display(description="Number")
    def number(self, row):
        return row.request.number

    @admin.display(description="Due", ordering="request__due_at")
    def due(self, row):
        text = format_nairobi(row.due_at)
        if not row.is_open:
            return text
        days = (row.due_at - now()).days
        return f"OVERDUE since {text}" if days < 0 else f"{text}, {days} d left"

    @admin.display(description="Check run again")
    def rerun_status(self, row):
        return row.rerun.get_status_display() if row.rerun else "-"

    @admin.display(description="Reports with the same finding")
    def same_findings(self, row):
        others = results_with_same_finding(row.result)[:50]
        links = ((link_by_id("reports.report", one.report_id),) for one in others)
        return format_html_join(", ", "{}", links) or "-"

    @admin.display(description="What the person says")
    def said(self, row):
        statement = row.statement or {}
        return {"what": statement.get("what"), "why": statement.get("why")}

    @admin.display(description="Documents")
    def documents(self, row):
        links = (
            (self._document_url(one), one.name, filesizeformat(one.size))
            for one in row.documents.order_by("id")
        )
        return format_html_join(", ", '<a href="{}">{}</a> ({})', links)

    @admin.display(description="Findings")
    def findings(self, row):
        """Return the disputed finding and that of the re-run, side by side."""
        old, new = row.result, row.rerun
        shown = [
            ("Result", link(old, "Open"), link(new, "Open") if new else "-"),
            ("Status", old.status, new.status if new else "-"),
            ("Score", _score_text(old), _score_text(new)),
            ("Asked with", "The report", _changes_text(row)),
            *_compared(old.finding or {}, (new and new.finding) or {}),
        ]
        compared = table(["", "Disputed", "Run again"], shown)
        return format_html('<div class="compared">{}</div>', compared)

    @admin.display(description="Reason of the decision")
    def reason(self, row):
        return row.reason

    def get_urls(self):
        document = path(
            "<uuid:correction_id>/documents/<uuid:document_id>",
            self.admin_site.admin_view(self.document),
            name="privacy_correction_document",
        )
        return [document, *super().get_urls()]

    def document(self, request, correction_id, document_id):
        """Answer with a document during a reveal, and record it in the audit trail."""
        row = self.get_revealed_row(request, correction_id)
        wanted = row.documents.filter(pk=document_id).first()
        if wanted is None:
            raise Http404
        audit.record("correction.document-read", audit.actor_of(request), row)
        return download(wanted, f"correction-{row.request.number}")

    def _document_url(self, document):
        arguments = [document.correction_id, document.pk]
        return reverse("admin:privacy_correction_document", args=arguments)

    def has_take_permission(self, request, object_id=None):
        return self._is(request, object_id, CorrectionStatus.OPEN)

    def has_review_permission(self, request, object_id=None):
        return self._is(request, object_id, CorrectionStatus.IN_REVIEW)

    def _is(self, request, object_id, status):
        """Return whether the page offers a verb; the verb itself refuses, too."""
        row = self.changeable_row(request, object_id)
        match = request.resolver_match
        is_dialog = not (match and match.url_name.endswith("_change"))
        return row is not None and (is_dialog or row.status == status)

    @action(
        description="Take for review",
        icon="front_hand",
        permissions=["take"],
        dialog=dialog(
            "Take this correction",
            "The client and the person see that it is in review.",
            "Take it",
        ),
    )
    def take(self, request, form, object_id):
        return self.decide(request, object_id, take, "It is in review.")

    @action(
        description="Run the check again",
        icon="replay",
        permissions=["review"],
        dialog=dialog(
            "Run the check again",
            "It is free for the client, and changes nothing until it is accepted. We "
            "write to you when it has ended.",
            "Run it again",
            RerunForm,
        ),
    )
    def run_again(self, request, form, object_id):
        done = "The check runs again."
        return self.decide(request, object_id, rerun, done, form.details)

    @action(
        description="Accept the new finding",
        icon="check_circle",
        variant=ActionVariant.SUCCESS,
        permissions=["review"],
        dialog=dialog(
            "Correct the report",
            "The new finding takes the place of the disputed one, and the report's "
            "score follows. The person and the client are told. It cannot be undone.",
            "Correct it",
            DecisionForm,
        ),
    )
    def correct(self, request, form, object_id):
        reason, done = form.cleaned_data["reason"], "The report is corrected."
        return self.decide(request, object_id, correct, done, reason)

    @action(
        description="Confirm the disputed finding",
        icon="gavel",
        permissions=["review"],
        dialog=dialog(
            "Confirm the finding",
            "It stays as it is. The person reads the reason, and may complain to the "
            "Data Protection Commissioner.",
            "Confirm it",
            DecisionForm,
        ),
    )
    def confirm(self, request, form, object_id):
        reason, done = form.cleaned_data["reason"], "The finding is confirmed."
        return self.decide(request, object_id, confirm, done, reason)


def _score_text(result):
    if result is None or result.score is None:
        return "-"
    return f"{result.score} ({result.risk_level})"


def _changes_text(correction):
    asked = correction.rerun.inputs if correction.rerun else None
    known = correction.report.subject or {}
    changed = {k: v for k, v in (asked or {}).items() if known.get(k) != v}
    return as_text(changed) or "The report"


def _compared(old, new):
    """Return a row for the summary, the flags and each field of two findings."""
    yield "Summary", old.get("summary") or "-", new.get("summary") or "-"
    yield (
        "Flags",
        *(as_text([f["code"] for f in x.get("flags", ())]) for x in (old, new)),
    )
    before, after = old.get("details") or {}, new.get("details") or {}
    for name in dict.fromkeys([*before, *after]):
        texts = as_text(before.get(name)), as_text(after.get(name))
        if any(texts):
            yield humanise_name(name), *texts


class PersonForm(forms.ModelForm):
    """A person or company by document numbers, to be erased in all workspaces."""

    subject_type = forms.ChoiceField(
        choices=SubjectType.choices, widget=UnfoldAdminSelectWidget
    )
    country = forms.RegexField(
        "^[A-Z]{2}$",
        initial="KE",
        widget=UnfoldAdminTextInputWidget,
        help_text="Of the documents, in two letters.",
    )
    id_number = forms.CharField(
        required=False, max_length=64, widget=UnfoldAdminTextInputWidget
    )
    registration_number = forms.CharField(
        required=False, max_length=64, widget=UnfoldAdminTextInputWidget
    )
    kra_pin = forms.CharField(
        label="KRA PIN",
        required=False,
        max_length=64,
        widget=UnfoldAdminTextInputWidget,
    )

    class Meta:
        model = StaffErasure
        fields = ["reason"]

    def clean(self):
        cleaned = super().clean() or {}
        if not any(cleaned.get(name) for name in DOCUMENT_FIELDS):
            raise ValidationError("Type at least one number of a document.")
        if not self.errors:
            try:
                # The request is saved with the form, by the admin.
                with transaction.atomic():
                    self._try()
            except StaffErasureRefused as e:
                raise ValidationError(str(e)) from e
        return cleaned

    def _try(self) -> None:
        request_for_person(self.person, self.cleaned_data["reason"], by=NOBODY)
        transaction.set_rollback(True)

    @property
    def person(self) -> dict[str, str]:
        typed = self.cleaned_data
        numbers = {key: typed[name] for name, key in DOCUMENT_FIELDS.items()}
        return {
            "subjectType": typed["subject_type"],
            "country": typed["country"],
            **{key: value for key, value in numbers.items() if value},
        }


# Field of the form -> member of a subject
DOCUMENT_FIELDS = {
    "id_number": "idNumber",
    "registration_number": "registrationNumber",
    "kra_pin": "kraPin",
}
NOBODY = StaffActor(None, "nobody")


@admin.register(StaffErasure)
class StaffErasureAdmin(ApprovalAdmin):
    """Erasures that staff request. The page of a report requests those of one."""

    list_display = [
        "created_at",
        "scope",
        "report_count",
        "workspace_count",
        "status",
        "requested_by",
    ]
    list_filter = ["status"]
    list_select_related = ["report__workspace"]
    search_ids = ("id", "report_id")
    verbs = {"approve": approve_erasure, "reject": reject_erasure}
    consequences = {
        "approve": "Everything about the person is erased for good, running reports "
        "are cancelled and monitoring rules are deleted. Nobody can undo it.",
        "reject": "Nothing is erased. It can be requested again.",
    }
    columns = ["scope", "report_count", "workspace_count", "reason", "requested_by"]
    fields = [
        "id",
        "scope",
        "report_count",
        "workspace_count",
        "reason",
        "status",
        "requested_by",
        "decided_by",
        "decided_at",
        "created_at",
        "begun_by_others",
    ]
    personal_fields = ("person",)

    @admin.display(description="Begun by another request before")
    def begun_by_others(self, row):
        earlier = Erasure.objects.filter(pk__in=row.earlier_erasures)
        rows = earlier.select_related("request__workspace").order_by("pk")
        links = [
            (link(one, one.number), one.request.workspace, one.request.environment)
            for one in rows
        ]
        return format_html_join(", ", "{} {} ({})", links) or "-"

    def has_add_permission(self, request):
        return request.user.has_perm("privacy.add_stafferasure")

    def get_form(self, request, obj=None, change=False, **kwargs):
        if not change:
            kwargs["form"] = PersonForm
        return super().get_form(request, obj, change, **kwargs)

    def get_fields(self, request, obj=None):
        return super().get_fields(request, obj) if obj else [*PersonForm.base_fields]

    def get_readonly_fields(self, request, obj=None):
        return super().get_readonly_fields(request, obj) if obj else []

    def save_model(self, request, obj, form, change):
        reason, by = form.cleaned_data["reason"], staff_actor(request)
        saved = request_for_person(form.person, reason, by=by)
        obj.pk = saved.pk
        obj.refresh_from_db()


@admin.register(Erasure)
class ErasureAdmin(ReadOnlyAdmin):
    """Erasures with their certificates, which name nobody."""

    list_display = ["number", "workspace", "created_at", "ended_at", "report_count"]
    list_filter = ["request__origin", "request__environment"]
    list_select_related = ["request__workspace"]
    search_ids = ("id", "request__workspace_id")
    fields = [
        "number",
        "request_page",
        "workspace",
        "created_at",
        "ended_at",
        "report_count",
        "certificate_document",
        "signed_text",
    ]

    @admin.display(description="Workspace")
    def workspace(self, row):
        return row.request.workspace

    @admin.display(description="Request")
    def request_page(self, row):
        return link(row.request, row.request.number)

    @admin.display(description="Certificate")
    def signed_text(self, row):
        return row.certificate or "-"

    @admin.display(description="Certificate for people")
    def certificate_document(self, row):
        if row.ended_at is None:
            return "-"
        url = reverse("admin:privacy_erasure_certificate", args=[row.pk])
        return format_html('<a href="{}">{}.pdf</a>', url, row.number)

    def get_urls(self):
        document = path(
            "<uuid:erasure_id>/certificate.pdf",
            self.admin_site.admin_view(self.certificate),
            name="privacy_erasure_certificate",
        )
        return [document, *super().get_urls()]

    def certificate(self, request, erasure_id):
        """Return the certificate as a PDF. It has no personal data to record."""
        row = self.get_object(request, str(erasure_id))
        if not (row and row.ended_at and self.has_view_permission(request, row)):
            raise Http404
        return HttpResponse(
            certificates.certificate_pdf(row),
            content_type="application/pdf",
            headers={"Content-Disposition": f'attachment; filename="{row.number}.pdf"'},
        )
