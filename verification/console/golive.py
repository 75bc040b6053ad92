"""Going live: describe the company, upload documents, submit, read the decision."""

from contextlib import suppress
from typing import Any
from uuid import UUID

from allauth.mfa.utils import is_mfa_enabled
from django import forms
from django.http import Http404, HttpResponse
from django.utils.translation import gettext_lazy as _
from pydantic.alias_generators import to_camel, to_snake

from verification.accounts.sessions import has_provider_factor
from verification.backoffice import audit
from verification.batches.repairs import repair_number
from verification.console.base import (
    Place,
    Refusals,
    member_required,
    post_required,
)
from verification.console.fields import (
    ContactField,
    LongSelect,
    countries,
    email_field,
    name_field,
    text_area,
    text_field,
    trading_name_field,
)
from verification.console.order_inputs import PHONE_HINT
from verification.console.templatetags.console import slug
from verification.files.inspection import Fault
from verification.files.storage import download
from verification.files.uploads import (
    ACCEPTED,
    FAULT_MESSAGES,
    UploadedFile,
    read_upload,
    status_of,
)
from verification.golive import applications
from verification.golive.models import Application, Document, DocumentKind, Status
from verification.reports.request import InvalidRequest
from verification.values import formats
from verification.values.identifiers import KRA_PIN
from verification.web.pages import REQUIRED_ERROR
from workspaces.ledger import InsufficientBalance
from workspaces.members import Permission, WorkspaceSuspended

VOLUMES = [
    ("", _("Choose one")),
    ("1-100", "1 - 100"),
    ("101-1000", "101 - 1,000"),
    ("1001-10000", "1,001 - 10,000"),
    ("10001+", "10,001 +"),
]
DOCUMENT_LABELS = {
    DocumentKind.INCORPORATION: _("Certificate of incorporation"),
    DocumentKind.CR12: _("CR12, of the last 12 months"),
    DocumentKind.KRA: _("KRA PIN certificate"),
    DocumentKind.DIRECTOR_ID: _("ID card or passport of a director"),
}


class CompanyForm(forms.Form):
    company_name = name_field(_("Legal name"), help_text=_("As on the certificate"))
    trading_name = trading_name_field()
    registration_number = text_field(_("Registration number"), 64)
    kra_pin = text_field(_("KRA PIN"), 20, help_text=_("Such as P051234567X"))
    country = forms.ChoiceField(
        label=_("Country"), choices=countries, widget=LongSelect, initial="KE"
    )
    address = text_area(_("Address"), 300)
    contact_name = name_field(_("Contact person"))
    contact_email = email_field(_("E-mail address of the contact"))
    contact_phone = text_field(
        _("Phone number of the contact"),
        30,
        help_text=PHONE_HINT,
        widget=forms.TextInput(attrs={"type": "tel"}),
    )
    public_contact = ContactField()
    purpose = text_area(_("What you verify people or companies for"), 500)
    volume = forms.ChoiceField(
        label=_("Reports that you expect in a month"),
        choices=VOLUMES,
        error_messages=REQUIRED_ERROR,
    )

    def clean_kra_pin(self) -> str:
        pin = repair_number(self.cleaned_data["kra_pin"], KRA_PIN).upper()
        if not KRA_PIN.fits(pin):
            raise forms.ValidationError(
                _("Enter a letter, nine digits and a letter, such as P051234567X")
            )
        return pin

    def clean_contact_phone(self) -> str:
        for read in (formats.kenyan_mobile, formats.phone):
            with suppress(ValueError):
                return read(self.cleaned_data["contact_phone"])
        raise forms.ValidationError(_("Enter a number such as +254712345678"))

    def clean(self) -> dict[str, Any]:
        """Refuse a registration number that makes no order of the company's check."""
        typed: dict[str, Any] = super().clean() or {}
        fields = ("company_name", "registration_number", "country")
        name, number, country = (typed.get(field) or "" for field in fields)
        is_complete = bool(name and number and country)
        if is_complete and not applications.can_be_checked(name, number, country):
            error = _("Enter the number as on the certificate, such as PVT-AB12CD3")
            self.add_error("registration_number", error)
        return typed

    @property
    def details(self) -> dict[str, str]:
        """The details as an application stores them: all but the company's name."""
        return {
            to_camel(name): value
            for name, value in self.cleaned_data.items()
            if name != "company_name"
        }


def initial_of(application: Application) -> dict[str, str]:
    """Return the initial values of CompanyForm."""
    details = {to_snake(name): v for name, v in (application.details or {}).items()}
    return {"company_name": application.company_name, **details}


class DocumentForm(forms.Form):
    file = forms.FileField(
        label=_("The file"),
        help_text=_("PDF, JPEG or PNG, up to 10 MB"),
        widget=forms.FileInput(attrs={"accept": ACCEPTED}),
        error_messages={
            "required": _("Choose a file"),
            "empty": FAULT_MESSAGES[Fault.EMPTY],
            "invalid": _("Choose a file"),
        },
    )

    def clean_file(self) -> UploadedFile:
        return read_upload(self.cleaned_data["file"], is_live=False)


class SubmissionForm(forms.Form):
    confirmed = forms.BooleanField(
        label=_("All of it is true, and I may act for the company"),
        error_messages={"required": _("Confirm it to submit")},
    )


DOCUMENTS_PER_MINUTE = 30
EDITABLE_STATUSES = {None, Status.DRAFT, Status.REJECTED}
UNCHANGEABLE = _("It cannot be changed now.")
REFUSALS: Refusals = {applications.NotEditable: UNCHANGEABLE}
SUBMISSION_REFUSALS: Refusals = {
    applications.Incomplete: _("A document is missing."),
    applications.NoContact: _("Under the company, say how people can reach you."),
    InvalidRequest: _("The company cannot be checked as it is described. Correct it."),
    # The operator, not the client, pays for the check.
    InsufficientBalance: _("We cannot take it now. Submit it again later."),
    WorkspaceSuspended: UNCHANGEABLE,
    applications.NotEditable: _("It is submitted already."),
    applications.WrongStatus: _("It is submitted already."),
}


@member_required(Permission.SEE_ADMINISTRATION)
def overview(place: Place) -> HttpResponse:
    application = applications.newest_application(place.workspace)
    given = {d.kind: d for d in application.documents.all()} if application else {}
    status = application.status if application else ""
    if place.workspace.is_live:
        status = Status.APPROVED
    shown = {
        "application": application,
        "status": status,
        "reason": applications.rejection_reason(place.workspace),
        "documents": [
            (kind, label, given.get(kind)) for kind, label in DOCUMENT_LABELS.items()
        ],
        "needs_factor": not (
            is_mfa_enabled(place.member.user)
            or has_provider_factor(place.request, place.member.user)
        ),
        "is_draft": status in {"", Status.DRAFT},
        "is_complete": bool(application) and len(given) == len(DOCUMENT_LABELS),
    }
    return place.render("golive/overview", shown)


@member_required(Permission.GO_LIVE)
def company(place: Place) -> HttpResponse:
    application = applications.newest_application(place.workspace)
    status = application.status if application else None
    if place.workspace.is_live or status not in EDITABLE_STATUSES:
        return _refuse_change(place)
    initial = initial_of(application) if application else {}
    form = CompanyForm(place.posted, initial=initial)
    if form.is_valid():
        name = form.cleaned_data["company_name"]
        with place.refusing(REFUSALS, "golive"):
            applications.describe_company(place.member, name, form.details, place.by)
        return place.to("golive", success=_("Saved."))
    return place.render("golive/company", {"form": form})


@member_required(Permission.GO_LIVE)
def upload_document(place: Place, kind: str) -> HttpResponse:
    """Take an uploaded document; `kind` is the slug of a DocumentKind."""
    document_kind = next((k for k in DocumentKind if slug(k) == kind), None)
    if document_kind is None:
        raise Http404
    application = applications.newest_application(place.workspace)
    if application is None or application.status != Status.DRAFT:
        return _refuse_change(place)
    form = DocumentForm(place.posted, place.files)
    if form.is_bound and place.is_valid_upload(form, "documents", DOCUMENTS_PER_MINUTE):
        upload = form.cleaned_data["file"]
        with place.refusing(REFUSALS, "golive"):
            applications.upload_document(
                place.member, document_kind, upload.name, upload.file, place.by
            )
        return place.to("golive", success=_("The document is kept."))
    shown = {"form": form, "label": DOCUMENT_LABELS[document_kind]}
    return place.render("golive/hand_in", shown, status_of(form))


@member_required(Permission.GO_LIVE)
def document(place: Place, document: UUID) -> HttpResponse:
    """Return a document of the workspace, and record it in the audit trail."""
    mine = Document.objects.select_related("application")
    found = mine.get(pk=document, application__workspace=place.workspace)
    read = f"{audit.noun(found.application)}.document-read"
    place.record(read, found.application, found.kind)
    return download(found, slug(found.kind))


@post_required(Permission.GO_LIVE)
def begin_again(place: Place) -> HttpResponse:
    with place.refusing(REFUSALS, "golive"):
        applications.begin_again(place.member, place.by)
    return place.to("golive")


@member_required(Permission.GO_LIVE)
def submit(place: Place) -> HttpResponse:
    application = applications.newest_application(place.workspace)
    if application is None or application.status != Status.DRAFT:
        return _refuse_change(place)
    form = SubmissionForm(place.posted)
    if form.is_valid():
        with place.refusing(SUBMISSION_REFUSALS, "golive"):
            applications.submit(place.member, place.by)
        success = _("It is submitted. We write to you when it is decided.")
        return place.to("golive", success=success)
    return place.render("golive/submit", {"form": form, "application": application})


def _refuse_change(place: Place) -> HttpResponse:
    return place.to("golive", error=UNCHANGEABLE)
