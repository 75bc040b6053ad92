"""Nairobi's time, and times as text."""

from datetime import datetime
from zoneinfo import ZoneInfo

from django.conf import settings
from django.utils.dateformat import format as format_date

# The time zone of pages, documents, messages and tax months. The API uses UTC.
NAIROBI = ZoneInfo("Africa/Nairobi")
# The format of times in receipts; `T` is the label EAT.
FULL_FORMAT = "j F Y, H:i:s T"


def utc_text(value: datetime) -> str:
    """Format in UTC, like `2026-11-21T08:15:30.123456Z`."""
    return value.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def nairobi_text(value: datetime) -> str:
    """Format in Nairobi's time, like `2026-11-21T11:15:30.123456+03:00`."""
    return value.astimezone(NAIROBI).isoformat(timespec="microseconds")


def format_nairobi(moment: datetime, pattern: str = "") -> str:
    """Format for people, like `21 Nov 2026, 11:15 EAT`, in the active language.

    The pattern is one of Django's `date` filter.
    """
    pattern = pattern or settings.SHORT_DATETIME_FORMAT
    return format_date(moment.astimezone(NAIROBI), pattern)
