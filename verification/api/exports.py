"""Exports: the rows of a period as a file, oldest first, sent while it is made.

The line of a JSON Lines file is the object that the API answers with elsewhere, and the
row of a CSV file has chosen members of it.
"""

import csv
import io
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from itertools import chain
from threading import Lock
from typing import Annotated, Any, Literal
from uuid import UUID
from weakref import WeakSet

import orjson
from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from pydantic import Field
from rest_framework.decorators import action
from rest_framework.request import Request

from verification.api.content import JSON_LINES, JsonOnlyNegotiation, to_json
from verification.api.export_kinds import (
    ALERTS,
    AUDIT_TRAIL,
    DECISIONS,
    REPORTS,
    RESULTS,
    AuditEventBody,
    ExportedResult,
    Item,
    Kind,
    members_at,
)
from verification.api.monitoring import AlertBody
from verification.api.operations import OperationViewSet, operation
from verification.api.problems import rate_limited, wrong_member
from verification.api.report_shapes import DecisionBody, ReportBody
from verification.backoffice import audit
from verification.privacy.disclosures import record_disclosures
from verification.privacy.models import Channel
from verification.values import formats
from verification.values.clock import now
from verification.values.formats import escape_formula
from verification.values.shapes import Shape, enumeration
from verification.web.request import current_request_id, request_id
from workspaces.models import Client, Environment, Scope, Workspace

MAX_DAYS = 366
# Exports of an environment under way in a process: all share its gateway's threads.
EXPORTS_AT_ONCE = 2
RETRY_SECONDS = 60
MEDIA_TYPES = {"csv": "text/csv", "jsonl": JSON_LINES}


class PeriodTooLong(Exception):
    """The period has more than MAX_DAYS days, or ends before it begins."""


@dataclass(frozen=True, slots=True)
class Period:
    """Days in `zone`, both included."""

    first: date
    last: date
    zone: tzinfo = UTC

    def __post_init__(self) -> None:
        if not 0 <= (self.last - self.first).days < MAX_DAYS:
            raise PeriodTooLong

    @property
    def start(self) -> datetime:
        return datetime.combine(self.first, time(), self.zone)

    @property
    def end(self) -> datetime:
        """The end of the last day, or now: what comes later is not awaited."""
        # The day after 9999-12-31 has no name.
        last = min(self.last, date(9999, 12, 30))
        midnight = datetime.combine(last + timedelta(days=1), time(), self.zone)
        return min(midnight, now())

    def __str__(self) -> str:
        return f"{self.first} to {self.last}"


class TooManyExports(Exception):
    """EXPORTS_AT_ONCE of the environment are under way."""


class ExportResponse(StreamingHttpResponse):
    # The gateway makes its pieces in threads of their own.
    is_long = True
    where: tuple[UUID, str]


_running: WeakSet[ExportResponse] = WeakSet()
_running_lock = Lock()


@dataclass(frozen=True, slots=True)
class Export:
    """One export: who gets what, of which period."""

    kind: Kind
    client: Client
    period: Period
    format: str
    """A key of MEDIA_TYPES."""
    actor: audit.Actor
    channel: Channel
    masked: bool = False
    reason: str = ""

    def response(self) -> ExportResponse:
        """Start the export and return its file. Raises TooManyExports.

        The first page is read here, where an error of the database becomes a problem.
        """
        name = f"{self.kind.name}-{self.period.first}-{self.period.last}"
        answer = ExportResponse(
            content_type=f"{MEDIA_TYPES[self.format]}; charset=utf-8",
            headers={
                "Content-Disposition": f'attachment; filename="{name}.{self.format}"'
            },
        )
        answer.where = self.client.where
        with _running_lock:
            running = [one.where for one in _running if not one.closed]
            if running.count(answer.where) >= EXPORTS_AT_ONCE:
                raise TooManyExports
            _running.add(answer)
        try:
            pages = self.kind.read(self.client, self.period.start, self.period.end)
            first = next(pages, [])
            self._record("export.started")
        except BaseException:
            # Nobody else closes it, and its traceback may keep it.
            answer.closed = True
            raise
        answer.streaming_content = self._pieces(
            chain([first], pages), current_request_id()
        )
        return answer

    def _pieces(self, pages: Iterable[list[Any]], id: str) -> Iterator[bytes]:
        rows, is_whole = 0, False
        try:
            if self.format == "csv":
                # By the mark spreadsheets know UTF-8; programs would read it as text.
                mark = BOM_UTF8 if self.channel == Channel.CONSOLE else b""
                yield mark + _csv_text([self.kind.columns])
            for page in pages:
                shapes = self.kind.render(self.client, page)
                disclosed = self.kind.disclosed(page, shapes)
                record_disclosures(disclosed, self.channel, self.client.actor)
                rows += len(shapes)
                if shapes:
                    yield self._text(shapes)
            is_whole = True
        finally:
            # The request has ended for the middleware that knows its id.
            token = request_id.set(id)
            self._record(
                "export.ended",
                f"{rows} rows" if is_whole else f"left after {rows} rows",
            )
            request_id.reset(token)

    def _text(self, shapes: list[Shape]) -> bytes:
        if self.format == "jsonl" and not self.masked:
            return b"".join(to_json(shape) + b"\n" for shape in shapes)
        items = [shape.model_dump(mode="json", by_alias=True) for shape in shapes]
        if self.masked:
            items = [self.kind.mask(item) for item in items]
        if self.format == "jsonl":
            return b"".join(orjson.dumps(item) + b"\n" for item in items)
        return _csv_text(
            [[_cell(item, path) for path in self.kind.columns] for item in items]
        )

    def _record(self, act: str, *more: str) -> None:
        """Write in the audit trail who exports what, of which period, and why."""
        shown = "masked" if self.masked else "in full"
        facts = [self.kind.name, str(self.period), self.format, shown, *more]
        audit.record(
            act,
            self.actor,
            self.client.workspace,
            fields=[self.kind.name],
            reason=": ".join(filter(None, [", ".join(facts), self.reason])),
        )


def _csv_text(rows: Iterable[Sequence[str]]) -> bytes:
    file = io.StringIO(newline="")
    csv.writer(file).writerows(rows)
    return file.getvalue().encode()


def _cell(item: Item, path: str) -> str:
    """Return the cell of a member so that no spreadsheet takes it for a formula."""
    if "." not in path:
        return escape_formula(_text_of(item[path]))
    values = members_at(item, path.split("."))
    return escape_formula(", ".join(filter(None, map(_text_of, values))))


def _text_of(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    is_list = isinstance(value, list)
    if isinstance(value, dict) or (is_list and any(isinstance(v, dict) for v in value)):
        return orjson.dumps(value).decode()
    return ", ".join(map(str, value)) if is_list else str(value)


ExportFormat = Annotated[
    Literal["csv", "jsonl"], enumeration("ExportFormat", MEDIA_TYPES)
]


class ExportQuery(Shape):
    """Days are in UTC and both ends count."""

    from_: Annotated[formats.Date, Field(alias="from")]
    """First day, in UTC."""
    to: formats.Date
    """Last day, in UTC: not before `from`, and at most 366 days in all."""
    format: ExportFormat = "csv"
    """`csv`: chosen members, for a spreadsheet. `jsonl`: JSON Lines, all members."""

    def period(self) -> Period:
        first, last = map(date.fromisoformat, (self.from_, self.to))
        try:
            return Period(first, last)
        except PeriodTooLong:
            detail = f"A day from “from” on, with {MAX_DAYS} days at most, is needed."
            raise wrong_member("out-of-range", detail, parameter="to") from None


class ExportNegotiation(JsonOnlyNegotiation):
    sent = (*MEDIA_TYPES.values(), *JsonOnlyNegotiation.sent)


def _export(name: str, summary: str, scope: Scope, line: type[Shape]) -> Any:
    return operation(
        name,
        summary,
        scope=scope,
        query=ExportQuery,
        answer=OpenApiTypes.STR,
        media_type=MEDIA_TYPES["csv"],
        line=line,
        rate_bucket="exports",
    )


class ExportViewSet(OperationViewSet):
    """Files with the rows of a period, oldest first. They are sent while they are made.

    Each export is in the audit trail. A key may make ten in a minute, and an
    environment two at once.
    """

    http_method_names = ["get"]
    content_negotiation_class = ExportNegotiation

    @action(detail=False, methods=["get"])
    @_export("exportReports", "Export reports", Scope.REPORTS_READ, ReportBody)
    def reports(self, request: Request) -> ExportResponse:
        """Export the reports that were created in a period.

        A line of JSON Lines is the report as `GET /reports/{reportId}` answers it.
        """
        return self._export(REPORTS)

    @action(detail=False, methods=["get"])
    @_export("exportResults", "Export results", Scope.REPORTS_READ, ExportedResult)
    def results(self, request: Request) -> ExportResponse:
        """Export the check results of the reports that were created in a period."""
        return self._export(RESULTS)

    @action(detail=False, methods=["get"])
    @_export("exportDecisions", "Export decisions", Scope.REPORTS_READ, DecisionBody)
    def decisions(self, request: Request) -> ExportResponse:
        """Export the decisions and proposals that were made in a period."""
        return self._export(DECISIONS)

    @action(detail=False, methods=["get"])
    @_export("exportAlerts", "Export alerts", Scope.MONITORING_READ, AlertBody)
    def alerts(self, request: Request) -> ExportResponse:
        """Export the alerts that monitoring raised in a period."""
        return self._export(ALERTS)

    @action(detail=False, methods=["get"], url_path=AUDIT_TRAIL.name)
    @_export(
        "exportAuditTrail", "Export the audit trail", Scope.AUDIT_READ, AuditEventBody
    )
    def audit_trail(self, request: Request) -> ExportResponse:
        """Export what members, keys and our staff did in your workspace in a period.

        What a key does to a report is in the report's timeline, but for its decisions.
        It is the trail of both environments. In a workspace that is live, a test key
        gets it without names and addresses. New keys have the scope `audit:read` only
        if you name it.
        """
        is_live = self.client.workspace.go_live == Workspace.GoLive.APPROVED
        is_test = self.client.environment == Environment.SANDBOX
        return self._export(AUDIT_TRAIL, masked=is_live and is_test)

    def _export(self, kind: Kind, *, masked: bool = False) -> ExportResponse:
        made = Export(
            kind,
            self.client,
            self.query.period(),
            self.query.format,
            self.actor,
            Channel.API,
            masked,
        )
        try:
            return made.response()
        except TooManyExports:
            detail = f"{EXPORTS_AT_ONCE} exports of the environment are under way."
            raise rate_limited(detail, RETRY_SECONDS) from None
