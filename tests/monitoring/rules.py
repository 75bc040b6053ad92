"""What tests of monitoring do: make rules, let time pass, and look."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db.models import F

from monitoring import tasks
from monitoring.models import Rule, Run
from tests.clients import Api

# Reserved in the sandbox: another result on every run.
CHANGING = "90000007"


def rule(*checks: str, id_number: str = "12345678", **members: Any) -> dict[str, Any]:
    """A request that creates a rule on a person."""
    return {
        "subject": {
            "subjectType": "INDIVIDUAL",
            "fullName": "Wanjiku Kamau",
            "idNumber": id_number,
        },
        "checkNames": list(checks) or ["IDENTITY"],
        "cadence": "DAILY",
        **members,
    }


def make(api: Api, *checks: str, **members: Any) -> dict[str, Any]:
    answer = api.post("/monitoring", rule(*checks, **members))
    assert answer.status_code == 201, answer.content
    return answer.json()


def let_pass(time: timedelta) -> None:
    """All that rules have to do with time lies so much further back."""
    Rule.objects.update(
        starts_at=F("starts_at") - time, next_run_at=F("next_run_at") - time
    )
    Run.objects.update(due_at=F("due_at") - time)


def work(api: Api) -> None:
    """What clusters do: launch what is due, ask sources, compare."""
    tasks.run_due()
    api.work()
    waiting = Run.objects.filter(compared_at=None, report__completed_at__isnull=False)
    tasks.compare(*map(str, waiting.values_list("report_id", flat=True)))


def alerts(api: Api, **query: Any) -> list[dict[str, Any]]:
    answer = api.get("/monitoring/alerts", **query)
    assert answer.status_code == 200, answer.content
    return answer.json()["content"]
