"""Forgetting alerts when their workspace's time of keeping is over."""

from __future__ import annotations

from verification.jobs.sweeping import in_steps

DELETE = """
DELETE FROM monitoring_alert WHERE id IN (
    SELECT a.id FROM monitoring_alert a JOIN workspaces_workspace w
        ON w.id = a.workspace_id
    WHERE a.created_at < statement_timestamp() - w.retention_days * interval '1 day'
        -- None keeps them for less: this much is found by the index.
        AND a.created_at < statement_timestamp() - interval '1 day'
            * (SELECT min(retention_days) FROM workspaces_workspace)
    LIMIT %(limit)s FOR UPDATE OF a SKIP LOCKED
)
"""


def purge() -> None:
    in_steps(DELETE)
