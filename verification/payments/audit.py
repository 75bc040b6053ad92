"""The audit of the ledger: money against the things that it pays for.

`audit_rules` has the rules. The audit walks through the rows by the times in their ids,
a slice in each transaction: rows that were made or changed in a slice of time, with all
rows that a rule compares them with. So it needs little memory, and a killed job goes on
where it was.

`manage.py audit_ledger` walks through all rows. The job of the night walks through rows
that were created or changed since the last night (NIGHT). Then, until `ROUND_TIME` is
over, it walks through the older rows (ROUND): in a small database through all of them,
in a large one through a part each night, from where it stopped the night before. Each
walk sums up the entries of each account on its way, so no night reads old entries again
to compare a balance.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction

from verification.db.base import force_custom_plan, run_sql
from verification.db.ids import first_id_at, time_of_id
from verification.jobs.queue import advisory_lock, beat, job, schedule_job
from verification.payments.alerts import record_alert
from verification.payments.audit_rules import ACCOUNTS, DIFFERENCES, TOUCHED
from verification.payments.models import AuditWalk, LedgerAudit, OperatorAlertKind
from verification.values.clock import now

Difference = tuple[str, UUID, str]
MAX_SHOWN = 1000
# About this many changes of reports are in a slice.
SLICE_CHANGES = 20_000
# A job ends after this, so that others get its worker.
JOB_SECONDS = 20
# For old rows, counted from the start of the night's audit.
ROUND_TIME = timedelta(hours=1)
# Longer than any transaction, and than clocks differ: older rows are committed.
OVERLAP = timedelta(minutes=15)
BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
END = datetime(9999, 12, 31, tzinfo=UTC)
LAST_ID = UUID(int=2**128 - 1)

SLICE_END = """
SELECT id FROM reports_statuschange WHERE id >= %(first)s AND id < %(last)s
ORDER BY id OFFSET %(changes)s LIMIT 1
"""
ADD_TOTALS = """
INSERT INTO payments_audittotal AS t (walk_id, account_id, total)
SELECT %(walk)s, account_id, sum(amount) FROM workspaces_ledgerentry
WHERE id >= %(first)s AND id < %(last)s GROUP BY account_id
ON CONFLICT (walk_id, account_id) DO UPDATE SET total = t.total + excluded.total
"""
# Accounts whose balance is not the total of the walk with the entries since.
UNEQUAL_ACCOUNTS = """
SELECT a.id FROM workspaces_account a
LEFT JOIN payments_audittotal t ON t.account_id = a.id AND t.walk_id = %(walk)s
LEFT JOIN (
    SELECT account_id, sum(amount) AS total FROM workspaces_ledgerentry
    WHERE id >= %(first)s GROUP BY account_id
) e ON e.account_id = a.id
WHERE a.balance <> coalesce(t.total, 0) + coalesce(e.total, 0)
"""
# A machine whose clock is slow by more than `OVERLAP` makes ids that the walk misses.
RENEW_TOTALS = """
INSERT INTO payments_audittotal AS t (walk_id, account_id, total)
SELECT %(walk)s, account_id, sum(amount) FROM workspaces_ledgerentry
WHERE account_id = ANY(%(accounts)s) AND id < %(first)s GROUP BY account_id
ON CONFLICT (walk_id, account_id) DO UPDATE SET total = excluded.total
"""
# Checkouts that break a rule by the passing of time, and disputes that have ended: no
# index finds these by their time, and they are few.
OVERDUE = """
SELECT c.id FROM payments_checkout c JOIN reports_report p ON p.id = c.report_id
WHERE (c.is_counted OR c.is_part) AND c.accounted_at IS NULL
    AND c.payment_id IS NOT NULL AND p.completed_at < now() - interval '1 day'
UNION SELECT checkout_id FROM payments_dispute WHERE ended_at >= %(since)s
"""

COUNTS = """
SELECT (SELECT count(*) FROM workspaces_account),
    (SELECT count(*) FROM workspaces_ledgerentry),
    (SELECT count(*) FROM checks_checkresult),
    (SELECT count(*) FROM payments_checkout WHERE paid_at IS NOT NULL)
"""


@dataclass(frozen=True, slots=True)
class Audit:
    """The first MAX_SHOWN differences, and how many rows were compared."""

    differences: Sequence[Difference]
    accounts: int
    entries: int
    results: int
    paid_checkouts: int


def shown_number(differences: Sequence[Difference]) -> str:
    """Return the number of differences, with “or more” if not all are shown."""
    more = " or more" if len(differences) == MAX_SHOWN else ""
    return f"{len(differences)}{more}"


def audit_everything() -> Audit:
    """Compare all rows and record the outcome, which ends or raises alerts."""
    at = now()
    found: list[Difference] = []
    for start, stop in _slices(BEGINNING, END):
        found = _distinct([*found, *_compare(start, stop)])
    found += _compare_accounts(None)
    differences = _distinct(found)
    (counts,) = _select(COUNTS, {})
    LedgerAudit.objects.create(
        differences=len(differences), since=BEGINNING, all_since=at
    )
    return Audit(differences, *counts)


@job
def audit_nightly() -> None:
    """Begin the audit of this night, or go on with one that is under way."""
    _continue(begins=True)


@job
def continue_audit() -> None:
    """Go on with the audit of the night for `JOB_SECONDS`."""
    _continue(begins=False)


def _continue(*, begins: bool) -> None:
    with advisory_lock("audit of the ledger") as is_mine:
        if not is_mine:
            return
        if begins:
            _begin(now())
        is_done = _audit_until(time.monotonic() + JOB_SECONDS)
    if not is_done:
        schedule_job(continue_audit)


def _begin(at: datetime) -> None:
    night, round_ = _walks()
    with transaction.atomic():
        if night.until is None:
            night.since, night.until = night.read_to, at
            night.save()
        if round_.until is None:
            round_.totals.all().delete()
            round_.read_to, round_.since, round_.until = BEGINNING, at, night.until
            round_.save()


def _audit_until(stop_at: float) -> bool:
    """Go on with the audit until this time of the monotonic clock.

    Returns whether the audit of the night has ended.
    """
    while True:
        night, round_ = _walks()
        if night.until is None:
            return True
        has_time = now() < night.until + ROUND_TIME
        walk = next((w for w in (night, round_) if not w.is_complete), None)
        if walk is None or (walk is round_ and not has_time):
            _end_night(night, round_)
            return True
        # A round ends with the rows of its first night. Later nights add newer entries
        # to its totals.
        is_later = walk is night and (round_.until or night.until) < night.until
        _walk_on(walk, [night, round_] if is_later else [walk])
        if not beat() or time.monotonic() > stop_at:
            return False


def _walks() -> tuple[AuditWalk, AuditWalk]:
    night, round_ = (
        AuditWalk.objects.get_or_create(name=name, defaults={"read_to": BEGINNING})[0]
        for name in AuditWalk.Name.values
    )
    return night, round_


@transaction.atomic
def _walk_on(walk: AuditWalk, summed: Sequence[AuditWalk]) -> None:
    """Compare the next slice; save progress and differences in one transaction.

    Its entries are added to the totals of the walks `summed`.
    """
    assert walk.until  # noqa: S101
    start, stop = next(_slices(walk.read_to, walk.until))
    walk.remember(_distinct([*walk.differences, *_compare(start, stop)]))
    bounds = _ids_between(start, min(stop, _settled_at(walk)))
    for one in summed:
        run_sql(ADD_TOTALS, {"walk": one.pk, **bounds})
    walk.read_to = stop
    walk.save()


@transaction.atomic
def _end_night(night: AuditWalk, round_: AuditWalk) -> None:
    """Compare again what differed, and balances; record the outcome."""
    assert night.since  # noqa: S101
    ended = [walk for walk in (night, round_) if walk.is_complete]
    known = {pk for walk in (night, round_) for _, pk, _ in walk.differences}
    overdue = [pk for (pk,) in _select(OVERDUE, {"since": night.since})]
    found = _compare(BEGINNING, BEGINNING, [*known, *overdue])
    # The totals of all walks have the entries before this id.
    first = first_id_at(_settled_at(night))
    unequal = {
        pk
        for walk in ended
        for (pk,) in _select(UNEQUAL_ACCOUNTS, {"walk": walk.pk, "first": first})
    }
    found += _compare_accounts(list(unequal))
    differences = _distinct(found)
    values: dict[str, Any] = {"accounts": list(unequal), "first": first}
    for walk in ended:
        run_sql(RENEW_TOTALS, {"walk": walk.pk, **values})
    last = LedgerAudit.objects.order_by("-made_at").first()
    all_since = round_.since if round_ in ended else last.all_since if last else None
    LedgerAudit.objects.create(
        differences=len(differences), since=night.since, all_since=all_since
    )
    night.remember(differences)
    round_.remember([])
    for walk in ended:
        # After the clock was set back, new rows have ids of times that were read.
        walk.read_to = min(_settled_at(walk), now() - OVERLAP)
        walk.until = None
    night.save()
    round_.save()
    if differences:
        kind, pk, fault = differences[0]
        number = shown_number(differences)
        message = f"Differences: {number}. The first: {kind} {pk} {fault}"
        record_alert(OperatorAlertKind.LEDGER, f"{now():%Y-%m-%d}", message=message)


def _slices(start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Yield the bounds of slices with about `SLICE_CHANGES` changes of reports."""
    while start < end:
        bounds = {**_ids_between(start, end), "changes": SLICE_CHANGES}
        last = [pk for (pk,) in _select(SLICE_END, bounds)]
        # One millisecond may have more changes than a slice.
        least = start + timedelta(milliseconds=1)
        stop = min(end, max(least, time_of_id(last[0]))) if last else end
        yield start, stop
        start = stop


def _compare(
    start: datetime, stop: datetime, known: Sequence[UUID] = ()
) -> list[Difference]:
    """Compare rows created or changed between these times, and the known rows."""
    window = {"start": start, "stop": stop, "known": list(known)}
    touched = _select(TOUCHED, {**window, **_ids_between(start, stop)})[0]
    values = dict(zip(("reports", "checkouts", "entries"), touched, strict=True))
    return _select(DIFFERENCES, {**values, "limit": MAX_SHOWN})


def _compare_accounts(accounts: Sequence[UUID] | None) -> list[Difference]:
    """Compare balances of these accounts, or of all, and the other rows of ACCOUNTS."""
    return _select(ACCOUNTS, {"accounts": accounts, "limit": MAX_SHOWN})


@force_custom_plan()
@transaction.atomic
def _select(statement: str, values: dict[str, Any]) -> list[Any]:
    # A balance may have many entries, and the command has time.
    run_sql("SET LOCAL statement_timeout = 0")
    return run_sql(statement, values)


def _ids_between(start: datetime, stop: datetime) -> dict[str, UUID]:
    last = LAST_ID if stop == END else first_id_at(stop)
    return {"first": first_id_at(start), "last": last}


def _settled_at(walk: AuditWalk) -> datetime:
    """Return until when the walk's totals have all entries; the next begins there."""
    assert walk.since  # noqa: S101
    assert walk.until  # noqa: S101
    settled = walk.until - OVERLAP
    # After the clock was set back, a night may end before the one before.
    return settled if walk.name == AuditWalk.Name.ROUND else max(walk.since, settled)


def _distinct(differences: Iterable[Difference]) -> list[Difference]:
    return list(dict.fromkeys(differences))[:MAX_SHOWN]
