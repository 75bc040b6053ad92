"""What templates of the console and of accounts need."""

from __future__ import annotations

from typing import Any

import segno
from django import template
from django.utils.safestring import SafeString, mark_safe

register = template.Library()


@register.filter
def qr(text: str) -> SafeString:
    """Inline, as no policy lets a page fetch a data: address."""
    code = segno.make(str(text), error="m")
    svg = code.svg_inline(scale=4, border=4, dark="#0f3d3a", light="#fff")
    # Drawn from numbers: nothing of the text is in the markup.
    return mark_safe(svg)  # noqa: S308


@register.filter
def money(amount: Any) -> str:
    return f"{amount:,.2f}"


@register.simple_tag(takes_context=True)
def page_query(context: dict[str, Any], page: int) -> str:
    """The present filters, on another page of the list."""
    query = context["request"].GET.copy()
    query.pop("lang", None)
    query["page"] = str(page)
    return f"?{query.urlencode()}"
