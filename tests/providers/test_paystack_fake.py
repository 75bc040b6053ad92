from typing import Any

import pytest
import requests

from tests.fakes.paystack import FakePaystack
from tests.fakes.paystack import paystack as paystack
from tests.fakes.paystack_shapes import ANSWERS, wrong
from tests.providers.checkout_contract import checkout_request
from verification.providers.payment_provider import CheckoutState


def call(paystack: FakePaystack, method: str, path: str, **body: Any) -> Any:
    answer = requests.request(
        method,
        paystack.url + path,
        headers={"Authorization": f"Bearer {paystack.key}"},
        json=body or None,
        timeout=5,
    )
    return answer.json()


def test_fake_answers_as_paystack_describes(paystack: FakePaystack):
    payer = {"email": "a@example.org", "amount": "300"}
    begin, verify = "/transaction/initialize", "/transaction/verify/"
    span = "from=2026-01-01T00:00:00Z&to=2099-01-01T00:00:00Z"
    begun = call(paystack, "POST", begin, reference="PR-1", **payer)
    call(paystack, "POST", begin, reference="PR-2", **payer)
    paystack.pay("PR-2")
    paid = call(paystack, "GET", f"{verify}PR-2")
    number = paid["data"]["id"]
    made = call(paystack, "POST", "/refund", transaction=str(number), amount=100)
    refund = made["data"]["id"]
    prompt = {**payer, "currency": "KES", "reference": "PR-3"}
    money = {"phone": "+254712345678", "provider": "mpesa"}

    answers = [
        ("POST /transaction/initialize", begun),
        (
            "POST /charge",
            call(paystack, "POST", "/charge", mobile_money=money, **prompt),
        ),
        ("GET /transaction/verify", call(paystack, "GET", f"{verify}PR-3")),
        ("GET /transaction/verify", call(paystack, "GET", f"{verify}PR-1")),
        ("GET /transaction/verify", paid),
        ("GET /transaction", call(paystack, "GET", f"/transaction?{span}")),
        ("POST /refund", made),
        ("GET /refund", call(paystack, "GET", f"/refund?transaction={number}")),
        ("GET /refund/{id}", call(paystack, "GET", f"/refund/{refund}")),
        ("error", call(paystack, "GET", f"{verify}PR-none")),
    ]

    faults = {kind: wrong(answer, ANSWERS[kind]) for kind, answer in answers}
    assert faults == {kind: [] for kind in ANSWERS}
    listed = dict(answers)
    assert len(listed["GET /transaction"]["data"]) == 3
    assert len(listed["GET /refund"]["data"]) == 1


def test_wrong_shape_of_an_answer_is_noticed(paystack: FakePaystack):
    payer = {"email": "a@example.org", "amount": 300, "reference": "PR-1"}
    call(paystack, "POST", "/transaction/initialize", **payer)
    answer = call(paystack, "GET", "/transaction/verify/PR-1")
    del answer["data"]["log"]["errors"]
    answer["data"].update(amount="300", customer=None)

    assert sorted(wrong(answer, ANSWERS["GET /transaction/verify"])) == [
        ".data.amount is '300'",
        ".data.customer is no object",
        ".data.log.errors is missing",
    ]


@pytest.mark.parametrize(
    ("key", "status"), [(None, 401), ("sk_wrong", 401), ("sk_test_of_no_worth", 400)]
)
def test_fake_requires_its_key(paystack: FakePaystack, key: str | None, status: int):
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    url = f"{paystack.url}/transaction/verify/PR-none"

    assert requests.get(url, headers=headers, timeout=5).status_code == status


def test_payer_can_use_the_fakes_page(paystack: FakePaystack):
    provider, checkout = paystack.adapter(), checkout_request()
    begun = provider.begin(checkout)
    tried = requests.post(begun.url, data={"choice": "fail"}, timeout=5)
    assert "Declined" in tried.text
    assert provider.look(checkout.reference, "").state == CheckoutState.FAILED

    left = requests.post(
        begun.url, data={"choice": "abandon"}, allow_redirects=False, timeout=5
    )
    assert left.headers["Location"] == checkout.cancel_url
    assert 'value="pay"' in requests.get(begun.url, timeout=5).text

    paid = requests.post(
        begun.url, data={"choice": "pay"}, allow_redirects=False, timeout=5
    )
    reference = checkout.reference
    query = f"&trxref={reference}&reference={reference}"
    assert paid.headers["Location"] == checkout.return_url + query
    assert "paid already" in requests.get(begun.url, timeout=5).text
