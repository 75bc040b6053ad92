"""Replay the journal: erase and stop again what a restored backup has brought back.

A job does it every hour and at the start of a cluster, and `manage.py replay_erasures`
at once. It skips files that the database knows, and finishes unfinished erasures. The
job also writes the files for which the storage was away.
"""

import logging
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models.functions import Now

from verification.jobs.models import Job
from verification.jobs.names import JobName
from verification.jobs.queue import advisory_lock, beat, job
from verification.privacy import journal, objections, withdrawals
from verification.privacy.erasure import erase_person, finish_erasures
from verification.privacy.retention import (
    Cutoff,
    erase_before,
    finish_open_runs,
    finish_runs,
)
from verification.values.clock import now
from verification.web.log import error_name
from workspaces.models import Environment, Workspace

# Their arguments alone name the rules and reports that were stopped.
WRITERS = [JobName.WRITE_WITHDRAWAL, JobName.WRITE_OBJECTION]
logger = logging.getLogger(__name__)


@job
def replay_unknown() -> None:
    unwritten = Job.objects.given_up().filter(function__in=WRITERS)
    unwritten.update(gave_up_at=None, attempts=0, due_at=Now())
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
                why = error_name(e.__cause__ or e)
                logger.error("journal %s was not replayed: %s", name, why)
                failed += 1
        if is_mine:
            # The backup may be of a moment in the middle of them.
            finish_open_runs()
            finish_erasures(before=now())
    if done:
        logger.warning("%s files of the journal were replayed", done)
    return done, failed


def _carry_out(name: str) -> None:
    entry = journal.read(name)
    # A file of version 1.0.0 is about the retention of several workspaces.
    for part in entry["scopes"] if entry.get("scopes") else [entry]:
        # The workspace may be younger than the backup.
        workspace = Workspace.objects.filter(pk=UUID(part["workspace"])).first()
        if workspace is None:
            continue
        if "erasure" in part:
            journal.restore_erasure(part)
            erase_person(part["erasure"])
        elif "withdrawal" in part:
            withdrawals.repeat(part)
        elif "objection" in part:
            objections.repeat(part)
        elif "retention" in part:
            _restore_days(workspace, part)
            finish_runs([journal.restore_run(part)])
        else:
            _erase_scope(workspace, part)
            _restore_days(workspace, part)
    if journal.keys_since(entry) is not None:
        journal.mark_known(name)


def _erase_scope(workspace: Workspace, scope: dict[str, Any]) -> None:
    """Erase the reports that the backup shows as due then: the file names no ids."""
    before = datetime.fromisoformat(scope["before"])
    made_before = scope["madeBefore"] and datetime.fromisoformat(scope["madeBefore"])
    erase_before(Cutoff(workspace, scope["environment"], before, made_before))


def _restore_days(workspace: Workspace, part: dict[str, Any]) -> None:
    """Set the retention of the journal, which is newer than the backup."""
    days, is_sandbox = part["days"], part["environment"] == Environment.SANDBOX
    workspace.change_retention(
        workspace.retention_days if is_sandbox else days,
        days if is_sandbox else workspace.sandbox_retention_days,
    )
