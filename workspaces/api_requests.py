"""Lists of a client's requests to the API, for its developers, and their purge.

`verification/web/request_records.py` writes the rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from verification.db.base import force_custom_plan, run_sql
from verification.db.ids import first_id_at
from verification.jobs.queue import job
from verification.values.clock import now
from workspaces.models import ApiRequest

RETENTION = timedelta(days=30)
# Weeks that have their partition before they come, should the jobs stand still.
AHEAD = timedelta(days=14)
# Each key has its newest rows at one end of an index.
NEWEST = """
SELECT request.id FROM unnest(%(keys)s::uuid[]) AS k(id) CROSS JOIN LATERAL (
    SELECT id FROM workspaces_apirequest
    WHERE key_id = k.id AND {conditions} ORDER BY id DESC LIMIT %(size)s
) request
ORDER BY request.id DESC LIMIT %(size)s
"""


@dataclass(frozen=True, slots=True)
class ApiRequestFilters:
    """The filters of the list; `until` is not included."""

    first_status: int | None = None
    last_status: int | None = None
    problem: str | None = None
    route: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    request_id: str | None = None

    def conditions(self) -> dict[str, Any]:
        """Return each condition that holds, with its value."""
        given = {
            "status >= {}": self.first_status,
            "status <= {}": self.last_status,
            "problem = {} AND problem <> ''": self.problem,
            "hashtext(route) = hashtext({0}) AND route = {0}": self.route,
            "id >= {}": first_id_at(self.since) if self.since else None,
            "id < {}": first_id_at(self.until) if self.until else None,
            self._has_request_id: self.request_id,
        }
        return {sql: value for sql, value in given.items() if value is not None}

    @property
    def _has_request_id(self) -> str:
        given = "given_id = {0} AND given_id <> ''"
        try:
            is_uuid = str(UUID(self.request_id or "")) == self.request_id
        except ValueError:
            return given
        # Of the service or of the client: it may use UUIDs as well.
        return f"({given} OR id = {{0}}::text::uuid)" if is_uuid else given


@force_custom_plan()
def list_api_requests(
    keys: Sequence[UUID],
    filters: ApiRequestFilters,
    *,
    before: UUID | None = None,
    size: int,
) -> list[ApiRequest]:
    """Return the newest requests with these keys; `before` continues after its row.

    A list of very many rows is not counted, and a further page costs what the first
    costs.
    """
    oldest_kept = first_id_at(now() - RETENTION)
    given = {"id >= {}": oldest_kept, **filters.conditions()}
    if before:
        given["id < {}  "] = before
    names = {sql: f"value_{number}" for number, sql in enumerate(given)}
    conditions = " AND ".join(sql.format(f"%({name})s") for sql, name in names.items())
    values = {names[sql]: value for sql, value in given.items()}
    sql = NEWEST.format(conditions=conditions)
    ids = [id for (id,) in run_sql(sql, {"keys": list(keys), "size": size, **values})]
    found = ApiRequest.objects.select_related("key").in_bulk(ids)
    return [found[id] for id in ids if id in found]


@job
def purge_api_requests() -> None:
    """Drop the partitions of weeks that ended before RETENTION, and make the next ones.

    The list hides older rows of a week that is still kept.
    """
    at = now()
    run_sql("SELECT keep_api_requests(%s, %s)", [at - RETENTION, at + AHEAD])
