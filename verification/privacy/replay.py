"""Replay the journal: erase again what a restored backup has brought back.

A job does it every hour and at the start of a cluster, and `manage.py replay_erasures`
at once. Files that the database knows change nothing.
"""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Any
from uuid import UUID

from verification.jobs.queue import advisory_lock, beat, job
from verification.privacy import journal
from verification.privacy.erasure import erase_person, restore_erasure
from verification.privacy.retention import Cutoff, erase_before
from workspaces.models import Environment, Workspace

logger = logging.getLogger(__name__)


@job
def replay_unknown() -> None:
    replay()


def replay() -> tuple[int, int]:
    """Carry out the files that the database does not know; return done and failed."""
    done = failed = 0
    with advisory_lock("replay") as is_mine:
        for name in journal.unknown_names() if is_mine else []:
            if not beat():
                break
            try:
                _carry_out(name)
                done += 1
            except Exception as e:
                # The next run tries it again.
                logger.error("journal %s was not replayed: %s", name, type(e).__name__)
                failed += 1
    if done:
        logger.warning("%s files of the journal were replayed", done)
    return done, failed


def _carry_out(name: str) -> None:
    entry = journal.read(name)
    if "erasure" in entry:
        if _workspace(entry) is not None:
            restore_erasure(entry)
            erase_person(entry["erasure"])
    else:
        for scope in entry["scopes"]:
            _erase_scope(scope)
    journal.mark_known(name)


def _erase_scope(scope: dict[str, Any]) -> None:
    """Erase what the run erased, whatever retention the backup has brought back."""
    workspace = _workspace(scope)
    if workspace is None:
        return
    environment, before = scope["environment"], datetime.fromisoformat(scope["before"])
    made_before = scope["madeBefore"] and datetime.fromisoformat(scope["madeBefore"])
    erase_before(Cutoff(workspace, environment, before, made_before))
    # The journal is newer than the backup.
    is_sandbox = environment == Environment.SANDBOX
    workspace.change_retention(
        workspace.retention_days if is_sandbox else scope["days"],
        scope["days"] if is_sandbox else workspace.sandbox_retention_days,
    )


def _workspace(entry: dict[str, Any]) -> Workspace | None:
    """Return the workspace; None if it is younger than the backup."""
    return Workspace.objects.filter(pk=UUID(entry["workspace"])).first()
