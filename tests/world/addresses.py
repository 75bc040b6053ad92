"""The addresses of pages, as the URL configuration has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.urls import URLResolver


def list_pages(urls: Sequence[Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path and the name of each page, such as `keys/<uuid:key>/rotate`."""
    for url in urls:
        path = above + str(url.pattern)
        if isinstance(url, URLResolver):
            yield from list_pages(url.url_patterns, path)
        else:
            yield path, url.name
