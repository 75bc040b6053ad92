"""The floor of a write: the same rows, under new ids, by COPY in one transaction."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

import psycopg

from verification.db.ids import uuid7

REPORTS = "SELECT id FROM reports_report WHERE workspace_id = %s"
# In the order in which foreign keys allow them.
TABLES = {
    "reports_report": f"id IN ({REPORTS})",
    "reports_searchentry": f"report_id IN ({REPORTS})",
    "checks_checkresult": f"report_id IN ({REPORTS})",
    "reports_statuschange": f"report_id IN ({REPORTS})",
    "consents_consent": f"report_id IN ({REPORTS})",
    "payments_payment": f"report_id IN ({REPORTS})",
    "workspaces_ledgerentry": f"report_id IN ({REPORTS})",
    "webhooks_event": f"report_id IN ({REPORTS})",
}
KEYS = "SELECT id FROM {} WHERE {}"
UUIDS = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")

Connection = psycopg.Connection[Any]


class Written:
    """All rows of a workspace that has made one request, ready to be copied again."""

    def __init__(self, db: Connection, workspace_id: UUID) -> None:
        self._db = db
        self._ids: list[bytes] = []
        self._tables: dict[str, bytes] = {}
        for table, where in TABLES.items():
            copy = f"COPY (SELECT * FROM {table} WHERE {where}) TO STDOUT"  # noqa: S608
            with db.cursor().copy(copy, [workspace_id]) as rows:
                if text := b"".join(bytes(part) for part in rows):
                    self._tables[table] = text
            if table != "reports_searchentry":
                keys = db.execute(KEYS.format(table, where), [workspace_id])
                self._ids += [str(key).encode() for (key,) in keys]
        self.count = sum(text.count(b"\n") for text in self._tables.values())
        self._next: dict[str, bytes] = {}
        self._rows: dict[str, list[list[str | None]]] = {}
        self.renew()

    def renew(self) -> None:
        """The same rows under new ids, as in time as they were."""
        new = {id: str(uuid7()).encode() for id in sorted(self._ids)}

        def renewed(match: re.Match[bytes]) -> bytes:
            return new.get(match[0], match[0])

        for table, text in self._tables.items():
            self._next[table] = UUIDS.sub(renewed, text)
            lines = self._next[table].decode().splitlines()
            self._rows[table] = [_fields(line) for line in lines]

    def copy_rows(self) -> None:
        """As a program does that has the rows and not yet their bytes."""
        with self._db.transaction(), self._db.cursor() as cursor:
            for table, rows in self._rows.items():
                with cursor.copy(f"COPY {table} FROM STDIN") as copy:
                    for row in rows:
                        copy.write_row(row)

    def copy_bytes(self) -> None:
        """The server's part alone."""
        with self._db.transaction(), self._db.cursor() as cursor:
            for table, text in self._next.items():
                with cursor.copy(f"COPY {table} FROM STDIN") as copy:
                    copy.write(text)


def _fields(line: str) -> list[str | None]:
    return [
        None if field == r"\N" else field.replace(r"\\", "\\")
        for field in line.split("\t")
    ]
