"""`POST /reports/{id}/payment/resend` sends a new link and ends the old one."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils.timezone import now

from tests.world.clients import HOSTED, Api, person
from tests.world.orders import PAYER, create_report_with_status
from tests.world.payments import (
    candidate_item,
    end_checkout,
    open_page,
    pay_report,
    payment_of,
)
from verification.consents.models import Consent
from verification.console.orders import links_of
from verification.notifications.models import Notification
from verification.payments.checkouts import PaymentClosed, open_checkout
from verification.payments.links import payment_links
from verification.payments.models import Payment
from verification.reports.models import Report


def resend(api: Api, made: dict):
    return api.post(f"/reports/{made['id']}/payment/resend")


def a_minute_passes() -> None:
    Payment.objects.update(link_made_at=now() - timedelta(seconds=61))


@pytest.mark.parametrize("draft", [True, False])
def test_client_sends_the_payer_a_new_link(api: Api, draft: bool):
    item = {**person(), "paymentMode": "THIRD_PARTY", "payer": PAYER}
    made = api.create(item, draft=draft)
    Payment.objects.update(expires_at=now() + timedelta(days=1))
    a_minute_passes()

    answer = resend(api, made)

    assert answer.status_code == 200
    state = answer.json()
    assert state == api.report(made["id"])["paymentState"]
    assert state["paymentUrl"] != made["paymentState"]["paymentUrl"]
    left = datetime.fromisoformat(state["expiresAt"]) - now()
    assert left > timedelta(days=13, hours=23)
    old, new = Notification.objects.filter(kind="PAYMENT_REQUEST").order_by("id")
    assert (old.status, new.status) == ("CANCELLED", "PENDING")
    assert new.recipient == PAYER["email"]
    assert new.context["link"] == state["paymentUrl"]


def test_nobody_is_asked_to_pay_for_a_draft_without_consent(api: Api):
    made = api.create({**candidate_item(), "consent": HOSTED}, draft=True)
    a_minute_passes()
    for status in ("DECLINED", "WITHDRAWN", "EXPIRED"):
        Consent.objects.update(status=status)

        assert api.report(made["id"])["paymentState"]["paymentUrl"] is None
        assert "payment_url" not in links_of(Report.objects.get())
        refused = resend(api, made).json()
        assert refused["code"] == "payment-not-resendable"
        assert "has not consented" in refused["detail"]
        Payment.objects.update(link_made_at=now() - timedelta(days=13))
        payment_links.remind_due()
        assert not Notification.objects.filter(kind="PAYMENT_REMINDER").exists()


def test_new_link_is_answered_when_an_edit_removes_it_at_once(
    api: Api, monkeypatch: Any
):
    made = api.create(candidate_item(), draft=True)
    a_minute_passes()
    send = payment_links.resend

    def send_before_an_edit(*arguments: Any) -> Report:
        report = send(*arguments)
        edit = {"paymentMode": "SELF"}
        assert api.post(f"/reports/{made['id']}/draft", edit).status_code == 200
        return report

    monkeypatch.setattr(payment_links, "resend", send_before_an_edit)

    assert resend(api, made).json()["status"] == "PENDING"


def test_old_link_opens_no_checkout(api: Api):
    made = api.create(candidate_item())
    a_minute_passes()
    resend(api, made)

    with pytest.raises(PaymentClosed, match="REPLACED"):
        open_checkout(payment_of(made).pk, 1)
    assert pay_report(api, made)["status"] == "RUNNING"


def test_checkout_of_the_old_link_can_be_paid(api: Api):
    made = api.create(candidate_item())
    checkout = open_page(made)
    a_minute_passes()
    resend(api, made)

    assert end_checkout(checkout).is_counted
    assert api.report(made["id"])["status"] == "RUNNING"


def test_link_is_renewed_once_a_minute(api: Api):
    made = api.create(candidate_item())

    answer = resend(api, made)

    assert (answer.status_code, answer.json()["code"]) == (429, "rate-limited")
    assert 0 < int(answer["Retry-After"]) <= 60
    a_minute_passes()
    assert resend(api, made).status_code == 200
    assert resend(api, made).status_code == 429


def test_expired_draft_gets_a_new_link(api: Api):
    made = api.create(candidate_item(), draft=True)
    past = now() - timedelta(hours=1)
    Payment.objects.update(status="EXPIRED", expires_at=past, reminded_at=past)
    a_minute_passes()

    assert resend(api, made).json()["status"] == "PENDING"
    assert payment_of(made).reminded_at is None
    assert pay_report(api, made)["paymentState"]["status"] == "PAID"


def refused(api: Api, made: dict) -> str:
    a_minute_passes()
    problem = api.refused(f"/reports/{made['id']}/payment/resend")
    assert (problem["status"], problem["code"]) == (409, "payment-not-resendable")
    return problem["paymentStatus"]


def test_payer_gets_no_link_before_consent(api: Api):
    made = api.create(candidate_item(consent=HOSTED))

    assert refused(api, made) == "PENDING"
    problem = api.refused(f"/reports/{made['id']}/payment/resend")
    assert "consented" in problem["detail"]


def test_report_paid_by_the_workspace_has_no_link(api: Api):
    for status in ("DRAFT", "RUNNING", "CANCELLED"):
        made = {"id": create_report_with_status(api, status)}
        assert refused(api, made) == "NOT_REQUIRED"


def test_ended_payment_needs_no_link(api: Api):
    paid, expired, cancelled = api.create(*[candidate_item()] * 3)
    pay_report(api, paid)
    Payment.objects.filter(report=expired["id"]).update(expires_at=now())
    api.post(f"/reports/{cancelled['id']}/cancel")

    said = [refused(api, made) for made in (paid, expired, cancelled)]
    assert said == ["PAID", "EXPIRED", "CANCELLED"]


def test_resend_takes_no_body_and_no_parameters(api: Api):
    made = api.create(candidate_item())
    path = f"/reports/{made['id']}/payment/resend"

    assert api.refused(path, {"amount": 1})["code"] == "validation-failed"
    assert api.refused(f"{path}?now=1")["code"] == "validation-failed"


def test_staff_and_payers_renew_links_in_the_same_way(api: Api):
    made = api.create(candidate_item())
    a_minute_passes()

    payment_links.renew(payment_of(made).pk)

    assert payment_of(made).generation == 2
