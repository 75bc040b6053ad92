"""The hints and errors of fields on the pages of subjects, payers and referees."""

from __future__ import annotations

from typing import Any

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

register = template.Library()


@register.inclusion_tag("hosted/fields/error.html")
def field_error(field: Any) -> dict[str, Any]:
    """Show the fault of the field, if it has one: `{% field_error form.name %}`."""
    return {"field": field}


@register.simple_tag
def described(field: Any) -> SafeString:
    """Lead a control to its hint and error: `<input {% described form.name %}>`."""
    name = field.id_for_label
    if not field.errors:
        return format_html('aria-describedby="{}-hint"', name)
    return format_html(
        'aria-describedby="{0}-hint {0}-error"{1}',
        *(name, mark_safe(' aria-invalid="true"')),
    )
