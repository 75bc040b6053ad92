"""Who has received a report: keys and members of the client, receivers, staff.

A read by a key or a member is a Disclosure. Deliveries of webhooks have attempts, and
pages that staff opened are in the audit trail.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from django.db import connection
from django.db.models import F, Max, Min
from django.utils.timezone import now

from verification.backoffice.models import ActorKind, AuditEvent
from verification.db.ids import uuid7
from verification.privacy.models import Channel, Correction, Disclosure
from verification.reports.models import Report
from webhooks.models import Attempt, Event

# A further read within this time costs no statement.
INTERVAL_SECONDS = 3600
MOST_REMEMBERED = 20_000
RECORD = """
INSERT INTO privacy_disclosure AS known
    (id, report_id, channel, recipient, first_at, last_at)
VALUES (%(id)s, %(report)s, %(channel)s, %(recipient)s, %(at)s, %(at)s)
ON CONFLICT (report_id, channel, recipient) DO UPDATE SET last_at = excluded.last_at
WHERE known.last_at <= excluded.last_at - interval '1 hour'
"""
# Acts of staff in the audit trail by which they see a report
STAFF_ACTIONS = (
    "report.opened",
    "report.revealed",
    "report.pdf-taken",
    "report.pdf-downloaded",
    "correction.revealed",
    "correction.document-read",
)

_lock = threading.Lock()
# (report, channel, recipient) -> when this process recorded it, oldest first.
_recorded: dict[tuple[UUID, str, str], float] = {}


class RecipientKind(StrEnum):
    """How somebody received a report."""

    API = "API"
    PDF = "PDF"
    CONSOLE = "CONSOLE"
    WEBHOOK = "WEBHOOK"
    STAFF = "STAFF"


@dataclass(frozen=True, slots=True)
class ReportRecipient:
    """A recipient of a report; `host` is that of a webhook's receiver."""

    kind: RecipientKind
    first_at: datetime
    last_at: datetime
    host: str = ""


def record_disclosure(report_id: UUID, channel: Channel, recipient: str) -> None:
    """Record that the recipient reads the report, at most once an hour.

    `recipient` names a key or member as `Client.actor` does.
    """
    row = (report_id, channel.value, recipient[:100])
    if not _is_due(row):
        return
    values: dict[str, Any] = {
        "id": uuid7(),
        "report": report_id,
        "channel": channel.value,
        "recipient": row[2],
        "at": now(),
    }
    with connection.cursor() as cursor:
        cursor.execute(RECORD, values)


def _is_due(row: tuple[UUID, str, str]) -> bool:
    """Return whether this process has not recorded the row within the hour."""
    moment = time.monotonic()
    with _lock:
        before = _recorded.pop(row, None)
        if before is not None and moment - before < INTERVAL_SECONDS:
            _recorded[row] = before
            return False
        _recorded[row] = moment
        while len(_recorded) > MOST_REMEMBERED:
            del _recorded[next(iter(_recorded))]
    return True


def recipients_of(reports: Iterable[Report]) -> dict[UUID, list[ReportRecipient]]:
    """Return the recipients of each report, the first ones first."""
    ids = [report.pk for report in reports]
    found: dict[UUID, list[ReportRecipient]] = defaultdict(list)
    for report_id, one in [*_readers(ids), *_receivers(ids), *_staff(ids)]:
        found[report_id].append(one)
    for recipients in found.values():
        recipients.sort(key=lambda one: one.first_at)
    return found


Found = Iterable[tuple[UUID, ReportRecipient]]


def _readers(ids: list[UUID]) -> Found:
    channels = [Channel.API, Channel.PDF, Channel.CONSOLE]
    rows = Disclosure.objects.filter(report__in=ids, channel__in=channels)
    grouped = rows.values_list("report", "channel").order_by("report", "channel")
    for report_id, channel, first, last in grouped.annotate(
        Min("first_at"), Max("last_at")
    ):
        yield report_id, ReportRecipient(RecipientKind(channel), first, last)


def _receivers(ids: list[UUID]) -> Found:
    answered = Attempt.objects.filter(
        delivery__event__report_id__in=ids, status_code__range=(200, 299), error=""
    ).exclude(delivery__name__in=Event.IMPERSONAL_NAMES)
    times: dict[tuple[UUID, str], list[datetime]] = defaultdict(list)
    rows = answered.annotate(report_id=F("delivery__event__report_id"))
    for report_id, url, at in rows.values_list("report_id", "url", "started_at"):
        times[report_id, urlsplit(url).hostname or ""].append(at)
    for (report_id, host), all_times in times.items():
        first, last = min(all_times), max(all_times)
        yield report_id, ReportRecipient(RecipientKind.WEBHOOK, first, last, host)


def _staff(ids: list[UUID]) -> Found:
    # The pages of reports and of their corrections
    pages = {str(one): one for one in ids}
    corrections = Correction.objects.filter(report__in=ids)
    for correction_id, report_id in corrections.values_list("pk", "report"):
        pages[str(correction_id)] = report_id
    acts = AuditEvent.objects.filter(
        actor_kind=ActorKind.STAFF,
        object_type__in=[Report._meta.label_lower, Correction._meta.label_lower],
        object_id__in=list(pages),
        action__in=STAFF_ACTIONS,
    )
    times: dict[UUID, list[datetime]] = defaultdict(list)
    grouped = acts.values_list("object_id").order_by("object_id")
    for object_id, first, last in grouped.annotate(
        Min("created_at"), Max("created_at")
    ):
        times[pages[object_id]] += [first, last]
    for report_id, seen in times.items():
        yield report_id, ReportRecipient(RecipientKind.STAFF, min(seen), max(seen))
