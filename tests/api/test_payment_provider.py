"""`POST /api/v1/webhooks/payment-provider`: what is let in, and what is not."""

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client as HttpClient
from django.test.utils import CaptureQueriesContext
from django.utils.timezone import now

from tests.clients import Api
from tests.fakes.checkouts import CheckoutServer
from tests.fakes.paystack import FakePaystack
from tests.fakes.stripe import FakeStripe
from tests.logs import LogLines
from tests.logs import log_lines as log_lines
from tests.orders import rows
from tests.payments import (
    EVENTS,
    candidate,
    configuration,
    look,
    opened,
    send,
    sent,
    taking,
)
from tests.payments import taker as taker
from tests.refunds import ask
from tests.refunds import send as send_refunds_now
from verification.jobs.models import Job
from verification.jobs.queue import later
from verification.ordering import receiving
from verification.ordering.giving_back import send_refunds
from verification.ordering.looking import LOOKS, look_at_due
from verification.payments.models import Checkout, Doubt, PaymentEvent
from verification.payments.registry import _live

SIGNATURE = {"paystack": "x-paystack-signature", "stripe": "Stripe-Signature"}
LIMIT = 256 * 1024
NOBODYS = "019aa000-0000-7000-8000-000000000000"


def paid(taker: CheckoutServer, api: Api) -> Checkout:
    """A checkout whose payer has paid, which nobody has told us yet."""
    checkout = opened(api.create(candidate()))
    taker.pay(checkout.reference)
    return checkout


def taken(taker: Any, api: Api) -> Checkout:
    """The same, after we have looked."""
    checkout = paid(taker, api)
    look(checkout)
    return checkout


@pytest.fixture
def stripe_taker(settings: Any) -> Iterator[FakeStripe]:
    yield from taking(FakeStripe(), settings)


def refused(answer: Any, status: int, code: str) -> dict[str, Any]:
    assert answer["Content-Type"] == "application/problem+json"
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer["X-Request-Id"] == answer.json()["requestId"]
    return answer.json()


def test_an_event_pays_the_report(taker: CheckoutServer, live_api: Api):
    made = live_api.create(candidate())
    taker.pay(opened(made).reference)
    send(taker)
    look_at_due()

    report = live_api.report(made["id"])
    assert (report["status"], report["paymentState"]["status"]) == ("RUNNING", "PAID")


def test_an_answer_says_nothing_but_that_it_came(taker: CheckoutServer, live_api: Api):
    paid(taker, live_api)
    body, headers = taker.signed(taker.events[-1])

    answer = sent(body, {**headers, "X-Request-Id": "theirs-1", "Accept": "text/html"})

    assert (answer.status_code, answer.content) == (200, b"{}")
    assert answer["X-Request-Id"] == "theirs-1"
    assert answer["Content-Type"] == "application/json"
    assert "X-Service-Sandbox" not in answer
    assert "RateLimit" not in answer


def test_an_event_is_kept_sealed_and_marks_nothing_paid(
    taker: CheckoutServer, live_api: Api
):
    checkout = paid(taker, live_api)
    send(taker)

    (event,) = PaymentEvent.objects.all()
    assert event.checkout == checkout
    assert json.loads(event.body) == taker.events[-1]
    checkout.refresh_from_db()
    assert checkout.status == "OPEN"


def wrong_signature(taker: CheckoutServer, body: bytes, right: dict[str, str]):
    return body, taker.sign(body, "a secret of somebody else")


def another_body(taker: CheckoutServer, body: bytes, right: dict[str, str]):
    return body.replace(b"25000", b"25001"), right


def no_signature(taker: CheckoutServer, body: bytes, right: dict[str, str]):
    return body, {"Content-Type": "application/json"}


def empty_signature(taker: CheckoutServer, body: bytes, right: dict[str, str]):
    return body, dict.fromkeys(taker.sign(body), "")


def not_ascii(taker: CheckoutServer, body: bytes, right: dict[str, str]):
    return body, dict.fromkeys(taker.sign(body), "t=1,v1=\xff\x80")


def two_signatures(taker: CheckoutServer, body: bytes, right: dict[str, str]):
    return body, {**right, **dict.fromkeys(SIGNATURE.values(), "0"), **right}


def the_others_signature(taker: CheckoutServer, body: bytes, right: dict[str, str]):
    other = FakeStripe() if isinstance(taker, FakePaystack) else FakePaystack()
    return body, other.sign(body)


def a_signature_over_nothing(taker: CheckoutServer, body: bytes, right: dict[str, str]):
    return body, taker.sign(b"")


@pytest.mark.parametrize(
    "forge",
    [
        wrong_signature,
        another_body,
        no_signature,
        empty_signature,
        not_ascii,
        two_signatures,
        the_others_signature,
        a_signature_over_nothing,
    ],
)
def test_what_is_not_signed_is_refused_and_nothing_of_it_kept(
    taker: CheckoutServer, live_api: Api, log_lines: LogLines, forge: Any
):
    paid(taker, live_api)
    body, headers = forge(taker, *taker.signed(taker.events[-1]))
    before = rows()

    answer = sent(body, headers)

    problem = refused(answer, 401, "invalid-signature")
    assert "errors" not in problem
    # Only that there was one is counted.
    assert {**rows(), "payments.Trouble": 0} == before
    told = [line for line in log_lines() if "signature" in line["message"]]
    assert [line["message"] for line in told] == [
        "an event without a payment provider's signature was refused"
    ]


def test_an_old_signature_of_stripe_is_refused(settings: Any, db: None):
    with FakeStripe() as stripe:
        settings.PAYMENT_PROVIDERS = dict([configuration(stripe)])
        _live.cache_clear()
        stripe.event_age = 301

        answer = sent(b"{}", stripe.sign(b"{}"))

    refused(answer, 401, "invalid-signature")
    _live.cache_clear()


def test_a_provider_that_is_not_configured_is_nobody(db: None):
    for fake in (FakePaystack(), FakeStripe()):
        refused(sent(b"{}", fake.sign(b"{}")), 401, "invalid-signature")


def test_who_tries_signatures_is_slowed_down_and_the_provider_is_not(
    taker: CheckoutServer, live_api: Api, settings: Any
):
    settings.FAILED_AUTHENTICATIONS_PER_MINUTE = 2
    paid(taker, live_api)

    answers = [sent(b"{}", taker.sign(b"{ }")) for _ in range(3)]

    assert [answer.status_code for answer in answers] == [401, 401, 429]
    assert int(answers[-1]["Retry-After"]) > 0
    send(taker)


def test_too_large_an_event_is_refused_by_its_length_unread(
    taker: CheckoutServer, monkeypatch: Any, db: None
):
    body = b'{"a":"' + b"a" * 5_000_000 + b'"}'
    monkeypatch.setattr("django.http.HttpRequest.read", None)

    refused(sent(body, taker.sign(body)), 413, "body-too-large")


def test_the_largest_event_that_is_taken_has_256_kib(taker: CheckoutServer, db: None):
    body = b"{" + b" " * (LIMIT - 2) + b"}"
    assert sent(body, taker.sign(body)).status_code == 200

    body += b" "
    refused(sent(body, taker.sign(body)), 413, "body-too-large")


@pytest.mark.parametrize("body", [b"", b"not JSON", b"[]", b'"text"', b"7", b"{"])
def test_what_is_signed_and_no_object_is_malformed(
    taker: CheckoutServer, body: bytes, db: None
):
    problem = refused(sent(body, taker.sign(body)), 400, "malformed-body")
    assert "is not" in problem["detail"]
    assert not PaymentEvent.objects.exists()


@pytest.mark.parametrize("body", [b'{"id": "\xff"}', '{"id": "1"}'.encode("utf-16")])
def test_signed_bytes_that_are_not_utf_8_are_malformed_and_not_unsigned(
    taker: CheckoutServer, body: bytes, db: None
):
    problem = refused(sent(body, taker.sign(body)), 400, "malformed-body")
    assert "not UTF-8 at byte" in problem["detail"]
    assert not PaymentEvent.objects.exists()


def test_a_replayed_event_is_one_event(taker: CheckoutServer, live_api: Api):
    checkout = paid(taker, live_api)
    for _ in range(3):
        send(taker)
        look_at_due()

    assert PaymentEvent.objects.count() == 1
    checkout.refresh_from_db()
    assert (checkout.is_counted, checkout.refunded) == (True, 0)


@pytest.mark.parametrize("reference", [NOBODYS, "T1", "", None, 7, {"a": 1}])
def test_an_event_about_nothing_of_ours_is_received_and_logged(
    taker: CheckoutServer, log_lines: LogLines, reference: Any, db: None
):
    send(taker, charge(taker, reference))

    assert PaymentEvent.objects.get().checkout is None
    assert any("not known here" in line["message"] for line in log_lines())


def charge(taker: CheckoutServer, reference: Any) -> dict[str, Any]:
    """An event of a payment with this reference, for all that is known of others."""
    if isinstance(taker, FakePaystack):
        return {"event": "charge.success", "data": {"reference": reference}}
    about = {"object": "checkout.session", "client_reference_id": reference}
    kind = "checkout.session.completed"
    return {"id": f"evt_{uuid4().hex}", "type": kind, "data": {"object": about}}


@pytest.mark.parametrize("kind", ["subscription.create", "", "x" * 300, "a\x00b"])
def test_an_event_of_an_unknown_type_is_received(
    taker: CheckoutServer, live_api: Api, kind: str
):
    checkout = paid(taker, live_api)
    event = charge(taker, checkout.reference)
    event["event" if "event" in event else "type"] = kind

    send(taker, event)

    assert PaymentEvent.objects.get().type == kind.replace("\x00", "")[:100]


def test_an_event_that_we_cannot_keep_is_asked_for_again(
    taker: CheckoutServer, live_api: Api, monkeypatch: Any
):
    checkout = paid(taker, live_api)
    monkeypatch.setattr(receiving, "look_now", lambda pk: 1 / 0)
    body, headers = taker.signed(taker.events[-1])

    refused(sent(body, headers), 500, "internal-error")

    assert not PaymentEvent.objects.exists()
    monkeypatch.undo()
    send(taker)
    look_at_due()
    checkout.refresh_from_db()
    assert checkout.is_counted


def test_a_sandbox_checkout_is_not_the_live_providers(taker: CheckoutServer, api: Api):
    checkout = opened(api.create(candidate()))
    send(taker, charge(taker, checkout.reference))

    assert PaymentEvent.objects.get().checkout is None


def test_a_dispute_is_left_to_a_person(taker: CheckoutServer, live_api: Api):
    checkout = taken(taker, live_api)
    taker.dispute(checkout.reference)

    send(taker)

    checkout.refresh_from_db()
    assert checkout.doubt == Doubt.DISPUTED
    assert PaymentEvent.objects.get().checkout == checkout


def test_a_dispute_hides_no_other_doubt(taker: CheckoutServer, live_api: Api):
    checkout = opened(live_api.create(candidate()))
    taker.pays = 99
    taker.pay(checkout.reference)
    look(checkout)
    taker.dispute(checkout.reference)

    send(taker)

    checkout.refresh_from_db()
    assert checkout.doubts == [Doubt.OTHER_AMOUNT, Doubt.DISPUTED]


def test_a_dispute_that_is_resolved_raises_no_doubt(
    taker: CheckoutServer, live_api: Api
):
    checkout = taken(taker, live_api)
    if isinstance(taker, FakeStripe):
        taker.dispute(checkout.reference, "closed", status="won")
    else:
        taker.dispute(checkout.reference, "resolve")

    send(taker)

    checkout.refresh_from_db()
    assert checkout.doubt == ""


def test_a_dispute_that_was_lost_does(stripe_taker: FakeStripe, live_api: Api):
    checkout = taken(stripe_taker, live_api)
    stripe_taker.dispute(checkout.reference, "closed", status="lost")

    send(stripe_taker)

    checkout.refresh_from_db()
    assert checkout.doubt == Doubt.DISPUTED


def test_a_transaction_of_nobody_is_kept_and_leads_nowhere(
    stripe_taker: FakeStripe, live_api: Api
):
    checkout = taken(stripe_taker, live_api)
    for name in ("pi_other", "", "\x00", None, ["pi"], "\ud800"):
        stripe_taker.dispute(checkout.reference, payment_intent=name)
        send(stripe_taker)

    checkout.refresh_from_db()
    assert checkout.doubt == ""
    assert PaymentEvent.objects.filter(checkout=None).count() == 6


def test_an_event_of_a_refund_has_the_provider_asked_about_it(
    taker: CheckoutServer, live_api: Api
):
    checkout = taken(taker, live_api)
    taker.refunds_wait = True
    refund = ask(checkout)
    send_refunds_now()
    refund.refresh_from_db()
    assert (refund.status, refund.next_try_at > now()) == ("APPROVED", True)
    taker.settle_refunds()

    send(taker)
    send_refunds()

    refund.refresh_from_db()
    assert refund.status == "DONE"


def test_an_event_costs_few_statements(taker: CheckoutServer, live_api: Api):
    paid(taker, live_api)

    with CaptureQueriesContext(connection) as first:
        send(taker)
    with CaptureQueriesContext(connection) as repeated:
        send(taker)

    assert len(first) <= 11, [query["sql"][:80] for query in first]
    assert len(repeated) <= 4


def test_an_event_has_a_look_of_its_own(taker: CheckoutServer, live_api: Api):
    paid(taker, live_api)
    looks = Job.objects.filter(function=LOOKS)
    later(LOOKS)
    before = looks.count()

    send(taker)

    # One that waits already may have begun before this event is there to be seen.
    assert looks.count() == before + 1


@pytest.mark.parametrize("method", ["get", "put", "patch", "delete", "options"])
def test_events_are_posted(method: str, db: None):
    answer = getattr(HttpClient(), method)(EVENTS)

    assert refused(answer, 405, "method-not-allowed")
    assert answer["Allow"] == "POST"
