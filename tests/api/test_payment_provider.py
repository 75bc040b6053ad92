"""Events received at `POST /api/v1/webhooks/payment-provider`."""

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client as HttpClient
from django.test.utils import CaptureQueriesContext
from django.utils.timezone import now

from tests.fakes.checkouts import CheckoutServer
from tests.fakes.paystack import FakePaystack
from tests.fakes.stripe import FakeStripe
from tests.world.clients import Api
from tests.world.logs import LogLines
from tests.world.logs import log_lines as log_lines
from tests.world.payments import (
    EVENTS,
    assert_refused,
    candidate_item,
    create_checkout_paid_at_provider,
    open_page,
    poll_checkouts,
    post_event,
    run_provider,
    send_event,
)
from tests.world.payments import taker as taker
from tests.world.refunds import create_refund
from tests.world.refunds import send_waiting_refunds as send_refunds_now
from verification.jobs.models import Job
from verification.jobs.names import JobName
from verification.jobs.queue import schedule_job
from verification.payments import provider_events
from verification.payments.models import Checkout, PaymentEvent, ReviewFlag
from verification.payments.refunds import send_refunds
from verification.payments.settlement import poll_due_checkouts

UNKNOWN_ID = "019aa000-0000-7000-8000-000000000000"


def pay_and_poll(taker: Any, api: Api) -> Checkout:
    """Pay, and poll the provider."""
    checkout = create_checkout_paid_at_provider(taker, api)
    poll_checkouts(checkout)
    return checkout


@pytest.fixture
def stripe_taker(settings: Any) -> Iterator[FakeStripe]:
    yield from run_provider(FakeStripe(), settings)


def test_event_pays_the_report(taker: CheckoutServer, live_api: Api):
    made = live_api.create(candidate_item())
    taker.pay(open_page(made).reference)
    send_event(taker)
    poll_due_checkouts()

    report = live_api.report(made["id"])
    assert (report["status"], report["paymentState"]["status"]) == ("RUNNING", "PAID")


def test_answer_to_an_event_is_empty(stripe_taker: FakeStripe, live_api: Api):
    create_checkout_paid_at_provider(stripe_taker, live_api)
    body, headers = stripe_taker.signed(stripe_taker.events[-1])

    answer = post_event(
        body, {**headers, "X-Request-Id": "theirs-1", "Accept": "text/html"}
    )

    assert (answer.status_code, answer.content) == (200, b"{}")
    assert answer["X-Request-Id"] == "theirs-1"
    assert answer["Content-Type"] == "application/json"
    assert "X-Service-Sandbox" not in answer
    assert "RateLimit" not in answer


def test_event_is_sealed_and_marks_nothing_paid(
    stripe_taker: FakeStripe, live_api: Api
):
    checkout = create_checkout_paid_at_provider(stripe_taker, live_api)
    send_event(stripe_taker)

    (event,) = PaymentEvent.objects.all()
    assert event.checkout == checkout
    assert json.loads(event.body) == stripe_taker.events[-1]
    checkout.refresh_from_db()
    assert checkout.status == "OPEN"


def test_replayed_event_is_stored_once(stripe_taker: FakeStripe, live_api: Api):
    checkout = create_checkout_paid_at_provider(stripe_taker, live_api)
    for _ in range(3):
        send_event(stripe_taker)
        poll_due_checkouts()

    assert PaymentEvent.objects.count() == 1
    checkout.refresh_from_db()
    assert (checkout.is_counted, checkout.refunded) == (True, 0)


def test_event_about_an_unknown_checkout_is_received_and_logged(
    taker: CheckoutServer, log_lines: LogLines, db: None
):
    references = [UNKNOWN_ID, "T1", "", None, 7, {"a": 1}]
    for reference in references:
        send_event(taker, charge(taker, reference))

    # Nobody could erase them with the payer's report.
    events = PaymentEvent.objects.all()
    assert [(e.checkout, e.body) for e in events] == [(None, None)] * len(references)
    told = [line["message"] for line in log_lines()]
    logged = [message for message in told if "names no checkout of ours" in message]
    assert len(logged) == len(references)


def charge(taker: CheckoutServer, reference: Any) -> dict[str, Any]:
    """An event of a payment with this reference, for all that is known of others."""
    if isinstance(taker, FakePaystack):
        return {"event": "charge.success", "data": {"reference": reference}}
    about = {"object": "checkout.session", "client_reference_id": reference}
    kind = "checkout.session.completed"
    return {"id": f"evt_{uuid4().hex}", "type": kind, "data": {"object": about}}


def test_event_of_an_unknown_type_is_received(stripe_taker: FakeStripe, live_api: Api):
    checkout = create_checkout_paid_at_provider(stripe_taker, live_api)
    for kind in ("subscription.create", "", "x" * 300, "a\x00b"):
        event = charge(stripe_taker, checkout.reference)
        event["event" if "event" in event else "type"] = kind

        send_event(stripe_taker, event)

        stored = PaymentEvent.objects.latest("id").type
        assert stored == kind.replace("\x00", "")[:100]


def test_provider_repeats_an_event_that_cannot_be_stored(
    stripe_taker: FakeStripe, live_api: Api, monkeypatch: Any
):
    checkout = create_checkout_paid_at_provider(stripe_taker, live_api)
    monkeypatch.setattr(provider_events, "poll_now", lambda pk: 1 / 0)
    body, headers = stripe_taker.signed(stripe_taker.events[-1])

    assert_refused(post_event(body, headers), 500, "internal-error")

    assert not PaymentEvent.objects.exists()
    monkeypatch.undo()
    send_event(stripe_taker)
    poll_due_checkouts()
    checkout.refresh_from_db()
    assert checkout.is_counted


def test_live_provider_cannot_pay_a_sandbox_checkout(
    stripe_taker: FakeStripe, api: Api
):
    checkout = open_page(api.create(candidate_item()))
    send_event(stripe_taker, charge(stripe_taker, checkout.reference))

    assert PaymentEvent.objects.get().checkout is None


def test_dispute_raises_a_review_flag_unless_it_is_resolved(
    taker: CheckoutServer, live_api: Api
):
    checkout = pay_and_poll(taker, live_api)
    if isinstance(taker, FakeStripe):
        taker.dispute(checkout.reference, "closed", status="won")
    else:
        taker.dispute(checkout.reference, "resolve")
    send_event(taker)
    checkout.refresh_from_db()
    assert checkout.review_flags == []

    taker.dispute(checkout.reference)
    send_event(taker)

    checkout.refresh_from_db()
    assert checkout.review_flags == [ReviewFlag.DISPUTED]
    assert PaymentEvent.objects.latest("id").checkout == checkout


def test_lost_dispute_keeps_other_review_flags(stripe_taker: FakeStripe, live_api: Api):
    checkout = open_page(live_api.create(candidate_item()))
    stripe_taker.currency = "usd"
    stripe_taker.pay(checkout.reference)
    poll_checkouts(checkout)
    stripe_taker.dispute(checkout.reference, "closed", status="lost")

    send_event(stripe_taker)

    checkout.refresh_from_db()
    assert checkout.review_flags == [ReviewFlag.OTHER_CURRENCY, ReviewFlag.DISPUTED]


def test_event_of_an_unknown_transaction_is_stored_only(
    stripe_taker: FakeStripe, live_api: Api
):
    checkout = pay_and_poll(stripe_taker, live_api)
    for name in ("pi_other", "", "\x00", None, ["pi"], "\ud800"):
        stripe_taker.dispute(checkout.reference, payment_intent=name)
        send_event(stripe_taker)

    checkout.refresh_from_db()
    assert checkout.review_flags == []
    assert PaymentEvent.objects.filter(checkout=None).count() == 6


def test_event_of_a_refund_polls_the_provider(stripe_taker: FakeStripe, live_api: Api):
    checkout = pay_and_poll(stripe_taker, live_api)
    stripe_taker.refunds_wait = True
    refund = create_refund(checkout)
    send_refunds_now()
    refund.refresh_from_db()
    assert (refund.status, refund.next_try_at > now()) == ("APPROVED", True)
    stripe_taker.settle_refunds()

    send_event(stripe_taker)
    send_refunds()

    refund.refresh_from_db()
    assert refund.status == "DONE"


def test_event_costs_few_statements(stripe_taker: FakeStripe, live_api: Api):
    create_checkout_paid_at_provider(stripe_taker, live_api)

    with CaptureQueriesContext(connection) as first:
        send_event(stripe_taker)
    with CaptureQueriesContext(connection) as repeated:
        send_event(stripe_taker)

    assert len(first) <= 12, [query["sql"][:80] for query in first]
    assert len(repeated) <= 5


def test_each_event_causes_a_poll_of_its_own(stripe_taker: FakeStripe, live_api: Api):
    create_checkout_paid_at_provider(stripe_taker, live_api)
    looks = Job.objects.filter(function=JobName.POLL_DUE_CHECKOUTS)
    schedule_job(JobName.POLL_DUE_CHECKOUTS)
    before = looks.count()

    send_event(stripe_taker)

    # A job that waits already may start before this event is committed.
    assert looks.count() == before + 1


def test_event_is_refused_when_the_method_is_not_post(db: None):
    for method in ("get", "put", "patch", "delete", "options"):
        answer = getattr(HttpClient(), method)(EVENTS)

        assert assert_refused(answer, 405, "method-not-allowed")
        assert answer["Allow"] == "POST"
