"""What tests of monitoring do: make rules, let time pass, and look."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

from django.db.models import F
from django.utils.timezone import now

from monitoring.alerts import compare_runs
from monitoring.models import Alert, Rule, Run, next_run_time
from monitoring.rules import attestation, read_rule, set_subject
from monitoring.runs import launch_due_runs
from tests.world.clients import Api
from tests.world.orders import report_in
from verification.reports.models import Report
from verification.reports.request import catalogue
from workspaces import ledger

# Reserved in the sandbox: another result on every run.
CHANGING = "90000007"
DAY = timedelta(days=1)


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


def stored(api: Api, *checks: str, **members: Any) -> Rule:
    """A rule that has run never, without a report, a charge or a word to anybody."""
    asked, order = read_rule(rule(*checks, **members), api.environment, catalogue())
    at = now()
    made = Rule(
        workspace=api.workspace,
        environment=api.environment,
        check_names=asked.check_names,
        cadence=asked.cadence,
        consent=attestation(order.consent),
        reference=asked.reference,
        starts_at=at,
        next_run_at=next_run_time(at, asked.cadence, at),
        created_by="tests",
    )
    set_subject(made, order)
    made.save()
    return made


def raised(api: Api, made: Rule | None = None, **members: Any) -> Alert:
    """An alert, as a run of the rule would raise it."""
    made = made or stored(api)
    values = {
        "title": "IDENTITY: risk level changed",
        "message": "IDENTITY: risk level went from LOW to HIGH.",
        "severity": "CRITICAL",
        "changes": [],
        **members,
    }
    if "report_id" not in values:
        values["report_id"] = report_in(api, "DRAFT")
    return Alert.objects.create(
        workspace=api.workspace,
        environment=api.environment,
        rule_id=made.pk,
        **values,
    )


def watched(api: Api, **alert: Any) -> Alert:
    """A rule whose run made the newest report there is, and raised this alert."""
    made = stored(api, id_number="98765432")
    report = Report.objects.latest("id")
    Run.objects.create(rule=made, report=report, number=1, due_at=now())
    return raised(api, made, report_id=report.pk, **alert)


def let_pass(time: timedelta) -> None:
    """All that rules have to do with time lies so much further back."""
    Rule.objects.update(
        starts_at=F("starts_at") - time,
        next_run_at=F("next_run_at") - time,
        put_off_until=F("put_off_until") - time,
    )
    # One after another: no two may be due at the same moment in between.
    for run in Run.objects.order_by("due_at"):
        Run.objects.filter(pk=run.pk).update(due_at=run.due_at - time)


def launch(passed: timedelta = DAY) -> list[Run]:
    """The runs that are launched when this time has passed."""
    let_pass(passed)
    before = set(Run.objects.values_list("pk", flat=True))
    launch_due_runs()
    return list(Run.objects.exclude(pk__in=before).order_by("created_at", "id"))


def pay_in(api: Api, amount: int) -> None:
    ledger.top_up(api.workspace, api.environment, Decimal(amount), actor="t", note="")


def standing(made: Rule) -> tuple[str, str]:
    made.refresh_from_db()
    return made.status, made.pause_reason


def work(api: Api) -> None:
    """What clusters do: launch what is due, ask sources, compare."""
    launch_due_runs()
    api.work()
    waiting = Run.objects.filter(compared_at=None, report__completed_at__isnull=False)
    compare_runs(*map(str, waiting.values_list("report_id", flat=True)))


def alerts(api: Api, **query: Any) -> list[dict[str, Any]]:
    answer = api.get("/monitoring/alerts", **query)
    assert answer.status_code == 200, answer.content
    return answer.json()["content"]
