from typing import Any

from django import template

from verification.backoffice.widgets import link

register = template.Library()


@register.filter
def to_page(row: Any, text: Any = None) -> str:
    """A link to the row's own page: `{{ report|to_page }}`."""
    return link(row, None if text is None else str(text))
