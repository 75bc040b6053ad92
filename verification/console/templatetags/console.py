"""Filters and tags for templates of the console and of accounts."""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

from django import template
from django.forms import BoundField
from django.forms.widgets import ChoiceWidget, FileInput
from django.http import QueryDict
from django.template.defaultfilters import capfirst
from django.utils.dates import MONTHS_3
from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from monitoring.models import Rule
from verification.checks.finding_words import flag_name
from verification.console.words import STATES, WORDS, State
from verification.db.ids import number_of_id
from verification.hosted.hosted_pages import qr_code
from verification.reports.models import Report, RiskLevel, SubjectType
from verification.values.clock import now
from verification.values.formats import one_line
from verification.values.local_time import NAIROBI, utc_text
from verification.web.pages import REQUIRED_ERROR
from workspaces.models import NamesInLists

register = template.Library()
# The words of a flag, which its message may not be: that may name the subject.
register.filter("flag_name", flag_name)
# The policy forbids data: images, so the code is inline SVG.
register.filter("qr", qr_code)

# Lucide's drawings: https://lucide.dev
ICONS = Path(__file__).parents[1] / "icons/lucide.svg"
# A key, a text, or a number of JSON
JSON_TOKEN = re.compile(
    r'("(?:[^"\\]|\\.)*")(?=: )|("(?:[^"\\]|\\.)*")|(-?\b\d[\d.eE+-]*)'
)
# The parts of the risk meter: the first and last score, and the place in its drawing
METER = ((0, 30, 0.0, 18.2), (30, 70, 20.2, 23.6), (70, 100, 45.8, 18.2))


@cache
def drawings() -> dict[str, SafeString]:
    """Return what each icon draws, by its name: a square of 24 units."""
    symbols = re.findall(r'<symbol id="([^"]+)".*?>(.*)</symbol>', ICONS.read_text())
    # A file of this package: nothing in it comes from people.
    return {name: mark_safe(drawn) for name, drawn in symbols}  # noqa: S308


@register.simple_tag
@cache
def icon(name: str, size: str = "") -> SafeString:
    """Draw an icon that stands beside its word.

    Each one holds its drawing: a browser lays out references to it more slowly, and the
    repeated drawings compress.
    """
    css = f"icon icon-{size}" if size else "icon"
    return format_html(
        '<svg class="{}" viewBox="0 0 24 24" aria-hidden="true">{}</svg>',
        *(css, drawings()[name]),
    )


@register.simple_block_tag
def crumbs(content: SafeString) -> SafeString:
    """Show the way to the page: its `li` in a named list; nothing if it has no `li`."""
    if not content.strip():
        return SafeString("")
    return format_html(
        '<nav aria-label="{}"><ol class="crumbs">{}</ol></nav>',
        *(_("Breadcrumb"), content),
    )


@register.simple_tag
def badge(code: str, topic: str) -> SafeString:
    """Show a state: icon, word and ground, in this order."""
    state = STATES[topic].get(code, State(code))
    return mark(capfirst(str(state.words)), state.icon, state.ground)


@register.simple_tag
def mark(title: str, icon_name: str, ground: str = "") -> SafeString:
    """Show a state that has no code: `{% mark _("On") "circle-check" "is-ok" %}`."""
    shown = (f"badge {ground}".strip(), icon(icon_name), title)
    return format_html('<span class="{}">{} {}</span>', *shown)


@register.simple_tag
def risk(level: str | None, score: int | None = None) -> SafeString:
    """Draw the meter of a risk, with its score and its word."""
    word = words(level or RiskLevel.UNKNOWN, "risk")
    number = SafeString("") if score is None else format_html("<b>{}</b> ", score)
    return format_html(
        '<span class="risk">{} {}<span>{}</span></span>',
        *(meter(level, score), number, word),
    )


@register.simple_tag
def report_risk(report: Report) -> SafeString:
    """Draw the risk of a report; erasure deletes it with the details."""
    if report.erased_at is None:
        return risk(report.risk_level, report.risk_score)
    text = '<span class="none">&ndash;<span class="heard">{}</span></span>'
    return format_html(text, _("Details erased"))


@register.simple_tag
@cache
def meter(level: str | None, score: int | None = None) -> SafeString:
    """Draw the meter of a risk alone, beside its word."""
    if score is None:
        bars = SafeString(
            '<rect class="none" x=".5" y=".5" width="63" height="7" rx="3.5"/>'
        )
    else:
        bars = format_html_join(
            "",
            '<rect{} x="{}" width="{}" height="8" rx="1.5"/>',
            _bars(score, str(level).lower()),
        )
    return format_html(
        '<svg class="meter" viewBox="0 0 64 8" preserveAspectRatio="none"'
        ' aria-hidden="true">{}</svg>',
        bars,
    )


def _bars(score: int, css: str) -> Iterator[tuple[SafeString, float, str]]:
    """Return (class, place, width) of the meter's bars: its ground, and its filling."""
    filled = format_html(' class="{}"', css)
    for first, last, x, width in METER:
        yield SafeString(""), x, f"{width}"
        part = (min(score, last) - first) / (last - first)
        if part > 0:
            yield filled, x, f"{width * part:.1f}"


@register.simple_tag
def moment(at: datetime | None) -> SafeString:
    """Show a time: `12 min ago`, `in 2 h 10 min`, and from a day on `23 Nov, 16:40`."""
    if at is None:
        return SafeString("")
    away = at - now()
    if away < timedelta():
        return _time(at, _("%(span)s ago") % {"span": _span(-away)})
    return _time(at, _("in %(span)s") % {"span": _span(away)})


@register.simple_tag
def due(at: datetime | None) -> SafeString:
    """Count down to a deadline: `in 2 h 10 min`, and `54 min late` after it."""
    if at is None or at >= now():
        return moment(at)
    return _time(at, _("%(span)s late") % {"span": _span(now() - at)}, is_due=True)


def _time(at: datetime, text: str, *, is_due: bool = False) -> SafeString:
    local, today = at.astimezone(NAIROBI), now().astimezone(NAIROBI)
    # Lists have many times: Django's patterns of dates take ten times as long.
    day = f"{local.day} {str(MONTHS_3[local.month]).title()}"
    if abs(local - today) >= timedelta(days=1) and not is_due:
        is_this_year = local.year == today.year
        text = f"{day}, {local:%H:%M}" if is_this_year else f"{day} {local.year}"
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        *(utc_text(at), f"{day} {local.year}, {local:%H:%M %Z}", text),
    )


def _span(span: timedelta) -> str:
    """Return a span such as `54 min`, `2 h 10 min` or `3 days`."""
    minutes = round(span.total_seconds() / 60)
    if minutes < 60:
        return _("%(count)s min") % {"count": max(minutes, 1)}
    if minutes < 24 * 60:
        hours, rest = divmod(minutes, 60)
        text = _("%(count)s h") % {"count": hours}
        return f"{text} {_('%(count)s min') % {'count': rest}}" if rest else text
    days = minutes // (24 * 60)
    return ngettext("%(count)s day", "%(count)s days", days) % {"count": days}


@register.filter
def money(amount: Any) -> str:
    return f"{amount:,.2f}"


@register.filter
def number(row_id: UUID, letter: str) -> str:
    """Return the number that papers have: `{{ entry.checkout_id|number:"P" }}`."""
    return number_of_id(letter, row_id)


@register.filter
def slug(name: str) -> str:
    """Turn a code into its form in URLs: `DIRECTOR_ID` -> `director-id`."""
    return str(name).lower().replace("_", "-")


@register.filter
def words(code: str, topic: str) -> Any:
    """Return what members read for a code of the API; an unknown code stays."""
    return WORDS[topic].get(code, code)


@register.simple_tag(takes_context=True)
def subject_name(context: dict[str, Any], about: Report | Rule) -> SafeString:
    """Name the subject of a report or rule in a list: `{% subject_name report %}`.

    `Wanjiku Kamau` is `W. K.` if the workspace chose initials, because bystanders see
    lists. Companies keep their names.
    """
    name = one_line(about.subject_name)
    workspace = context["place"].workspace
    if (
        workspace.names_in_lists == NamesInLists.INITIALS
        and about.subject_type != SubjectType.COMPANY
    ):
        name = " ".join(f"{word[0]}." for word in name.split()[:3])
    if not name:
        return format_html('<span class="none">{}</span>', _("Details erased"))
    return format_html("<bdi>{}</bdi>", name)


@register.filter
def naming(error: str, field: BoundField) -> str:
    """Return the error of an empty field as what to do with it, by its label."""
    if error != str(REQUIRED_ERROR["required"]):
        return error
    is_choice = isinstance(field.field.widget, ChoiceWidget | FileInput)
    text = _("Choose “%(label)s”") if is_choice else _("Fill in “%(label)s”")
    return text % {"label": field.label}


@register.filter
def letters(name: str) -> str:
    """Shorten a name to two letters for its face: `Wanjiku Kamau` to `WK`."""
    return "".join(word[0] for word in one_line(name).split()[:2]).upper()


@register.filter
def coloured(text: str) -> SafeString:
    """Colour JSON: its keys, texts and numbers."""

    def token(found: re.Match[str]) -> str:
        key, value, number = found.groups()
        css = "k" if key else "t" if value else "n"
        return format_html('<span class="{}">{}</span>', css, key or value or number)

    parts, last = [], 0
    for found in JSON_TOKEN.finditer(text):
        parts += [escape(text[last : found.start()]), token(found)]
        last = found.end()
    # Every part is escaped.
    return mark_safe("".join([*parts, escape(text[last:])]))  # noqa: S308


@register.filter
def at(values: Mapping[str, Any], name: str) -> Any:
    """Return the value of this name, or None."""
    return values.get(name)


@register.filter
def linked(text: str) -> SafeString:
    """Turn the URLs of a message into links and escape the rest."""
    parts = re.split(r"(https?://\S*[\w/])(?=\s|$)", text)
    html = (
        format_html('<a href="{0}" rel="nofollow">{0}</a>', part)
        if number % 2
        else escape(part)
        for number, part in enumerate(parts)
    )
    return mark_safe("".join(html))  # noqa: S308


@register.simple_tag(takes_context=True)
def to(context: dict[str, Any], name: str, environment: str = "", **more: Any) -> str:
    """Return the URL of a page of this workspace and environment."""
    url: str = context["place"].url(name, environment, **more)
    return url


@register.simple_tag(takes_context=True)
def listed(context: dict[str, Any], name: str, value: Any = "") -> str:
    """Return the query of the same list with another filter, order or page.

    An empty value removes it. Another filter or order leads to the first page.
    """
    query = context["request"].GET.copy()
    for gone in ("lang", "page", "before", "after", name):
        query.pop(gone, None)
    if value != "":
        query[name] = str(value)
    return f"?{query.urlencode()}"


@register.simple_tag(takes_context=True)
def language_query(context: dict[str, Any], language: str) -> str:
    """Return the query of the same page in another language."""
    request = context.get("request")
    query = request.GET.copy() if request else QueryDict(mutable=True)
    query["lang"] = language
    return f"?{query.urlencode()}"
