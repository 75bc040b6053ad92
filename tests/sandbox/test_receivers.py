"""The client lets its receiver fail in the sandbox."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError

from tests.world.clients import Api
from tests.world.deliveries import (
    attempt_results,
    configure_receiver,
    record_delivery,
)
from verification.values.clock import now
from webhooks.attempts import claim, record_attempts
from webhooks.delivery import SIMULATED, send_due_deliveries
from webhooks.models import Configuration, Delivery

pytestmark = pytest.mark.django_db


@pytest.fixture
def delivery(api: Api) -> Delivery:
    # Nothing answers there: a request would end with another error.
    configure_receiver(api.workspace, "https://hooks.acacia.test/")
    return record_delivery(api)


def simulate(api: Api, answer: str, times: float = 1) -> None:
    sent = api.post("/sandbox/receiver", {"answer": answer, "times": times})
    assert sent.status_code == 200, sent.content


def read(api: Api, delivery: Delivery) -> dict[str, Any]:
    return api.get(f"/webhooks/deliveries/{delivery.pk}").json()


@pytest.mark.parametrize(
    ("answer", "status", "code", "error"),
    [
        ("500", "RETRYING", 500, None),
        ("timeout", "RETRYING", None, "TIMED_OUT"),
        ("410", "FAILED", 410, None),
    ],
)
def test_attempt_says_that_no_request_was_sent(
    api: Api, delivery: Delivery, answer: str, status: str, code: int, error: str
):
    simulate(api, answer)

    send_due_deliveries()

    found = read(api, delivery)
    (attempt,) = found["attempts"]
    assert (found["status"], attempt["statusCode"]) == (status, code)
    assert (attempt["error"] or {}).get("code") == error
    assert attempt["answer"] == "Simulated by the sandbox: no request was sent."
    assert Configuration.objects.get().enabled == (answer != "410")


def test_only_so_many_attempts_fail(api: Api, delivery: Delivery):
    record_delivery(api)
    simulate(api, "500")

    claims = claim(10)

    assert sorted(one.simulated for one in claims) == ["", "500"]
    assert Configuration.objects.get().simulated_left == 0


def test_delivery_of_a_dead_sender_keeps_its_answer(api: Api, delivery: Delivery):
    simulate(api, "500")
    claim(10)
    Delivery.objects.update(leased_until=None, next_attempt_at=delivery.created_at)

    (claimed,) = claim(10)

    assert claimed.simulated == "500"
    record_attempts([(claimed, delivery.created_at, SIMULATED["500"])])
    assert attempt_results() == [(1, 500, "")]
    assert Delivery.objects.get().simulated_answer == ""


def test_simulated_answer_does_not_wait_for_a_receiver_that_is_down(
    api: Api, delivery: Delivery
):
    Configuration.objects.update(
        resting_until=now() + timedelta(days=1),
        rests=3,
        failures_in_row=10,
        failing_since=now(),
    )

    simulate(api, "500", times=1.0)
    send_due_deliveries()

    assert attempt_results() == [(1, 500, "")]


def test_answers_can_be_taken_back(api: Api, delivery: Delivery):
    simulate(api, "500", times=3)
    simulate(api, "500", times=0)

    assert [one.simulated for one in claim(10)] == [""]


def test_client_without_a_receiver_is_told_so(api: Api):
    problem = api.refused("/sandbox/receiver", {"answer": "500"})

    assert problem["code"] == "webhook-not-configured"


def test_receiver_of_production_is_never_simulated(live_api: Api):
    configure_receiver(live_api.workspace, environment="production")

    with pytest.raises(IntegrityError, match="answers_are_simulated_in_the_sandbox"):
        Configuration.objects.update(simulated_left=1)
