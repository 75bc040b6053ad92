from datetime import timedelta

from tests.world.clients import Api
from tests.world.refunds import paid
from verification.payments.settlement import settle
from verification.providers.payment_provider import CheckoutSnapshot, CheckoutState


def test_older_answer_contradicts_no_payment(api: Api):
    checkout = paid(api)
    before = checkout.paid_at - timedelta(seconds=1)

    settle(checkout.pk, CheckoutSnapshot(CheckoutState.OPEN), before)

    checkout.refresh_from_db()
    assert checkout.review_flags == []


def test_newer_answer_that_denies_the_payment_raises_a_flag(api: Api):
    checkout = paid(api)
    after = checkout.paid_at + timedelta(seconds=1)

    settle(checkout.pk, CheckoutSnapshot(CheckoutState.FAILED), after)

    checkout.refresh_from_db()
    assert checkout.review_flags == ["CONTRADICTED"]
