"""What templates of the console and of accounts need."""

from __future__ import annotations

import re
from typing import Any

import segno
from django import template
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe

from verification.values.formats import one_line

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


@register.filter
def slug(name: str) -> str:
    """`DIRECTOR_ID` -> `director-id`, as addresses have it."""
    return str(name).lower().replace("_", "-")


@register.filter
def initials(name: str) -> str:
    """`Wanjiku Kamau` -> `W. K.`: lists are open on screens that others see."""
    return " ".join(f"{word[0]}." for word in one_line(name).split()[:3])


@register.filter
def linked(text: str) -> SafeString:
    """A message with its links, and otherwise as it was sent."""
    parts = re.split(r"(https?://\S*\w)(?=\s|$)", text)
    html = (
        format_html('<a href="{0}" rel="nofollow">{0}</a>', part)
        if number % 2
        else escape(part)
        for number, part in enumerate(parts)
    )
    return mark_safe("".join(html))  # noqa: S308


@register.simple_tag(takes_context=True)
def to(context: dict[str, Any], name: str, environment: str = "", **more: Any) -> str:
    """The address of a page of this workspace and environment."""
    url: str = context["place"].url(name, environment, **more)
    return url


@register.simple_tag(takes_context=True)
def page_query(context: dict[str, Any], page: int) -> str:
    """The present filters, on another page of the list."""
    query = context["request"].GET.copy()
    query.pop("lang", None)
    query["page"] = str(page)
    return f"?{query.urlencode()}"
