"""Admin pages of erasures: requests by staff, and each erasure with its certificate."""

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import Http404
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from verification.backoffice.approvals import StaffActor
from verification.backoffice.model_admin import ApprovalAdmin, ReadOnlyAdmin
from verification.backoffice.widgets import link
from verification.db.ids import uuid7
from verification.privacy import certificates
from verification.privacy.models import Erasure, StaffErasure
from verification.privacy.staff_erasures import StaffErasureRefused, request_for_person
from verification.privacy.staff_erasures import approve as approve_erasure
from verification.privacy.staff_erasures import reject as reject_erasure
from verification.reports.models import SubjectType
from verification.web.pages import attachment


class PersonForm(forms.ModelForm):
    """A person or company by document numbers, to be erased in all workspaces."""

    subject_type = forms.ChoiceField(
        choices=SubjectType.choices, widget=UnfoldAdminSelectWidget
    )
    country = forms.RegexField(
        "^[A-Z]{2}$",
        initial="KE",
        widget=UnfoldAdminTextInputWidget,
        help_text="The country of the documents, in two letters.",
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

    page = forms.UUIDField(required=False, widget=forms.HiddenInput, initial=uuid7)

    class Meta:
        model = StaffErasure
        fields = ["reason"]

    def clean(self):
        cleaned = super().clean() or {}
        if not any(cleaned.get(name) for name in DOCUMENT_FIELDS):
            raise ValidationError("Enter at least one number of a document.")
        if not self.errors:
            try:
                # The request is saved with the form, by the admin.
                with transaction.atomic():
                    self.enter(NOBODY)
                    transaction.set_rollback(True)
            except StaffErasureRefused as e:
                raise ValidationError(str(e)) from e
        return cleaned

    def enter(self, by: StaffActor) -> StaffErasure:
        reason, page = self.cleaned_data["reason"], self.cleaned_data["page"]
        return request_for_person(self.person, reason, by=by, page=page)

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
    entry_form = PersonForm

    @admin.display(description="Begun by another request")
    def begun_by_others(self, row):
        earlier = Erasure.objects.filter(pk__in=row.earlier_erasures)
        rows = earlier.select_related("request__workspace").order_by("pk")
        links = [
            (link(one, one.number), one.request.workspace, one.request.environment)
            for one in rows
        ]
        return format_html_join(", ", "{} {} ({})", links) or "-"


@admin.register(Erasure)
class ErasureAdmin(ReadOnlyAdmin):
    """Erasures with their certificates, which name nobody."""

    list_display = ["number", "workspace", "created_at", "ended_at", "report_count"]
    list_filter = ["request__origin", "request__environment"]
    list_select_related = ["request__workspace"]
    search_ids = ("id", "request__workspace_id")
    number_letter = "E"
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
    own_pages = {"<uuid:erasure_id>/certificate.pdf": "certificate"}

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

    def certificate(self, request, erasure_id):
        """Return the certificate as a PDF. It has no personal data to record."""
        row = self.get_object(request, str(erasure_id))
        if not (row and row.ended_at and self.has_view_permission(request, row)):
            raise Http404
        return attachment(certificates.certificate_pdf(row), f"{row.number}.pdf")
