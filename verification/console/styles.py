"""The page that shows every part of the console's pages, for developers."""

from __future__ import annotations

from datetime import timedelta

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from verification.console.fields import email_field, text_area
from verification.console.reports import ReportFilters
from verification.console.words import MARKS
from verification.db.base import ResultPage
from verification.values.clock import now
from verification.web.pages import private_page


class SampleForm(forms.Form):
    email = email_field("E-mail")
    reason = text_area("Reason", 300)
    subject = forms.ChoiceField(
        choices=[("person", "Person"), ("company", "Company")],
        widget=forms.RadioSelect,
        help_text="The checks follow it",
    )
    is_sure = forms.BooleanField(label="I am sure", required=False)


@private_page
def styles(request: HttpRequest) -> HttpResponse:
    away = (timedelta(minutes=12), timedelta(hours=2, minutes=10), timedelta(days=40))
    shown = {
        "form": SampleForm({"email": "achieng@", "reason": "", "subject": "person"}),
        "filters": ReportFilters({"search": "Achieng", "status": "READY"}),
        "page": ResultPage(rows=[1], number=0, size=1, total=85),
        "states": [(topic.value, list(codes)) for topic, codes in MARKS.items()],
        "times": [now() + sign * one for one in away for sign in (1, -1)],
        "grounds": ["", "is-wait", "is-bad", "is-ok", "is-sand"],
    }
    return render(request, "console/styles.html", shown)
