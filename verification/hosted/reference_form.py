"""What a referee is asked. Labels are questions; errors say what to do."""

from __future__ import annotations

from calendar import monthrange
from datetime import date
from typing import Any

from django import forms
from django.utils.timezone import localdate
from django.utils.translation import gettext_lazy as _

from verification.hosted.forms import Text, number

NAME_LENGTH = 200
REMARKS_LENGTH = 1000
FIRST_YEAR = 1940
# Parts of a date are typed; the day may be forgotten.
PARTS = ("day", "month", "year")


def _text(label: Any, missing: Any, *, help_text: Any = "") -> Text:
    """Required by `clean`, for some are not when there was no employment."""
    field = Text(
        label=label,
        help_text=help_text,
        max_length=NAME_LENGTH,
        required=False,
        error_messages={"max_length": _("Write at most 200 characters")},
    )
    field.missing = missing  # type: ignore[attr-defined]
    return field


class Answers(forms.Form):
    """Answers by a person; `answers()` has them as `providers.referee` reads them."""

    employed = forms.ChoiceField(
        choices=[("YES", _("Yes")), ("NO", _("No"))],
        error_messages=dict.fromkeys(
            ("required", "invalid_choice"), _("Say whether they worked there")
        ),
    )
    employer = _text(
        _("Name of the employer"),
        _("Write the name of the employer"),
        help_text=_("As it is registered, if you know"),
    )
    job_title = _text(
        _("Their job title"),
        _("Write their job title"),
        help_text=_("The last one, if there were several"),
    )
    from_day = forms.Field(required=False)
    from_month = forms.Field(required=False)
    from_year = forms.Field(required=False)
    still = forms.BooleanField(required=False)
    to_day = forms.Field(required=False)
    to_month = forms.Field(required=False)
    to_year = forms.Field(required=False)
    rehire = forms.ChoiceField(
        choices=[
            ("YES", _("Yes")),
            ("NO", _("No")),
            ("UNKNOWN", _("I cannot say")),
        ],
        required=False,
        error_messages={"invalid_choice": _("Say whether they would be hired again")},
    )
    remarks = Text(
        max_length=REMARKS_LENGTH,
        required=False,
        error_messages={"max_length": _("Write at most 1000 characters")},
    )
    name = _text(_("Your full name"), _("Write your full name"))
    title = _text(_("Your job title"), _("Write your job title"))
    may_answer = forms.BooleanField(
        error_messages={"required": _("Tick the box if you may answer")}
    )

    def clean(self) -> dict[str, Any]:
        typed = super().clean() or {}
        self._require("name", "title")
        if typed.get("employed") == "YES":
            self._require("employer", "job_title")
            if not typed.get("rehire") and "rehire" not in self.errors:
                self.add_error("rehire", _("Say whether they would be hired again"))
            self._clean_dates(typed)
        return typed

    def answers(self) -> dict[str, Any]:
        typed = self.cleaned_data
        employed = typed["employed"] == "YES"
        about = {
            "employer": typed["employer"],
            "jobTitle": typed["job_title"],
            "employedFrom": _iso(typed.get("employed_from")),
            "employedTo": _iso(typed.get("employed_to")),
            "wouldRehire": typed["rehire"],
        }
        return {
            "employed": employed,
            # What was typed before a "no" is not what they say.
            **(about if employed else dict.fromkeys(about)),
            "remarks": typed["remarks"],
            "refereeName": typed["name"],
            "refereeTitle": typed["title"],
            "mayAnswer": True,
        }

    def _require(self, *names: str) -> None:
        for name in names:
            if name not in self.errors and not self.cleaned_data.get(name):
                self.add_error(name, self.fields[name].missing)  # type: ignore[attr-defined]

    def _clean_dates(self, typed: dict[str, Any]) -> None:
        start = self._date("from", typed, last=False)
        end = None if typed.get("still") else self._date("to", typed, last=True)
        if start and start > localdate():
            self.add_error("from_day", _("The first day cannot be in the future"))
        elif end and end > _end_of_month(localdate()):
            self.add_error("to_day", _("The last day cannot be in the future"))
        elif start and end and end < start:
            self.add_error("to_day", _("The last day cannot be before the first"))
        typed["employed_from"], typed["employed_to"] = start, end

    def _date(self, which: str, typed: dict[str, Any], *, last: bool) -> date | None:
        """Without a day, the first or last of the month; None adds an error."""
        day, month, year = (typed.get(f"{which}_{part}") or "" for part in PARTS)
        try:
            return _made(day, month, year, last=last)
        except ValueError:
            error = _("Enter the date in numbers, for example 27 3 2019 or 3 2019")
            if which == "to":
                error = _("Enter the date in numbers, or tick that they still work")
            self.add_error(f"{which}_day", error)
            return None


def _end_of_month(day: date) -> date:
    """Without a day, this month is its last one."""
    return _made("", str(day.month), str(day.year), last=True)


def _made(day: str, month: str, year: str, *, last: bool) -> date:
    if number(year) < FIRST_YEAR:
        raise ValueError("too long ago")
    if day.strip():
        return date(number(year), number(month), number(day))
    first = date(number(year), number(month), 1)
    return first.replace(day=monthrange(first.year, first.month)[1]) if last else first


def _iso(day: date | None) -> str | None:
    return day.isoformat() if day else None
