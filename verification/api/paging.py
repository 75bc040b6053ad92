"""The envelope around one page of a list."""

from __future__ import annotations

from typing import Any, TypeVar

from verification.wire import Shape


class PageEnvelope(Shape):
    page: int
    """Zero-based."""
    size: int
    total_elements: int
    total_pages: int
    first: bool
    last: bool
    content: list[Any]


PageOf = TypeVar("PageOf", bound=PageEnvelope)


def paged(
    shape: type[PageOf], content: list[Any], total: int, *, page: int, size: int
) -> PageOf:
    """The envelope around one page of a list."""
    pages = -(-total // size)
    return shape(
        page=page,
        size=size,
        total_elements=total,
        total_pages=pages,
        first=page == 0,
        last=page >= pages - 1,
        content=content,
    )
