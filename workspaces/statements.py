"""The statement of a month: opening balance, entries, closing balance.

Months and times are those of Nairobi, as in the books and tax returns for which the
statement is made: a charge at 22:30 UTC on the 31st belongs to the next month.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection, transaction

from verification.db.base import run_sql
from verification.values.clock import now
from verification.values.local_time import NAIROBI
from workspaces.models import Account, LedgerEntry

# A month of a million entries takes a second or two.
TIMEOUT = "60s"
FETCHED = 5_000

# One index scan from the start of the month gives both the month and all since then.
# The opening balance is today's balance less that sum, without the history before it.
TOTALS = """
SELECT kind, count(*) FILTER (WHERE created_at < %(end)s),
    coalesce(sum(amount) FILTER (WHERE created_at < %(end)s), 0), sum(amount),
    max(created_at) FILTER (WHERE created_at < %(end)s)
FROM workspaces_ledgerentry
WHERE account_id = %(account)s AND created_at >= %(start)s
GROUP BY kind
"""
# Each line names its check, so only this statement about money reads check results.
LINES = """
SELECT e.id, e.created_at, e.kind, e.amount, e.report_id, coalesce(r.name, ''),
    e.note, e.actor, coalesce(d.display_name, '')
FROM workspaces_ledgerentry e
LEFT JOIN checks_checkresult r ON r.id = e.result_id
LEFT JOIN checks_checkdefinition d ON d.id = r.definition_id
WHERE e.account_id = %(account)s
    AND e.created_at >= %(start)s AND e.created_at < %(end)s
ORDER BY e.created_at, e.id
"""
# One read of the index for each month with entries, whatever their number.
MONTHS = """
WITH RECURSIVE months(start) AS (
    SELECT date_trunc('month', min(created_at), 'Africa/Nairobi')
    FROM workspaces_ledgerentry WHERE account_id = %(account)s
    UNION ALL
    SELECT date_trunc('month', (
        SELECT min(created_at) FROM workspaces_ledgerentry
        WHERE account_id = %(account)s
            AND created_at >= (start AT TIME ZONE 'Africa/Nairobi' + interval '1 month')
                AT TIME ZONE 'Africa/Nairobi'
    ), 'Africa/Nairobi')
    FROM months WHERE start IS NOT NULL
)
SELECT start FROM months WHERE start IS NOT NULL ORDER BY start DESC
"""


class Month(NamedTuple):
    year: int
    month: int

    @classmethod
    def parse(cls, text: str) -> Month:
        """Read a month like `2026-11`. Raises ValueError if it has not begun."""
        if not re.fullmatch(r"2[0-9]{3}-(0[1-9]|1[0-2])", text):
            raise ValueError(f"{text!r} is not a month such as 2026-11.")
        month = cls(int(text[:4]), int(text[5:]))
        if month.start > now():
            raise ValueError(f"{month} has not begun.")
        return month

    @classmethod
    def of(cls, moment: datetime) -> Month:
        moment = moment.astimezone(NAIROBI)
        return cls(moment.year, moment.month)

    def __str__(self) -> str:
        return f"{self.year}-{self.month:02}"

    @property
    def start(self) -> datetime:
        return datetime(self.year, self.month, 1, tzinfo=NAIROBI)

    @property
    def end(self) -> datetime:
        """The start of the next month."""
        years, month = divmod(self.month, 12)
        return datetime(self.year + years, month + 1, 1, tzinfo=NAIROBI)


class Total(NamedTuple):
    kind: LedgerEntry.Kind
    entries: int
    amount: Decimal


class Line(NamedTuple):
    id: UUID
    at: datetime
    kind: str
    amount: Decimal
    # The balance after the entry.
    balance: Decimal
    report_id: UUID | None
    check: str
    note: str
    actor: str
    check_name: str


@dataclass(frozen=True)
class Statement:
    account: Account
    month: Month
    opening: Decimal
    closing: Decimal
    # One for each kind of entry.
    totals: list[Total]
    # The month is not over, so `closing` is the balance so far.
    is_partial: bool
    # The end of the month, or the last entry of a partial one, in Nairobi's time.
    until: datetime

    @property
    def count(self) -> int:
        return sum(total.entries for total in self.totals)

    def lines(self) -> Iterator[Line]:
        """Yield the lines, oldest first, in the transaction of `open_statement`."""
        balance = self.opening
        with connection.chunked_cursor() as cursor:
            cursor.execute(LINES, _query_parameters(self.account, self.month))
            while rows := cursor.fetchmany(FETCHED):
                for pk, at, kind, amount, *rest in rows:
                    balance += amount
                    yield Line(pk, at, kind, amount, balance, *rest)


@contextmanager
def open_statement(account_id: UUID, month: Month) -> Iterator[Statement]:
    """Open a statement in one snapshot, which later charges do not change."""
    with transaction.atomic(durable=True):
        run_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        run_sql(f"SET LOCAL statement_timeout = '{TIMEOUT}'")
        yield _statement(account_id, month)


def months(account_id: UUID) -> list[Month]:
    """Return the months with entries, newest first."""
    return [Month.of(start) for (start,) in run_sql(MONTHS, {"account": account_id})]


def _statement(account_id: UUID, month: Month) -> Statement:
    account = Account.objects.select_related("workspace").get(pk=account_id)
    rows = {
        kind: row for kind, *row in run_sql(TOTALS, _query_parameters(account, month))
    }
    nothing = (0, Decimal(0), Decimal(0), None)
    sums = [(kind, *rows.get(kind, nothing)) for kind in LedgerEntry.Kind]
    opening = account.balance - sum(since for *_, since, _ in sums)
    totals = [Total(kind, count, amount) for kind, count, amount, *_ in sums]
    is_so_far = now() < month.end
    last = max((at for *_, at in sums if at), default=month.start)
    return Statement(
        account,
        month,
        opening,
        closing=opening + sum(total.amount for total in totals),
        totals=totals,
        is_partial=is_so_far,
        until=last.astimezone(NAIROBI) if is_so_far else month.end,
    )


def _query_parameters(account: Account, month: Month) -> dict[str, Any]:
    return {"account": account.pk, "start": month.start, "end": month.end}
