"""Filters and tags for templates of the console and of accounts."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

import segno
from django import template
from django.http import QueryDict
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe

from verification.console.words import WORDS, Topic
from verification.values.formats import one_line

register = template.Library()


@register.filter
def qr(text: str) -> SafeString:
    """Draw a QR code as inline SVG, because the policy forbids data: images."""
    code = segno.make(str(text), error="m")
    svg = code.svg_inline(scale=4, border=4, dark="#0f3d3a", light="#fff")
    # Drawn from numbers: nothing of the text is in the markup.
    return mark_safe(svg)  # noqa: S308


@register.filter
def money(amount: Any) -> str:
    return f"{amount:,.2f}"


@register.filter
def slug(name: str) -> str:
    """Turn a code into its form in URLs: `DIRECTOR_ID` -> `director-id`."""
    return str(name).lower().replace("_", "-")


@register.filter
def words(code: str, topic: str) -> Any:
    """Return what members read for a code of the API; an unknown code stays."""
    return WORDS[Topic(topic)].get(code, code)


@register.filter
def initials(name: str) -> str:
    """Shorten `Wanjiku Kamau` to `W. K.`, because bystanders see lists."""
    return " ".join(f"{word[0]}." for word in one_line(name).split()[:3])


@register.filter
def linked(text: str) -> SafeString:
    """Turn the URLs of a message into links and escape the rest."""
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
    """Return the URL of a page of this workspace and environment."""
    url: str = context["place"].url(name, environment, **more)
    return url


@register.simple_tag(takes_context=True)
def page_query(context: dict[str, Any], page: int) -> str:
    """Return the query of another page of the list, with the present filters."""
    return _list_query(context, "page", page)


@register.simple_tag(takes_context=True)
def older_query(context: dict[str, Any], before: UUID | None = None) -> str:
    """Return the query of the rows before this one, or of the newest ones."""
    return _list_query(context, "before", before)


@register.simple_tag(takes_context=True)
def later_query(context: dict[str, Any], after: UUID | None = None) -> str:
    """Return the query of the rows after this one, or of the first ones."""
    return _list_query(context, "after", after)


def _list_query(context: dict[str, Any], name: str, value: Any) -> str:
    query = context["request"].GET.copy()
    query.pop("lang", None)
    query.pop(name, None)
    if value is not None:
        query[name] = str(value)
    return f"?{query.urlencode()}"


@register.simple_tag(takes_context=True)
def language_query(context: dict[str, Any], language: str) -> str:
    """Return the query of the same page in another language."""
    request = context.get("request")
    query = request.GET.copy() if request else QueryDict(mutable=True)
    query["lang"] = language
    return f"?{query.urlencode()}"
