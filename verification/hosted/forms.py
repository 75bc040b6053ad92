"""Forms of the hosted pages. Their errors say what to do."""

from collections.abc import Sequence
from datetime import date
from typing import Any

from django import forms
from django.utils.translation import get_language
from django.utils.translation import gettext_lazy as _
from pydantic_core import PydanticCustomError

from verification.consents.models import DATE_OF_BIRTH, KRA_PIN, REGISTRATION_NUMBER
from verification.consents.subject_decisions import is_signature
from verification.files.uploads import UploadedFile, read_upload
from verification.notifications.models import Channel
from verification.notifications.sms import sms_is_configured
from verification.privacy.corrections import MAX_DOCUMENTS
from verification.reports.models import Report, SubjectType
from verification.values import formats
from verification.values.countries import country_choices
from verification.values.formats import kenyan_mobile, one_line

REASON_LENGTH = 500
MAX_DIGITS = 4
FIRST_FOUR_DIGIT_YEAR = 1000


class TextField(forms.CharField):
    """A text field. `error`, if given, is the text for each of its errors."""

    # Django has no Kiswahili text for this error.
    default_error_messages = {
        "null_characters_not_allowed": _(
            "This has a character that we cannot keep. Please type it again"
        )
    }

    def __init__(self, *, error: Any = None, **options: Any) -> None:
        codes = ("required", "min_length", "max_length", "null_characters_not_allowed")
        if error:
            options["error_messages"] = dict.fromkeys(codes, error)
        super().__init__(**options)


class PhoneForm(forms.Form):
    """The number of the phone that gets an M-Pesa prompt."""

    phone = TextField(
        max_length=40,
        error=_("Enter a Kenyan mobile number, for example 0712 345 678"),
    )

    def clean_phone(self) -> str:
        try:
            return kenyan_mobile(self.cleaned_data["phone"])
        except ValueError:
            message = self.fields["phone"].error_messages["required"]
            raise forms.ValidationError(message) from None


class DateOfBirthForm(forms.Form):
    # The fields have no rules: `clean` checks the whole date and names its error.
    day = forms.Field(required=False)
    month = forms.Field(required=False)
    year = forms.Field(required=False)

    template = "hosted/fields/date_of_birth.html"

    def clean(self) -> dict[str, Any]:
        typed = super().clean() or {}
        try:
            year, month, day = (
                parse_number(typed.get(k)) for k in ("year", "month", "day")
            )
            if year < FIRST_FOUR_DIGIT_YEAR:
                error = _("Write the year with four digits, for example 1990")
                self.add_error("year", error)
                return typed
            born = date(year, month, day)
        except ValueError:
            error = _("Enter your date of birth in numbers, for example 27 3 1990")
            self.add_error("day", error)
            return typed
        return {**typed, "answer": born.isoformat()}


class IdNumberEndForm(forms.Form):
    answer = TextField(
        min_length=4,
        max_length=8,
        error=_("Enter the last four characters of your ID number"),
    )

    template = "hosted/fields/id_number_end.html"


class RegistrationNumberForm(forms.Form):
    answer = TextField(
        max_length=64,
        error=_("Enter the registration number of the company"),
    )

    template = "hosted/fields/registration_number.html"


class KraPinForm(forms.Form):
    answer = TextField(max_length=64, error=_("Enter the whole KRA PIN"))

    template = "hosted/fields/kra_pin.html"


class CodeForm(forms.Form):
    answer = TextField(max_length=20, error=_("Enter the six digits of the code"))


class DisputeForm(forms.Form):
    """The subject's dispute of a finding, with up to three documents."""

    what = TextField(max_length=1000, error=_("Say what is wrong, in a few sentences"))
    why = TextField(
        max_length=2000, error=_("Say what is right, and how you know it, in short")
    )
    # The browser sends each chosen file under this name.
    documents = forms.Field(required=False)

    def __init__(
        self, typed: Any = None, uploads: Sequence[Any] = (), *, is_live: bool = True
    ) -> None:
        super().__init__(typed)
        self._uploads, self._is_live = uploads, is_live
        self.files_read: list[UploadedFile] = []

    def clean(self) -> dict[str, Any] | None:
        if len(self._uploads) > MAX_DOCUMENTS:
            self.add_error("documents", _("Choose at most three documents"))
        elif self._uploads and self.errors:
            # A browser cannot choose files again by itself.
            self.add_error(
                "documents", _("Choose your documents again: they were not kept")
            )
        else:
            # An inspection takes seconds, so it comes last.
            try:
                self.files_read = [
                    read_upload(upload, is_live=self._is_live)
                    for upload in self._uploads
                ]
            except forms.ValidationError as e:
                self.add_error("documents", e)
        return super().clean()


class GrantForm(forms.Form):
    """`shown` is the SHA-256 of the notice on the page, in `language`."""

    error = _("Type your name as on your ID. If that fails, ask the sender of the link")
    name = TextField(
        min_length=2,
        max_length=200,
        error_messages={
            "required": _("Type your full name"),
            "min_length": _("Type your full name"),
            "max_length": _("Type your name in at most 200 characters"),
        },
    )
    agreed = forms.BooleanField(
        error_messages={"required": _("Tick the box if you agree")}
    )
    shown = forms.Field(required=False)

    def __init__(self, typed: Any = None, report: Report | None = None) -> None:
        super().__init__(typed)
        self.report = report

    def clean_name(self) -> str:
        name = str(self.cleaned_data["name"])
        if self.report and not is_signature(self.report, name):
            # The error must not say which name is right.
            raise forms.ValidationError(self.error)
        return name


class CompanyGrantForm(GrantForm):
    """The form of a person who decides for a company."""

    error = _("Type your first name and your family name")
    position = TextField(
        min_length=2,
        max_length=100,
        error_messages={
            "required": _("Type your position in the company"),
            "min_length": _("Type your position in the company"),
            "max_length": _("Type your position in at most 100 characters"),
        },
    )


class ReasonForm(forms.Form):
    reason = TextField(
        max_length=REASON_LENGTH,
        required=False,
        error_messages={"max_length": _("Write at most 500 characters")},
    )


class MyDataForm(forms.Form):
    """The form by which a person asks for links to their data."""

    number = TextField(
        min_length=3,
        max_length=64,
        error=_("Enter the number of your ID card or passport, or your KRA PIN"),
    )
    country = forms.ChoiceField(
        choices=lambda: country_choices(get_language() or "en"),
        initial="KE",
        error_messages={
            "required": _("Choose a country"),
            "invalid_choice": _("Choose a country"),
        },
    )
    address = TextField(
        max_length=254,
        error=_("Enter your e-mail address or telephone number"),
    )

    def __init__(self, typed: Any = None) -> None:
        super().__init__(typed)
        if not sms_is_configured():
            errors = self.fields["address"].error_messages
            errors |= dict.fromkeys(errors, _("Enter your e-mail address"))

    def clean_address(self) -> tuple[str, str]:
        """Return (channel, address), with a number in E.164."""
        typed = one_line(self.cleaned_data["address"])
        try:
            if "@" in typed or not sms_is_configured():
                return Channel.EMAIL.value, formats.email(typed)
            return Channel.SMS.value, _e164(typed)
        except (ValueError, PydanticCustomError):
            message = self.fields["address"].error_messages["required"]
            raise forms.ValidationError(message) from None


def _e164(typed: str) -> str:
    """Return a number in E.164; one without a country code is Kenyan."""
    if typed.lstrip().startswith("+"):
        return formats.phone(typed)
    return formats.kenyan_mobile(typed)


CHALLENGE_FORMS: dict[str, type[forms.Form]] = {
    DATE_OF_BIRTH: DateOfBirthForm,
    REGISTRATION_NUMBER: RegistrationNumberForm,
    KRA_PIN: KraPinForm,
}


def challenge_form(kind: str | None, typed: Any = None) -> forms.Form:
    """Return the form of this challenge."""
    return CHALLENGE_FORMS.get(kind or "", IdNumberEndForm)(typed)


def grant_form(report: Report, typed: Any = None) -> GrantForm:
    """Return the form by which the report's subject, or its signer, agrees."""
    is_company = report.subject_type == SubjectType.COMPANY
    return (CompanyGrantForm if is_company else GrantForm)(typed, report)


def parse_number(typed: str | None) -> int:
    """Return a part of a date. Raises ValueError."""
    typed = (typed or "").strip()
    # int() also takes "1_0" and digits of other scripts.
    if not typed.isascii() or not typed.isdigit() or len(typed) > MAX_DIGITS:
        raise ValueError("not a number")
    return int(typed)
