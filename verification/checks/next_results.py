"""The outcomes that a client has set for the next runs of a check in its sandbox.

A row is one run. The check that runs next takes the row before it asks the sandbox. The
transaction that records the check's result deletes the row, so that a check whose
worker dies finds its row again. A job deletes rows that no check takes in `LIFETIME`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q

from verification.checks.due_checks import Claim
from verification.checks.models import NextResult
from verification.db.encryption import keyed_hash
from verification.jobs.queue import job
from verification.values.clock import now
from verification.values.masking import normalise_identifier
from workspaces.members import lock_workspace
from workspaces.models import Client, Environment

LIFETIME = timedelta(days=7)
# Members of the subject by which a client names it
IDENTIFIERS = ("idNumber", "kraPin", "registrationNumber")


@transaction.atomic
def set_next_results(
    client: Client, check: str, numbers: Mapping[str, str], outcome: str, times: int
) -> None:
    """Set the outcome of the next `times` runs, and delete those set before.

    `numbers` has one of IDENTIFIERS. 0 times leaves the check to its own outcome.
    """
    at = now()
    # The later of two concurrent requests counts.
    workspace = lock_workspace(client.workspace.pk)
    (digest,) = _digests(workspace.pk, numbers)
    rows = NextResult.objects.filter(workspace=workspace, check_name=check)
    rows.filter(subject=digest, result_id=None).delete()
    NextResult.objects.bulk_create(
        NextResult(
            workspace=workspace,
            check_name=check,
            subject=digest,
            outcome=outcome,
            created_at=at,
        )
        for _ in range(times)
    )
    if times:
        workspace.next_results_until = at + LIFETIME
        workspace.save(update_fields=["next_results_until"])


def with_next_outcome(claimed: Claim) -> Claim:
    """Return the claim with the outcome that is set for it, if any.

    It runs no statement in production, or if the client has set no outcome.
    """
    report = claimed.report
    until = report.workspace.next_results_until
    if report.environment != Environment.SANDBOX or until is None or until <= now():
        return claimed
    return replace(claimed, next_outcome=_take(claimed))


@transaction.atomic
def _take(claimed: Claim) -> str:
    """Take the row for this check, or find the one that it has taken before."""
    digests = _digests(claimed.report.workspace_id, claimed.subject or {})
    rows = NextResult.objects.select_for_update(skip_locked=True).filter(
        Q(result_id=None) | Q(result_id=claimed.result_id),
        workspace=claimed.report.workspace_id,
        check_name=claimed.name,
        subject__in=digests,
    )
    row = rows.order_by(F("result_id").asc(nulls_last=True), "id").first()
    if row is None:
        return ""
    row.result_id = claimed.result_id
    row.save(update_fields=["result_id"])
    return row.outcome


def delete_taken(claims: Iterable[Claim]) -> None:
    """Delete the rows of these checks, whose results the caller records."""
    if taken := [c.result_id for c in claims if c.next_outcome]:
        NextResult.objects.filter(result_id__in=taken).delete()


def _digests(workspace_id: UUID, subject: Mapping[str, Any]) -> list[bytes]:
    return [
        keyed_hash("next-result", workspace_id, member, normalise_identifier(number))
        for member in IDENTIFIERS
        if (number := subject.get(member))
    ]


@job
def purge_next_results() -> None:
    """Delete the rows that no check has taken in time."""
    NextResult.objects.filter(created_at__lt=now() - LIFETIME).delete()
