"""A source says that it has the answer to an inquiry: the check is due at once.

That is all a callback does. The check then asks the source, as it would have later.
"""

from __future__ import annotations

import logging

from django.db import transaction
from django.utils.timezone import now

from verification.checks.models import CheckResult, ResultStatus
from verification.checks.waking import wake_up
from verification.sources.models import Call, End

logger = logging.getLogger(__name__)


@transaction.atomic
def called_back(source: str, job: str) -> bool:
    """Note it once; False where it came before, or names nothing that we asked."""
    # A later job of the same inquiry has a number of its own behind the reference.
    names = [job, job.rpartition("-")[0]]
    calls = Call.objects.select_for_update().order_by("-id")
    call = calls.filter(source=source, reference__in=names).first()
    if call is None:
        logger.warning("%s called back about what it was not asked", source)
        return False
    if call.called_back_at is not None:
        return False
    at = now()
    Call.objects.filter(pk=call.pk).update(called_back_at=at)
    # One that is under way is made due when it is recorded that it has no answer.
    if call.end == End.NOT_YET:
        waiting = CheckResult.objects.filter(pk=call.result_id, claims=0)
        waiting.filter(status=ResultStatus.RUNNING).update(
            next_attempt_at=at, turn_at=at
        )
        wake_up()
    return True
