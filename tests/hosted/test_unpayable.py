"""Pages of links that take no payment."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
import time_machine
from django.utils.timezone import now

from tests.world.clients import HOSTED, Api, person
from tests.world.orders import PAYER
from tests.world.payer import Payer, create_payer, poll_providers
from tests.world.subject import visible_text
from verification.checks.models import CheckDefinition
from verification.notifications.models import Block, Notification
from verification.notifications.recipients import block
from verification.notifications.templates import write_email
from verification.payments.links import expire_payments, payment_links
from verification.payments.models import Checkout, Payment
from verification.payments.payer_messages import payer_of
from verification.payments.refunds import send_refunds

pytestmark = pytest.mark.django_db

THIRD_PARTY = {"paymentMode": "THIRD_PARTY", "payer": PAYER}


def test_payment_waits_for_consent(api: Api):
    visitor = create_payer(api, consent=HOSTED)

    page = visitor.reads()
    assert "There is nothing to pay yet" in page
    assert visitor.post("pay")["Location"] == visitor.page
    assert not Checkout.objects.exists()


def test_expired_link_takes_no_payment(api: Api):
    visitor = create_payer(api)
    with time_machine.travel(now() + timedelta(days=15)):
        visitor.open()
        page = visitor.get()
        assert page.status_code == 410
        assert b"This link has expired" in page.content
        assert b"Send me a new link" not in page.content
        visitor.post("pay")
        visitor.post("new-link")
        expire_payments()
        assert visitor.get().status_code == 410

    assert not Checkout.objects.exists()
    assert visitor.payment.status == "EXPIRED"
    assert visitor.payment.generation == 1


def test_payer_renews_an_expired_link_once_a_minute(api: Api):
    visitor = create_payer(api, draft=True)
    with time_machine.travel(now() + timedelta(days=15)) as clock:
        visitor.open()
        assert b"Send me a new link" in visitor.get().content
        Payment.objects.update(link_made_at=now())
        assert (
            b"less than a minute ago"
            in visitor.browser.post(visitor.page + "new-link", follow=True).content
        )

        clock.shift(61)
        replaced = visitor.browser.post(visitor.page + "new-link", follow=True)
        assert replaced.status_code == 410
        assert b"This link was replaced" in replaced.content
        again = visitor.browser.get(visitor.link, follow=True)
        assert (again.status_code, again.content) == (410, replaced.content)
        newer = Payer(visitor.report_id)
        newer.open()
        assert "Pay KES 250.00" in newer.reads()


def link_requests(api: Api, visitor: Payer) -> tuple[list[Notification], list[Any]]:
    """Return the client's mails and events about requests for a new link."""
    mails = Notification.objects.filter(kind="NEW_LINK_WANTED")
    events = api.get(f"/reports/{visitor.report_id}/events").json()["events"]
    requested = [e for e in events if e["trigger"] == "payer asks for a new link"]
    return list(mails), requested


@pytest.mark.parametrize("is_closed", [False, True])
def test_payer_asks_the_client_once_for_another_link(api: Api, is_closed: bool):
    visitor = create_payer(api)
    with time_machine.travel(now() + timedelta(days=15)):
        if is_closed:
            expire_payments()
        visitor.open()
        assert "Ask Acacia Lenders for a new request" in visitor.reads()
        for _ in range(3):
            visitor.post("ask-client")

        assert "We have told Acacia Lenders that you want a" in visitor.reads()
        (mail,), (event,) = link_requests(api, visitor)
    assert (mail.recipient, event["actor"]) == (api.workspace.contact_email, "payer")
    letter = write_email(mail)
    assert "The payer of a report asks for a new request" in letter.subject
    if is_closed:
        assert "order a new one" in letter.text
    assert visitor.payment.generation == 1


@pytest.mark.parametrize("way", ["open", "draft", "paid", "cancelled"])
def test_payer_cannot_ask_the_client_when_no_link_is_needed(api: Api, way: str):
    visitor = create_payer(api, draft=way == "draft")
    if way == "paid":
        visitor.choose("pay")
        poll_providers()
    if way == "cancelled":
        api.post(f"/reports/{visitor.report_id}/cancel")
    days = 0 if way == "open" else 15
    with time_machine.travel(now() + timedelta(days=days)):
        payment_links.ask_client(visitor.payment.pk, 1)

    assert link_requests(api, visitor) == ([], [])


def test_expired_link_stays_when_the_payer_has_blocked_the_client(api: Api):
    visitor = create_payer(api, draft=True)
    email = payer_of(visitor.payment.report)["email"]
    block(api.workspace.pk, [("EMAIL", email)], Block.Reason.UNWANTED)
    with time_machine.travel(now() + timedelta(days=15)):
        visitor.open()
        page = visitor.reads()
        assert "Send me a new link" not in page
        assert "Ask Acacia Lenders for a new request" in page
        visitor.post("new-link")
        visitor.post("ask-client")
        ((mail,), _) = link_requests(api, visitor)

    assert visitor.payment.generation == 1
    assert "payment/resend" in write_email(mail).text
    with time_machine.travel(now() + timedelta(days=15)):
        resent = api.post(f"/reports/{visitor.report_id}/payment/resend")
    assert resent.status_code == 200
    assert resent.json()["paymentUrl"]
    assert visitor.payment.link_requested_at is None


def test_page_promises_only_messages_that_would_be_sent(api: Api):
    visitor = create_payer(api, consent=HOSTED)
    assert "You get a message when you can pay" in visitor.reads()

    email = payer_of(visitor.payment.report)["email"]
    block(api.workspace.pk, [("EMAIL", email)], Block.Reason.UNWANTED)

    assert "Open this link again later" in visitor.reads()


def test_replaced_link_shows_the_receipt_of_its_payment(api: Api):
    visitor = create_payer(api)
    at = visitor.pay()
    Payment.objects.update(link_made_at="2026-01-01T00:00:00Z")
    payment_links.renew(visitor.payment.pk)
    assert visitor.get().status_code == 410
    visitor.choose("pay", at)
    poll_providers()

    assert "You paid KES 250.00" in visitor.reads()


def test_link_of_a_cancelled_report_is_dead(api: Api):
    visitor = create_payer(api)
    at = visitor.pay()
    api.post(f"/reports/{visitor.report_id}/cancel")

    page = visitor.get()
    assert page.status_code == 410
    assert "You need not pay any more" in visible_text(page.content.decode())
    visitor.choose("pay", at)
    poll_providers()
    assert "came in that was not needed" in visitor.reads()
    send_refunds()
    assert "KES 250.00 was given back on" in visitor.reads()


def test_replaced_payer_sees_nothing_of_the_draft(api: Api):
    visitor = create_payer(api, draft=True)
    other = {"name": "Other", "email": "other@payer.test"}
    body = {"paymentMode": "THIRD_PARTY", "payer": other}
    assert api.post(f"/reports/{visitor.report_id}/draft", body).status_code == 200

    page = visitor.get()
    assert page.status_code == 410
    # Nobody gives the former payer a newer one.
    assert b"If not, you need do nothing." in page.content
    assert visitor.post("pay").status_code == 303
    assert not Checkout.objects.exists()
    assert visitor.browser.get(visitor.link, follow=True).content == page.content


def test_price_edited_after_the_quote_changes_nothing(api: Api):
    visitor = create_payer(api)
    CheckDefinition.objects.update(price=999)

    assert "Total KES 250.00" in visitor.reads()
    visitor.choose("pay")
    poll_providers()

    assert visitor.checkout.paid_amount == Decimal(250)
    assert visitor.payment.status == "PAID"


def test_reused_checks_cost_nothing(api: Api):
    api.create({**person(), "checksRequested": ["IDENTITY"]})
    api.work()

    page = create_payer(api, checksRequested=["IDENTITY", "CRB_SCORE"]).reads()

    assert "National identity free: known already" in page
    assert "Total KES 150.00" in page


def test_check_renamed_by_staff_keeps_its_name(api: Api):
    CheckDefinition.objects.filter(name="IDENTITY").update(display_name="Passport <b>")

    assert "Passport <b> KES 50.00" in create_payer(api).reads(lang="sw")


def test_page_asks_for_no_payment_without_a_provider(live_api: Api, settings):
    settings.PAYMENT_PROVIDER = "paystack"
    settings.PAYMENT_PROVIDERS = {"paystack": ("tests.payments.shop.shop", {})}
    visitor = create_payer(live_api)
    # The operator has ended the contract.
    settings.PAYMENT_PROVIDER = ""

    assert "Nothing can be paid at the moment" in visitor.reads()
    page = visitor.browser.post(visitor.page + "pay", follow=True)
    assert b"could not be opened" in page.content
    assert not Checkout.objects.exists()
