"""What fields of pages are drawn with."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import wraps
from typing import Any

from django.conf import settings
from django.urls import reverse
from django.utils.html import format_html, format_html_join

from verification.local_time import in_nairobi


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
    """Cells are text, HTML that is safe, or times."""
    return format_html(
        '<div class="scroll" tabindex="0" role="group" aria-label="Table">'
        "<table><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>",
        format_html_join("", "<th>{}</th>", ((h,) for h in headings)),
        format_html_join("", "<tr>{}</tr>", ((_cells(row),) for row in rows)),
    )


def _cells(row: Iterable[Any]) -> str:
    shown = (
        in_nairobi(cell, settings.DATETIME_FORMAT)
        if isinstance(cell, datetime)
        else cell
        for cell in row
    )
    return format_html_join("", "<td>{}</td>", ((cell,) for cell in shown))


def pretty(value: Any) -> str:
    if value is None:
        return "-"
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return format_html("<pre>{}</pre>", text)
