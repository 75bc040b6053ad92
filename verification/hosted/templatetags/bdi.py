"""Filters for text that people typed, so that it cannot rearrange the page.

A name may contain a newline, or a character that reverses the text after it.
`formats.one_line` does the same for e-mails.
"""

import re
from collections.abc import Sequence

from django import template
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe

from verification.values.formats import one_line

register = template.Library()
# For text that is alone in its block, which nothing outside can be rearranged by
register.filter("one_line", one_line)


@register.filter
def bdi(text: str) -> SafeString:
    return format_html("<bdi>{}</bdi>", one_line(text)) if text else SafeString("")


@register.filter
def bdi_of(text: str, names: str | Sequence[str]) -> SafeString:
    """Isolate these names, which are on one line, in a sentence of the page."""
    listed = [names] if isinstance(names, str) else names
    html = str(escape(text))
    said = {str(escape(one_line(name))) for name in listed} - {""}
    if said:
        # A short name may be a part of another word: match whole words.
        any_of = "|".join(map(re.escape, sorted(said, key=len, reverse=True)))
        alone = rf"(?<!\w)({any_of})(?!\w)"
        html = re.sub(alone, lambda found: f"<bdi>{found[1]}</bdi>", html)
    return mark_safe(html)  # noqa: S308


@register.filter
def initial(name: str) -> str:
    return one_line(name)[:1].upper()
