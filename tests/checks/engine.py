"""Helpers for tests of the engine: outcomes, definitions, and rows to compare."""

from datetime import timedelta
from typing import Any

from django.db.models import F, Sum

from tests.world.clock import let_time_pass
from verification.checks.models import CheckDefinition, CheckResult
from verification.checks.results import Completed, Failed
from webhooks.models import Event
from workspaces.models import LedgerEntry

FINDING = {
    "summary": "Found.",
    "flags": [],
    "details": {},
    "evidence": {
        "provider": "acme",
        "providerReference": None,
        "retrievedAt": "2026-01-01T00:00:00Z",
        "responseDigest": None,
        "nameComparison": None,
        "editions": None,
        "fieldsNotTold": [],
    },
}
HOUR = timedelta(hours=1)
FAILED = Failed("ACME_DOWN", "Acme is down.", retryable=True)


def found(score: int | None) -> Completed:
    return Completed(score, FINDING)


def definitions() -> Any:
    return CheckDefinition.objects.in_bulk()


def work_until_done(api: Any) -> None:
    for _ in range(50):
        api.work()
        if not CheckResult.objects.filter(next_attempt_at__isnull=False).exists():
            return
        let_time_pass()
    raise AssertionError("some checks never end")


def only_result(**fields: Any) -> CheckResult:
    return CheckResult.objects.get(**fields)


def events() -> list[tuple[str, str]]:
    """Return (name, cause) of every event, sorted by name."""
    return sorted(Event.objects.values_list("name", "cause"))


def ledger_totals(**fields: Any) -> dict[str, int]:
    """Return the sum of the ledger entries of each kind, without top-ups."""
    rows = LedgerEntry.objects.filter(**fields).exclude(kind="TOP_UP")
    totals = rows.values_list("kind").annotate(Sum("amount"))
    return {kind: int(total) for kind, total in totals}


def snapshot_tables() -> dict[str, Any]:
    """Return all rows that a run of a check may write."""
    return {
        "results": list(CheckResult.objects.order_by("pk").values()),
        "entries": list(LedgerEntry.objects.order_by("pk").values()),
        "events": list(Event.objects.order_by("pk").values()),
        "reports": list(
            CheckResult.objects.order_by("pk").values(
                status_of=F("report__status"), moved_at=F("report__updated_at")
            )
        ),
    }
