"""What fields of pages are drawn with."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

from django.urls import reverse
from django.utils.html import format_html, format_html_join


def once(display: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """For what asks the database: a page asks for each of its fields twice."""

    @wraps(display)
    def kept(office: Any, obj: Any) -> Any:
        shown = obj.__dict__.setdefault("_shown", {})
        if display not in shown:
            shown[display] = display(office, obj)
        return shown[display]

    return kept


def link(obj: Any, text: str | None = None) -> str:
    """A link to the row's own page."""
    meta = obj._meta
    url = reverse(f"admin:{meta.app_label}_{meta.model_name}_change", args=[obj.pk])
    return format_html('<a href="{}">{}</a>', url, text or obj)


def table(headings: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    return format_html(
        "<table><thead><tr>{}</tr></thead><tbody>{}</tbody></table>",
        format_html_join("", "<th>{}</th>", ((h,) for h in headings)),
        format_html_join(
            "",
            "<tr>{}</tr>",
            ((format_html_join("", "<td>{}</td>", ((c,) for c in r)),) for r in rows),
        ),
    )


def pretty(value: Any) -> str:
    if value is None:
        return "-"
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return format_html("<pre>{}</pre>", text)
