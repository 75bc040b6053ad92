"""The client acts in its sandbox as the payer."""

from typing import Any

import pytest
from django.utils.timezone import now

from tests.world.clients import HOSTED, Api, person
from tests.world.payments import candidate_item
from tests.world.refunds import send_waiting_refunds
from tests.world.threads import run_at_once
from verification.payments.audit import audit_everything
from verification.payments.checkouts import open_checkout, open_prompt, send_prompt
from verification.payments.models import Checkout, OperatorAlert, Payment, Refund


@pytest.fixture
def asked(api: Api) -> str:
    """Return a report that waits for its payer."""
    return str(api.create(candidate_item())["id"])


def act(api: Api, report_id: str, action: str) -> dict[str, Any]:
    answer = api.post(f"/sandbox/reports/{report_id}/payment", {"action": action})
    assert answer.status_code == 200, answer.content
    return answer.json()


def refused(api: Api, report_id: str, action: str) -> list[str]:
    """Return the actions that are possible in place of this one."""
    problem = api.refused(f"/sandbox/reports/{report_id}/payment", {"action": action})
    assert problem["code"] == "sandbox-action-not-possible"
    return problem["possible"]


PAID, EXPIRED = ("RUNNING", "PAID"), ("FAILED", "EXPIRED")
WAITS, FAILED = ("PENDING_PAYMENT", "PENDING"), ("PENDING_PAYMENT", "FAILED")


@pytest.mark.parametrize(
    "actions",
    [
        {"cancel": WAITS, "fail": FAILED, "pay": PAID},
        {"less": WAITS, "pay": PAID},
        {"fail": FAILED, "expire": EXPIRED},
        {"less": WAITS, "expire": EXPIRED},
    ],
)
def test_payer_acts(api: Api, asked: str, actions: dict[str, tuple[str, str]]):
    for action, expected in actions.items():
        state = act(api, asked, action)

        assert (state["status"], state["paymentState"]["status"]) == expected, action


@pytest.mark.parametrize(("action", "surplus"), [("more", 1), ("twice", 250)])
def test_surplus_goes_back(api: Api, asked: str, action: str, surplus: int):
    state = act(api, asked, action)

    assert (state["status"], state["paymentState"]["status"]) == PAID
    assert [r.amount for r in Refund.objects.all()] == [surplus]


def test_paid_report_is_refunded_once(api: Api, asked: str):
    act(api, asked, "pay")

    act(api, asked, "refund")

    assert refused(api, asked, "refund") == []
    send_waiting_refunds()
    assert api.report(asked)["paymentState"]["status"] == "REFUNDED"


def test_payment_of_a_draft_changes_the_report(api: Api):
    draft = api.create({**candidate_item(), "draft": True})["id"]
    times = [api.report(draft)["updatedAt"]]
    for action in ("fail", "less", "pay", "refund"):
        act(api, draft, action)
        send_waiting_refunds()
        times.append(api.report(draft)["updatedAt"])

    expired = api.create({**candidate_item(), "draft": True})["id"]
    before = api.report(expired)["updatedAt"]
    act(api, expired, "expire")

    assert times == sorted({*times})
    assert api.report(expired)["updatedAt"] > before


def test_disputed_money_is_held_and_alerts_no_operator(api: Api, asked: str):
    act(api, asked, "pay")

    act(api, asked, "dispute")

    checkout = Checkout.objects.get()
    assert (checkout.disputed, checkout.disputes.get().status) == (250, "OPEN")
    assert not OperatorAlert.objects.exists()
    assert refused(api, asked, "refund") == []

    # The bank has the money of the checks that are not done.
    api.post(f"/reports/{asked}/cancel")
    Checkout.objects.update(accounted_at=now())
    assert audit_everything().differences == []


def test_prompt_on_the_phone_is_paid(api: Api, asked: str):
    payment = Payment.objects.get()
    prompt = open_prompt(payment.pk, payment.generation, "+254712345678", "en")
    send_prompt(prompt)

    assert refused(api, asked, "less") == ["pay", "cancel", "expire"]
    assert act(api, asked, "pay")["status"] == "RUNNING"
    assert Checkout.objects.count() == 1


def test_payer_acts_before_the_provider_has_the_checkout(api: Api, asked: str):
    payment = Payment.objects.get()
    open_checkout(payment.pk, payment.generation)
    open_prompt(payment.pk, payment.generation, "+254712345678", "en")

    assert refused(api, asked, "pay") == ["expire"]
    assert act(api, asked, "expire")["paymentState"]["status"] == "EXPIRED"


def test_report_without_a_payer_takes_no_action(api: Api):
    made = api.create(candidate_item(paymentMode="SELF"))

    assert refused(api, made["id"], "pay") == []


def test_refusal_says_that_the_subject_has_to_agree_first(api: Api):
    waiting = api.create({**candidate_item(), "consent": HOSTED})["id"]

    problem = api.refused(f"/sandbox/reports/{waiting}/payment", {"action": "pay"})

    assert problem["detail"].startswith("Payment follows the subject's consent.")


def test_refusal_says_that_reused_results_need_no_payment(api: Api):
    api.create(person())
    api.work()
    made = api.create(candidate_item())

    path = f"/sandbox/reports/{made['id']}/payment"
    problem = api.refused(path, {"action": "pay"})

    assert problem["code"] == "sandbox-action-not-possible"
    assert '"reuse": false' in problem["detail"]


@pytest.mark.django_db(transaction=True)
def test_one_of_two_payments_at_once_wins(api: Api, asked: str):
    def pay(number: int) -> int:
        path = f"/sandbox/reports/{asked}/payment"
        return api.post(path, {"action": "pay"}).status_code

    assert sorted(run_at_once(2, pay)) == [200, 409]
    assert Checkout.objects.count() == 1
