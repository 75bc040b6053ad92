"""Pages of long lists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest

SIZE = 20
LAST_PAGE = 10**6


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list, the first of which is 0."""

    rows: list[Any]
    total: int
    number: int

    @property
    def first(self) -> int:
        return self.number * SIZE + 1

    @property
    def last(self) -> int:
        return self.number * SIZE + len(self.rows)

    @property
    def before(self) -> int | None:
        return self.number - 1 if self.number else None

    @property
    def after(self) -> int | None:
        return self.number + 1 if self.last < self.total and self.rows else None


def number_of(request: HttpRequest) -> int:
    """Whatever stands in the address, a page."""
    text = request.GET.get("page", "")
    is_number = text.isascii() and text.isdigit() and len(text) < 8
    return min(int(text), LAST_PAGE) if is_number else 0
