"""The standbys that follow the database, how far behind they are, and who waits."""

from typing import NamedTuple

from verification.db.base import run_sql

# Only what applies changes is a standby: pg_basebackup and pg_receivewal keep them, and
# so name no position that they applied. Subscribers of logical replication do, but they
# cannot take the database's place. Standbys can have the same name.
STANDBYS = """
SELECT application_name, count(*),
    extract(epoch FROM coalesce(max(replay_lag), '0'))::float,
    max(pg_wal_lsn_diff(
        CASE WHEN pg_is_in_recovery() THEN pg_last_wal_receive_lsn()
            ELSE pg_current_wal_lsn() END,
        replay_lsn
    ))::float
FROM pg_stat_replication r
WHERE state = 'streaming' AND replay_lsn IS NOT NULL AND NOT EXISTS (
    SELECT FROM pg_replication_slots
    WHERE active_pid = r.pid AND slot_type = 'logical'
)
GROUP BY 1
"""
# Everybody sees the sessions of the own role, and so those of web servers and jobs.
WAITING = """
SELECT coalesce(extract(epoch FROM max(clock_timestamp() - query_start)), 0)::float
FROM pg_stat_activity
WHERE datname = current_database() AND state = 'active' AND wait_event = 'SyncRep'
"""


class Standbys(NamedTuple):
    """The standbys of one name; the lags are those of the last of them."""

    name: str
    number: int
    lag_seconds: float
    # Unknown on a standby that follows an archive.
    lag_bytes: float | None


def read_standbys() -> list[Standbys]:
    """Return the standbys; a role without the rights of `pg_monitor` sees none."""
    return [Standbys(*row) for row in run_sql(STANDBYS)]


def writes_waiting_seconds() -> float:
    """Return how long a commit has waited for a synchronous standby; 0 if none does."""
    return float(run_sql(WAITING)[0][0])
