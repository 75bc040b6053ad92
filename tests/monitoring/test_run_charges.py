from datetime import timedelta

from django.db.models import F
from django.utils.timezone import now

from monitoring import runs as monitoring_runs
from monitoring.models import Rule, Run
from monitoring.runs import launch_due_runs
from tests.world.clients import Api
from tests.world.employer import employment_item
from tests.world.logs import log_lines as log_lines
from tests.world.orders import _the_ledger_adds_up as _the_ledger_adds_up
from tests.world.orders import movements
from tests.world.rules import (
    DAY,
    create_rule,
    launch_runs,
    move_rules_back,
    rule_status,
    store_rule,
    top_up_account,
)
from verification.checks.models import CheckDefinition
from verification.jobs.models import Job
from workspaces.models import Account


def test_rule_without_balance_is_paused_and_others_run(live_api: Api, api: Api):
    dear, cheap = store_rule(live_api, "CRB_FULL"), store_rule(live_api, "IDENTITY")
    too_much, other = store_rule(live_api, "CRB_SCORE"), store_rule(api, "CRB_FULL")
    top_up_account(live_api, 150)
    Rule.objects.filter(pk=cheap.pk).update(next_run_at=F("next_run_at") - DAY / 2)

    runs = launch_runs()

    assert {run.rule_id for run in runs} == {cheap.pk, other.pk}
    for rule in (dear, too_much):
        assert rule_status(rule) == ("PAUSED", "INSUFFICIENT_BALANCE")
    assert movements(live_api)[1:] == [("CHARGE", -50, 1)]
    assert live_api.account.balance == 100


def test_credit_pays_for_runs_and_free_checks_need_none(
    live_api: Api,
):
    store_rule(live_api), store_rule(live_api, "KRA_PIN")
    CheckDefinition.objects.filter(name="KRA_PIN").update(price=0)
    Account.objects.filter(pk=live_api.account.pk).update(credit_limit=50)

    assert len(launch_runs()) == 2
    assert live_api.account.balance == -50


def test_postpaid_workspace_runs_without_a_balance(live_api: Api):
    Account.objects.filter(pk=live_api.account.pk).update(billing="POSTPAID")
    store_rule(live_api)

    assert len(launch_runs()) == 1


def test_run_beyond_the_ceiling_pauses_the_rule(live_api: Api):
    account = Account.objects.filter(pk=live_api.account.pk)
    account.update(billing="POSTPAID", ceiling=50)
    first, second = store_rule(live_api), store_rule(live_api)

    assert len(launch_runs()) == 1

    standings = [rule_status(rule) for rule in (first, second)]
    assert sorted(standings) == [("ACTIVE", ""), ("PAUSED", "INSUFFICIENT_BALANCE")]
    paused = first if standings[0][0] == "PAUSED" else second
    problem = live_api.refused(f"/monitoring/{paused.pk}/resume", {})
    assert (problem["status"], problem["code"]) == (402, "insufficient-balance")
    account.update(ceiling=100)
    assert live_api.post(f"/monitoring/{paused.pk}/resume").status_code == 200


def test_rule_paused_for_its_balance_runs_once_when_resumed(live_api: Api):
    made = store_rule(live_api)
    launch_runs(timedelta(days=2, hours=1))
    top_up_account(live_api, 100)
    assert launch_runs(timedelta(0)) == []

    assert live_api.post(f"/monitoring/{made.pk}/resume").status_code == 200

    assert len(launch_runs(timedelta(0))) == 1
    assert launch_runs(timedelta(hours=1)) == []
    assert rule_status(made) == ("ACTIVE", "")


def test_rule_resumes_for_the_price_without_a_silent_referee(live_api: Api):
    top_up_account(live_api, 1000)
    asked = {"subject": employment_item()["subject"]}
    made = create_rule(live_api, "IDENTITY", "EMPLOYER_VERIFICATION", **asked)
    live_api.work()
    live_api.post(f"/monitoring/{made['id']}/pause")
    move_rules_back(DAY)
    balance, identity = (
        live_api.account.balance,
        CheckDefinition.objects.filter(name="IDENTITY"),
    )
    identity.update(price=balance + 1)

    refused = live_api.refused(f"/monitoring/{made['id']}/resume")
    assert refused["code"] == "insufficient-balance"
    identity.update(price=balance)
    assert live_api.post(f"/monitoring/{made['id']}/resume").status_code == 200

    assert len(launch_runs(timedelta(0))) == 1
    assert live_api.account.balance == 0


def test_balance_spent_during_the_launch_pauses_no_rule(
    live_api: Api, monkeypatch, log_lines
):
    made = store_rule(live_api)
    top_up_account(live_api, 50)
    monkeypatch.setattr(monitoring_runs, "_can_pay", lambda *_: lambda rule: True)
    Account.objects.filter(pk=live_api.account.pk).update(balance=10)

    assert launch_runs() == []
    assert rule_status(made) == ("ACTIVE", "")
    assert not [line for line in log_lines() if line["level"] == "ERROR"]
    assert Job.objects.filter(
        function="monitoring.runs.launch_due_runs",
        due_at__lt=now() + timedelta(seconds=5),
    ).exists()
    Account.objects.filter(pk=live_api.account.pk).update(balance=50)
    assert len(launch_runs(timedelta(0))) == 1


def test_many_rules_without_balance_cost_as_much_as_one(
    live_api: Api, django_assert_max_num_queries
):
    for number in range(30):
        store_rule(live_api, id_number=str(20000000 + number))
    top_up_account(live_api, 100)
    move_rules_back(DAY)

    with django_assert_max_num_queries(30):
        launch_due_runs()

    paused = Rule.objects.filter(pause_reason="INSUFFICIENT_BALANCE")
    assert (paused.count(), Run.objects.count()) == (28, 2)


def test_balance_for_one_rule_launches_the_longest_due(live_api: Api):
    late, longest = store_rule(live_api), store_rule(live_api)
    Rule.objects.filter(pk=longest.pk).update(next_run_at=F("next_run_at") - DAY / 2)
    top_up_account(live_api, 50)

    assert [run.rule_id for run in launch_runs()] == [longest.pk]
    assert rule_status(late) == ("PAUSED", "INSUFFICIENT_BALANCE")
