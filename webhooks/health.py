"""Count a receiver's failures: notify members, open its breaker, disable it."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import takewhile

from django.conf import settings
from django.db.models import QuerySet

from verification.db import breaker
from verification.db.base import run_sql
from verification.jobs.queue import job, schedule_job
from verification.notifications.models import Kind
from verification.values.local_time import utc_text
from webhooks.models import Attempt, Configuration
from webhooks.sender import Answer
from workspaces.member_messages import notify_members
from workspaces.models import MemberMessage

GONE = 410
# The service notifies members at this failure in a row.
NOTIFIES_AT = 4
# A configuration is disabled after both this time and this number of failures in a row.
DISABLE_AFTER = timedelta(days=5)
MIN_FAILURES_TO_DISABLE = 10

# `updated_at` changes with the URL: failures of an earlier URL do not count.
COUNT_FAILURES = f"""
UPDATE webhooks_configuration
SET failing_since = COALESCE(failing_since, %(at)s), {breaker.COUNT_FAILURES}
WHERE id = %(id)s AND updated_at = %(updated_at)s
RETURNING failures_in_row, failing_since
"""  # noqa: S608


def record_answers(ended: Iterable[tuple[Configuration, Answer]], at: datetime) -> None:
    """Count the failures and successes of these answers, in their order."""
    by_configuration: dict[Configuration, list[Answer]] = defaultdict(list)
    for configuration, answer in ended:
        # The service could not read the event: the receiver has not failed.
        if answer.error != Attempt.Error.UNREADABLE:
            by_configuration[configuration].append(answer)
    # Sorted, so that two recordings never deadlock.
    for configuration in sorted(by_configuration, key=lambda c: c.pk):
        answers = by_configuration[configuration]
        last = takewhile(lambda a: not a.is_acknowledgement, reversed(answers))
        failed = len(list(last))
        if failed < len(answers):
            # Filtered in the database: the row may have changed since the claim.
            failing = _unless_replaced(configuration).filter(failures_in_row__gt=0)
            failing.update(**breaker.CLOSED, failing_since=None)
        if failed:
            _count_failures(configuration, failed, at)
        if any(answer.status_code == GONE for answer in answers):
            _disable(configuration, Configuration.DisabledReason.GONE, at)


def _count_failures(configuration: Configuration, failures: int, at: datetime) -> None:
    values = {"id": configuration.pk, "updated_at": configuration.updated_at}
    rows = run_sql(COUNT_FAILURES, {**values, "failures": failures, "at": at})
    for in_row, since in rows:
        if in_row - failures < NOTIFIES_AT <= in_row:
            schedule_job(notify_failing, configuration.pk)
        if in_row >= MIN_FAILURES_TO_DISABLE and since <= at - DISABLE_AFTER:
            _disable(configuration, Configuration.DisabledReason.FAILING, at)


def _disable(
    configuration: Configuration, reason: Configuration.DisabledReason, at: datetime
) -> None:
    """Disable the configuration. Its deliveries wait until it is enabled again."""
    disabled = _unless_replaced(configuration, enabled=True).update(
        enabled=False, disabled_at=at, disabled_reason=reason, updated_at=at
    )
    if disabled:
        schedule_job(notify_disabled, configuration.pk)


def _unless_replaced(
    configuration: Configuration, **filters: bool
) -> QuerySet[Configuration]:
    return Configuration.objects.filter(
        pk=configuration.pk, updated_at=configuration.updated_at, **filters
    )


@job
def notify_failing(configuration_id: str) -> None:
    """Notify members of failures, unless the receiver has recovered since."""
    configuration = _find_configuration(configuration_id)
    if configuration and configuration.failing_since:
        _notify_members(
            configuration, Kind.WEBHOOK_FAILING, configuration.failing_since
        )


@job
def notify_disabled(configuration_id: str) -> None:
    """Notify members that the service disabled it, unless it is enabled again."""
    configuration = _find_configuration(configuration_id)
    if configuration and configuration.disabled_at:
        _notify_members(configuration, Kind.WEBHOOK_DISABLED, configuration.disabled_at)


def _find_configuration(configuration_id: str) -> Configuration | None:
    found = Configuration.objects.select_related("workspace")
    return found.filter(pk=configuration_id).first()


def _notify_members(configuration: Configuration, kind: Kind, since: datetime) -> None:
    failing_since = configuration.failing_since
    kind_label = kind.lower().replace("_", "-")
    notify_members(
        configuration.workspace,
        configuration.environment,
        MemberMessage.WEBHOOK,
        kind,
        f"{kind_label}:{configuration.pk}:{utc_text(since)}",
        {
            "environment": configuration.environment,
            "url": configuration.url,
            "failures": configuration.failures_in_row,
            "failingSince": utc_text(failing_since) if failing_since else None,
            "reason": configuration.disabled_reason,
            "docs": f"{settings.BASE_URL}/docs/webhooks#when-it-is-not-received",
        },
    )
