"""What a company that wants to go live tells, and the documents it hands in."""

from __future__ import annotations

import re
from typing import Any

import pycountry
from django import forms
from django.conf import settings
from django.utils.translation import gettext_lazy as _
from pydantic_core import PydanticCustomError

from verification.console.forms import CONTACT_HINT, REQUIRED_ERROR, contact
from verification.golive.company_report import can_be_checked
from verification.golive.inspection import (
    MAX_BYTES,
    Busy,
    Fault,
    InspectedFile,
    Unacceptable,
    inspect,
)
from verification.golive.models import DocumentKind
from verification.values import formats
from verification.values.wire import one_line

KRA_PIN = re.compile(r"[AP]\d{9}[A-Z]")
COUNTRIES = sorted((c.alpha_2, c.name) for c in pycountry.countries)
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
FAULT_MESSAGES = {
    Fault.EMPTY: _("The file is empty. Choose another one."),
    Fault.TOO_LARGE: _("The file is larger than 10 MB. Choose a smaller one."),
    Fault.UNKNOWN: _("This is no PDF, JPEG or PNG. Scan or save it as one of these."),
    Fault.LIES: _("The file is not what its name says. Save it anew, as what it is."),
    Fault.DAMAGED: _("The file cannot be read. Open it, and save it anew."),
    Fault.BOMB: _("The file holds more than we open. Scan it anew, at 300 dpi."),
    Fault.ACTIVE: _("The PDF runs something or carries files. Print it to a new PDF."),
    Fault.ENCRYPTED: _("The PDF has a password. Save it without one."),
    Fault.INFECTED: _("A virus scanner refuses the file. Scan the paper anew."),
    Fault.TOO_LONG: _("The PDF has more than 200 pages. Leave some out."),
}

BUSY_MESSAGE = _("We cannot look into the file now. Send it again in a minute.")


def text_field(label: Any, most: int = 200, **more: Any) -> forms.CharField:
    return forms.CharField(
        label=label, max_length=most, error_messages=REQUIRED_ERROR, **more
    )


class CompanyForm(forms.Form):
    company_name = text_field(_("Legal name"), help_text=_("As on the certificate"))
    trading_name = text_field(
        _("Trading name"),
        required=False,
        help_text=_("If people know you by another name than the legal one"),
    )
    registration_number = text_field(_("Registration number"), 64)
    kra_pin = text_field(_("KRA PIN"), 11, help_text=_("Such as P051234567X"))
    country = forms.ChoiceField(label=_("Country"), choices=COUNTRIES, initial="KE")
    address = text_field(
        _("Address"), 300, widget=forms.Textarea(attrs={"rows": 3, "maxlength": 300})
    )
    contact_name = text_field(_("Whom we may ask"))
    contact_email = forms.EmailField(
        label=_("Their e-mail address"),
        max_length=254,
        error_messages={
            **REQUIRED_ERROR,
            "invalid": _("Enter an e-mail address, such as name@example.com"),
        },
    )
    contact_phone = text_field(_("Their phone number"), 30)
    contact_phone.help_text = _("With the country code, such as +254712345678")
    public_contact = forms.CharField(
        label=_("Where people ask you about their details"),
        max_length=254,
        help_text=CONTACT_HINT,
        error_messages=REQUIRED_ERROR,
    )
    purpose = text_field(
        _("What you verify people or companies for"),
        500,
        widget=forms.Textarea(attrs={"rows": 3, "maxlength": 500}),
    )
    volume = forms.ChoiceField(
        label=_("Reports that you expect in a month"),
        choices=VOLUMES,
        error_messages=REQUIRED_ERROR,
    )

    def clean_company_name(self) -> str:
        return one_line(self.cleaned_data["company_name"])

    def clean_trading_name(self) -> str:
        return one_line(self.cleaned_data["trading_name"])

    def clean_public_contact(self) -> str:
        return contact(self.cleaned_data["public_contact"])

    def clean_kra_pin(self) -> str:
        pin = re.sub(r"\s", "", self.cleaned_data["kra_pin"]).upper()
        if not KRA_PIN.fullmatch(pin):
            told = _("Enter a letter, nine digits and a letter, such as P051234567X")
            raise forms.ValidationError(told)
        return pin

    def clean_contact_phone(self) -> str:
        try:
            return formats.phone(self.cleaned_data["contact_phone"])
        except PydanticCustomError:
            told = _("Enter a phone number with its country code, +254712345678")
            raise forms.ValidationError(told) from None

    def clean(self) -> dict[str, Any]:
        typed: dict[str, Any] = super().clean() or {}
        company = ("company_name", "registration_number", "country")
        name, number, country = (str(typed.get(one) or "") for one in company)
        where = settings.GO_LIVE_ENVIRONMENT
        is_told = name and number and country
        if is_told and not can_be_checked(name, number, country, where):
            told = _("Enter the number as on the certificate, such as PVT-AB12CD3")
            self.add_error("registration_number", told)
        return typed

    @property
    def details(self) -> dict[str, str]:
        """As an application keeps them."""
        return {
            "tradingName": self.cleaned_data["trading_name"],
            "registrationNumber": self.cleaned_data["registration_number"],
            "kraPin": self.cleaned_data["kra_pin"],
            "country": self.cleaned_data["country"],
            "address": self.cleaned_data["address"],
            "contactName": one_line(self.cleaned_data["contact_name"]),
            "contactEmail": self.cleaned_data["contact_email"],
            "contactPhone": self.cleaned_data["contact_phone"],
            "publicContact": self.cleaned_data["public_contact"],
            "purpose": self.cleaned_data["purpose"],
            "volume": self.cleaned_data["volume"],
        }

    @staticmethod
    def typed(company_name: str, details: dict[str, str]) -> dict[str, str]:
        """What was kept, as it stands in the form."""
        snake = {re.sub("([A-Z])", r"_\1", k).lower(): v for k, v in details.items()}
        return {"company_name": company_name, **snake}


class DocumentForm(forms.Form):
    file = forms.FileField(
        label=_("The file"),
        help_text=_("PDF, JPEG or PNG, up to 10 MB"),
        widget=forms.FileInput(attrs={"accept": ".pdf,.jpg,.jpeg,.png"}),
        error_messages={
            "required": _("Choose a file"),
            "empty": FAULT_MESSAGES[Fault.EMPTY],
            "invalid": _("Choose a file"),
        },
    )
    # What it is, once it was looked into.
    found: InspectedFile
    # 503 if the file was not looked into.
    status = 200

    def clean_file(self) -> Any:
        sent = self.cleaned_data["file"]
        content = sent.read(MAX_BYTES + 1)
        try:
            self.found = inspect(sent.name, sent.content_type or "", content)
        except Unacceptable as e:
            raise forms.ValidationError(FAULT_MESSAGES[e.fault]) from None
        except Busy:
            self.status = 503
            raise forms.ValidationError(BUSY_MESSAGE) from None
        return sent


class SubmissionForm(forms.Form):
    confirmed = forms.BooleanField(
        label=_("All of it is true, and I may act for the company"),
        error_messages={"required": _("Confirm it to submit")},
    )
