"""Forms of the console. Each error is a sentence that says what to do."""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pycountry
from django import forms
from django.conf import settings
from django.core.validators import validate_email
from django.utils.timezone import localdate, now
from django.utils.translation import gettext_lazy as _
from pydantic_core import PydanticCustomError

from monitoring.models import Severity
from verification.golive.applications import can_be_checked
from verification.golive.inspection import (
    MAX_BYTES,
    Busy,
    Fault,
    InspectedFile,
    Unacceptable,
    inspect,
)
from verification.golive.models import DocumentKind
from verification.notifications.models import Channel
from verification.outbound.targets import Blocked, check_url
from verification.reports.models import ReportStatus, SubjectType
from verification.reports.queries import Filters
from verification.values import wire
from verification.values.wire import NAIROBI, one_line
from webhooks.models import DeliveryStatus, Event
from webhooks.sender import signing_key
from workspaces.models import Role, Scope, all_scopes

REQUIRED_ERROR = {"required": _("This is needed")}
ALL_CHOICE = [("", _("All"))]
INVALID_DATE_ERROR = {"invalid": _("Choose a day")}
SECRET_PATTERN = re.compile("[ -~]{16,128}")
EVENT_CHOICES = [(n, n) for n in Event.Name.values if n != Event.Name.WEBHOOK_TEST]


def date_field(**more: Any) -> forms.DateField:
    field = forms.DateField(required=False, error_messages=INVALID_DATE_ERROR, **more)
    field.widget = forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d")
    return field


CONTACT_HINT = _(
    "An e-mail address, a phone number, or both with a comma between; people see it"
)


def contact(typed: str) -> str:
    """An e-mail address, a phone number, or one of each. Raises ValidationError."""
    parts = [part.strip() for part in typed.split(",")]
    emails = [part for part in parts if "@" in part]
    phones = [part for part in parts if "@" not in part]
    try:
        found = [*map(wire.email, emails), *map(wire.phone, phones)]
    except PydanticCustomError:
        found = []
    if not found or len(emails) > 1 or len(phones) > 1:
        told = _("Enter name@example.com, +254712345678, or both with a comma between")
        raise forms.ValidationError(told)
    return ", ".join(found)


class KeyForm(forms.Form):
    name = forms.CharField(
        label=_("Name"), max_length=100, error_messages=REQUIRED_ERROR
    )
    name.help_text = _("So that you know it again, such as the system that uses it")
    scopes = forms.MultipleChoiceField(
        label=_("What it may do"),
        choices=Scope.choices,
        initial=all_scopes,
        widget=forms.CheckboxSelectMultiple,
        error_messages=REQUIRED_ERROR,
    )
    expires = date_field(
        label=_("Last day"), help_text=_("Without one it works until you revoke it")
    )

    def clean_expires(self) -> date | None:
        last: date | None = self.cleaned_data["expires"]
        if last and last < localdate():
            raise forms.ValidationError(_("Choose a day to come"))
        return last

    @property
    def expires_at(self) -> datetime | None:
        last = self.cleaned_data["expires"]
        return datetime.combine(last, time.max, NAIROBI) if last else None


class RotationForm(forms.Form):
    ends = forms.TypedChoiceField(
        label=_("How long the old key still works"),
        coerce=int,
        choices=[
            (0, _("It ends now")),
            (1, _("One hour")),
            (24, _("One day")),
            (168, _("One week")),
        ],
        initial=24,
        error_messages=REQUIRED_ERROR,
    )

    @property
    def old_ends_at(self) -> datetime:
        return now() + timedelta(hours=self.cleaned_data["ends"])


class ReportFilters(forms.Form):
    search = forms.CharField(label=_("Search"), max_length=200, required=False)
    status = forms.ChoiceField(
        label=_("Status"), choices=[*ALL_CHOICE, *ReportStatus.choices], required=False
    )
    subject_type = forms.ChoiceField(
        label=_("Subject"), choices=[*ALL_CHOICE, *SubjectType.choices], required=False
    )
    first = date_field(label=_("From"))
    last = date_field(label=_("To"))

    def filters(self) -> Filters:
        typed = self.cleaned_data
        return Filters(
            search=typed["search"] or None,
            status=typed["status"] or None,
            subject_type=typed["subject_type"] or None,
            first_day=typed["first"],
            last_day=typed["last"],
            zone=NAIROBI,
        )


class DeliveryFilters(forms.Form):
    event = forms.ChoiceField(
        label=_("Event"),
        choices=[*ALL_CHOICE, *((n, n) for n in Event.Name.values)],
        required=False,
    )
    status = forms.ChoiceField(
        label=_("Status"),
        choices=[*ALL_CHOICE, *DeliveryStatus.choices],
        required=False,
    )


class ReasonForm(forms.Form):
    reason = forms.CharField(
        label=_("Why you need to see it"), max_length=500, error_messages=REQUIRED_ERROR
    )


class RuleFilters(forms.Form):
    search = forms.CharField(label=_("Search"), max_length=200, required=False)


class AlertFilters(forms.Form):
    read = forms.TypedChoiceField(
        label=_("Show"),
        choices=[*ALL_CHOICE, ("no", _("Unread")), ("yes", _("Read"))],
        coerce=lambda text: text == "yes",
        empty_value=None,
        required=False,
    )
    severity = forms.ChoiceField(
        label=_("Severity"), choices=[*ALL_CHOICE, *Severity.choices], required=False
    )


class WebhookForm(forms.Form):
    url = forms.CharField(
        label=_("Address"),
        max_length=2048,
        error_messages=REQUIRED_ERROR,
        widget=forms.URLInput,
        help_text=_("https, port 443 or 8443, and a public host name"),
    )
    enabled_events = forms.MultipleChoiceField(
        label=_("Events"),
        choices=EVENT_CHOICES,
        required=False,
        widget=forms.CheckboxSelectMultiple,
    )
    secret = forms.CharField(
        label=_("Secret"),
        required=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        strip=False,
    )
    enabled = forms.BooleanField(label=_("Send events"), required=False, initial=True)

    def __init__(self, *args: Any, has_secret: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.has_secret = has_secret
        self.fields["secret"].help_text = (
            _("Leave it empty to keep the present one. It is never shown.")
            if has_secret
            else _("16 to 128 characters, by which your receiver knows us")
        )

    def clean_url(self) -> str:
        url: str = self.cleaned_data["url"]
        try:
            check_url(url, settings.WEBHOOK_DEV_HOSTS)
        except Blocked:
            told = _("Enter a public https address, such as https://hooks.example.com/")
            raise forms.ValidationError(told) from None
        return url

    def clean_secret(self) -> str | None:
        secret: str = self.cleaned_data["secret"]
        if not secret and self.has_secret:
            return None
        try:
            if not SECRET_PATTERN.fullmatch(secret):
                raise ValueError
            signing_key(secret)
        except ValueError:
            told = _("Enter a secret of 16 to 128 letters, digits and signs")
            raise forms.ValidationError(told) from None
        return secret


class InvitationForm(forms.Form):
    email = forms.EmailField(
        label=_("E-mail address"),
        max_length=254,
        error_messages={
            **REQUIRED_ERROR,
            "invalid": _("Enter an e-mail address, such as name@example.com"),
        },
    )
    role = forms.ChoiceField(
        label=_("Role"), initial=Role.VIEWER, error_messages=REQUIRED_ERROR
    )

    def __init__(self, *args: Any, roles: list[tuple[str, Any]], **kw: Any) -> None:
        super().__init__(*args, **kw)
        # Only what the member may give; the verb asks again.
        self.fields["role"].choices = roles  # type: ignore[attr-defined]


class SandboxAddressForm(forms.Form):
    """Cleaned to a channel and an address."""

    address = forms.CharField(max_length=254, error_messages=REQUIRED_ERROR)

    def __init__(self, *args: Any, by_sms: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.by_sms = by_sms
        field = self.fields["address"]
        field.label = _("E-mail address")
        if by_sms:
            field.label = _("E-mail address, or phone number such as +254712345678")

    def clean_address(self) -> tuple[Channel, str]:
        typed: str = self.cleaned_data["address"]
        try:
            if self.by_sms and typed.startswith("+"):
                return Channel.SMS, wire.phone(typed)
            validate_email(typed)
        except (PydanticCustomError, forms.ValidationError):
            told = _("Enter an e-mail address, such as name@example.com")
            if self.by_sms:
                told = _("Enter an e-mail address, or a number such as +254712345678")
            raise forms.ValidationError(told) from None
        return Channel.EMAIL, typed


class SettingsForm(forms.Form):
    name = forms.CharField(
        label=_("Name"), max_length=200, error_messages=REQUIRED_ERROR
    )
    name.help_text = _("People who are asked for their consent see it")
    contact = forms.CharField(
        label=_("Where people ask you about their details"),
        max_length=254,
        help_text=CONTACT_HINT,
        error_messages=REQUIRED_ERROR,
    )
    retention_days = forms.IntegerField(
        label=_("Days that results are kept"),
        min_value=30,
        max_value=3650,
        error_messages={
            name: _("Enter a number of days from 30 to 3650")
            for name in ("required", "invalid", "min_value", "max_value")
        },
    )
    retention_days.help_text = _("Then subjects and results are erased for good")
    low_balance_at = forms.DecimalField(
        label=_("Tell the owner when no more is left than"),
        min_value=Decimal(0),
        max_digits=14,
        decimal_places=2,
        required=False,
        error_messages={
            name: _("Enter an amount, such as 1000, or nothing for never")
            for name in ("invalid", "min_value", "max_digits", "max_decimal_places")
        },
    )
    low_balance_at.help_text = _("In production; empty for never")

    def clean_contact(self) -> str:
        return contact(self.cleaned_data["contact"])


class NamesForm(forms.Form):
    legal_name = forms.CharField(
        label=_("Legal name"),
        max_length=200,
        help_text=_("As on the certificate"),
        error_messages=REQUIRED_ERROR,
    )
    trading_name = forms.CharField(
        label=_("Trading name"),
        max_length=200,
        required=False,
        help_text=_("If people know you by another name than the legal one"),
    )
    note = forms.CharField(
        label=_("How we can check it"),
        max_length=500,
        required=False,
        help_text=_("Such as the day on which the register changed the name"),
    )

    def clean_legal_name(self) -> str:
        return one_line(self.cleaned_data["legal_name"])

    def clean_trading_name(self) -> str:
        return one_line(self.cleaned_data["trading_name"])


class CloseForm(forms.Form):
    password = forms.CharField(
        label=_("Your password"),
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
        error_messages=REQUIRED_ERROR,
    )


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
            return wire.phone(self.cleaned_data["contact_phone"])
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
