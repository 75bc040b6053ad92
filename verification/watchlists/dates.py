"""Dates as sanctions lists write them; what cannot be read excludes nobody."""

from __future__ import annotations

import re
from datetime import date, datetime

# "01/03/1958" and "dd/mm/1945" (UK), "07 Dec 1960" and "Dec 1960" (OFAC).
LOCAL = re.compile(r"(\d\d|dd)/(\d\d|mm)/(\d{4})")
SPAN = re.compile(r"(\d{4}) to (\d{4})")
ABOUT = re.compile(r"(circa|approximately|about|ca?\.)\s*", re.IGNORECASE)
WRITTEN = {"%d %b %Y": "%Y-%m-%d", "%b %Y": "%Y-%m"}


def birth_dates(
    text: str | None,
    *,
    first: str | None = None,
    last: str | None = None,
    about: bool = False,
) -> list[str]:
    """YYYY-MM-DD, YYYY-MM, YYYY or 1960/1965; with the years beside where `about`."""
    if first or last:
        low, high = _year(first or last), _year(last or first)
        return [f"{low}/{high}"] if low and high and low <= high else []
    told = " ".join((text or "").split())
    plain = ABOUT.sub("", told)
    if span := SPAN.search(plain):
        return [f"{span[1]}/{span[2]}"]
    found = _date(plain)
    if found and (about or plain != told):
        year = int(found[:4])
        return [f"{year - 1}/{year + 1}"]
    return [found] if found else []


def day(text: str | None) -> date | None:
    """When a list was published: ISO, or 11/20/2026 as OFAC writes it."""
    told = (text or "").strip()
    try:
        return date.fromisoformat(told[:10])
    except ValueError:
        pass
    if parts := re.match(r"(\d\d)/(\d\d)/(\d{4})", told):
        # Only one of the two orders may be a date.
        for month, of_month in ((parts[1], parts[2]), (parts[2], parts[1])):
            try:
                return date(int(parts[3]), int(month), int(of_month))
            except ValueError:
                continue
    return None


def _date(text: str) -> str | None:
    if re.fullmatch(r"\d{4}(-\d\d(-\d\d)?)?", text) and _year(text):
        return text
    if iso := re.match(r"\d{4}-\d\d-\d\d", text):
        return iso[0]
    if local := LOCAL.fullmatch(text.casefold()):
        parts = [local[3], local[2], local[1]]
        known = parts[: next((i for i, p in enumerate(parts) if p.isalpha()), 3)]
        return "-".join(known)
    for form, ours in WRITTEN.items():
        try:
            return datetime.strptime(text, form).strftime(ours)  # noqa: DTZ007
        except ValueError:
            continue
    return None


def _year(text: str | None) -> int | None:
    found = re.match(r"\d{4}", (text or "").strip())
    return int(found[0]) if found else None
