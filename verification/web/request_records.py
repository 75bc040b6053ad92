"""Records of API requests, for the developers of clients.

Each web process has a buffer and a thread that writes it, so that no answer waits for
a record. While the database is away, or requests come faster than it takes their
records, records are dropped and counted.
"""

import logging
import threading
from collections import deque
from uuid import UUID

from django.db import close_old_connections, connection
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from verification.db.bulk_insert import Row, Rows, insert
from verification.web import metrics
from verification.web.request import API_KEY
from workspaces.models import ApiRequest

BATCH_SIZE = 200
PAUSE_SECONDS = 1.0
# Some seconds of the requests that a process can answer.
MAX_WAITING = 5_000
MAX_REASONS = 5

log = logging.getLogger("verification.web.requests")


class RecordWriter:
    """The buffer of a process and, once it serves, the thread that writes it."""

    def __init__(self) -> None:
        self._rows: deque[Row] = deque()
        self._is_full = threading.Event()
        self._starting = threading.Lock()
        self._serves = False
        self._thread: threading.Thread | None = None
        self._fails = False

    def serve(self) -> None:
        """Let the first record start the thread: in the process that serves, after the
        server has forked it."""
        self._serves = True

    def add(self, row: Row) -> None:
        if len(self._rows) >= MAX_WAITING:
            metrics.dropped_records.inc()
            return
        self._rows.append(row)
        if self._serves and self._thread is None:
            with self._starting:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="records")
                    self._thread.start()
        if len(self._rows) >= BATCH_SIZE:
            self._is_full.set()

    def clear(self) -> None:
        self._rows.clear()

    def flush(self) -> None:
        """Write the waiting records by the connection of the calling thread.

        If the database does not take a batch, the batch is dropped, and the others
        wait.
        """
        while self._rows:
            size = min(len(self._rows), BATCH_SIZE)
            rows = [self._rows.popleft() for _ in range(size)]
            try:
                insert(Rows(ApiRequest, rows))
            except Exception as e:
                # A thread that ended would leave the process without records.
                connection.close()
                metrics.dropped_records.inc(len(rows))
                if not self._fails:
                    log.warning("records of requests are dropped: %s", type(e).__name__)
                self._fails = True
                return
            if self._fails:
                log.warning("records of requests are written again")
            self._fails = False

    def _run(self) -> None:
        # The interpreter waits for this thread when the main thread has ended.
        main = threading.main_thread()
        while main.is_alive():
            self._is_full.wait(PAUSE_SECONDS)
            self._is_full.clear()
            close_old_connections()
            self.flush()
        self.flush()
        connection.close()


writer = RecordWriter()


def record_request(
    request: HttpRequest, response: HttpResponseBase, method: str, seconds: float
) -> None:
    """Record a request with an API key of a client.

    Requests without a known key belong to no workspace. The security log counts them.
    """
    key = request.META.get(API_KEY)
    match = request.resolver_match
    if key is None or match is None:
        return
    problem = getattr(response, "problem", None)
    report_id = match.kwargs.get("reportId")
    id, own_id = request.id, request.own_id  # type: ignore[attr-defined]
    writer.add(
        {
            "id": own_id,
            "key_id": key.pk,
            "method": method,
            "route": match.route[:100],
            "report_id": report_id if isinstance(report_id, UUID) else None,
            "status": response.status_code,
            "problem": problem.kind.code if problem else "",
            "reasons": problem.reasons[:MAX_REASONS] if problem else [],
            "duration_ms": round(seconds * 1000),
            "given_id": "" if id == str(own_id) else id,
        }
    )
