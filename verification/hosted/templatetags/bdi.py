"""What people typed, shown so that it cannot rearrange the page around it.

A name may hold a newline, or a character that turns the text after it around and so
makes another sentence of ours. The same is done for mails (`wire.one_line`).
"""

import re
from collections.abc import Sequence

from django import template
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe

from verification.values.wire import one_line

register = template.Library()


@register.filter
def bdi(text: str) -> SafeString:
    return format_html("<bdi>{}</bdi>", one_line(text or ""))


@register.filter
def bdi_of(text: str, names: str | Sequence[str]) -> SafeString:
    """A sentence of ours that has these names in it, on one line already."""
    listed = [names] if isinstance(names, str) else names
    html = str(escape(text))
    said = {str(escape(one_line(name))) for name in listed} - {""}
    if said:
        # Not within another word, which a short name may be part of.
        any_of = "|".join(map(re.escape, sorted(said, key=len, reverse=True)))
        alone = rf"(?<!\w)({any_of})(?!\w)"
        html = re.sub(alone, lambda found: f"<bdi>{found[1]}</bdi>", html)
    return mark_safe(html)  # noqa: S308


@register.filter
def initial(name: str) -> str:
    return one_line(name)[:1].upper()
