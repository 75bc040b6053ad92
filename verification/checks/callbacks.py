"""Callbacks: a source has the answer to an inquiry, and its check is due at once.

The check then calls the source, as it would have done later. If only the callback has
the answer, its sealed body is stored until the check has read it.
"""

import logging
from datetime import datetime, timedelta

from django.db import transaction

from verification.checks.due_checks import wake_up
from verification.checks.models import CheckResult, ResultStatus
from verification.jobs.claims import update_in_batches
from verification.jobs.queue import job
from verification.providers.base import Callback
from verification.reports.status import locked_reports
from verification.sources.models import Call, CallOutcome
from verification.values.clock import now

logger = logging.getLogger(__name__)

# Checks read their answers within seconds, unless they were stopped.
ANSWER_RETENTION = timedelta(days=1)


@transaction.atomic
def record_callback(source: str, job: str) -> bool:
    """Record a callback once; return False if it is a repetition or names no call."""
    # A later job of the same inquiry has a number of its own behind the reference.
    names = [job, job.rpartition("-")[0]]
    calls = Call.objects.select_for_update().order_by("-id")
    call = calls.filter(source=source, reference__in=names).first()
    if call is None:
        logger.warning("callback of %s names no inquiry of ours", source)
        return False
    if call.called_back_at is not None:
        return False
    at = now()
    Call.objects.filter(pk=call.pk).update(called_back_at=at)
    _make_due(call, at)
    return True


@transaction.atomic
def store_answer(source: str, callback: Callback) -> bool:
    """Store the first answer to an open call, for its check to read.

    Returns False for a second answer, and for one that comes too late.
    """
    calls = Call.objects.filter(
        source=source, reference=callback.reference, tries=callback.attempt - 1
    )
    # Locked, so that an erasure comes before the answer or erases it.
    about = calls.order_by("-id").values_list("result__report", flat=True).first()
    report = locked_reports().filter(pk=about).first() if about else None
    if report and report.erased_at:
        return False
    newest = calls.select_for_update(of=("self",)).select_related("result")
    call = newest.order_by("-id").first()
    if call is None or call.job not in {"", callback.job}:
        logger.warning("callback of %s names no inquiry of ours", source)
        return False
    # Read after the lock: another callback may have been faster.
    is_first = not calls.exclude(called_back_at=None).exists()
    is_open = call.end in {CallOutcome.UNDER_WAY, CallOutcome.NOT_YET} and (
        call.result.status,
        call.result.attempt,
    ) == (ResultStatus.RUNNING, call.attempt)
    if not is_first or not is_open:
        return False
    call.called_back_at, call.answer = now(), callback.body
    call.save(update_fields=["called_back_at", "answer"])
    _make_due(call, call.called_back_at)
    return True


@job
def erase_unread_answers() -> None:
    """Erase answers that no check will read, as it ended or waits for another call."""
    before = now() - ANSWER_RETENTION
    unread = Call.objects.filter(answer__isnull=False, called_back_at__lt=before)
    update_in_batches(unread, answer=None)


def _make_due(call: Call, at: datetime) -> None:
    """Make the check of a call due, unless a worker is running it.

    The worker makes it due itself when it records that there is no answer yet.
    """
    if call.end == CallOutcome.NOT_YET:
        waiting = CheckResult.every.filter(pk=call.result_id, claims=0)
        waiting.filter(status=ResultStatus.RUNNING).update(
            next_attempt_at=at, turn_at=at
        )
        wake_up()
