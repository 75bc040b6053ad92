"""Times as people read them: in Nairobi's time, labelled EAT. The API uses UTC.

Patterns are those of Django's `date` filter, where `T` is the label.
"""

from __future__ import annotations

from datetime import datetime

from django.conf import settings
from django.utils.dateformat import format as formatted

from verification.values.wire import NAIROBI

# The format of times in receipts
FULL_FORMAT = "j F Y, H:i:s T"


def format_nairobi(moment: datetime, pattern: str = "") -> str:
    """Format like `21 Nov 2026, 11:15 EAT`, in the active language."""
    pattern = pattern or settings.SHORT_DATETIME_FORMAT
    return formatted(moment.astimezone(NAIROBI), pattern)
