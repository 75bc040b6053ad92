from datetime import timedelta

import pytest

from monitoring.models import Rule, Run
from tests.monitoring.rules import CHANGING, alerts, let_pass, make, work
from tests.world.clients import Api
from tests.world.orders import _the_ledger_adds_up as _the_ledger_adds_up
from webhooks.models import Event


def test_a_change_is_told_once_and_the_baseline_is_not(api: Api):
    made = make(api, id_number=CHANGING)
    assert (made["status"], made["recentAlerts"]) == ("ACTIVE", [])
    work(api)
    assert alerts(api) == []

    for day in range(1, 4):
        let_pass(timedelta(days=1))
        work(api)
        assert len(alerts(api)) == day
    assert Run.objects.count() == 4
    alert = alerts(api)[0]
    assert alert["changes"]
    assert api.report(alert["reportId"])["status"] == "READY"
    assert Event.objects.filter(name="monitoring.alert.created").count() == 3
    assert api.get(f"/monitoring/{made['id']}").json()["recentAlerts"] == alerts(api)
    assert api.put("/monitoring/alerts/read-all").status_code == 204
    assert alerts(api, read="false") == []


def test_what_stays_the_same_is_not_told(api: Api):
    make(api)
    for _ in range(3):
        work(api)
        let_pass(timedelta(days=1))
    assert Run.objects.count() == 3
    assert alerts(api) == []


def test_a_create_is_at_most_15_statements(api: Api, django_assert_max_num_queries):
    make(api)
    with django_assert_max_num_queries(15):
        make(api, id_number="23456789")


def test_after_downtime_a_rule_runs_once(api: Api):
    made = make(api)
    let_pass(timedelta(days=3, hours=5))
    work(api)
    work(api)
    assert Run.objects.count() == 2
    rule = Rule.objects.get(pk=made["id"])
    assert rule.next_run_at == rule.starts_at + timedelta(days=4)


@pytest.mark.parametrize("path", ["", "/pause", "/resume"])
def test_another_workspaces_rule_is_not_found(api: Api, another_api: Api, path: str):
    made = make(api)
    ask = another_api.post if path else another_api.get
    assert ask(f"/monitoring/{made['id']}{path}").status_code == 404
    assert another_api.delete(f"/monitoring/{made['id']}").status_code == 404
