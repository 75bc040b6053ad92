from typing import Any

from django import template
from django.template import Context

from verification.backoffice.widgets import link

register = template.Library()


@register.simple_tag(takes_context=True)
def to_page(context: Context, row: Any, text: Any = None) -> str:
    """Return a link to the row's page in the admin, or its text without the right."""
    return str(text) if row is None else link(row, text, context["user"])
