"""Rules that name a package: they keep its checks, and have its price."""

from decimal import Decimal

import pytest

from monitoring.models import PauseReason, Rule
from tests.world.clients import Api, error_codes
from tests.world.employer import employment_item
from tests.world.packages import LOAN, create_package, prices
from tests.world.rules import end_runs, launch_runs, rule_request, top_up_account
from verification.checks.models import CheckDefinition, CheckPackage
from verification.reports.models import Report

pytestmark = pytest.mark.django_db


def request(name: str = "loan", **members) -> dict:
    body = {**rule_request(), "package": name, **members}
    del body["checkNames"]
    return body


def create(api: Api, **members) -> dict:
    answer = api.post("/monitoring", request(**members))
    assert answer.status_code == 201, answer.content
    return answer.json()


def run_prices(api: Api) -> list[Decimal]:
    end_runs()
    (run,) = launch_runs()
    return prices(api, str(run.report_id))


def test_rule_monitors_the_checks_of_a_package(api: Api):
    create_package(price="200.00")

    made = create(api)

    assert (made["package"], made["checkNames"]) == ("loan", LOAN)
    assert api.get(f"/monitoring/{made['id']}").json() == made
    first = Report.objects.get()
    assert (first.package, first.checks_requested) == ("loan", LOAN)
    assert prices(api, str(first.pk)) == [40, 40, 120]
    assert run_prices(api) == [40, 40, 120]


def test_rule_of_single_checks_has_no_package(api: Api):
    made = api.post("/monitoring", rule_request("IDENTITY")).json()

    assert made["package"] is None


WRONG = [
    (request("lone"), {"#/package": "unknown-package"}),
    (request("theirs"), {"#/package": "unknown-package"}),
    (request("old"), {"#/package": "inactive-package"}),
    (request("firms"), {"#/package": "subject-type-not-accepted"}),
    ({**request(), "checkNames": ["IDENTITY"]}, {"#/package": "not-allowed-here"}),
    (request("x" * 41), {"#/package": "too-long"}),
    ({**request(), "package": None}, {"#/package": "required"}),
]


def test_rule_with_a_wrong_package_is_refused(api: Api, another_api: Api):
    create_package()
    create_package("old", active=False)
    create_package("firms", checks=["BUSINESS_VERIFICATION"])
    create_package("theirs", workspace=another_api.workspace)
    for body, faults in WRONG:
        refused = api.refused("/monitoring", body)

        codes = error_codes(refused)
        assert {at: codes[at] for at in faults} == faults
        assert not Rule.objects.exists()


def test_runs_have_the_price_of_the_day(api: Api):
    package = create_package(price="200.00")
    create(api)
    CheckPackage.objects.filter(pk=package.pk).update(price=Decimal("100.00"))

    assert run_prices(api) == [20, 20, 60]


def test_rule_keeps_its_checks_and_pays_single_prices_for_them(api: Api):
    package = create_package(price="200.00")
    create(api)
    CheckPackage.objects.filter(pk=package.pk).update(checks=["CRB_FULL"])

    assert run_prices(api) == [50, 50, 150]


def test_rule_of_a_deactivated_package_goes_on(api: Api):
    package = create_package(price="200.00")
    create(api)
    CheckPackage.objects.filter(pk=package.pk).update(active=False)

    assert sum(run_prices(api)) == 200


def test_run_without_the_referee_costs_the_shares_of_the_others(live_api: Api):
    create_package(checks=["IDENTITY", "EMPLOYER_VERIFICATION"], price="11.00")
    top_up_account(live_api, 12)
    create(live_api, subject=employment_item()["subject"])
    live_api.work()

    (run,) = launch_runs()

    assert prices(live_api, str(run.report_id)) == [1]


def test_run_without_the_referee_is_priced_in_the_order_of_the_rule(live_api: Api):
    CheckDefinition.objects.update(price=50)
    checks = ["EMPLOYER_VERIFICATION", "IDENTITY", "KRA_PIN"]
    create_package(checks=checks, price="1.00")
    top_up_account(live_api, 2)
    subject = employment_item(kraPin="A012345678Z")["subject"]
    create(live_api, subject=subject)
    live_api.work()

    (run,) = launch_runs()

    # The cent that is left over is the referee's.
    assert prices(live_api, str(run.report_id)) == [Decimal("0.33")] * 2


def test_rules_of_two_workspaces_have_their_own_packages(api: Api, another_api: Api):
    for client, price in ((api, "100.00"), (another_api, "50.00")):
        create_package("ours", workspace=client.workspace, price=price)
        create(client, name="ours")
    end_runs()

    totals = {
        run.report.workspace_id: sum(r.price for r in run.report.results.all())
        for run in launch_runs()
    }

    assert totals == {api.workspace.pk: 100, another_api.workspace.pk: 50}


def test_balance_covers_a_run_at_the_price_of_its_package(live_api: Api):
    create_package(price="40.00")
    top_up_account(live_api, 80)
    create(live_api)

    assert sum(run_prices(live_api)) == 40
    end_runs()
    assert launch_runs() == []
    assert Rule.objects.get().pause_reason == PauseReason.INSUFFICIENT_BALANCE
    top_up_account(live_api, 39)
    made = Rule.objects.get()
    refused = live_api.refused(f"/monitoring/{made.pk}/resume")
    assert refused["code"] == "insufficient-balance"
    top_up_account(live_api, 1)
    assert live_api.post(f"/monitoring/{made.pk}/resume").status_code == 200
