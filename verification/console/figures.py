"""Figures: how many reports, with which outcome, how fast, and for how much."""

from collections.abc import Callable, Iterator, Sequence
from datetime import date, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

from django import forms
from django.http import HttpResponse, QueryDict
from django.utils.formats import date_format
from django.utils.safestring import SafeString
from django.utils.text import format_lazy
from django.utils.timezone import localdate
from django.utils.translation import get_language
from django.utils.translation import gettext_lazy as _

from verification.api.authentication import EXPORTS_PER_MINUTE
from verification.api.exports import MAX_DAYS
from verification.batches.spreadsheet import CSV, MEDIA_TYPES, write_sheet
from verification.checks.models import CheckDefinition, CheckPackage
from verification.checks.packages import find_packages
from verification.console.base import Place, Text, member_required
from verification.console.charts import (
    MONEY,
    Change,
    Chart,
    Part,
    change_of,
    draw_bars,
    draw_lines,
    draw_ranges,
    draw_spark,
    duration_text,
)
from verification.console.fields import (
    ALL_CHOICE,
    ChoicesForm,
    date_field,
    filter_field,
)
from verification.figures.durations import ERROR_PERCENT, percentile
from verification.figures.models import COUNTS, DailyFigure
from verification.figures.summary import (
    WITHOUT_PACKAGE,
    Days,
    Figures,
    Step,
    Sums,
    daily_rows,
    read_figures,
    read_state,
)
from verification.web.pages import REQUIRED_ERROR, attachment

# The choice of reports without one
NO_PACKAGE = "none"


class FiguresForm(ChoicesForm):
    """A period and a package; by default the last 30 days, and all packages.

    `days` and `package_name` give the values; a package of None means all packages.
    """

    period = forms.ChoiceField(
        label=_("Period"),
        required=False,
        choices=[
            ("7", _("7 days")),
            ("30", _("30 days")),
            ("month", _("This month")),
            ("last-month", _("Last month")),
            ("90", _("90 days")),
            ("365", _("365 days")),
            ("days", _("Other dates")),
        ],
        widget=forms.HiddenInput,
    )
    first = date_field(label=_("From"))
    last = date_field(label=_("To"))
    package = filter_field(_("Package"))

    def __init__(self, typed: QueryDict, **options: Any) -> None:
        if typed.get("period") == "days" and "first" not in typed:
            today = localdate()
            typed = typed.copy()
            typed["first"] = str(today - timedelta(days=29))
            typed["last"] = str(today)
        super().__init__(typed, **options)
        for one in self.fields.values():
            one.widget.attrs["class"] = "auto"

    @property
    def chosen_period(self) -> str:
        return self["period"].value() or "30"

    @property
    def shown_fields(self) -> list[forms.BoundField]:
        names = ["package"]
        if self.chosen_period == "days":
            names = ["first", "last", "package"]
        return [self[name] for name in names]

    def clean(self) -> dict[str, Any]:
        typed = self.cleaned_data
        name = typed.get("package", "").removeprefix("package:")
        is_without = typed.get("package") == NO_PACKAGE
        typed["package_name"] = "" if is_without else name or None
        typed["days"] = self._days(typed.get("period") or "30")
        return typed

    def _days(self, period: str) -> Days | None:
        today = localdate()
        if period.isdigit():
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
            why = _("Choose past days: the last after the first, at most %(days)s days")
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
NOTHING = "\N{EN DASH}"


# Members of `Sums` that one chart shows, with their labels and colours
OUTCOMES = [
    ("ready", _("Ready"), "f1"),
    ("partial", _("Partly ready"), "f2"),
    ("failed", _("Failed"), "f3"),
    ("cancelled", _("Cancelled"), "f4"),
    ("under_way", _("In progress"), "f5"),
]
LEVELS = [
    ("low", _("Low"), "f1"),
    ("medium", _("Medium"), "f2"),
    ("high", _("High"), "f3"),
]
DECISIONS = [
    ("approved", _("Approved"), "f1"),
    ("declined", _("Declined"), "f3"),
    ("review", _("In review"), "f5"),
]
ALERTS = [("alerts", _("Alerts"), "f2"), ("corrections", _("Corrections"), "f5")]
# Seconds of the units of an axis of times
UNITS = (86_400, 3600, 60, 1)
SPEND = [("spend", _("Spend"), "f1")]


class Tile(NamedTuple):
    """A figure of the period, its course, and its change against the period before."""

    label: Text
    value: Text
    spark: SafeString
    change: Change | None
    unit: Text = ""
    note: Text = ""


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
            "query": place.request.GET.urlencode(),
        }
        if not figures.is_empty:
            shown |= {
                "tiles": _tiles(place, figures),
                "charts": _charts(place, figures),
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
    rows = daily_rows(place.account, days, form.cleaned_data["package_name"])
    content = write_sheet(CSV, CSV_COLUMNS, map(_csv_row, rows.iterator()))
    name = f"figures-{days.first}-{days.last}.csv"
    return attachment(content, name, MEDIA_TYPES[CSV])


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
        row.day.isoformat(),
        row.package,
        row.check_name,
        *(getattr(row, name) for name in COUNTS),
        f"{Decimal(row.charged) / 100:.2f}",
        f"{Decimal(row.reversed) / 100:.2f}",
        *("" if t is None else round(t.total_seconds() * 1000) for t in times),
    ]


def _tiles(place: Place, figures: Figures) -> Iterator[Tile]:
    """Yield the main costs and results, for readers of the tiles alone."""
    total, before = figures.total, figures.before
    currency = place.account.currency

    def tile(
        label: Text,
        read: Callable[[Sums], float | None],
        write: Callable[[float], Text],
        unit: Text = "",
        note: Text = "",
        **change: bool,
    ) -> Tile:
        now = read(total)
        return Tile(
            label,
            NOTHING if now is None else write(now),
            draw_spark(map(read, figures.steps.values())),
            change_of(now, read(before), write, **change),
            unit,
            note,
        )

    each, each_before = total.spend_per_report, before.spend_per_report
    note: Text = ""
    if each is not None:
        told = {"now": f"{each:,.2f}", "before": f"{each_before or 0:,.2f}"}
        note = _("%(now)s a report") % told
        if each_before is not None:
            note = _("%(now)s a report, was %(before)s") % told
    yield tile(_("Reports ordered"), lambda sums: sums.ordered, "{:,}".format)
    yield tile(
        _("Ready"),
        lambda sums: sums.ready_percent,
        percent,
        in_points=True,
        more_is_better=True,
    )
    yield tile(
        _("Spend"), lambda sums: float(sums.spend), _money, unit=currency, note=note
    )
    yield tile(
        _("Order to result, median"),
        lambda sums: _seconds(sums.turnaround_median),
        _duration,
        more_is_better=False,
    )
    yield tile(
        _("Declined"), lambda sums: sums.declined_percent, percent, in_points=True
    )
    yield tile(
        _("Order to decision, median"),
        lambda sums: _seconds(sums.deciding_median),
        _duration,
        more_is_better=False,
    )


def _charts(place: Place, figures: Figures) -> Iterator[Chart]:
    total, currency = figures.total, place.account.currency
    yield bars(
        figures,
        "reports",
        _("Reports by outcome"),
        OUTCOMES,
        hint=_("By the day on which they were created"),
    )
    if total.scored:
        hint = _("Of finished reports, by the day on which they were created")
        yield bars(figures, "levels", _("Risk levels"), LEVELS, hint=hint)
    if total.decided or total.review:
        hint = _("The decision that counts for each report")
        yield bars(figures, "decisions", _("Decisions"), DECISIONS, hint=hint)
    if figures.checks:
        yield _turnaround(figures)
    spent = _("Charges less what was given back, in %(currency)s.")
    others = _("It does not include what subjects and other payers pay.")
    yield bars(
        figures,
        "spend",
        _("Spend"),
        SPEND,
        hint=format_lazy("{} {}", spent % {"currency": currency}, others),
        pattern="{:,.2f}",
        scale=MONEY,
    )
    if total.alerts or total.corrections:
        hint = _("By the day on which they came")
        title = _("Alerts and corrections")
        yield bars(figures, "alerts", title, ALERTS, hint=hint)


def bars(
    figures: Figures,
    name: str,
    title: Text,
    parts: Sequence[tuple[str, Text, str]],
    *,
    pattern: str = "{:,}",
    hint: Text = "",
    **size: Any,
) -> Chart:
    """Draw members of the sums of each step, with a table."""
    names = [name for name, label, colour in parts]
    labels = [_step_label(day, figures.days) for day in figures.steps]
    steps = figures.steps.values()

    def texts(sums: Sums) -> list[str]:
        return [pattern.format(getattr(sums, one)) for one in names]

    totals = texts(figures.total)
    drawn = [
        Part(label, [float(getattr(sums, one)) for sums in steps], colour, text)
        for (one, label, colour), text in zip(parts, totals, strict=True)
    ]
    words = ", ".join(f"{part.label}: {part.total}" for part in drawn)
    legend = [part for part in drawn if part is drawn[0] or any(part.values)]
    rows = [
        [label, *texts(sums)]
        for label, sums in zip(labels, steps, strict=True)
        if any(getattr(sums, one) for one in names)
    ]
    return Chart(
        name,
        title,
        draw_bars(
            name, (title, period_words(figures.days, words)), labels, drawn, **size
        ),
        legend if len(drawn) > 1 else [],
        hint,
        columns=[_step_heading(figures.days.step), *(part.label for part in drawn)],
        rows=[*rows, [_("Total"), *totals]],
    )


def _turnaround(figures: Figures) -> Chart:
    known = {one.name: one.title for one in CheckDefinition.objects.all()}
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
    shape = _("Dot: half take no longer. End of the bar: 95 of 100 take no longer.")
    error = _("Times are up to %(error)s %% off, without results used again.")
    return Chart(
        "turnaround",
        title,
        draw_ranges("turnaround", (title, words), timed),
        hint=format_lazy("{} {}", shape, error % {"error": ERROR_PERCENT}),
        columns=[
            _("Check"),
            _("Ordered"),
            _("Completed"),
            _("Failed"),
            _("Median"),
            _("95 %"),
            _("Spend"),
        ],
        rows=rows,
    )


def deciding_chart(figures: Figures) -> Chart:
    """Draw how long half of the decisions took at most, and that of the days before."""
    both = (figures.steps.values(), figures.steps_before.values())
    now, before = ([_seconds(sums.deciding_median) for sums in one] for one in both)
    known = [seconds for seconds in (*now, *before) if seconds is not None]
    longest = max(known, default=3600)
    unit = next(unit for unit in UNITS if longest >= unit or unit == 1)
    title = _("From order to decision, median")
    labels = [_step_label(day, figures.days) for day in figures.steps]
    median = _seconds(figures.total.deciding_median)
    earlier = _seconds(figures.before.deciding_median)
    text = NOTHING if median is None else _duration(median)
    plot = draw_lines(
        "deciding",
        (title, period_words(figures.days, text)),
        labels,
        [seconds and seconds / unit for seconds in now],
        [seconds and seconds / unit for seconds in before],
        write=lambda value: _duration(value * unit),
    )
    return Chart(
        "deciding",
        title,
        plot,
        [Part(_("This period"), [], "f1"), Part(_("Period before"), [], "f4")],
        total=text,
        change=change_of(median, earlier, _duration, more_is_better=False),
    )


def _package_rows(place: Place, figures: Figures) -> list[list[Text]]:
    if set(figures.packages) <= {WITHOUT_PACKAGE}:
        return []
    ordered = sorted(figures.packages.items(), key=lambda item: -item[1].created)
    found = find_packages(place.workspace.pk, [*filter(None, figures.packages)])
    titles: dict[str, Text] = {WITHOUT_PACKAGE: _("Without a package")}
    titles |= {name: package.display_name for name, package in found.items()}
    return [
        [
            titles.get(name, name),
            f"{sums.ordered:,}",
            percent(sums.ready_percent),
            percent(sums.declined_percent),
            f"{sums.spend:,.2f}",
            NOTHING if (each := sums.spend_per_report) is None else f"{each:,.2f}",
        ]
        for name, sums in ordered
    ]


def _step_label(day: date, days: Days) -> str:
    pattern = "M Y" if days.step is Step.MONTH else "j M"
    return _written(day, pattern, get_language())


@lru_cache(maxsize=1000)
def _written(day: date, pattern: str, language: str | None) -> str:
    """Return the day in the active language: each chart of a page has the same days."""
    return date_format(day, pattern)


def _step_heading(step: Step) -> Text:
    if step is Step.MONTH:
        return _("Month")
    return _("Week from") if step is Step.WEEK else _("Day")


def period_words(days: Days, words: str) -> str:
    return _("From %(first)s to %(last)s: %(words)s. The table has each number.") % {
        "first": date_format(days.first),
        "last": date_format(days.last),
        "words": words,
    }


def percent(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.1f} %"


def _money(value: float) -> str:
    """Leave out cents where nobody compares them; the table has them."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.2f}"


def _seconds(duration: timedelta | None) -> float | None:
    return duration.total_seconds() if duration else None


def _duration(seconds: float) -> str:
    return duration_text(timedelta(seconds=seconds))
