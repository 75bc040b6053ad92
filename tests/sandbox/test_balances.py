"""The client lets the play money of its sandbox run out."""

from typing import Any

import pytest

from tests.world.clients import Api, error_codes, person
from tests.world.orders import _the_ledger_adds_up as _the_ledger_adds_up
from tests.world.threads import run_at_once

ORDER = {"reports": [person()]}


def leave(api: Api, available: int | None) -> dict[str, Any]:
    answer = api.post("/sandbox/balance", {"available": available})
    assert answer.status_code == 200, answer.content
    return answer.json()


def test_order_beyond_the_play_money_is_refused_until_it_is_lifted(api: Api):
    api.create(person())
    assert leave(api, 300)["available"]["amount"] == 300

    api.create(person())
    problem = api.refused("/reports", ORDER)
    assert (problem["status"], problem["code"]) == (402, "insufficient-balance")
    assert "KES 50.00" in problem["detail"]
    assert "POST /sandbox/balance" in problem["detail"]

    assert leave(api, None)["available"] is None
    api.create(person())
    assert api.get("/balance").json()["balance"]["amount"] == -200


@pytest.mark.django_db(transaction=True)
def test_orders_at_once_cannot_overdraw_play_money(api: Api):
    leave(api, 250)

    def order(number: int) -> int:
        return api.post("/reports", ORDER).status_code

    assert sorted(run_at_once(2, order)) == [201, 402]


def test_wrong_amount_is_refused(api: Api):
    for body, code in (
        ({}, "required"),
        ({"available": -1}, "out-of-range"),
        ({"available": 1.5}, "invalid-type"),
    ):
        problem = api.refused("/sandbox/balance", body)

        assert error_codes(problem) == {"#/available": code}
