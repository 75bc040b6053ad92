"""Staff see customer, payer, refunds, disputes and flags where the money is."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest
from django.contrib import admin
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.world.clients import Api
from tests.world.payments import candidate_item, payment_of
from tests.world.payments import open_page as opened_checkout
from tests.world.refunds import (
    create_paid_checkout,
    create_paid_top_up,
    create_refund,
    settle_payment,
)
from tests.world.staff import (
    change_url,
    list_url,
    listed_ids,
    read_page,
    staff_request,
)
from tests.world.staff import superuser as superuser
from verification.backoffice.models import AuditEvent
from verification.payments.alerts import clear_review_flag, raise_review_flag
from verification.payments.models import (
    Checkout,
    Dispute,
    OperatorAlert,
    Payment,
    PaymentEvent,
    Refund,
    ReviewFlag,
)

pytestmark = pytest.mark.django_db
PAYER = {"name": "Amina Said", "email": "amina@payer.test", "phone": "+254712345678"}


def dispute(checkout: Checkout) -> Dispute:
    return Dispute.objects.create(
        checkout=checkout,
        provider_dispute="dp_1",
        status="OPEN",
        amount=Decimal(40),
        held_amount=Decimal(40),
    )


def text_of(html: str) -> str:
    """Return the text of the page, in one line."""
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def test_page_shows_refunds_disputes_and_flags(api: Api, superuser: Client):
    checkout = create_paid_checkout(api)
    refund = create_refund(checkout, 30)
    made = dispute(checkout)
    raise_review_flag(checkout.pk, ReviewFlag.DISPUTED)
    for row in (checkout, checkout.report.payment):
        html = read_page(superuser, change_url(row))

        assert change_url(refund) in html, row
        assert change_url(made) in html, row
        shown = text_of(html)
        assert "KES 30.00 Approved Decided by staff" in shown, row
        assert "dp_1 Open 40.00 40.00" in shown, row
        assert "The payer disputes it at their bank" in shown, row
        assert checkout.number in shown, row


def test_page_of_a_checkout_says_which_flags_are_cleared(api: Api, superuser: Client):
    checkout = create_paid_checkout(api)
    for flag in (ReviewFlag.DISPUTED, ReviewFlag.BOOKS_DIFFER):
        raise_review_flag(checkout.pk, flag)
    clear_review_flag(checkout.pk, ReviewFlag.DISPUTED)

    shown = text_of(read_page(superuser, change_url(checkout)))
    assert "The provider&#x27;s books differ open" in shown
    assert "The payer disputes it at their bank cleared" in shown

    # Alerts are purged; the flag stays until somebody clears it.
    OperatorAlert.objects.all().delete()
    shown = text_of(read_page(superuser, change_url(checkout)))
    assert "The provider&#x27;s books differ open -" in shown
    assert "disputes it at their bank" not in shown


def test_lists_name_the_customer_and_the_masked_payer(api: Api, superuser: Client):
    item = candidate_item(paymentMode="THIRD_PARTY", payer=PAYER)
    checkout = settle_payment(opened_checkout(api.create(item)), None)
    create_refund(checkout, 30)
    dispute(checkout)
    for model in (Payment, Checkout, Refund, Dispute):
        html = read_page(superuser, list_url(model))

        assert len(listed_ids(superuser, model)) == 1, model
        assert "Acacia Lenders" in html, model
        assert "A••••, a••••@payer.test, ••••678" in html, model
        assert not [part for part in PAYER.values() if part in html], model


def test_list_names_the_subject_who_pays_and_opened_pages_are_recorded(
    api: Api, superuser: Client
):
    checkout = create_paid_checkout(api)
    create_refund(checkout, 30)
    dispute(checkout)

    assert "Wanjiku Kamau" in read_page(superuser, list_url(Checkout))
    assert not AuditEvent.objects.exists()
    for model in (Payment, Checkout, Refund, Dispute):
        page = admin.site.get_model_admin(model).change_view
        page(staff_request(superuser), str(model.objects.get().pk))

        done = AuditEvent.objects.filter(object_type=model._meta.label_lower)
        action = f"{model._meta.model_name}.opened"
        assert done.get().action == action, model


def test_payer_of_a_top_up_is_the_customer(api: Api, superuser: Client):
    create_paid_top_up(api, 500)

    shown = text_of(read_page(superuser, list_url(Checkout)))
    assert "Acacia Lenders the customer" in shown


def test_payer_of_a_replaced_payment_is_not_named(api: Api, superuser: Client):
    """An edit of a draft makes another payment, of another payer."""
    report = api.create(candidate_item(), draft=True)
    checkout = opened_checkout(report)
    Checkout.objects.update(payment_id=report["id"])

    html = read_page(superuser, change_url(checkout))

    assert payment_of(report).pk != checkout.report_id
    assert "Wanjiku" not in html


def test_money_is_found_by_the_number_of_the_receipt(api: Api, superuser: Client):
    checkout, other = create_paid_checkout(api), create_paid_checkout(api)
    for one in (checkout, other):
        create_refund(one, 30)
        dispute(one)
    for model in (Checkout, Refund, Dispute):
        wanted = checkout if model is Checkout else model.objects.get(checkout=checkout)
        assert listed_ids(superuser, model, q=checkout.number) == {str(wanted.pk)}, (
            model
        )


def test_list_reads_all_rows_at_once(
    api: Api, superuser: Client, django_assert_num_queries
):
    def create() -> None:
        checkout = create_paid_checkout(api)
        create_refund(checkout, 30)
        dispute(checkout)
        PaymentEvent.objects.create(
            provider="sandbox", event_id=checkout.pk, checkout=checkout, body_sha256=b""
        )

    create()
    for_one = {}
    for model in (Payment, Checkout, Refund, Dispute, PaymentEvent):
        with CaptureQueriesContext(connection) as before:
            read_page(superuser, list_url(model))
        for_one[model] = len(before)
    create()
    for model, count in for_one.items():
        with django_assert_num_queries(count):
            read_page(superuser, list_url(model))
