from typing import Any

from django import template
from django.contrib.auth import get_permission_codename
from django.template import Context

from verification.backoffice.widgets import link

register = template.Library()


@register.simple_tag(takes_context=True)
def to_page(context: Context, row: Any, text: Any = None) -> str:
    """Return a link to the row's page in the admin, or its text without the right."""
    shown = str(row if text is None else text)
    if row is None:
        return shown
    right = get_permission_codename("view", row._meta)
    may_view = context["user"].has_perm(f"{row._meta.app_label}.{right}")
    return link(row, shown) if may_view else shown
