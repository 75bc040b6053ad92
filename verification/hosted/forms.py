"""What visitors type. Errors are sentences that say what to do."""

from __future__ import annotations

from datetime import date
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from verification.ordering.challenging import DATE_OF_BIRTH

REASON_LENGTH = 500


class DateOfBirth(forms.Form):
    day = forms.CharField(max_length=2, required=False)
    month = forms.CharField(max_length=2, required=False)
    year = forms.CharField(max_length=4, required=False)

    template = "hosted/fields/date_of_birth.html"

    def clean(self) -> dict[str, Any]:
        typed = super().clean() or {}
        try:
            born = date(*(_number(typed.get(key)) for key in ("year", "month", "day")))
        except ValueError:
            error = _("Enter your date of birth in numbers, for example 27 3 1990")
            self.add_error("day", error)
            return typed
        return {**typed, "answer": born.isoformat()}


class IdNumberEnd(forms.Form):
    answer = forms.CharField(
        min_length=4,
        max_length=8,
        error_messages={
            name: _("Enter the last four characters of your ID number")
            for name in ("required", "min_length", "max_length")
        },
    )

    template = "hosted/fields/id_number_end.html"


class Grant(forms.Form):
    """`shown` is the SHA-256 of the notice on the page, in `language`."""

    name = forms.CharField(
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
    shown = forms.CharField(max_length=64, required=False)


class Reason(forms.Form):
    reason = forms.CharField(
        max_length=REASON_LENGTH,
        required=False,
        error_messages={"max_length": _("Write at most 500 characters")},
    )


def challenge(kind: str | None, typed: Any = None) -> forms.Form:
    """The form that asks for what `challenge_of` names."""
    form = DateOfBirth if kind == DATE_OF_BIRTH else IdNumberEnd
    return form(typed)


def _number(typed: str | None) -> int:
    # Not what else int() takes: "1_0", " 1" or other scripts' digits.
    if not typed or not typed.isascii() or not typed.isdigit():
        raise ValueError("not a number")
    return int(typed)
