"""Recipients of reports: keys and members of the client, receivers, staff.

A read by a key or a member is a Disclosure. Deliveries of webhooks have attempts, and
pages that staff opened are in the audit trail.
"""

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

from django.db.models import F, Max, Min, Q

from verification.db.base import run_sql
from verification.db.ids import uuid7
from verification.privacy.models import Channel, Disclosure
from verification.reports.models import Report
from verification.values.clock import now
from webhooks.models import Attempt, Event

# A further read within this time costs no statement.
INTERVAL_SECONDS = 3600
MOST_REMEMBERED = 20_000
RECORD = """
INSERT INTO privacy_disclosure AS known
    (id, report_id, channel, recipient, first_at, last_at)
SELECT id, report, %(channel)s, %(recipient)s, %(at)s, %(at)s
FROM unnest(%(ids)s::uuid[], %(reports)s::uuid[]) new (id, report)
ON CONFLICT (report_id, channel, recipient) DO UPDATE SET last_at = excluded.last_at
WHERE known.last_at <= excluded.last_at - interval '1 hour'
"""
# What staff opened or revealed of a report: its page, its rows, the payloads of its
# events, and its monitoring rule, which knows nothing of a later run.
STAFF_READS = """
SELECT report.id, min(act.created_at), max(act.created_at)
FROM (
    SELECT id, id::text FROM reports_report WHERE id = ANY(%(ids)s)
    UNION ALL
    SELECT id, monitoring_id::text FROM reports_report WHERE id = ANY(%(ids)s)
    UNION ALL
    SELECT report_id, id::text FROM checks_checkresult WHERE report_id = ANY(%(ids)s)
    UNION ALL
    SELECT report_id, id::text FROM references_reference
    WHERE report_id = ANY(%(ids)s)
    UNION ALL
    SELECT report_id, id::text FROM consents_consentrecord
    WHERE report_id = ANY(%(ids)s)
    UNION ALL
    SELECT report_id, id::text FROM decisions_decision WHERE report_id = ANY(%(ids)s)
    UNION ALL
    SELECT report_id, id::text FROM privacy_correction WHERE report_id = ANY(%(ids)s)
    UNION ALL
    SELECT report_id, id::text FROM monitoring_alert WHERE report_id = ANY(%(ids)s)
    UNION ALL
    SELECT report_id, id::text FROM webhooks_event WHERE report_id = ANY(%(ids)s)
) page (report_id, object_id)
JOIN reports_report report ON report.id = page.report_id
JOIN backoffice_auditevent act ON act.object_id = page.object_id
    AND act.created_at >= report.created_at
WHERE act.actor_kind = 'STAFF' AND (
    act.action LIKE '%%.revealed' OR act.action IN (
        'report.opened', 'report.pdf-taken', 'report.pdf-downloaded',
        'correction.document-read'
    )
)
GROUP BY report.id
"""

# The body may have gone out before these. A receiver that answers has it for certain,
# whatever the answer says.
SENT_ERRORS = (Attempt.Error.TIMED_OUT, Attempt.Error.BROKEN)

# Report, channel, recipient
Row = tuple[UUID, str, str]

_lock = threading.Lock()
# When this process recorded a row, oldest first
_recorded: dict[Row, float] = {}


class RecipientKind(StrEnum):
    """The way in which a recipient received a report."""

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


def record_disclosures(
    report_ids: Iterable[UUID], channel: Channel, recipient: str
) -> None:
    """Record that the recipient reads these reports, at most once an hour.

    Views call it for each answer that has a finding, a score or a person's words.
    `recipient` names a key or member as `Client.actor` does.
    """
    rows = [(one, channel.value, recipient[:100]) for one in set(report_ids)]
    due = sorted(row for row in rows if _is_due(row))
    if not due:
        return
    values: dict[str, Any] = {
        "ids": [uuid7() for _ in due],
        "reports": [row[0] for row in due],
        "channel": channel.value,
        "recipient": recipient[:100],
        "at": now(),
    }
    run_sql(RECORD, values)
    _remember(due)


def _is_due(row: Row) -> bool:
    """Return whether this process has not recorded the row within the hour."""
    with _lock:
        before = _recorded.get(row)
    return before is None or time.monotonic() - before >= INTERVAL_SECONDS


def _remember(rows: Iterable[Row]) -> None:
    with _lock:
        for row in rows:
            # The newest stands last.
            _recorded.pop(row, None)
            _recorded[row] = time.monotonic()
        while len(_recorded) > MOST_REMEMBERED:
            del _recorded[next(iter(_recorded))]


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
    sent = Attempt.objects.filter(
        Q(status_code__isnull=False) | Q(error__in=SENT_ERRORS),
        delivery__event__report_id__in=ids,
    ).exclude(delivery__name__in=Event.IMPERSONAL_NAMES)
    times: dict[tuple[UUID, str], list[datetime]] = defaultdict(list)
    rows = sent.annotate(report_id=F("delivery__event__report_id"))
    for report_id, url, at in rows.values_list("report_id", "url", "started_at"):
        times[report_id, urlsplit(url).hostname or ""].append(at)
    for (report_id, host), all_times in times.items():
        first, last = min(all_times), max(all_times)
        yield report_id, ReportRecipient(RecipientKind.WEBHOOK, first, last, host)


def _staff(ids: list[UUID]) -> Found:
    for report_id, first, last in run_sql(STAFF_READS, {"ids": ids}):
        yield report_id, ReportRecipient(RecipientKind.STAFF, first, last)
