"""Fields and base classes of the console's forms. Each error says what to do."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from django import forms
from django.forms.utils import flatatt
from django.utils.formats import date_format
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import format_lazy
from django.utils.translation import get_language
from django.utils.translation import gettext_lazy as _
from pydantic_core import PydanticCustomError

from verification.decisions.models import MAX_CODES, DecisionStatus
from verification.values import formats
from verification.values.countries import country_choices
from verification.values.formats import one_line
from verification.web.pages import INVALID_EMAIL, REQUIRED_ERROR

CONTACT_HINT = _(
    "An e-mail address, a phone number, or both with a comma between; people see it"
)
ALL_CHOICE = [("", _("All"))]


Choices = Iterable[tuple[str, Any]]


@dataclass(frozen=True, slots=True)
class Option:
    """A choice with its name, meaning and price."""

    name: Any
    hint: Any = ""
    price: str = ""

    def __str__(self) -> str:
        return str(self.name)


class ChoicesForm(forms.Form):
    """A form with fields whose choices depend on the workspace, by their names."""

    def __init__(
        self, *args: Any, choices: Mapping[str, Choices] | None = None, **options: Any
    ) -> None:
        super().__init__(*args, **options)
        for name, offered in (choices or {}).items():
            self.fields[name].choices = offered  # type: ignore[attr-defined]


class FilterForm(ChoicesForm):
    """The filters of a list, as the address of the page has them."""

    @property
    def chosen(self) -> dict[str, Any]:
        """The value of each field, or None for all; all are None if one is wrong."""
        typed = self.cleaned_data if self.is_valid() else {}
        return {n: None if typed.get(n) == "" else typed.get(n) for n in self.fields}

    @property
    def chips(self) -> list[tuple[str, str]]:
        """The (name, text) of each filter that is set, as the reader knows it."""
        return [
            (bound.name, _chip_text(bound, value))
            for bound in self.visible_fields()
            if (value := self.chosen[bound.name])
        ]


def _chip_text(bound: forms.BoundField, value: Any) -> str:
    if value is True:
        return str(bound.label)
    choices = getattr(bound.field, "choices", None)
    shown = dict(choices).get(value, value) if choices else value
    text = date_format(shown, "j M Y") if isinstance(shown, date) else shown
    return f"{bound.label}: {text}"


def text_field(label: Any, max_length: int = 200, **options: Any) -> forms.CharField:
    return forms.CharField(
        label=label, max_length=max_length, error_messages=REQUIRED_ERROR, **options
    )


class TextAreaField(forms.CharField):
    """A text of several lines, each end of which counts once, as browsers count it."""

    def __init__(self, max_length: int, **options: Any) -> None:
        widget = forms.Textarea(attrs={"rows": 3, "maxlength": max_length})
        super().__init__(max_length=max_length, widget=widget, **options)

    def to_python(self, value: Any) -> str:
        return (super().to_python(value) or "").replace("\r\n", "\n")


def text_area(label: Any, max_length: int) -> forms.CharField:
    return TextAreaField(max_length, label=label, error_messages=REQUIRED_ERROR)


def email_field(label: Any) -> forms.EmailField:
    errors = {**REQUIRED_ERROR, "invalid": INVALID_EMAIL}
    return forms.EmailField(label=label, max_length=254, error_messages=errors)


def date_field(*, required: bool = False, **options: Any) -> forms.DateField:
    return forms.DateField(
        required=required,
        widget=forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d"),
        error_messages=REQUIRED_ERROR | {"invalid": _("Choose a day")},
        **options,
    )


def number_field(
    label: Any, least: int, most: int, error: Any, **options: Any
) -> forms.IntegerField:
    """Return a field for a whole number; each of its errors has the same text."""
    codes = ("required", "invalid", "min_value", "max_value")
    return forms.IntegerField(
        label=label,
        min_value=least,
        max_value=most,
        error_messages=dict.fromkeys(codes, error),
        **options,
    )


def filter_field(
    label: Any, choices: Choices = (), *, hidden: bool = False
) -> forms.ChoiceField:
    return forms.ChoiceField(
        label=label,
        choices=[*ALL_CHOICE, *choices],
        required=False,
        widget=forms.HiddenInput if hidden else forms.Select,
    )


class ContactField(forms.CharField):
    """An e-mail address, a phone number, or one of each with a comma between."""

    def __init__(self) -> None:
        super().__init__(
            label=_("Contact for questions about personal details"),
            max_length=254,
            help_text=CONTACT_HINT,
            error_messages=REQUIRED_ERROR,
        )

    def clean(self, value: Any) -> str:
        parts = [part.strip() for part in super().clean(value).split(",")]
        emails = [part for part in parts if "@" in part]
        phones = [part for part in parts if "@" not in part]
        try:
            found = [*map(formats.email, emails), *map(formats.phone, phones)]
        except PydanticCustomError:
            found = []
        if not found or len(emails) > 1 or len(phones) > 1:
            raise forms.ValidationError(
                _("Enter name@example.com, +254712345678, or both with a comma between")
            )
        return ", ".join(found)


class OneLineField(forms.CharField):
    """Text without control characters and line breaks."""

    def clean(self, value: Any) -> str:
        return one_line(super().clean(value))


def search_field(placeholder: Any, **attributes: str) -> forms.CharField:
    widget = forms.TextInput(attrs={"placeholder": placeholder, **attributes})
    return forms.CharField(
        label=_("Search"), max_length=200, required=False, widget=widget
    )


def name_field(label: Any, max_length: int = 200, **options: Any) -> OneLineField:
    return OneLineField(
        label=label, max_length=max_length, error_messages=REQUIRED_ERROR, **options
    )


def trading_name_field() -> OneLineField:
    return name_field(
        _("Trading name"),
        required=False,
        help_text=_("If people know you by another name than the legal one"),
    )


def decision_field(label: Any, review: Any) -> forms.ChoiceField:
    return forms.ChoiceField(
        label=label,
        choices=[
            (DecisionStatus.APPROVED, _("Approve")),
            (DecisionStatus.DECLINED, _("Decline")),
            (DecisionStatus.REVIEW, review),
        ],
        widget=forms.RadioSelect,
        error_messages=REQUIRED_ERROR,
    )


def reasons_field() -> forms.MultipleChoiceField:
    return forms.MultipleChoiceField(
        label=_("Reasons"),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text=_("The subject reads them. A decline needs one"),
        error_messages={"invalid_choice": _("Choose reasons that are offered here")},
    )


def check_reasons(form: forms.Form, status: str | None) -> None:
    """Add an error if a decision of this status has too few or too many reasons."""
    codes = form.cleaned_data.get("codes", [])
    if len(codes) > MAX_CODES:
        error = format_lazy(_("Choose at most {most} reasons"), most=MAX_CODES)
        form.add_error("codes", error)
    elif status == DecisionStatus.DECLINED and not codes and "codes" not in form.errors:
        form.add_error("codes", _("Choose at least one reason for a decline"))


def countries() -> Choices:
    return country_choices(get_language() or "en")


class LongSelect(forms.Select):
    """Write all options at once; Django renders two templates for each."""

    def render(
        self, name: str, value: Any, attrs: Any = None, renderer: Any = None
    ) -> SafeString:
        chosen = self.format_value(value)
        options = format_html_join(
            "\n",
            '<option value="{}"{}>{}</option>',
            (
                (code, SafeString(" selected") if code in chosen else "", label)
                for code, label in self.choices
            ),
        )
        attributes = flatatt(self.build_attrs(self.attrs, attrs))
        return format_html('<select name="{}"{}>{}</select>', name, attributes, options)
