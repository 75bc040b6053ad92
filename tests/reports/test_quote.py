from typing import Any

from tests.world.clients import HOSTED, NOT_OBTAINED, Api, company, error_codes, person
from tests.world.orders import PAYER, count_rows, two_checks, with_value
from verification.checks.models import CheckDefinition


def quote(api: Api, *items: Any, **top: Any) -> dict:
    answer = api.post("/reports/quote", {"reports": list(items), **top})
    assert answer.status_code == 200, answer.content
    return answer.json()


def kes(amount: float) -> dict:
    return {"amount": amount, "currency": "KES"}


def test_quote_shows_each_price_and_the_total(api: Api):
    third_party = {**company(), "paymentMode": "THIRD_PARTY", "payer": PAYER}

    quoted = quote(api, person(), third_party)

    assert quoted["count"] == 2
    assert quoted["total"] == kes(550)
    assert quoted["payableByWorkspace"] == kes(250)
    assert [report["price"] for report in quoted["reports"]] == [kes(250), kes(300)]
    assert quoted["reports"][0]["checks"] == [
        {
            "checkName": name,
            "price": kes(price),
            "reused": False,
            "reusedFromResultId": None,
        }
        for name, price in (("IDENTITY", 50), ("KRA_PIN", 50), ("CRB_SCORE", 150))
    ]


def test_quote_stores_nothing(api: Api):
    before = count_rows()

    quote(api, *[person()] * 2)

    assert count_rows() == before


def test_quote_has_the_faults_of_the_request(api: Api):
    wrong = [with_value(person(), "subject/phone", "12"), {"x": 1}, company()]

    for body in ({"reports": wrong}, {"reports": []}, {}, {"reports": [5], "drfat": 1}):
        quoted = api.refused("/reports/quote", body)
        created = api.refused("/reports", body)
        assert error_codes(quoted) == error_codes(created)
        assert quoted["code"] == "validation-failed"


def test_quote_needs_no_balance(live_api: Api):
    assert quote(live_api, company())["total"] == kes(300)


def test_quote_shows_reused_results(api: Api):
    created = api.create({**person(), "checksRequested": ["IDENTITY"]})
    api.work()
    earlier = api.report(created["id"])["checkResults"][0]["id"]

    (report,) = quote(api, two_checks())["reports"]

    assert report["price"] == kes(50)
    assert report["checks"][0] == {
        "checkName": "IDENTITY",
        "price": kes(0),
        "reused": True,
        "reusedFromResultId": earlier,
    }
    anew = quote(api, {**two_checks(), "reuse": False})
    assert anew["total"] == kes(100)


GATES = [
    (person(), [], "RUNNING"),
    (company(), [], "RUNNING"),
    ({**person(), "consent": HOSTED}, ["CONSENT"], "PENDING_CONSENT"),
    ({**person(), "paymentMode": "CANDIDATE"}, ["PAYMENT"], "PENDING_PAYMENT"),
    (
        {**person(), "consent": HOSTED, "paymentMode": "CANDIDATE"},
        ["CONSENT", "PAYMENT"],
        "PENDING_CONSENT",
    ),
    ({**person(), "draft": True}, [], "DRAFT"),
    ({**person(), "draft": True, "consent": None}, ["CONSENT"], "DRAFT"),
    ({**person(), "draft": True, "consent": NOT_OBTAINED}, ["CONSENT"], "DRAFT"),
    ({**company(), "draft": True, "consent": None}, [], "DRAFT"),
]


def test_quote_shows_the_gates(api: Api):
    items = [item for item, _, _ in GATES]

    quoted = quote(api, *items)["reports"]

    told = [(report["gates"], report["status"]) for report in quoted]
    assert told == [(gates, status) for _, gates, status in GATES]
    assert [r["status"] for r in api.create(*items)] == [r["status"] for r in quoted]


def test_quote_of_a_free_report_has_no_payment_gate(api: Api):
    CheckDefinition.objects.update(price=0)

    (report,) = quote(api, {**person(), "paymentMode": "CANDIDATE"})["reports"]

    assert (report["gates"], report["status"]) == ([], "RUNNING")


def test_quote_reads_the_draft_flag_at_the_top(api: Api):
    (report,) = quote(api, person(), draft=True)["reports"]

    assert report["status"] == "DRAFT"


def test_charge_equals_the_quote(api: Api):
    items = [person(), company(), two_checks(idNumber="7")]
    total = quote(api, *items)["total"]["amount"]

    reports = api.create(*items)

    assert sum(one["paymentState"]["amount"]["amount"] for one in reports) == total
    assert api.account.balance == -total
