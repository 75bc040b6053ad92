"""The page that shows every part of the console's pages, for developers."""

from datetime import timedelta

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from verification.console.charts import (
    MONEY,
    Change,
    Chart,
    Part,
    draw_bars,
    draw_lines,
    draw_ranges,
    draw_spark,
)
from verification.console.fields import email_field, text_area
from verification.console.reports import ReportFilters
from verification.console.words import STATES
from verification.db.base import ResultPage
from verification.figures.summary import Duration
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


def sample_charts() -> list[Chart]:
    """Return charts of each kind: parts, lines, ranges, and one of nothing."""
    labels = [f"{day} Nov" for day in range(1, 31)]
    words = ("What it shows", "Rises")
    ready = [float(day % 7 * day) for day in range(30)]
    parts = [
        Part("Ready", ready, "f1", "1,204"),
        Part("Partly ready", [value // 5 for value in ready], "f2", "230"),
        Part("Failed", [value // 9 for value in ready], "f3", "101"),
        Part("Cancelled", [1.0] * 30, "f4", "30"),
        Part("In progress", [0.0] * 29 + [60], "f5", "60"),
    ]
    hours = [None if day % 9 == 4 else 8 - day / 6 for day in range(30)]
    millions = [Part("Spend", [value * 12_345.67 for value in ready])]
    took = [
        (name, Duration(timedelta(seconds=fast), timedelta(seconds=slow)))
        for name, fast, slow in (
            ("National identity", 1.1, 3.2),
            ("A check with a name that is very long", 16, 86_000),
        )
    ]
    none, changed = [Part("None", [0.0] * 30)], Change(1, "38 %", "176")
    return [
        Chart(
            "sample-bars",
            "Reports by outcome",
            draw_bars("sample-bars", words, labels, parts),
            parts,
            "By the day on which they were created",
            columns=["Day", "Ready"],
            rows=[["1 Nov", "4"], ["Total", "4"]],
        ),
        Chart(
            "sample-money",
            "Spend",
            draw_bars("sample-money", words, labels, millions, scale=MONEY),
        ),
        Chart(
            "sample-ranges",
            "How long checks take",
            draw_ranges("sample-ranges", words, took),
        ),
        Chart(
            "sample-small",
            "Reports ordered",
            draw_bars("sample-small", words, labels, parts, dates=3),
            parts,
            total="241",
            change=changed,
        ),
        Chart(
            "sample-line",
            "From order to decision, median",
            draw_lines(
                "sample-line",
                words,
                labels,
                hours,
                [value and value + 1 for value in hours],
                write="{:.1f} h".format,
            ),
            [Part("These days", [], "f1"), Part("Before", [], "f4")],
            total="3.1 h",
            change=Change(-1, "45 %", "5.6 h", is_better=True),
        ),
        Chart(
            "sample-none",
            "Nothing yet",
            draw_bars("sample-none", words, labels, none, dates=3),
        ),
    ]


SAMPLE_CHANGES = [
    {"label": "Reports ordered", "value": "241", "change": Change(1, "38 %", "176")},
    {"label": "Ready", "value": "91 %", "change": Change(1, "2 points", "89 %", True)},
    {"label": "Failed", "value": "4 %", "change": Change(1, "1 point", "3 %", False)},
    {"label": "Declined", "value": "-", "change": None},
]


@private_page
def styles(request: HttpRequest) -> HttpResponse:
    away = (timedelta(minutes=12), timedelta(hours=2, minutes=10), timedelta(days=40))
    shown = {
        "form": SampleForm({"email": "achieng@", "reason": "", "subject": "person"}),
        "filters": ReportFilters({"search": "Achieng", "status": "READY"}),
        "page": ResultPage(rows=[1], number=0, size=1, total=85),
        "states": [(topic, list(codes)) for topic, codes in STATES.items()],
        "times": [now() + sign * one for one in away for sign in (1, -1)],
        "changes": SAMPLE_CHANGES,
        "spark": draw_spark([3, 5, 4, 7]),
        "charts": (charts := sample_charts())[:3],
        "small_charts": charts[3:],
        "grounds": ["", "is-wait", "is-bad", "is-ok", "is-sand"],
    }
    return render(request, "console/styles.html", shown)
