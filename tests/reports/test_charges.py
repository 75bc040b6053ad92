from collections import Counter
from decimal import Decimal

import pytest

from tests.world.clients import Api, company, person
from tests.world.orders import count_rows, fault_codes, movements, two_checks
from tests.world.staff import change_url, read_page
from tests.world.threads import run_at_once
from verification.checks.models import CheckDefinition
from verification.reports.models import Report
from workspaces.create import create_workspace
from workspaces.ledger import top_up
from workspaces.models import Account, LedgerEntry


def top_up_account(api: Api, amount: int) -> None:
    top_up(api.workspace, api.environment, Decimal(amount), actor="test", note="")


@pytest.fixture
def postpaid_api(workspace, live_source) -> Api:
    other = create_workspace(
        name="Acacia Bank",
        owner_email="owner@bank.test",
        billing=Account.Billing.POSTPAID,
    )
    return Api(other, "production")


def test_launch_charges_each_check_once(api: Api):
    report = api.create(two_checks())
    api.work()

    entries = LedgerEntry.objects.filter(report_id=report["id"])
    results = {r["id"] for r in api.report(report["id"])["checkResults"]}
    assert movements(api) == [("CHARGE", -50, 1)] * 2
    assert {str(entry.result_id) for entry in entries} == results
    assert {entry.actor for entry in entries} == {f"key {api.key}"}


def test_hosted_report_is_charged_when_created(api: Api):
    api.create({**two_checks(), "consent": {"mode": "SERVICE_HOSTED"}})

    assert movements(api) == [("CHARGE", -50, 1)] * 2


def test_sandbox_money_has_no_limit(api: Api):
    api.create(*[two_checks()] * 3)

    assert api.account.balance == -300


def test_sandbox_charges_leave_the_live_balance(api: Api, live_api: Api):
    top_up_account(live_api, 10)
    api.create(two_checks())

    assert live_api.account.balance == 10
    assert movements(live_api) == [("TOP_UP", 10, None)]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("reports", [1, 60], ids=["alone", "by COPY"])
def test_insufficient_balance_creates_nothing(live_api: Api, reports: int):
    top_up_account(live_api, reports * 300 - 1)
    before = count_rows()

    answer = live_api.post("/reports", {"reports": [company()] * reports})

    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (402, "insufficient-balance")
    assert f"KES {reports * 300}.00" in problem["detail"]
    assert f"KES {reports * 300 - 1}.00" in problem["detail"]
    assert count_rows() == before
    assert "topUpUrl" not in problem


def test_insufficient_balance_says_where_to_top_up(live_api: Api, settings, superuser):
    settings.PAYMENT_PROVIDER = "paystack"
    settings.PAYMENT_PROVIDERS = {"paystack": ("", {})}

    answer = live_api.post("/reports", {"reports": [company()]})

    url = answer.json()["topUpUrl"]
    assert answer.status_code == 402
    assert f"/t/{live_api.account.pk}/" in url
    assert url in read_page(superuser, change_url(live_api.account))
    settings.PAYMENT_PROVIDER = ""
    assert url not in read_page(superuser, change_url(live_api.account))


def test_balance_can_be_spent_to_zero(live_api: Api):
    top_up_account(live_api, 600)

    live_api.create(company(), company())

    assert live_api.account.balance == 0


def test_credit_counts_as_balance(live_api: Api):
    top_up_account(live_api, 100)
    Account.objects.filter(pk=live_api.account.pk).update(credit_limit=200)

    live_api.create(company())
    problem = live_api.refused("/reports", {"reports": [company()]})

    assert live_api.account.balance == -200
    assert "KES 0.00" in problem["detail"]


def test_draft_needs_no_balance(live_api: Api):
    assert live_api.create(company(), draft=True)["status"] == "DRAFT"


def test_report_of_a_payer_needs_no_balance(live_api: Api, settings):
    settings.PAYMENT_PROVIDER = "shop"
    settings.PAYMENT_PROVIDERS = {"shop": ("tests.payments.shop.shop", {})}
    report = live_api.create({**company(), "paymentMode": "CANDIDATE"})

    assert report["status"] == "PENDING_PAYMENT"
    assert movements(live_api) == []


def test_faults_come_before_the_balance(live_api: Api):
    assert fault_codes(live_api, {**company(), "purpose": ""}) == {
        "purpose": "required"
    }


def test_postpaid_account_has_no_limit(postpaid_api: Api):
    postpaid_api.create(*[company()] * 10)

    assert postpaid_api.account.balance == -3000


def test_order_beyond_the_ceiling_is_refused(postpaid_api: Api):
    Account.objects.filter(pk=postpaid_api.account.pk).update(ceiling=300)
    postpaid_api.create(company())
    before = count_rows()

    answer = postpaid_api.post("/reports", {"reports": [company()]})

    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (402, "insufficient-balance")
    assert "owes KES 300.00, of KES 300.00" in problem["detail"]
    assert "ceiling" in problem["detail"]
    assert count_rows() == before


@pytest.mark.django_db(transaction=True)
def test_concurrent_orders_stay_below_the_ceiling(postpaid_api: Api):
    Account.objects.filter(pk=postpaid_api.account.pk).update(ceiling=1000)

    def order(_: int) -> int:
        return postpaid_api.post("/reports", {"reports": [company()]}).status_code

    assert sorted(run_at_once(8, order)) == [201] * 3 + [402] * 5
    assert postpaid_api.account.balance == -900


def test_refused_checks_cost_nothing(live_api: Api):
    top_up_account(live_api, 600)
    created = live_api.create(
        company(), person(idNumber="12345678", kraPin="A012345678Z")
    )
    charged = live_api.account.balance

    live_api.work()

    reports = [live_api.report(one["id"]) for one in created]
    failures = [r["failure"] for report in reports for r in report["checkResults"]]
    assert charged == 50
    assert live_api.account.balance == 600
    assert [report["status"] for report in reports] == ["FAILED", "FAILED"]
    assert {f["code"] for f in failures} == {"SOURCE_REFUSED"}
    assert not any(f["retryable"] for f in failures)
    assert len(movements(live_api)) == 1 + 2 * len(failures)


def test_free_check_is_not_charged(api: Api):
    CheckDefinition.objects.filter(name="KRA_PIN").update(price=0)
    report = api.create(two_checks(idNumber="90000008"))
    api.work()

    assert movements(api) == [("CHARGE", -50, 1), ("REVERSAL", 50, 1)]
    assert api.report(report["id"])["paymentState"]["amount"]["amount"] == 50


def test_charges_keep_cents(api: Api):
    CheckDefinition.objects.update(price=Decimal("0.10"))

    reports = api.create(*[person()] * 3)

    assert reports[0]["paymentState"]["amount"]["amount"] == 0.3
    assert api.account.balance == Decimal("-0.90")


@pytest.mark.django_db(transaction=True)
def test_balance_for_4_pays_4_of_16_concurrent_requests(live_api: Api):
    top_up_account(live_api, 4 * 300 + 100)

    def order(_: int) -> int:
        return live_api.post("/reports", {"reports": [company()]}).status_code

    # Each with a connection of its own, which all have before the first one orders.
    answered = Counter(run_at_once(16, order, connected=True))

    assert answered == {201: 4, 402: 12}
    assert live_api.account.balance == 100
    assert Report.objects.count() == 4
    assert movements(live_api) == [
        ("TOP_UP", 1_300, None),
        *[("CHARGE", -300, 1)] * 4,
    ]


@pytest.mark.django_db(transaction=True)
def test_concurrent_charges_and_reversals_add_up(live_api: Api):
    top_up_account(live_api, 10_000)

    def one(number: int) -> None:
        live_api.create(*[company()] * (1 + 4 * number))
        live_api.work()

    assert run_at_once(4, one) == [None] * 4

    live_api.work()
    assert live_api.account.balance == 10_000
