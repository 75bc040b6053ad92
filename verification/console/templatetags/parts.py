"""Parts of pages that have contents: tables, cards, callouts and fields of forms."""

import re
from typing import Any

from django import template
from django.template.defaulttags import CsrfTokenNode
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from verification.console.navigation import Count, Section
from verification.console.templatetags.console import icon, mark, subject_name
from verification.reports.models import Report

register = template.Library()

ROLES = {
    "thead": "rowgroup",
    "tbody": "rowgroup",
    "tr": "row",
    "td": "cell",
    'th scope="col"': "columnheader",
    'th scope="row"': "rowheader",
}
TABLE_PART = re.compile(rf"<({'|'.join(ROLES)})(?=[ >])")
CALLOUT_ICONS = {
    "is-bad": "octagon-alert",
    "is-wait": "triangle-alert",
    "is-ok": "circle-check",
    "is-sand": "flask-conical",
}


@register.simple_block_tag
def table(
    content: str, label: str = "", by: str = "", css: str = "fold", scroll: str = ""
) -> SafeString:
    """Show a list as a table, which becomes cards on a phone.

    `label` names the region in which it scrolls; `by` is the id of a heading that does.
    Each part gets its role, because `display: grid` takes it away in some browsers.
    """
    rows = TABLE_PART.sub(lambda part: f'<{part[1]} role="{ROLES[part[1]]}"', content)
    # Django has escaped the content.
    html = format_html(
        '<table class="table {}" role="table">{}</table>',
        *(css, mark_safe(rows)),  # noqa: S308
    )
    if not label and not by:
        return html
    return format_html(
        '<div class="{}" role="region" {}="{}" tabindex="0">{}</div>',
        *(scroll or "scroll", "aria-labelledby" if by else "aria-label"),
        *(by or label, html),
    )


@register.simple_tag
def column(title: str, css: str = "") -> SafeString:
    """Head a column of a table: `{% column _("Amount") "number" %}`."""
    if css:
        return format_html('<th scope="col" class="{}">{}</th>', css, title)
    return format_html('<th scope="col">{}</th>', title)


@register.simple_block_tag
def card(content: str, name: str, title: str, css: str = "card") -> SafeString:
    """Show a section as a card with its title: `{% card "runs" _("Newest runs") %}`."""
    return format_html(
        '<section class="{}" aria-labelledby="{}">{}{}</section>',
        *(css, name, card_title(name, title), content),
    )


@register.simple_block_tag
def card_head(content: str, name: str, title: str) -> SafeString:
    """Head a card by its title, and by what stands at the end of its line."""
    return format_html(
        '<div class="card-head"><h2 id="{}">{}</h2>{}</div>', name, title, content
    )


@register.simple_tag
def card_title(name: str, title: str) -> SafeString:
    """Head a card by its title alone."""
    return card_head("", name, title)


@register.simple_block_tag
def callout(content: str, css: str = "", role: str = "") -> SafeString:
    """Show a remark beside its matter: `{% callout "is-wait" %}...{% endcallout %}`.

    Its ground is is-wait, is-bad, is-ok, is-sand or none, and chooses its icon.
    """
    ground = next((name for name in css.split() if name in CALLOUT_ICONS), "")
    return format_html(
        '<p class="callout {}"{}>{}<span>{}</span></p>',
        css,
        format_html(' role="{}"', role) if role else "",
        icon(CALLOUT_ICONS.get(ground, "info")),
        content,
    )


@register.simple_block_tag
def nothing(content: str, icon_name: str, text: str, form: Any = None) -> SafeString:
    """Say why a list has no rows; its content leads to the first one.

    After a filter, by the `form` of the list, it leads to the list without filters.
    """
    if form and form.has_changed():
        text = _("Nothing matches these filters.")
        content = format_html('<a href="?">{}</a>', _("Clear them"))
    shown = (icon(icon_name), text, content)
    return format_html('<div class="empty">{}<p>{}</p>{}</div>', *shown)


@register.inclusion_tag("console/parts/field.html")
def field(
    field: Any, *, cards: bool | str = False, grow: bool = False
) -> dict[str, Any]:
    """Show one field of a form: `{% field form.package cards=True %}`."""
    return {"field": field, "cards": cards, "grow": grow}


@register.inclusion_tag("console/parts/fields.html")
def fields(form: Any) -> dict[str, Any]:
    """Show all fields of a form, or those of a list."""
    return {"form": form}


@register.simple_block_tag
def step(
    content: str,
    number: int,
    title: str,
    is_done: Any = False,
    css: str = "",
) -> SafeString:
    """Show a thing to do with its number, or with a tick once it is done."""
    done = format_html('<span class="heard"> ({})</span>', _("done"))
    return format_html(
        '<li{}><span class="mark">{}</span><div{}><h3>{}{}</h3>{}</div></li>',
        mark_safe(' class="is-done"') if is_done else "",
        icon("check") if is_done else number,
        format_html(' class="{}"', css) if css else "",
        *(title, done if is_done else "", content),
    )


@register.simple_tag(takes_context=True)
def crumb(context: dict[str, Any], name: str, title: str, **more: Any) -> SafeString:
    """Lead back to a page of the way: `{% crumb "reports" _("Reports") %}`."""
    url = context["place"].url(name, **more)
    return format_html('<li><a href="{}">{}</a></li>', url, title)


@register.simple_tag
def here(title: str) -> SafeString:
    """End the way with this page."""
    return format_html('<li aria-current="page">{}</li>', title)


@register.simple_tag(takes_context=True)
def section_link(context: dict[str, Any], section: Section) -> SafeString:
    """Lead to a section of the navigation, with the number of what waits in it."""
    place = context["place"]
    is_here = context["section"] == section.name
    count = place.waiting.get(section.name)
    return format_html(
        '<a href="{}"{}>{} {}{}</a>',
        place.url(section.name),
        SafeString(' aria-current="page"' if is_here else ""),
        icon(section.icon),
        section.label,
        _waiting(count) if count else "",
    )


def _waiting(count: Count) -> SafeString:
    number: SafeString | str = count.text(count.waiting)
    if count.late:
        late = ngettext("%(late)s late", "%(late)s late", count.late) % {
            "late": count.text(count.late)
        }
        number = format_html(
            '{}<span class="heard">, {} {}</span>', late, _("of"), count.waiting
        )
    return format_html(
        ' <span class="count{}">{}<span class="heard"> {}</span></span>',
        " is-bad" if count.is_bad else "",
        *(number, count.words),
    )


@register.simple_tag(takes_context=True)
def go(
    context: dict[str, Any],
    name: str,
    title: str,
    icon_name: str = "",
    css: str = "",
    **more: Any,
) -> SafeString:
    """Lead to a page by a button: `{% go "reports-new" _("Order") "plus" "primary" %}`.

    `more` are the arguments of the page's URL.
    """
    return format_html(
        '<a class="{}" href="{}">{}{}</a>',
        f"button {css}".strip(),
        context["place"].url(name, **more),
        *_label(title, icon_name),
    )


@register.simple_tag(takes_context=True)
def act(
    context: Any,
    name: str,
    title: str,
    icon_name: str = "",
    css: str = "",
    query: str = "",
    **more: Any,
) -> SafeString:
    """Do something by a button, which is a form: `{% act "queue-next" _("Launch") %}`.

    `more` are the arguments of the URL that it posts to, before `query`.
    """
    return format_html(
        '<form method="post" action="{}{}">{}<button{}>{}{}</button></form>',
        context["place"].url(name, **more),
        query,
        CsrfTokenNode().render(context),
        format_html(' class="{}"', css) if css else "",
        *_label(title, icon_name),
    )


def _label(title: str, icon_name: str) -> tuple[str, str]:
    drawn = format_html("{} ", icon(icon_name)) if icon_name else ""
    return drawn, title


@register.simple_tag(takes_context=True)
def cover(context: dict[str, Any], name: str, title: str, **more: Any) -> SafeString:
    """Lead to a page from a whole row: `{% cover "reports-batch" batch.name %}`."""
    url = context["place"].url(name, **more)
    return format_html('<a class="cover" href="{}">{}</a>', url, title)


@register.simple_tag(takes_context=True)
def report_link(context: dict[str, Any], report: Report) -> SafeString:
    """Lead to a report from its row, by the name of its subject and its warnings."""
    title = subject_name(context, report)
    link = cover(context, "reports-detail", title, report=report.pk)
    return link + report_warnings(context, report)


@register.simple_tag(takes_context=True)
def report_warnings(context: dict[str, Any], report: Report) -> SafeString:
    """Mark a report that may not be used any more, or that is under correction.

    `disputed` of the page has the ids of the latter.
    """
    drawn = []
    if report.restricted_at:
        drawn.append(mark(_("Do not use"), "ban", "is-bad"))
    if report.pk in context.get("disputed", ()):
        text = _("Under correction")
        drawn.append(mark(text, "message-square-warning", "is-wait"))
    return format_html_join("", " {}", ([one] for one in drawn))


@register.simple_block_tag
def pair(content: str, name: str) -> SafeString:
    """Show a name and its value in a `dl`: `{% pair _("Number") %}...{% endpair %}`."""
    return format_html("<div><dt>{}</dt><dd>{}</dd></div>", name, content)


@register.simple_tag
def fact(name: str, value: Any) -> SafeString:
    """Show a name and its value in a `dl`, or nothing if there is no value."""
    return SafeString("") if value in ("", None) else pair(value, name)
