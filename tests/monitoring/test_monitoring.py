from datetime import timedelta

import pytest

from monitoring.models import Run
from tests.world.clients import Api
from tests.world.orders import _the_ledger_adds_up as _the_ledger_adds_up
from tests.world.rules import (
    CHANGING,
    create_rule,
    list_alerts,
    move_rules_back,
    run_rules,
)
from webhooks.models import Event


def test_change_raises_one_alert_and_the_baseline_none(api: Api):
    made = create_rule(api, id_number=CHANGING)
    assert (made["status"], made["recentAlerts"]) == ("ACTIVE", [])
    run_rules(api)
    assert list_alerts(api) == []

    for day in (1, 2):
        move_rules_back(timedelta(days=1))
        run_rules(api)
        assert len(list_alerts(api)) == day
    assert Run.objects.count() == 3
    alert = list_alerts(api)[0]
    assert alert["changes"]
    assert api.report(alert["reportId"])["status"] == "READY"
    assert Event.objects.filter(name="monitoring.alert.created").count() == 2
    assert api.get(f"/monitoring/{made['id']}").json()["recentAlerts"] == list_alerts(
        api
    )
    assert api.put("/monitoring/alerts/read-all").status_code == 204
    assert list_alerts(api, read="false") == []


def test_unchanged_findings_raise_no_alert(api: Api):
    create_rule(api)
    for _ in range(2):
        run_rules(api)
        move_rules_back(timedelta(days=1))
    assert Run.objects.count() == 2
    assert list_alerts(api) == []


def test_creation_takes_at_most_15_statements(api: Api, django_assert_max_num_queries):
    create_rule(api)
    with django_assert_max_num_queries(15):
        create_rule(api, id_number="23456789")


@pytest.mark.parametrize("path", ["", "/pause", "/resume"])
def test_rule_of_another_workspace_is_not_found(api: Api, another_api: Api, path: str):
    made = create_rule(api)
    ask = another_api.post if path else another_api.get
    assert ask(f"/monitoring/{made['id']}{path}").status_code == 404
    assert another_api.delete(f"/monitoring/{made['id']}").status_code == 404
