"""Figures: how many reports, with which outcome, how fast, and for how much."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from django import forms
from django.http import HttpResponse
from django.utils.formats import date_format
from django.utils.timezone import localdate
from django.utils.translation import gettext_lazy as _

from verification.api.authentication import EXPORTS_PER_MINUTE
from verification.api.exports import MAX_DAYS
from verification.checks.models import CheckDefinition, CheckPackage
from verification.console.base import Place, Text, member_required
from verification.console.charts import (
    Drawing,
    Part,
    draw_bars,
    draw_durations,
    duration_text,
    legend_of,
)
from verification.console.fields import (
    ALL_CHOICE,
    REQUIRED_ERROR,
    ChoicesForm,
    date_field,
    filter_field,
)
from verification.figures.durations import ERROR_PERCENT, percentile
from verification.figures.models import COUNTS, DailyFigure
from verification.figures.summary import (
    WITHOUT_PACKAGE,
    Days,
    Duration,
    Figures,
    Step,
    Sums,
    daily_rows,
    read_figures,
    read_state,
)
from verification.values.formats import escape_formula

# The choice of reports without one
NO_PACKAGE = "none"


class FiguresForm(ChoicesForm):
    """A period and a package; by default this month, and all packages.

    `days` and `package_name` are what they mean: None is all packages.
    """

    period = forms.ChoiceField(
        label=_("Period"),
        required=False,
        choices=[
            ("month", _("This month")),
            ("last-month", _("Last month")),
            ("90", _("Last 90 days")),
            ("365", _("Last 365 days")),
            ("days", _("From a day to a day")),
        ],
    )
    first = date_field(label=_("From"))
    last = date_field(label=_("To"))
    package = filter_field(_("Package"))

    def clean(self) -> dict[str, Any]:
        typed = self.cleaned_data
        name = typed.get("package", "").removeprefix("package:")
        is_without = typed.get("package") == NO_PACKAGE
        typed["package_name"] = "" if is_without else name or None
        typed["days"] = self._days(typed.get("period") or "month")
        return typed

    def _days(self, period: str) -> Days | None:
        today = localdate()
        if period in ("90", "365"):
            return Days(today - timedelta(days=int(period) - 1), today)
        month = today.replace(day=1)
        if period == "last-month":
            last = month - timedelta(days=1)
            return Days(last.replace(day=1), last)
        if period == "month":
            return Days(month, today)
        for name in ("first", "last"):
            if name not in self.errors and not self.cleaned_data.get(name):
                self.add_error(name, REQUIRED_ERROR["required"])
        if self.errors:
            return None
        first = self.cleaned_data["first"]
        last = min(self.cleaned_data["last"], today)
        # The period before would begin before the first year, which has no name.
        if first.year < 3 or not 0 <= (last - first).days < MAX_DAYS:
            why = _("Choose past days: the last one after the first, %(days)s in all")
            self.add_error("last", why % {"days": MAX_DAYS})
            return None
        return Days(first, last)


CSV_COLUMNS = (
    "day",
    "package",
    "check",
    *COUNTS,
    "charged",
    "reversed",
    "turnaroundMedianMs",
    "turnaround95Ms",
)
NOTHING = "-"


# Members of `Sums` that one drawing shows, and their labels
OUTCOMES = {
    "ready": _("Ready"),
    "partial": _("Partly ready"),
    "failed": _("Failed"),
    "cancelled": _("Cancelled"),
    "under_way": _("Under way, or a draft"),
}
LEVELS = {"low": _("Low"), "medium": _("Medium"), "high": _("High")}
DECISIONS = {
    "approved": _("Approvals"),
    "declined": _("Declines"),
    "review": _("For review"),
}
ALERTS = {"alerts": _("Alerts"), "corrections": _("Corrections asked for")}


class Tile(NamedTuple):
    """A figure of the period, and that of the period before."""

    label: Text
    value: str
    before: str


@member_required()
def overview(place: Place) -> HttpResponse:
    form = _form(place)
    shown: dict[str, Any] = {"form": form, "state": read_state(place.account)}
    if form.is_valid():
        days, package = form.cleaned_data["days"], form.cleaned_data["package_name"]
        figures = read_figures(place.account, days, package)
        shown |= {
            "days": days,
            "is_empty": figures.is_empty,
            "error": ERROR_PERCENT,
            "query": place.request.GET.urlencode(),
        }
        if not figures.is_empty:
            shown |= {
                "tiles": _tiles(place, figures),
                "drawings": _drawings(place, figures),
                "packages": _package_rows(place, figures) if package is None else [],
            }
    return place.render("figures", shown)


@member_required()
def download(place: Place) -> HttpResponse:
    """Send the figures of each day, package and check as CSV."""
    place.require_rate(EXPORTS_PER_MINUTE, f"exports:{place.member.pk}")
    form = _form(place)
    if not form.is_valid():
        return place.render("figures", {"form": form, "state": None}, status=400)
    days: Days = form.cleaned_data["days"]
    name = f"figures-{days.first}-{days.last}.csv"
    answer = HttpResponse(
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )
    rows = daily_rows(place.account, days, form.cleaned_data["package_name"])
    csv.writer(answer).writerows([CSV_COLUMNS, *map(_csv_row, rows.iterator())])
    return answer


def _form(place: Place) -> FiguresForm:
    known = CheckPackage.objects.known_to(place.workspace.pk)
    packages = [
        *ALL_CHOICE,
        (NO_PACKAGE, _("Without a package")),
        *((f"package:{one.name}", one.display_name) for one in known),
    ]
    return FiguresForm(place.request.GET, choices={"package": packages})


def _csv_row(row: DailyFigure) -> list[Any]:
    counts = dict(zip(row.turnaround_buckets, row.turnaround_counts, strict=True))
    times = [percentile(counts, percent) for percent in (50, 95)]
    return [
        row.day,
        escape_formula(row.package or ""),
        escape_formula(row.check_name or ""),
        *(getattr(row, name) for name in COUNTS),
        f"{Decimal(row.charged) / 100:.2f}",
        f"{Decimal(row.reversed) / 100:.2f}",
        *("" if t is None else round(t.total_seconds() * 1000) for t in times),
    ]


def _tiles(place: Place, figures: Figures) -> list[Tile]:
    """Return what it costs and brings, for people who read nothing else."""
    currency = place.account.currency

    def tile(label: Text, read: Callable[[Sums], str]) -> Tile:
        return Tile(label, read(figures.total), read(figures.before))

    def took(label: Text, now: Duration | None, before: Duration | None) -> Tile:
        return Tile(label, _median(now), _median(before))

    return [
        tile(_("Reports ordered"), lambda sums: f"{sums.ordered:,}"),
        tile(_("Ready"), lambda sums: _percent(sums.ready_percent)),
        tile(_("Spend"), lambda sums: f"{currency} {sums.spend:,.2f}"),
        tile(
            _("Spend per report"),
            lambda sums: _amount(currency, sums.spend_per_report),
        ),
        tile(
            _("Declined, of approvals and declines"),
            lambda sums: _percent(sums.declined_percent),
        ),
        took(
            _("From order to result, median"),
            figures.turnaround,
            figures.turnaround_before,
        ),
        took(
            _("From order to decision, median"),
            figures.deciding,
            figures.deciding_before,
        ),
    ]


def _drawings(place: Place, figures: Figures) -> Iterator[Drawing]:
    total = figures.total
    yield _bars(figures, "reports", _("Reports by outcome"), OUTCOMES)
    if total.scored:
        yield _bars(figures, "levels", _("Risk levels"), LEVELS)
    if total.decided or total.review:
        yield _bars(figures, "decisions", _("Decisions"), DECISIONS)
    if figures.checks:
        yield _turnaround(figures)
    title = _("Spend, in %(currency)s") % {"currency": place.account.currency}
    yield _bars(figures, "spend", title, {"spend": _("Spend")}, "{:,.2f}")
    if total.alerts or total.corrections:
        yield _bars(figures, "alerts", _("Alerts and corrections"), ALERTS)


def _bars(
    figures: Figures,
    name: str,
    title: Text,
    parts: Mapping[str, Text],
    pattern: str = "{:,}",
) -> Drawing:
    """Draw members of the sums of each step, with a table; `parts` are their labels."""

    def texts(sums: Sums) -> list[str]:
        return [pattern.format(getattr(sums, one)) for one in parts]

    labels = [_step_label(day, figures.days) for day in figures.steps]
    drawn = [
        Part(label, [float(getattr(sums, one)) for sums in figures.steps.values()])
        for one, label in parts.items()
    ]
    totals = texts(figures.total)
    words = ", ".join(
        f"{label}: {total}" for label, total in zip(parts.values(), totals, strict=True)
    )
    rows = [
        [label, *texts(sums)]
        for label, sums in zip(labels, figures.steps.values(), strict=True)
        if any(getattr(sums, one) for one in parts)
    ]
    return Drawing(
        name,
        title,
        draw_bars(name, title, _period_words(figures.days, words), labels, drawn),
        legend_of(drawn),
        [_step_heading(figures.days.step), *parts.values()],
        [*rows, [_("Total"), *totals]],
    )


def _turnaround(figures: Figures) -> Drawing:
    known = dict(CheckDefinition.objects.values_list("name", "display_name"))
    title = _("How long checks take")
    names = sorted(figures.checks, key=lambda n: -figures.checks[n].created)
    timed = [
        (known.get(n, n), figures.durations[n]) for n in names if n in figures.durations
    ]
    words = "; ".join(
        _("%(check)s: half within %(median)s, 95 %% within %(slow)s")
        % {
            "check": label,
            "median": duration_text(took.median),
            "slow": duration_text(took.slow),
        }
        for label, took in timed
    )
    rows = []
    for name in names:
        sums, took = figures.checks[name], figures.durations.get(name)
        rows.append(
            [
                known.get(name, name),
                f"{sums.created:,}",
                f"{sums.ready:,}",
                f"{sums.failed:,}",
                duration_text(took.median) if took else NOTHING,
                duration_text(took.slow) if took else NOTHING,
                f"{sums.spend:,.2f}",
            ]
        )
    return Drawing(
        "turnaround",
        title,
        draw_durations("turnaround", title, words, timed),
        [],
        [
            _("Check"),
            _("Ordered"),
            _("Completed"),
            _("Failed"),
            _("Median"),
            _("95 %"),
            _("Spend"),
        ],
        rows,
    )


def _package_rows(place: Place, figures: Figures) -> list[list[Text]]:
    if set(figures.packages) <= {WITHOUT_PACKAGE}:
        return []
    ordered = sorted(figures.packages.items(), key=lambda item: -item[1].created)
    return [
        [
            name or _("Without a package"),
            f"{sums.ordered:,}",
            _percent(sums.ready_percent),
            _percent(sums.declined_percent),
            f"{sums.spend:,.2f}",
            _amount("", sums.spend_per_report),
        ]
        for name, sums in ordered
    ]


def _step_label(day: date, days: Days) -> str:
    pattern = "F Y" if days.step is Step.MONTH else "j M"
    return date_format(day, pattern)


def _step_heading(step: Step) -> Text:
    if step is Step.MONTH:
        return _("Month")
    return _("Week from") if step is Step.WEEK else _("Day")


def _period_words(days: Days, words: str) -> str:
    return _("From %(first)s to %(last)s: %(words)s. The table has each number.") % {
        "first": date_format(days.first),
        "last": date_format(days.last),
        "words": words,
    }


def _percent(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.1f} %"


def _amount(currency: str, value: Decimal | None) -> str:
    return NOTHING if value is None else f"{currency} {value:,.2f}".strip()


def _median(took: Duration | None) -> str:
    return NOTHING if took is None else duration_text(took.median)
