from typing import Any

from django import template

from verification.backoffice.widgets import link

register = template.Library()


@register.filter
def to_page(row: Any, text: Any = None) -> str:
    """Return a link to the row's page in the admin: `{{ report|to_page }}`."""
    return link(row, None if text is None else str(text))
