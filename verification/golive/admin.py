"""Pages on which staff review go-live applications and name changes."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.contrib import admin
from django.http import Http404
from django.urls import path
from unfold.decorators import action
from unfold.enums import ActionVariant

from verification.backoffice import audit
from verification.backoffice.approvals import DecisionRefused
from verification.backoffice.model_admin import (
    ReadOnlyAdmin,
    Refusals,
    choice_filter,
)
from verification.backoffice.widgets import ReasonForm, dialog
from verification.checks.models import CheckResult, ResultStatus
from verification.files.storage import download
from verification.golive import names, review
from verification.golive.applications import COMPANY_CHECK, ActingUser
from verification.golive.models import (
    WAITING,
    Application,
    NameChange,
    Status,
)
from verification.reports.models import Report, ReportStatus
from verification.reports.subject_labels import SUBJECT_LABELS
from verification.values.masking import mask
from workspaces.models import ApiKey

# Ends of the URL names of the dialogs that decide.
DECISION_SUFFIXES = ("_take", "_approve", "_reject")


def is_decision(request):
    """Return whether a request is for a dialog, and not for the page with its buttons.

    A dialog is allowed in any status: the verb refuses, and says why.
    """
    match = request.resolver_match
    return bool(match and match.url_name and match.url_name.endswith(DECISION_SUFFIXES))


def filter_waiting(applications):
    """Filter applications that wait for staff, by the index `applications_waiting`."""
    return applications.filter(status__in=WAITING)


WaitingFilter = choice_filter(
    "waits", "waits", {"staff": ("for a review", filter_waiting)}
)


class ReviewAdmin(ReadOnlyAdmin):
    """Rows on which a reviewer decides by dialogs, by verbs with these refusals."""

    refusals: Refusals = DecisionRefused

    def decide(self, request, object_id, verb, done, *arguments):
        """Call a verb with the row's id, the reviewer and `arguments`."""
        row = self.get_row(request, object_id)
        by = ActingUser(request.user, audit.actor_of(request))

        def run():
            verb(row.pk, by, *arguments)
            return done

        return self.run_dialog(request, row, run, self.refusals)


@admin.register(Application)
class ApplicationAdmin(ReviewAdmin):
    list_display = ["company_name", "workspace", "status", "submitted_at", "decided_at"]
    list_filter = [WaitingFilter, "status"]
    list_select_related = ["workspace"]
    search_ids = ("id", "workspace_id")
    search_exact = ("company_name__iexact",)
    change_form_template = "admin/golive.html"
    audits_opening = True
    # The template draws the rest from the review.
    fields = ["id"]
    personal_fields = ("sent_details",)
    actions_detail = ["take", "approve", "reject", "check_again", "reveal"]

    def get_queryset(self, request):
        people = ["submitted_by", "taken_by", "decided_by", "api_key"]
        return super().get_queryset(request).select_related("workspace", *people)

    def get_fields(self, request, obj=None):
        return self.fields

    @admin.display(description="As the members sent it")
    def sent_details(self, application):
        return application.details

    def get_urls(self):
        document = path(
            "<uuid:application_id>/documents/<uuid:document_id>",
            self.admin_site.admin_view(self.document),
            name="golive_application_document",
        )
        return [document, *super().get_urls()]

    def render_change_form(self, request, context, *arguments, **more):
        application = more["obj"]
        context |= {"review": review_of(application), "application": application}
        return super().render_change_form(request, context, *arguments, **more)

    def document(self, request, application_id, document_id):
        """Answer with a document during a reveal, and record it in the audit trail."""
        application = self.get_revealed_row(request, application_id)
        document = application.documents.filter(pk=document_id).first()
        if document is None:
            raise Http404
        read = f"{audit.noun(application)}.document-read"
        audit.record(read, audit.actor_of(request), application, fields=[document.kind])
        return download(document, f"{document.kind.lower()}-{application.pk}")

    def has_take_permission(self, request, object_id=None):
        statuses = Status if is_decision(request) else [Status.SUBMITTED]
        return self._is(request, object_id, *statuses)

    def has_decide_permission(self, request, object_id=None):
        statuses = Status if is_decision(request) else [Status.IN_REVIEW]
        return self._is(request, object_id, *statuses)

    def has_check_permission(self, request, object_id=None):
        if not self._is(request, object_id, *WAITING):
            return False
        report = self.get_object(request, object_id).report
        return bool(report and report.status == ReportStatus.FAILED)

    def _is(self, request, object_id, *statuses):
        if not request.user.has_perm("golive.decide_application"):
            return False
        application = self.get_object(request, object_id) if object_id else None
        return application is not None and application.status in statuses

    @action(
        description="Take for review",
        icon="front_hand",
        permissions=["take"],
        dialog=dialog(
            "Take this application",
            "The client sees that it is in review.",
            "Take it",
        ),
    )
    def take(self, request, form, object_id):
        done = "It is in review."
        return self.decide(request, object_id, review.take, done)

    @action(
        description="Approve",
        icon="check_circle",
        variant=ActionVariant.SUCCESS,
        permissions=["decide"],
        dialog=dialog(
            "Approve this company to go live",
            "Its production key is made and sent to the owner by e-mail. From then on "
            "it can order checks of real people. This cannot be undone; a workspace "
            "can be suspended.",
            "Approve, and send the key",
        ),
    )
    def approve(self, request, form, object_id):
        done = "It is approved; the key is sent."
        return self.decide(request, object_id, review.approve, done)

    @action(
        description="Reject",
        icon="cancel",
        variant=ActionVariant.DANGER,
        permissions=["decide"],
        dialog=dialog(
            "Reject this application",
            "The client reads the reason in the console and by e-mail, puts it right "
            "and may submit again.",
            "Reject it",
            ReasonForm,
        ),
    )
    def reject(self, request, form, object_id):
        reason = form.cleaned_data["reason"]
        done = "It is rejected; they are told."
        return self.decide(request, object_id, review.reject, done, reason)

    @action(
        description="Check again",
        icon="replay",
        permissions=["check"],
        dialog=dialog(
            "Ask the register again",
            "The check of the company has failed. It is run anew, at our own cost.",
            "Check again",
        ),
    )
    def check_again(self, request, form, object_id):
        done = "The company is checked again."
        return self.decide(request, object_id, review.check_again, done)


@admin.register(NameChange)
class NameChangeAdmin(ReviewAdmin):
    list_display = ["legal_name", "trading_name", "shown_now", "status", "created_at"]
    list_filter = ["status"]
    list_select_related = ["workspace"]
    search_ids = ("id", "workspace_id")
    search_exact = ("legal_name__iexact", "trading_name__iexact")
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
        if not request.user.has_perm("golive.decide_application"):
            return False
        changes = NameChange.objects.filter(pk=object_id)
        if not is_decision(request):
            changes = changes.filter(status=NameChange.Status.WAITING)
        return bool(object_id) and changes.exists()

    @action(
        description="Approve",
        icon="check_circle",
        variant=ActionVariant.SUCCESS,
        permissions=["decide"],
        dialog=dialog(
            "Show people these names",
            "Compare them with the register first. Pages, messages and receipts name "
            "the client by them from now on, as reviewed by us.",
            "Approve",
        ),
    )
    def approve(self, request, form, object_id):
        done = "It is approved; they are told."
        return self.decide(request, object_id, names.approve_name_change, done)

    @action(
        description="Reject",
        icon="cancel",
        variant=ActionVariant.DANGER,
        permissions=["decide"],
        dialog=dialog(
            "Reject this change",
            "People are shown the old names. The client reads the reason in the "
            "console and by e-mail, and may ask again.",
            "Reject it",
            ReasonForm,
        ),
    )
    def reject(self, request, form, object_id):
        done, reason = "It is rejected; they are told.", form.cleaned_data["reason"]
        verb = names.reject_name_change
        return self.decide(request, object_id, verb, done, reason)


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
    members = workspace.members.select_related("user").order_by("created_at", "id")
    earlier = workspace.applications.exclude(pk=application.pk).order_by("-id")
    reports = Report.objects.filter(workspace=workspace).order_by("-created_at", "-id")
    return {
        "details": _rows(application.details, LABELS, PUBLIC_DETAILS, is_open=is_open),
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
    return value


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
