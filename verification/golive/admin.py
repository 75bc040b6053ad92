"""Pages on which staff review go-live applications and name changes."""

from datetime import datetime
from typing import Any

from django.contrib import admin
from django.http import Http404
from unfold.enums import ActionVariant

from verification.backoffice import audit
from verification.backoffice.model_admin import ReadOnlyAdmin, choice_filter
from verification.backoffice.widgets import ReasonForm, dialog_verb
from verification.checks.finding_words import text_of
from verification.checks.models import CheckResult, ResultStatus
from verification.files.storage import download
from verification.golive import names, review
from verification.golive.applications import (
    COMPANY_CHECK,
    ActingUser,
    is_company_checked,
)
from verification.golive.models import WAITING, Application, NameChange, Status
from verification.reports.models import SUBJECT_LABELS, Report, ReportStatus
from verification.values.countries import country_name
from verification.values.masking import mask
from workspaces.models import ApiKey


def filter_waiting(applications):
    """Filter applications that wait for staff, by the index `applications_waiting`."""
    return applications.filter(status__in=WAITING)


WaitingFilter = choice_filter(
    "waits", "waits", {"staff": ("for a review", filter_waiting)}
)


def reviewer(request):
    return ActingUser(request.user, audit.actor_of(request))


class ReviewAdmin(ReadOnlyAdmin):
    """Rows on which a reviewer decides by dialogs."""

    def offers_in(self, request, object_id, status, if_row=bool):
        """Return whether the page offers a verb: to a row with this status.

        `if_row` takes the row, and returns whether it is ready for the verb. A dialog
        is allowed for any row: the verb refuses, and says why.
        """
        row = self.changeable_row(request, object_id)
        match = request.resolver_match
        is_page = match and match.url_name and match.url_name.endswith("_change")
        if row is None or not is_page:
            return row is not None
        return row.status == status and bool(if_row(row))

    def document(self, request, row_id, document_id):
        """Answer with a document during a reveal, and record it in the audit trail."""
        row = self.get_revealed_row(request, row_id)
        document = row.documents.filter(pk=document_id).first()
        if document is None:
            raise Http404
        read, actor = f"{audit.noun(row)}.document-read", audit.actor_of(request)
        audit.record(read, actor, row, fields=self.read_fields(document))
        return download(document, self.file_name(document))

    def read_fields(self, document):
        """Return what the audit trail names of a document that staff read."""
        return []


class GoLiveAdmin(ReviewAdmin):
    def has_act_permission(self, request, object_id=None):
        return request.user.has_perm("golive.decide_application")


@admin.register(Application)
class ApplicationAdmin(GoLiveAdmin):
    list_display = ["company_name", "workspace", "status", "submitted_at", "decided_at"]
    list_filter = [WaitingFilter, "status"]
    list_select_related = ["workspace"]
    search_ids = ("id", "workspace_id")
    search_parts = ("company_name",)
    change_form_template = "admin/golive.html"
    audits_opening = True
    # A waiting application has a report: `what_is_submitted_names_who_and_its_report`.
    offers = {
        "check": lambda row: (
            row.status in WAITING and row.report.status == ReportStatus.FAILED
        )
    }
    # The template draws the rest from the review.
    fields = ["id"]
    personal_fields = ("sent_details",)
    actions_detail = ["take", "approve", "reject", "check_again", "reveal"]
    own_pages = {"<uuid:row_id>/documents/<uuid:document_id>": "document"}

    def get_queryset(self, request):
        people = ["submitted_by", "taken_by", "decided_by", "api_key"]
        return super().get_queryset(request).select_related("workspace", *people)

    def get_fields(self, request, obj=None):
        return self.fields

    @admin.display(description="As the members sent it")
    def sent_details(self, application):
        return application.details

    def render_change_form(self, request, context, *arguments, **more):
        application = more["obj"]
        context |= {"review": review_of(application), "application": application}
        return super().render_change_form(request, context, *arguments, **more)

    def read_fields(self, document):
        return [document.kind]

    def file_name(self, document):
        return f"{document.kind.lower()}-{document.application_id}"

    def has_take_permission(self, request, object_id=None):
        return self.offers_in(request, object_id, Status.SUBMITTED)

    def has_decide_permission(self, request, object_id=None):
        return self.offers_in(request, object_id, Status.IN_REVIEW)

    def has_approve_permission(self, request, object_id=None):
        return self.offers_in(
            request,
            object_id,
            Status.IN_REVIEW,
            lambda row: row.report and is_company_checked(row.report),
        )

    @dialog_verb(
        "Take this application",
        "The client sees that it is in review.",
        "Take it",
        description="Take for review",
        icon="front_hand",
        permissions=["take"],
    )
    def take(self, request, form, row):
        review.take(row.pk, reviewer(request))
        return "It is in review."

    @dialog_verb(
        "Approve this company to go live",
        "Its production key is made and sent to the owner by e-mail. From then on "
        "it can order checks of real people. This cannot be undone; a workspace "
        "can be suspended.",
        "Approve, and send the key",
        description="Approve",
        icon="check_circle",
        variant=ActionVariant.SUCCESS,
        permissions=["approve"],
    )
    def approve(self, request, form, row):
        review.approve(row.pk, reviewer(request))
        return "It is approved; the key is being sent."

    @dialog_verb(
        "Reject this application",
        "The client reads the reason in the console and by e-mail, puts it right "
        "and may submit again.",
        "Reject it",
        ReasonForm,
        description="Reject",
        icon="cancel",
        variant=ActionVariant.DANGER,
        permissions=["decide"],
    )
    def reject(self, request, form, row):
        review.reject(row.pk, reviewer(request), form.cleaned_data["reason"])
        return "It is rejected; they are told."

    @dialog_verb(
        "Ask the register again",
        "The check of the company has failed. It runs again, at our own cost.",
        "Check again",
        description="Check again",
        icon="replay",
        permissions=["check"],
    )
    def check_again(self, request, form, row):
        review.check_again(row.pk, reviewer(request))
        return "The company is checked again."


@admin.register(NameChange)
class NameChangeAdmin(GoLiveAdmin):
    list_display = ["legal_name", "trading_name", "shown_now", "status", "created_at"]
    list_filter = ["status"]
    list_select_related = ["workspace"]
    search_ids = ("id", "workspace_id")
    search_parts = ("legal_name", "trading_name")
    fields = [
        "workspace",
        "shown_now",
        "legal_name",
        "trading_name",
        "note",
        "asked_by_member",
        "created_at",
        "status",
        "decided_by",
        "decided_at",
        "reason",
    ]
    actions_detail = ["approve", "reject"]

    def get_queryset(self, request):
        people = ["asked_by", "decided_by"]
        return super().get_queryset(request).select_related("workspace", *people)

    @admin.display(description="What people are shown now")
    def shown_now(self, change):
        return change.workspace.requester.name

    @admin.display(description="Asked by")
    def asked_by_member(self, change):
        # User names of members are random.
        return change.asked_by.get_full_name() or "a member"

    def has_decide_permission(self, request, object_id=None):
        return self.offers_in(request, object_id, NameChange.Status.WAITING)

    @dialog_verb(
        "Show people these names",
        "Compare them with the register first. Pages, messages and receipts name "
        "the client by them from now on, as reviewed by us.",
        "Approve",
        description="Approve",
        icon="check_circle",
        variant=ActionVariant.SUCCESS,
        permissions=["decide"],
    )
    def approve(self, request, form, row):
        names.approve_name_change(row.pk, reviewer(request))
        return "It is approved; they are told."

    @dialog_verb(
        "Reject this change",
        "People are shown the old names. The client reads the reason in the "
        "console and by e-mail, and may ask again.",
        "Reject it",
        ReasonForm,
        description="Reject",
        icon="cancel",
        variant=ActionVariant.DANGER,
        permissions=["decide"],
    )
    def reject(self, request, form, row):
        reason = form.cleaned_data["reason"]
        names.reject_name_change(row.pk, reviewer(request), reason)
        return "It is rejected; they are told."


LABELS: dict[str, Any] = {
    "tradingName": "Trading name",
    **{n: SUBJECT_LABELS[n] for n in ("registrationNumber", "kraPin", "country")},
    "address": "Address",
    "contactName": "Contact",
    "contactEmail": "Contact's e-mail",
    "contactPhone": "Contact's phone",
    "publicContact": "Contact for people",
    "volume": "Reports a month",
    "purpose": "Purpose",
}
# Shown without a reveal: not personal.
PUBLIC_DETAILS = {"tradingName", "publicContact", "country", "volume", "purpose"}
FINDING_LABELS: dict[str, Any] = {
    "registeredName": "Registered name",
    "registrationNumber": SUBJECT_LABELS["registrationNumber"],
    "companyStatus": "Status",
    "companyType": "Kind",
    "incorporatedOn": "Incorporated on",
    "registeredAddress": "Address",
    "directors": "Directors",
    "shareholders": "Shareholders",
    "nameMatch": "Name agrees",
}
# Shown without a reveal: public in the register.
PUBLIC_FINDINGS = {
    "registeredName",
    "companyStatus",
    "companyType",
    "incorporatedOn",
    "nameMatch",
}
MAX_ROWS = 50


def review_of(application: Any) -> dict[str, Any]:
    """Return what the page shows, read in a bounded number of queries.

    Personal data is masked unless `application.is_revealed`.
    """
    workspace, is_open = application.workspace, application.is_revealed
    results = CheckResult.objects.select_related("report")
    results = results.filter(report=application.report_id, name=COMPANY_CHECK)
    result = results.first() if application.report_id else None
    finding = (result and result.finding) or {}
    details = application.details or {}
    details = details | {"country": country_name(details.get("country", ""), "en")}
    members = workspace.members.select_related("user").order_by("created_at", "id")
    earlier = workspace.applications.exclude(pk=application.pk).order_by("-id")
    # The operator orders the checks of all companies: a number is one subject there.
    same = Report.objects.filter(subject_id=result.report.subject_id) if result else []
    others = Application.objects.filter(report__in=same).exclude(workspace=workspace)
    others = others.select_related("workspace").defer("details").order_by("-id")
    reports = Report.objects.filter(workspace=workspace).order_by("-created_at", "-id")
    return {
        "details": _rows(details, LABELS, PUBLIC_DETAILS, is_open=is_open),
        "documents": list(application.documents.order_by("id")),
        "result": result,
        "is_running": result
        and result.status in {ResultStatus.PENDING, ResultStatus.RUNNING},
        "findings": _rows(
            finding.get("details") or {},
            FINDING_LABELS,
            PUBLIC_FINDINGS,
            is_open=is_open,
        ),
        "members": [
            (m, m.user.email if is_open else mask(m.user.email, "email"))
            for m in members[:MAX_ROWS]
        ],
        "others": list(others[:MAX_ROWS]),
        "earlier": list(earlier.defer("details")[:MAX_ROWS]),
        "keys": ApiKey.objects.filter(workspace=workspace).count(),
        "reports": list(reports.defer("subject")[:5]),
        "moments": _timeline(application),
    }


def _rows(
    values: dict[str, Any], labels: dict[str, Any], public: set[str], *, is_open: bool
) -> list[tuple[str, Any]]:
    shown = {
        name: values[name] if is_open or name in public else mask(values[name], name)
        for name in labels
        if values.get(name) not in (None, "", [])
    }
    return [(labels[name], _text(value)) for name, value in shown.items()]


def _text(value: Any) -> Any:
    """Return a value of a finding as text; lists are joined."""
    if isinstance(value, dict):
        return ", ".join(str(each) for each in value.values() if each is not None)
    if isinstance(value, list):
        return "; ".join(str(_text(each)) for each in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return text_of(value) if isinstance(value, str) else value


def _timeline(application: Application) -> list[tuple[datetime, str, str]]:
    moments = [
        (application.created_at, "Begun", ""),
        (application.submitted_at, "Submitted", _name(application.submitted_by)),
        (application.taken_at, "Taken", _name(application.taken_by)),
        (
            application.decided_at,
            application.get_status_display(),
            _name(application.decided_by),
        ),
    ]
    return [(at, what, by) for at, what, by in moments if at is not None]


def _name(user: Any) -> str:
    if user is None:
        return ""
    # User names of members are random.
    return user.get_username() if user.is_staff else user.get_full_name() or "a member"
