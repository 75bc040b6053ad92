"""Routes that change after a subject has agreed to the sources of the notice."""

from datetime import timedelta

import pytest
import time_machine
from django.utils.timezone import now

from tests.checks.engine import only_result, paid
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
    """Somebody takes payments in production."""
    settings.PAYMENT_PROVIDER = "shop"
    settings.PAYMENT_PROVIDERS = {"shop": ("tests.payments.shop.shop", {})}


def agreed(api: Api, two: Two, *shown: str, **members) -> Visitor:
    """A subject who was shown these sources, and agreed."""
    two.routed(*shown)
    visitor = asking(api)(**{"subject": {"email": EMAIL}, **CHECK, **members})
    visitor.enter()
    visitor.grant()
    return visitor


def agreed_to_pay(api: Api, two: Two, **members) -> tuple[Visitor, Payer]:
    visitor = agreed(api, two, "first", paymentMode="CANDIDATE", **members)
    payer = Payer(visitor.report_id)
    payer.open()
    assert "Pay KES 50.00" in payer.reads()
    return visitor, payer


def requests_to_pay() -> int:
    return Notification.objects.filter(kind__startswith="PAYMENT_").count()


def test_payer_is_not_asked_to_pay_when_the_sources_have_changed(paying_api, two, shop):
    visitor, payer = agreed_to_pay(paying_api, two)

    two.routed("second")

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
    _, payer = agreed_to_pay(paying_api, two)
    two.routed("second")

    payer.post("ask-client")

    assert "We have told Acacia Lenders" in payer.reads()
    letter = write_email(Notification.objects.get(kind="NEW_LINK_WANTED"))
    assert "does not cover the present sources of its checks" in letter.text
    assert "order a new one: POST /api/v1/reports" in letter.text


def test_payer_pays_when_a_source_that_was_shown_is_back(paying_api, two, shop):
    _, payer = agreed_to_pay(paying_api, two)
    two.routed("second")
    assert "Pay KES" not in payer.reads()

    two.routed("second", "first")

    assert "Pay KES 50.00" in payer.reads()


def test_payment_of_changed_sources_is_not_sent_again_or_reminded(
    paying_api, two, shop
):
    _, payer = agreed_to_pay(paying_api, two)
    sent = requests_to_pay()
    two.routed("second")
    path = f"/reports/{payer.report_id}/payment/resend"

    with time_machine.travel(now() + timedelta(days=10)):
        remind_payers()
        problem = paying_api.refused(path)

    assert problem["status"] == 409
    assert "The sources of IDENTITY have changed" in problem["detail"]
    assert requests_to_pay() == sent
    with time_machine.travel(now() + timedelta(days=15)):
        expire_payments()
    failure = paying_api.report(payer.report_id)["failure"]
    assert failure["code"] == "PAYMENT_EXPIRED"
    assert "The sources of IDENTITY have changed" in failure["message"]


def test_grant_asks_nobody_to_pay_for_a_check_without_source(paying_api, two, shop):
    visitor = asking(paying_api)(
        subject={"email": EMAIL}, paymentMode="CANDIDATE", **CHECK
    )
    two.routed()
    visitor.enter()
    visitor.grant()

    assert paying_api.report(visitor.report_id)["status"] == "PENDING_PAYMENT"
    assert requests_to_pay() == 0
    payer = Payer(visitor.report_id)
    payer.open()
    assert "These checks cannot be made" in payer.reads()


def test_part_of_changed_sources_comes_back_by_a_button(paying_api, two, shop):
    _, payer = agreed_to_pay(paying_api, two)
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
    two.routed("second")
    assert "Give me KES 20.00 back" in payer.reads().replace("\N{NO-BREAK SPACE}", " ")

    payer.post("give-back")

    assert Checkout.objects.get().refunds.exists()


def test_draft_is_not_launched_when_the_sources_have_changed(paying_api, two):
    visitor = agreed(paying_api, two, "first", draft=True)
    two.routed("second")
    path = f"/reports/{visitor.report_id}"

    (error,) = paying_api.refused(f"{path}/launch")["errors"]

    assert (error["pointer"], error["code"]) == (
        "#/checksRequested/0",
        "check-not-available",
    )
    assert "The sources of IDENTITY have changed since the subject" in error["detail"]
    assert "Edit the draft" in error["detail"]
    assert paid() == {}

    # The way out that the refusal names.
    paying_api.post(f"{path}/draft", {"purpose": person()["purpose"]})
    again = Visitor(paying_api.report(visitor.report_id)["consentState"]["consentUrl"])
    again.enter()
    assert "To: second." in visible_text(again.text())
    again.grant()
    assert paying_api.post(f"{path}/launch").status_code == 200


def test_draft_whose_consent_waits_is_paid_for_whatever_the_route(
    paying_api, two, shop
):
    two.routed("first")
    visitor = asking(paying_api)(
        subject={"email": EMAIL}, paymentMode="CANDIDATE", draft=True, **CHECK
    )
    two.routed("second")
    payer = Payer(visitor.report_id)
    payer.open()

    assert "Pay KES 50.00" in payer.reads()


def test_new_payer_of_a_draft_is_asked_when_the_consent_covers_the_sources(
    paying_api, two, shop
):
    third_party = {"paymentMode": "THIRD_PARTY", "payer": PAYER, "draft": True}
    visitor = agreed(paying_api, two, "first", **third_party)
    path, sent = f"/reports/{visitor.report_id}/draft", requests_to_pay()
    payer = {**PAYER, "email": "other@kilele.test"}

    two.routed("second")
    assert paying_api.post(path, {"payer": payer}).status_code == 200
    assert requests_to_pay() == sent

    # The subject is asked again, and that consent covers what it names.
    edit = {"payer": PAYER, "purpose": person()["purpose"]}
    assert paying_api.post(path, edit).status_code == 200
    assert requests_to_pay() == sent + 1


def test_report_is_not_retried_when_the_sources_have_changed(paying_api, two):
    visitor = agreed(paying_api, two, "first")
    two.routed("second")
    paying_api.work()
    assert only_result().status == "FAILED"

    problem = paying_api.refused(f"/reports/{visitor.report_id}/retry")

    assert problem["code"] == "report-not-retryable"
    assert "The sources of IDENTITY have changed since the subject" in problem["detail"]
    assert "Order a new report" in problem["detail"]
    two.routed("second", "first")
    assert paying_api.post(f"/reports/{visitor.report_id}/retry").status_code == 200


def test_consent_to_an_old_notice_asks_no_source_and_says_why(paying_api, two, shop):
    """Notices before ke-2026-11d named no source."""
    _, payer = agreed_to_pay(paying_api, two)
    Consent.objects.update(shown_sources={})

    assert "These checks cannot be made" in payer.reads()

    later = agreed(paying_api, two, "first", subject={"idNumber": "23456789"})
    Consent.objects.filter(report=later.report_id).update(shown_sources={})
    paying_api.work()

    failure = paying_api.report(later.report_id)["checkResults"][0]["failure"]
    assert failure["code"] == "SOURCE_NOT_CONSENTED"
    assert "by an earlier notice, which named no source of it" in failure["message"]
    assert "have changed" not in failure["message"]
    assert calls() == []
    detail = paying_api.refused(f"/reports/{later.report_id}/retry")["detail"]
    assert "earlier notice" in detail
