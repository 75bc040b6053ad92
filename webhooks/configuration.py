"""Configure the receiver of a workspace's events, one for each environment."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import transaction

from verification.backoffice import audit
from verification.db import breaker
from verification.db.base import run_sql
from verification.jobs.names import JobName
from verification.jobs.queue import schedule_job
from verification.values.clock import now
from webhooks.models import Configuration, DeliveryStatus, SimulatedAnswer
from workspaces.models import Environment

# For this long a replaced secret signs together with the new one.
SECRET_OVERLAP = timedelta(hours=24)
# Every attempt is signed with each of them, and its header must not grow too long.
MOST_OLDER = 3
HEALTHY_STATE: dict[str, Any] = {
    **breaker.CLOSED,
    "failing_since": None,
    "disabled_at": None,
    "disabled_reason": "",
}


class NotConfigured(Exception):
    """The workspace has no configuration in this environment."""


class SecretRequired(Exception):
    """The first configuration needs a secret."""


@transaction.atomic
def configure(
    workspace_id: UUID,
    environment: str,
    *,
    url: str,
    enabled: bool,
    events: Iterable[str],
    secret: str | None,
    actor: audit.Actor,
) -> Configuration:
    """Create or replace the configuration.

    Without a new secret the present one stays. A replacement resets the failures and
    the breaker. An enabled configuration gets the deliveries that have waited. The
    audit trail names the fields that have changed.
    """
    at = now()
    _lock_configuration(workspace_id, environment, alone=True)
    # Locked, because senders count failures in this row.
    found = _find_configuration(workspace_id, environment, locked=True)
    configuration = found or Configuration(
        workspace_id=workspace_id, environment=environment, created_at=at
    )
    before = found.secret if found else None
    if before is None and secret is None:
        raise SecretRequired
    given = {"url": url, "enabled": enabled, "enabled_events": list(events)}
    changed = [n for n in given if not found or getattr(found, n) != given[n]]
    if secret is not None and secret != before:
        changed.append("secret")
        if before is not None:
            older = configuration.replaced_secrets(at)
            older.pop(secret, None)
            configuration.older_secrets = dict(list(older.items())[:MOST_OLDER])
            configuration.previous_secret = before
            configuration.previous_secret_ends_at = at + SECRET_OVERLAP
        configuration.secret = secret
    for name, value in {**given, **HEALTHY_STATE, "updated_at": at}.items():
        setattr(configuration, name, value)
    configuration.save()
    audit.record("configuration.changed", actor, configuration, fields=changed)
    if enabled:
        schedule_job(JobName.SEND_DELIVERIES)
    return configuration


@transaction.atomic
def simulate_answers(workspace_id: UUID, answer: SimulatedAnswer, times: int) -> None:
    """Let the sandbox's next attempts get this answer in place of the receiver's.

    It replaces earlier settings; 0 times sends to the receiver again. It closes the
    breaker, so that attempts do not wait. Raises NotConfigured.
    """
    configuration = get_configuration(workspace_id, Environment.SANDBOX, alone=True)
    Configuration.objects.filter(pk=configuration.pk).update(
        simulated_answer=answer if times else "",
        simulated_left=times,
        **breaker.CLOSED,
        failing_since=None,
    )
    schedule_job(JobName.SEND_DELIVERIES)


@transaction.atomic
def remove(workspace_id: UUID, environment: str, actor: audit.Actor) -> None:
    """Delete the configuration and fail the deliveries that wait for it.

    Deliveries and their attempts stay readable. Raises NotConfigured.
    """
    configuration = get_configuration(workspace_id, environment, alone=True)
    audit.record("configuration.removed", actor, configuration)
    while not _remove_unless_busy(configuration):
        pass


@transaction.atomic
def _remove_unless_busy(configuration: Configuration) -> bool:
    """Remove the configuration; return False if another holds a delivery of it.

    Others hold deliveries or an account while they record an event, which needs the
    configuration. So this waits for deliveries only before it has the configuration.
    """
    _fail_waiting_deliveries(configuration)
    Configuration.objects.select_for_update().get(pk=configuration.pk)
    # Deliveries recorded before the lock; no more can come.
    waiting = configuration.deliveries.filter(next_attempt_at__isnull=False)
    free = waiting.select_for_update(no_key=True, skip_locked=True)
    if len(free.values("pk")) < waiting.count():
        # The next try waits for these deliveries, too.
        transaction.set_rollback(True)
        return False
    _fail_waiting_deliveries(configuration)
    configuration.delete()
    return True


def get_configuration(
    workspace_id: UUID, environment: str, *, alone: bool = False
) -> Configuration:
    """Return the configuration and keep it until the transaction ends.

    Raises NotConfigured.
    """
    _lock_configuration(workspace_id, environment, alone=alone)
    configuration = _find_configuration(workspace_id, environment)
    if configuration is None:
        raise NotConfigured
    return configuration


def _lock_configuration(workspace_id: UUID, environment: str, *, alone: bool) -> None:
    """Take an advisory lock: a configuration that does not exist has no row to lock.

    The lock holds until the transaction ends. Reads after it see the changes of the
    transaction that held it before.
    """
    lock = "pg_advisory_xact_lock" if alone else "pg_advisory_xact_lock_shared"
    run_sql(
        f"SELECT {lock}(hashtextextended(%s, 0))",
        [f"webhook configuration {workspace_id} {environment}"],
    )


def _find_configuration(
    workspace_id: UUID, environment: str, *, locked: bool = False
) -> Configuration | None:
    configurations = Configuration.objects.filter(
        workspace=workspace_id, environment=environment
    )
    if locked:
        configurations = configurations.select_for_update(no_key=True)
    return configurations.first()


def _fail_waiting_deliveries(configuration: Configuration) -> None:
    waiting = configuration.deliveries.filter(next_attempt_at__isnull=False)
    # Lock all of them first, in the order in which senders lock them.
    list(waiting.order_by("event_id").select_for_update(no_key=True).values("pk"))
    # A sender that holds one of them finds it without a lease and records nothing.
    waiting.update(
        status=DeliveryStatus.FAILED, next_attempt_at=None, leased_until=None
    )
