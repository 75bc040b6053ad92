"""A tag for the layouts of all pages."""

from typing import Any

from django import template
from django.template.loader_tags import BLOCK_CONTEXT_KEY

register = template.Library()


@register.simple_tag(takes_context=True)
def again(context: Any, name: str) -> str:
    """Render a block of the page once more: `<h1>{% again "title" %}</h1>`."""
    blocks = context.render_context[BLOCK_CONTEXT_KEY]
    html: str = blocks.get_block(name).render(context)
    return html
