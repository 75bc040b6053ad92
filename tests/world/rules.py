"""Create monitoring rules, run them as time passes, and list their alerts."""

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
from tests.world.orders import create_report_with_status
from verification.reports.models import Report
from verification.reports.request import catalogue
from workspaces import ledger

# Reserved in the sandbox: another result on every run.
CHANGING = "90000007"
DAY = timedelta(days=1)


def rule_request(
    *checks: str, id_number: str = "12345678", **members: Any
) -> dict[str, Any]:
    """Return the request for a rule on a person."""
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


def create_rule(api: Api, *checks: str, **members: Any) -> dict[str, Any]:
    answer = api.post("/monitoring", rule_request(*checks, **members))
    assert answer.status_code == 201, answer.content
    return answer.json()


def store_rule(api: Api, *checks: str, **members: Any) -> Rule:
    """Store a rule without its first run: no report, no charge, no message."""
    asked, order = read_rule(
        rule_request(*checks, **members), api.environment, catalogue()
    )
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
    set_subject(made, order.subject)
    made.save()
    return made


RISK_CHANGE = {
    "checkName": "IDENTITY",
    "field": "riskLevel",
    "old": "LOW",
    "new": "HIGH",
}


def raise_alert(api: Api, made: Rule | None = None, **members: Any) -> Alert:
    """Store an alert of a rule, as one of its runs raises it."""
    made = made or store_rule(api)
    values = {
        "title": "IDENTITY: risk level changed",
        "message": "IDENTITY: risk level went from LOW to HIGH.",
        "severity": "CRITICAL",
        "changes": [],
        **members,
    }
    if "report_id" not in values:
        values["report_id"] = create_report_with_status(api, "DRAFT")
    return Alert.objects.create(
        workspace=api.workspace,
        environment=api.environment,
        rule_id=made.pk,
        **values,
    )


def raise_alert_of_a_run(api: Api, **alert: Any) -> Alert:
    """Store a rule, a run of it with the newest report, and an alert of the run."""
    made = store_rule(api, id_number="98765432")
    report = Report.objects.latest("id")
    Run.objects.create(rule=made, report=report, number=1, due_at=now())
    return raise_alert(api, made, report_id=report.pk, **alert)


def move_rules_back(time: timedelta) -> None:
    """Move the times of all rules and runs into the past."""
    Rule.objects.update(
        starts_at=F("starts_at") - time,
        next_run_at=F("next_run_at") - time,
        put_off_until=F("put_off_until") - time,
    )
    # One by one: two runs of a rule must never have the same due time.
    for run in Run.objects.order_by("due_at"):
        Run.objects.filter(pk=run.pk).update(due_at=run.due_at - time)


def launch_runs(passed: timedelta = DAY) -> list[Run]:
    """Move the rules back by this time, launch due runs, and return them."""
    move_rules_back(passed)
    before = set(Run.objects.values_list("pk", flat=True))
    launch_due_runs()
    return list(Run.objects.exclude(pk__in=before).order_by("created_at", "id"))


def end_runs() -> None:
    """End the reports of all runs; their checks stay as they are."""
    under_way = Report.objects.filter(monitoring_run__isnull=False, completed_at=None)
    under_way.update(status="READY", completed_at=now())


def top_up_account(api: Api, amount: int) -> None:
    ledger.top_up(api.workspace, api.environment, Decimal(amount), actor="t", note="")


def rule_status(made: Rule) -> tuple[str, str]:
    made.refresh_from_db()
    return made.status, made.pause_reason


def run_rules(api: Api) -> None:
    """Do the work of the jobs: launch due runs, run their checks, compare."""
    launch_due_runs()
    api.work()
    waiting = Run.objects.filter(compared_at=None, report__completed_at__isnull=False)
    compare_runs(*map(str, waiting.values_list("report_id", flat=True)))


def list_alerts(api: Api, **query: Any) -> list[dict[str, Any]]:
    answer = api.get("/monitoring/alerts", **query)
    assert answer.status_code == 200, answer.content
    return answer.json()["content"]
