"""The fields and links of the pages of subjects, payers and referees."""

from typing import Any

from django import template
from django.shortcuts import resolve_url
from django.template.loader import render_to_string
from django.utils.html import format_html
from django.utils.safestring import SafeString

register = template.Library()


@register.inclusion_tag("hosted/fields/error.html")
def field_error(field: Any) -> dict[str, Any]:
    """Show the fault of the field, if it has one: `{% field_error form.name %}`."""
    return {"field": field}


@register.simple_tag
def described(field: Any, hint: str = "hint", *, group: bool = False) -> SafeString:
    """Lead a control to its hint and error: `<input {% described form.name %}>`.

    `hint` is empty for a field without one. A `group` has no `aria-invalid`.
    """
    name = field.id_for_label
    ids = [f"{name}-hint"] if hint else []
    if field.errors:
        ids.append(f"{name}-error")
    if not ids:
        return SafeString("")
    invalid = SafeString(' aria-invalid="true"' if field.errors and not group else "")
    return format_html('aria-describedby="{}"{}', " ".join(ids), invalid)


@register.simple_block_tag
def entry(content: str, field: Any, label: str = "", hint: str = "") -> SafeString:
    """Show a control with its label, hint and error.

    `{% entry form.answer _("The code") %}<input ...>{% endentry %}`
    """
    shown = {"field": field, "label": label, "hint": hint, "control": content}
    return render_to_string("hosted/fields/entry.html", shown)


@register.simple_tag
def button_to(title: str, to: str, *args: Any) -> SafeString:
    """Lead to a path or a named page: `{% button_to _("Go back") "my-data" %}`."""
    link = '<p class="screen"><a class="button other" href="{}">{}</a></p>'
    return format_html(link, resolve_url(to, *args), title)
