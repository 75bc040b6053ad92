"""The console's list of API requests among a million of one workspace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from benchmarks.figures import Figure, bench, timed
from benchmarks.service import Service, create_client
from workspaces import keys
from workspaces.api_requests import ApiRequestFilters, list_api_requests
from workspaces.models import ApiRequest

PAGE = 21
# One request in 50 is refused, in 100,000 in error. Ids hold times of the last 29 days.
FILL = """
INSERT INTO workspaces_apirequest (id, key_id, method, route, status, problem,
    reasons, duration_ms, given_id)
SELECT (lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint
        - n * (29 * 86400000::bigint / %(rows)s)), 12, '0')
        || '7' || substr(md5(n::text), 1, 3) || '8' || substr(md5(n::text), 4, 15)
    )::uuid,
    CASE WHEN n %% 100 = 0 THEN %(rare)s ELSE %(key)s END, 'GET',
    CASE WHEN n %% 5000 = 0 THEN 'api/v1/reports/quote' ELSE 'api/v1/reports' END,
    CASE WHEN n %% 100000 = 1 THEN 500 WHEN n %% 50 = 3 THEN 400 ELSE 200 END,
    CASE WHEN n %% 100000 = 1 THEN 'internal-error'
        WHEN n %% 50 = 3 THEN 'validation-failed' ELSE '' END,
    '{}', 12, md5(n::text)
FROM generate_series(1, %(rows)s) AS n
"""
FILTERS: dict[str, ApiRequestFilters] = {
    "newest": ApiRequestFilters(),
    "refused (2 %)": ApiRequestFilters(first_status=400, last_status=499),
    "in error (0.001 %)": ApiRequestFilters(first_status=500, last_status=599),
    "a problem that nobody had": ApiRequestFilters(problem="overloaded"),
    "a rare address": ApiRequestFilters(route="api/v1/reports/quote"),
    "refused at a rare address": ApiRequestFilters(
        first_status=400, last_status=499, route="api/v1/reports/quote"
    ),
    "an unknown request id": ApiRequestFilters(request_id="unknown"),
}


@bench(rows=2_000, rounds=2)
def api_requests(
    service: Service, rows: int = 1_000_000, rounds: int = 20
) -> Iterator[Figure]:
    client, _ = create_client()
    issued = [
        keys.issue(client.workspace, environment="sandbox", name=name)[0].pk
        for name in ("often", "rare")
    ]
    values = {"rows": rows, "key": issued[0], "rare": issued[1]}
    with service.connect() as db:
        db.execute(FILL, values)
        db.execute("VACUUM ANALYZE workspaces_apirequest")
    for what, filters in FILTERS.items():
        yield _figure(what, issued, rounds, filters=filters)
    yield _figure("a rare key", issued[1:], rounds, filters=ApiRequestFilters())
    middle = ApiRequest.objects.filter(key=issued[0]).order_by("id")[rows // 2].pk
    yield _figure(
        "far behind", issued, rounds, filters=ApiRequestFilters(), before=middle
    )
    with service.connect() as db:
        db.execute("TRUNCATE workspaces_apirequest")


def _figure(what: str, issued: list[UUID], rounds: int, **given: Any) -> Figure:
    samples = [
        timed(lambda: list_api_requests(issued, size=PAGE, **given))
        for _ in range(rounds + 1)
    ]
    return Figure(what, samples[1:], target=60)
