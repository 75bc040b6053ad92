"""Orders, quotes and drafts that name a package in place of single checks."""

from decimal import Decimal
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from tests.world.clients import ATTESTED, HOSTED, Api, error_codes, person
from tests.world.orders import (
    REFUSED,
    count_rows,
    fault_codes,
    movements,
    two_checks,
)
from tests.world.packages import (
    LOAN,
    by_package,
    company_by_package,
    create_package,
    prices,
)
from verification.checks.models import CheckDefinition, CheckPackage
from verification.providers import registry
from verification.reports import launch as verbs
from verification.reports.drafts import edit_draft
from verification.reports.pricing import share_out


def launch(api: Api, report_id: str) -> dict[str, Any]:
    return api.act(verbs.launch, report_id)


def edit(api: Api, report_id: str, **members: Any) -> dict[str, Any]:
    return api.act(edit_draft, report_id, members)


def test_package_orders_its_checks(api: Api):
    create_package(checks=["CRB_SCORE", "IDENTITY"])

    made = api.create(by_package())
    api.work()

    report = api.report(made["id"])
    assert report["status"] == "READY"
    assert report["package"] == "loan"
    assert report["checksRequested"] == ["CRB_SCORE", "IDENTITY"]
    assert report["paymentState"]["amount"]["amount"] == 200


def test_report_of_single_checks_has_no_package(api: Api):
    create_package()

    made = api.create(two_checks())

    assert api.report(made["id"])["package"] is None


def test_null_members_count_as_left_out(api: Api):
    create_package()

    by_name = api.create({**by_package(), "checksRequested": None})
    by_checks = api.create({**two_checks(), "package": None})

    assert api.report(by_name["id"])["package"] == "loan"
    assert api.report(by_checks["id"])["package"] is None


NEITHER = {k: v for k, v in person().items() if k != "checksRequested"}


REFUSED_ITEMS = [
    (NEITHER, {"checksRequested": "required"}),
    ({**NEITHER, "checksRequested": None}, {"checksRequested": "required"}),
    ({**NEITHER, "package": None}, {"package": "required"}),
    ({**person(), "package": "loan"}, {"package": "not-allowed-here"}),
    (by_package("lone"), {"package": "unknown-package"}),
    (by_package("LOAN"), {"package": "unknown-package"}),
    (by_package("loan "), {"package": "unknown-package"}),
    (by_package("x" * 41), {"package": "too-long"}),
    (by_package(""), {"package": "required"}),
    (by_package(5), {"package": "invalid-type"}),  # type: ignore[arg-type]
    (by_package(["loan"]), {"package": "invalid-type"}),  # type: ignore[arg-type]
    (by_package("theirs"), {"package": "unknown-package"}),
    (by_package("old"), {"package": "inactive-package"}),
    (by_package("withdrawn"), {"package": "inactive-check"}),
    (by_package("gone"), {"package": "unknown-check"}),
    (
        {**company_by_package("persons"), "consent": ATTESTED},
        {"package": "subject-type-not-accepted"},
    ),
    (by_package(idNumber=None), {"subject/idNumber": "missing-input"}),
    ({**by_package(), "consent": None}, {"consent": "consent-required"}),
]


def test_order_of_a_package_is_refused(api: Api, another_api: Api):
    create_package()
    create_package("old", active=False)
    create_package("persons", checks=["IDENTITY"])
    create_package("withdrawn", checks=["IDENTITY", "AML_SCREENING"])
    create_package("gone", checks=["IDENTITY", "PALM_READING"])
    create_package("theirs", workspace=another_api.workspace)
    before = count_rows()

    for item, faults in REFUSED_ITEMS:
        assert fault_codes(api, item) == faults, item
    quoted = api.refused("/reports/quote", {"reports": [item]})
    assert set(error_codes(quoted).values()) == set(faults.values())
    assert count_rows() == before


def test_package_without_a_source_is_refused(live_api: Api):
    create_package("credit", checks=["CRB_FULL"])
    registry.configure({}, {})

    faults = fault_codes(live_api, by_package("credit"))

    assert faults == {"package": "check-not-available"}


def test_package_of_another_workspace_is_as_unknown(api: Api, another_api: Api):
    create_package("theirs", workspace=another_api.workspace)

    theirs, unknown = (
        api.refused("/reports", {"reports": [by_package(name)]})["errors"]
        for name in ("theirs", "nothing")
    )

    assert theirs == unknown


def test_names_of_two_workspaces_do_not_meet(api: Api, another_api: Api):
    create_package("ours", workspace=another_api.workspace, checks=["IDENTITY"])
    create_package("ours", workspace=api.workspace, checks=["KRA_PIN"])

    made = api.create(by_package("ours"))

    assert api.report(made["id"])["checksRequested"] == ["KRA_PIN"]


def test_quote_shows_the_shares_of_the_price(api: Api):
    create_package(price="200.00")

    answer = api.post("/reports/quote", {"reports": [by_package(), two_checks()]})

    by_name, by_checks = answer.json()["reports"]
    assert by_name["package"] == "loan"
    assert by_name["price"]["amount"] == 200
    shares = [check["price"]["amount"] for check in by_name["checks"]]
    assert shares == [40, 40, 120]
    assert (by_checks["package"], by_checks["price"]["amount"]) == (None, 100)


SHARES = {
    "0.00": ["0.00", "0.00", "0.00"],
    "0.01": ["0.00", "0.00", "0.01"],
    "0.02": ["0.01", "0.00", "0.01"],
    "250.00": ["50.00", "50.00", "150.00"],
    "1000.01": ["200.00", "200.00", "600.01"],
}


def test_price_is_shared_out_to_the_cent():
    weights = [Decimal(50), Decimal(50), Decimal(150)]
    for price, shares in SHARES.items():
        assert [str(one) for one in share_out(Decimal(price), weights)] == shares


def test_report_is_charged_the_price_of_its_package(api: Api):
    create_package(price="99.99")

    made = api.create(by_package())

    assert [str(one) for one in prices(api, made["id"])] == ["20.00", "20.00", "59.99"]
    assert api.account.balance == Decimal("-99.99")


def test_shares_are_equal_where_all_checks_are_free(api: Api):
    CheckDefinition.objects.update(price=0)
    create_package(price="1.00")

    made = api.create(by_package())

    assert [str(p) for p in prices(api, made["id"])] == ["0.34", "0.33", "0.33"]


def test_shares_add_up_for_any_price():
    weights = [Decimal(w) for w in ("50", "650.35", "0", "33.33", "500", "0.01")]

    for cents in range(0, 100_000, 37):
        amount = Decimal(cents) / 100
        shares = share_out(amount, weights)
        assert sum(shares) == amount
        assert all(share >= 0 == share % Decimal("0.01") for share in shares)
        assert shares[2] == 0


def test_reused_check_saves_its_share(api: Api):
    create_package(price="200.00")
    api.create({**person(), "checksRequested": ["CRB_SCORE"]})
    api.work()
    charged = api.account.balance

    made = api.create(by_package())

    assert prices(api, made["id"]) == [40, 40, 0]
    assert charged - api.account.balance == 80


def test_check_that_fails_gives_back_its_share(api: Api):
    create_package(price="99.99")

    made = api.create(by_package(idNumber=REFUSED, kraPin="A900000000Z"))
    api.work()

    report = api.report(made["id"])
    assert report["status"] == "PARTIAL"
    # KRA_PIN alone completed.
    assert api.account.balance == Decimal("-20.00")


def test_cancelled_report_gives_back_the_whole_price(api: Api):
    create_package(price="99.99")
    made = api.create(by_package())

    api.post(f"/reports/{made['id']}/cancel")

    assert api.account.balance == 0
    assert len(movements(api)) == 6


def test_payer_pays_the_price_of_the_package(api: Api):
    create_package(price="199.99")

    made = api.create({**by_package(), "paymentMode": "CANDIDATE"})

    assert made["paymentState"]["amount"]["amount"] == 199.99


def test_report_keeps_its_checks_and_price_when_the_package_changes(api: Api):
    package = create_package(price="200.00")
    made = api.create(by_package())

    package.checks, package.price = ["CRB_FULL"], Decimal(1)
    package.save()

    assert api.report(made["id"])["checksRequested"] == LOAN
    assert prices(api, made["id"]) == [40, 40, 120]


def test_draft_is_priced_by_its_package_at_launch(api: Api):
    package = create_package(price="200.00")
    draft = api.create(by_package(), draft=True)["id"]
    CheckPackage.objects.filter(pk=package.pk).update(price=Decimal("100.00"))

    assert api.report(draft)["paymentState"]["amount"]["amount"] == 100
    launch(api, draft)

    assert prices(api, draft) == [20, 20, 60]


def test_draft_of_a_deactivated_package_launches_at_its_price(api: Api):
    package = create_package(price="200.00")
    draft = api.create(by_package(), draft=True)["id"]
    CheckPackage.objects.filter(pk=package.pk).update(active=False)

    launch(api, draft)

    assert sum(prices(api, draft)) == 200


def test_draft_pays_single_prices_when_its_package_has_other_checks(api: Api):
    package = create_package(price="200.00")
    draft = api.create(by_package(), draft=True)["id"]
    CheckPackage.objects.filter(pk=package.pk).update(checks=["IDENTITY"])

    launched = launch(api, draft)

    assert launched["checksRequested"] == LOAN
    assert prices(api, draft) == [50, 50, 150]


def test_edit_replaces_checks_by_a_package(api: Api):
    create_package(price="200.00")
    draft = api.create(two_checks(), draft=True)["id"]

    edited = edit(api, draft, package="loan")

    assert (edited["package"], edited["checksRequested"]) == ("loan", LOAN)
    assert edited["paymentState"]["amount"]["amount"] == 200


def test_edit_replaces_a_package_by_checks(api: Api):
    create_package(price="200.00")
    draft = api.create(by_package(), draft=True)["id"]

    edited = edit(api, draft, checksRequested=["IDENTITY"])

    assert (edited["package"], edited["checksRequested"]) == (None, ["IDENTITY"])
    assert edited["paymentState"]["amount"]["amount"] == 50


def test_edit_of_other_members_keeps_package_and_checks(api: Api):
    package = create_package(price="200.00")
    draft = api.create(by_package(), draft=True)["id"]
    package.active = False
    package.save()

    edited = edit(api, draft, purpose="Another purpose")

    assert (edited["package"], edited["checksRequested"]) == ("loan", LOAN)
    assert edited["paymentState"]["amount"]["amount"] == 200


def test_edit_with_checks_and_package_is_refused(api: Api):
    create_package()
    draft = api.create(two_checks(), draft=True)["id"]

    body = {"package": "loan", "checksRequested": ["IDENTITY"]}
    refused = api.refused(f"/reports/{draft}/draft", body)
    unknown = api.refused(f"/reports/{draft}/draft", {"package": "lone"})

    assert error_codes(refused) == {"#/package": "not-allowed-here"}
    assert error_codes(unknown) == {"#/package": "unknown-package"}


def test_edit_of_the_package_voids_a_consent(api: Api):
    create_package()
    draft = api.create({**two_checks(), "consent": HOSTED}, draft=True)["id"]
    report = api.workspace.reports.get(pk=draft)
    report.consent.status = "GRANTED"
    report.consent.save()

    edited = edit(api, draft, package="loan")

    assert edited["consentState"]["status"] == "PENDING"


def test_repeated_order_with_a_key_is_answered_alike(api: Api):
    package = create_package()
    body = {"reports": [by_package()]}
    first = api.post("/reports", body, Idempotency_Key="k-1")
    package.checks, package.active = ["IDENTITY"], False
    package.save()

    again = api.post("/reports", body, Idempotency_Key="k-1")

    assert again["Idempotent-Replayed"] == "true"
    assert again.json() == first.json()


def test_event_names_the_package(api: Api):
    create_package()
    made = api.create(by_package())

    event = api.workspace.events.get(report_id=made["id"], name="report.created")

    assert event.payload["report"]["package"] == "loan"


def test_list_shows_the_operators_and_ones_own_packages(api: Api, another_api: Api):
    create_package("loan", price="200.00", display_name="Loan application")
    create_package("old", active=False)
    create_package("ours", workspace=api.workspace, checks=["KRA_PIN"])
    create_package("theirs", workspace=another_api.workspace)
    create_package("withdrawn", checks=["BUSINESS_VERIFICATION", "AML_SCREENING"])

    page = api.get("/packages").json()

    loan, ours, withdrawn = page["content"]
    assert (page["totalElements"], page["size"]) == (3, 200)
    assert api.get("/packages", page=1, size=2).json()["content"] == [withdrawn]
    assert {k: v for k, v in loan.items() if k != "id"} == {
        "name": "loan",
        "displayName": "Loan application",
        "owner": "OPERATOR",
        "checks": LOAN,
        "subjectTypes": ["INDIVIDUAL"],
        "requiresConsent": True,
        "price": {"amount": 200.0, "currency": "KES"},
        "available": True,
        "unavailableReason": None,
    }
    assert (ours["name"], ours["owner"]) == ("ours", "WORKSPACE")
    assert ours["price"]["amount"] == 50
    assert ours["subjectTypes"] == ["INDIVIDUAL", "COMPANY"]
    assert withdrawn["available"] is False
    assert withdrawn["unavailableReason"] == "AML_SCREENING is not offered at present."


NAME_TAKEN = "a package of the operator and one of a workspace would have this name"
WRONG_PACKAGES = [
    ({"price": "-0.01"}, "package_price_is_not_negative"),
    ({"checks": []}, "package_has_1_to_10_checks"),
    ({"checks": [f"CHECK_{n}" for n in range(11)]}, "package_has_1_to_10_checks"),
    ({"checks": ["IDENTITY", "IDENTITY"]}, "a package has each check once"),
    ({"name": "Loan"}, "package_name_is_a_slug"),
    ({"name": "loan-"}, "package_name_is_a_slug"),
    ({"name": "lo an"}, "package_name_is_a_slug"),
    ({"name": "taken"}, NAME_TAKEN),
]


@pytest.mark.django_db
def test_database_refuses_a_wrong_package(workspace):
    create_package("taken")
    for fields, refusal in WRONG_PACKAGES:
        for owner in (None, workspace):
            with pytest.raises(IntegrityError, match=refusal), transaction.atomic():
                create_package(**{"name": "fine", **fields, "workspace": owner})


@pytest.mark.django_db
def test_operator_cannot_take_the_name_of_a_workspace(workspace):
    create_package("ours", workspace=workspace)

    with pytest.raises(IntegrityError, match=NAME_TAKEN), transaction.atomic():
        create_package("ours")


@pytest.mark.django_db
@pytest.mark.parametrize("field", ["name", "workspace"])
def test_package_keeps_its_name_and_workspace(workspace, field: str):
    package = create_package()
    setattr(package, field, {"name": "other", "workspace": workspace}[field])

    kept = pytest.raises(IntegrityError, match="keeps its name and workspace")
    with kept, transaction.atomic():
        package.save()


@pytest.mark.usefixtures("new_minute")
def test_checks_of_packages_count_like_single_checks(api: Api):
    create_package()

    def remaining(*items: dict[str, Any]) -> int:
        answer = api.post("/reports/quote", {"reports": list(items)})
        assert answer.status_code == 200
        return int(answer["RateLimit"].split("r=")[1].split(";")[0])

    first = remaining(by_package())
    # 120 checks
    assert first - remaining(*[by_package()] * 40) == 2
    assert first - remaining(*[person()] * 40) == 4


def test_consent_names_each_check_of_the_package(api: Api):
    create_package()

    made = api.create({**by_package(), "consent": ATTESTED})

    results = api.report(made["id"])["checkResults"]
    assert [result["checkName"] for result in results] == LOAN
