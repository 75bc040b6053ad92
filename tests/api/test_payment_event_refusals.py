"""Refused events at `POST /api/v1/webhooks/payment-provider`."""

from typing import Any

import pytest

from tests.fakes.checkouts import CheckoutServer
from tests.fakes.paystack import FakePaystack
from tests.fakes.stripe import FakeStripe
from tests.world.clients import Api
from tests.world.logs import LogLines
from tests.world.logs import log_lines as log_lines
from tests.world.orders import count_rows
from tests.world.payments import (
    assert_refused,
    create_checkout_paid_at_provider,
    post_event,
    provider_settings,
    send_event,
)
from tests.world.payments import taker as taker
from verification.payments.models import PaymentEvent

SIGNATURE = {"paystack": "x-paystack-signature", "stripe": "Stripe-Signature"}
LIMIT = 256 * 1024


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


def signature_of_the_other_provider(
    taker: CheckoutServer, body: bytes, right: dict[str, str]
):
    other = FakeStripe() if isinstance(taker, FakePaystack) else FakePaystack()
    return body, other.sign(body)


def signature_over_nothing(taker: CheckoutServer, body: bytes, right: dict[str, str]):
    return body, taker.sign(b"")


FORGERIES = [
    wrong_signature,
    another_body,
    no_signature,
    empty_signature,
    not_ascii,
    two_signatures,
    signature_of_the_other_provider,
    signature_over_nothing,
]


def test_unsigned_event_is_refused_and_not_stored(
    taker: CheckoutServer, live_api: Api, log_lines: LogLines
):
    create_checkout_paid_at_provider(taker, live_api)
    signed = taker.signed(taker.events[-1])
    before = count_rows()

    for forge in FORGERIES:
        answer = post_event(*forge(taker, *signed))
        problem = assert_refused(answer, 401, "invalid-signature")
        assert "errors" not in problem, forge

    # Only that there was one is counted.
    assert {**count_rows(), "payments.OperatorAlert": 0} == before
    lines = [line["message"] for line in log_lines()]
    refused = "an event without a payment provider's signature was refused"
    assert lines.count(refused) == len(FORGERIES)


def test_old_stripe_signature_is_refused(settings: Any, db: None):
    with FakeStripe() as stripe:
        settings.PAYMENT_PROVIDERS = dict([provider_settings(stripe)])
        stripe.event_age = 301

        answer = post_event(b"{}", stripe.sign(b"{}"))

    assert_refused(answer, 401, "invalid-signature")


def test_event_of_an_unconfigured_provider_is_refused(db: None):
    for fake in (FakePaystack(), FakeStripe()):
        assert_refused(post_event(b"{}", fake.sign(b"{}")), 401, "invalid-signature")


@pytest.mark.usefixtures("new_minute")
def test_guessed_signatures_are_limited_and_true_events_are_not(
    taker: CheckoutServer, live_api: Api, settings: Any
):
    settings.FAILED_AUTHENTICATIONS_PER_MINUTE = 2
    create_checkout_paid_at_provider(taker, live_api)

    answers = [post_event(b"{}", taker.sign(b"{ }")) for _ in range(3)]

    assert [answer.status_code for answer in answers] == [401, 401, 429]
    assert int(answers[-1]["Retry-After"]) > 0
    send_event(taker)


def test_too_large_event_is_refused_by_its_length_header(
    taker: CheckoutServer, monkeypatch: Any, db: None
):
    body = b'{"a":"' + b"a" * 5_000_000 + b'"}'
    monkeypatch.setattr("django.http.HttpRequest.read", None)

    assert_refused(post_event(body, taker.sign(body)), 413, "body-too-large")


def test_event_of_256_kib_is_received(taker: CheckoutServer, db: None):
    body = b"{" + b" " * (LIMIT - 2) + b"}"
    assert post_event(body, taker.sign(body)).status_code == 200

    body += b" "
    assert_refused(post_event(body, taker.sign(body)), 413, "body-too-large")


def test_signed_event_that_is_no_object_is_malformed(taker: CheckoutServer, db: None):
    for body in [b"", b"not JSON", b"[]", b'"text"', b"7", b"{"]:
        problem = assert_refused(
            post_event(body, taker.sign(body)), 400, "malformed-body"
        )
        assert "is not" in problem["detail"], body
        assert not PaymentEvent.objects.exists(), body


def test_signed_event_that_is_not_utf_8_is_malformed(taker: CheckoutServer, db: None):
    for body in [b'{"id": "\xff"}', '{"id": "1"}'.encode("utf-16")]:
        problem = assert_refused(
            post_event(body, taker.sign(body)), 400, "malformed-body"
        )
        assert "not UTF-8 at byte" in problem["detail"], body
        assert not PaymentEvent.objects.exists(), body
