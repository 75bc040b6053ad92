"""Admin pages of the retention: holds, disclosures and runs.

They also add holds and erasures to the pages of reports.
"""

from datetime import date, datetime, time, timedelta

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.utils.timezone import localdate
from unfold.enums import ActionVariant
from unfold.widgets import UnfoldAdminDateWidget

from verification.backoffice.approvals import staff_actor
from verification.backoffice.model_admin import (
    DateRangeFilter,
    OtherNumbers,
    ReadOnlyAdmin,
    choice_filter,
    exact_filter,
)
from verification.backoffice.widgets import Facts, ReasonForm, dialog_verb
from verification.privacy import holds
from verification.privacy.erasure import ReportErased
from verification.privacy.models import Disclosure, Hold, Origin, RetentionRun
from verification.privacy.objections import object_to_use
from verification.privacy.retention import kept_until
from verification.privacy.staff_erasures import StaffErasureRefused, request_for_report
from verification.reports.admin import ReportAdmin
from verification.reports.models import Report
from verification.values.clock import now
from verification.values.local_time import NAIROBI


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
    offers = {
        **ReportAdmin.offers,
        "hold": lambda report: (
            report.erased_at is None and not report.holds.open(now()).exists()
        ),
        "rights": lambda report: report.erased_at is None,
    }
    rights = {"hold": "privacy.add_hold", "rights": "privacy.add_stafferasure"}

    def render_change_form(self, request, context, *arguments, **more):
        report = more["obj"]
        context["kept_until"] = kept_until(report)
        if request.user.has_perm("privacy.view_hold"):
            context["open_holds"] = list(report.holds.open(now()))
        return super().render_change_form(request, context, *arguments, **more)

    @dialog_verb(
        "Hold this report",
        "It is kept until this day, even if its retention ends before. Release it "
        "earlier on the list of holds.",
        "Hold it",
        HoldForm,
        description="Hold",
        icon="lock_clock",
        permissions=["hold"],
        audited="held",
        refusals=holds.HoldRefused,
    )
    def hold(self, request, form, report):
        typed, by = form.cleaned_data, staff_actor(request).name
        holds.hold(report.pk, typed["reason"], form.ends_at, by=by)
        return f"The report is held until {typed['ends_on']}."

    @dialog_verb(
        "Enter an objection of the subject",
        "All reports about the person in this workspace are restricted: results "
        "are not reused, webhooks not sent again, and monitoring pauses.",
        "Enter it",
        ReasonForm,
        description="Enter an objection",
        icon="front_hand",
        permissions=["rights"],
        audited="objected",
        change="objection entered",
        refusals=ReportErased,
    )
    def enter_objection(self, request, form, report):
        reason, by = form.cleaned_data["reason"], staff_actor(request).name
        object_to_use(report.pk, Origin.STAFF, requested_by=by, reason=reason)
        return "The reports about this person are restricted."

    @dialog_verb(
        "Erase the subject of this report",
        "It is for all reports about the person in this workspace and environment. "
        "Another member of staff has to approve it.",
        "Request it",
        ReasonForm,
        description="Erase the subject",
        icon="delete_forever",
        permissions=["rights"],
        variant=ActionVariant.DANGER,
        audited="erasure-requested",
        refusals=StaffErasureRefused,
    )
    def erase_subject(self, request, form, report):
        reason = form.cleaned_data["reason"]
        request_for_report(report.pk, reason, by=staff_actor(request))
        return "The erasure waits for another member of staff."


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
    other_numbers = OtherNumbers("R", Report, "report")

    @admin.display(description="Workspace")
    def workspace(self, row):
        return row.report.workspace


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
    offers = {"release": lambda row: row.is_open}

    @admin.display(boolean=True, description="Open")
    def is_open(self, row):
        return row.is_open

    @dialog_verb(
        "Release this hold",
        "If the retention of the report is over, it is erased within the hour. "
        "That cannot be undone.",
        "Release it",
        ReasonForm,
        description="Release",
        icon="lock_open",
        permissions=["release"],
        audited="released",
        refusals=holds.HoldRefused,
    )
    def release(self, request, form, row):
        holds.release(row.pk, by=staff_actor(request).name)
        return "The hold is released."


@admin.register(Disclosure)
class DisclosureAdmin(RowsOfReportsAdmin):
    """Recipients of reports. Webhook receivers and staff have lists of their own."""

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
        exact_filter("report__workspace_id", "workspace's id", is_id=True),
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
