"""Routes that change after a subject has agreed to the sources of the notice."""

from datetime import timedelta

import pytest
import time_machine
from django.utils.timezone import now

from tests.checks.engine import ledger_totals, only_result
from tests.hosted.conftest import asking
from tests.sources.two import CHECK, Two, calls
from tests.world.clients import Api, person
from tests.world.orders import PAYER
from tests.world.payer import Payer
from tests.world.subject import Visitor, visible_text
from verification.consents.models import Consent
from verification.notifications.models import Notification
from verification.notifications.templates import write_email
from verification.payments.checkouts import PaymentClosed, open_checkout
from verification.payments.links import expire_payments, remind_payers
from verification.payments.models import Checkout

pytestmark = pytest.mark.django_db

EMAIL = "wanjiku@kamau.test"


@pytest.fixture
def shop(settings):
    """A payment provider in production."""
    settings.PAYMENT_PROVIDER = "shop"
    settings.PAYMENT_PROVIDERS = {"shop": ("tests.payments.shop.shop", {})}


def create_consented_report(api: Api, two: Two, *shown: str, **members) -> Visitor:
    """Create a report whose subject consented to these sources."""
    two.set_route(*shown)
    visitor = asking(api)(**{"subject": {"email": EMAIL}, **CHECK, **members})
    visitor.prove()
    visitor.grant()
    return visitor


def create_payable_report(api: Api, two: Two, **members) -> tuple[Visitor, Payer]:
    visitor = create_consented_report(
        api, two, "first", paymentMode="CANDIDATE", **members
    )
    payer = Payer(visitor.report_id)
    payer.open()
    assert "Pay KES 50.00" in payer.reads()
    return visitor, payer


def count_payment_requests() -> int:
    return Notification.objects.filter(kind__startswith="PAYMENT_").count()


def test_payer_is_not_asked_to_pay_when_the_sources_have_changed(paying_api, two, shop):
    visitor, payer = create_payable_report(paying_api, two)

    two.set_route("second")

    page = payer.reads()
    assert "These checks cannot be made" in page
    assert "Acacia Lenders still wants the checks, it has to ask for consent" in page
    assert "Pay KES" not in page
    payer.post("pay")
    with pytest.raises(PaymentClosed, match="SOURCES_CHANGED"):
        open_checkout(payer.payment.pk, 1)
    assert not Checkout.objects.exists()
    told = visible_text(visitor.text())
    assert "Your consent does not cover the present sources of these checks" in told
    assert "Nothing is charged for checks that are not made" in told


def test_payer_of_changed_sources_asks_the_client(paying_api, two, shop):
    _, payer = create_payable_report(paying_api, two)
    two.set_route("second")

    payer.post("ask-client")

    assert "We have told Acacia Lenders" in payer.reads()
    letter = write_email(Notification.objects.get(kind="NEW_LINK_WANTED"))
    assert "does not cover the present sources of its checks" in letter.text
    assert "order a new one, in the console or with POST /api/v1/reports" in letter.text


def test_payer_pays_when_a_source_that_was_shown_is_back(paying_api, two, shop):
    _, payer = create_payable_report(paying_api, two)
    two.set_route("second")
    assert "Pay KES" not in payer.reads()

    two.set_route("second", "first")

    assert "Pay KES 50.00" in payer.reads()


def test_payment_of_changed_sources_is_not_sent_again_or_reminded(
    paying_api, two, shop
):
    _, payer = create_payable_report(paying_api, two)
    sent = count_payment_requests()
    two.set_route("second")
    path = f"/reports/{payer.report_id}/payment/resend"

    with time_machine.travel(now() + timedelta(days=10)):
        remind_payers()
        problem = paying_api.refused(path)

    assert problem["status"] == 409
    assert "The sources of IDENTITY have changed" in problem["detail"]
    assert count_payment_requests() == sent
    with time_machine.travel(now() + timedelta(days=15)):
        expire_payments()
    failure = paying_api.report(payer.report_id)["failure"]
    assert failure["code"] == "PAYMENT_EXPIRED"
    assert "The sources of IDENTITY have changed" in failure["message"]


def test_grant_sends_no_payment_request_without_source(paying_api, two, shop):
    visitor = asking(paying_api)(
        subject={"email": EMAIL}, paymentMode="CANDIDATE", **CHECK
    )
    two.set_route()
    visitor.prove()
    visitor.grant()

    assert paying_api.report(visitor.report_id)["status"] == "PENDING_PAYMENT"
    assert count_payment_requests() == 0
    payer = Payer(visitor.report_id)
    payer.open()
    assert "These checks cannot be made" in payer.reads()


def test_payer_gets_the_part_of_changed_sources_back(paying_api, two, shop):
    _, payer = create_payable_report(paying_api, two)
    Checkout.objects.create(
        report_id=payer.report_id,
        payment_id=payer.payment.pk,
        environment="production",
        provider="shop",
        amount=50,
        currency="KES",
        status="PAID",
        paid_at=now(),
        paid_amount=20,
        paid_currency="KES",
        is_part=True,
        started_by="payer",
    )
    two.set_route("second")
    assert "Give me KES 20.00 back" in payer.reads().replace("\N{NO-BREAK SPACE}", " ")

    payer.post("give-back")

    assert Checkout.objects.get().refunds.exists()


def test_draft_is_not_launched_when_the_sources_have_changed(paying_api, two):
    visitor = create_consented_report(paying_api, two, "first", draft=True)
    two.set_route("second")
    path = f"/reports/{visitor.report_id}"

    (error,) = paying_api.refused(f"{path}/launch")["errors"]

    assert (error["pointer"], error["code"]) == (
        "#/checksRequested/0",
        "check-not-available",
    )
    assert "The sources of IDENTITY have changed since the subject" in error["detail"]
    assert "Edit the draft" in error["detail"]
    assert ledger_totals() == {}

    # The way out that the refusal names.
    paying_api.post(f"{path}/draft", {"purpose": person()["purpose"]})
    again = Visitor(paying_api.report(visitor.report_id)["consentState"]["consentUrl"])
    again.prove()
    assert "To: second." in visible_text(again.text())
    again.grant()
    assert paying_api.post(f"{path}/launch").status_code == 200


def test_draft_with_a_pending_consent_is_payable_on_any_route(paying_api, two, shop):
    two.set_route("first")
    visitor = asking(paying_api)(
        subject={"email": EMAIL}, paymentMode="CANDIDATE", draft=True, **CHECK
    )
    two.set_route("second")
    payer = Payer(visitor.report_id)
    payer.open()

    assert "Pay KES 50.00" in payer.reads()


def test_new_payer_gets_a_link_when_the_sources_are_covered(paying_api, two, shop):
    third_party = {"paymentMode": "THIRD_PARTY", "payer": PAYER, "draft": True}
    visitor = create_consented_report(paying_api, two, "first", **third_party)
    path, sent = f"/reports/{visitor.report_id}/draft", count_payment_requests()
    payer = {**PAYER, "email": "other@kilele.test"}

    two.set_route("second")
    assert paying_api.post(path, {"payer": payer}).status_code == 200
    assert count_payment_requests() == sent

    # A changed purpose needs a new consent, which covers the sources of its notice.
    edit = {"payer": PAYER, "purpose": person()["purpose"]}
    assert paying_api.post(path, edit).status_code == 200
    assert count_payment_requests() == sent + 1


def test_report_is_not_retried_when_the_sources_have_changed(paying_api, two):
    visitor = create_consented_report(paying_api, two, "first")
    two.set_route("second")
    paying_api.work()
    assert only_result().status == "FAILED"

    problem = paying_api.refused(f"/reports/{visitor.report_id}/retry")

    assert problem["code"] == "report-not-retryable"
    assert "The sources of IDENTITY have changed since the subject" in problem["detail"]
    assert "Order a new report" in problem["detail"]
    two.set_route("second", "first")
    assert paying_api.post(f"/reports/{visitor.report_id}/retry").status_code == 200


def test_old_notice_fails_the_check_with_its_reason(paying_api, two, shop):
    """Notices before ke-2026-11d named no source."""
    _, payer = create_payable_report(paying_api, two)
    Consent.objects.update(shown_sources={})

    assert "These checks cannot be made" in payer.reads()

    later = create_consented_report(
        paying_api, two, "first", subject={"idNumber": "23456789"}
    )
    Consent.objects.filter(report=later.report_id).update(shown_sources={})
    paying_api.work()

    failure = paying_api.report(later.report_id)["checkResults"][0]["failure"]
    assert failure["code"] == "SOURCE_NOT_CONSENTED"
    assert "by an earlier notice, which named no source of it" in failure["message"]
    assert "have changed" not in failure["message"]
    assert calls() == []
    detail = paying_api.refused(f"/reports/{later.report_id}/retry")["detail"]
    assert "earlier notice" in detail
