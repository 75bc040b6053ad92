from datetime import timedelta

import pytest
import time_machine
from django.utils.timezone import now

from tests.world.clients import Api, person
from verification.checks.queue import (
    MAX_SMALL_REQUEST,
    TURN_INTERVAL,
    assign_turns,
    claim,
)
from verification.db.ids import uuid7

pytestmark = pytest.mark.django_db


def test_a_small_request_is_due_at_once():
    at = now()

    assert assign_turns(uuid7(), MAX_SMALL_REQUEST, at) == [at] * MAX_SMALL_REQUEST


def test_the_turns_of_a_large_request_follow_each_other():
    at = now()

    given = assign_turns(uuid7(), 100, at)

    assert given == [at + number * TURN_INTERVAL for number in range(100)]


def test_a_second_large_request_comes_after_the_first():
    account, at = uuid7(), now()
    first = assign_turns(account, 100, at)

    second = assign_turns(account, 100, at)

    assert second[0] == first[-1] + TURN_INTERVAL


def test_turns_that_have_passed_are_not_made_up_for():
    account, at = uuid7(), now()
    assign_turns(account, 100, at)

    later = at + timedelta(hours=1)

    assert assign_turns(account, 100, later)[0] == later


def test_one_accounts_flood_does_not_hold_up_anothers_single_report(
    api: Api, another_api: Api
):
    # At one moment, however long a busy machine takes for them.
    with time_machine.travel(now(), tick=False):
        api.create(*[person(idNumber=str(20000000 + n)) for n in range(100)])
        single = another_api.create(person())

    claimed = claim(100)

    assert single["id"] in {str(c.report.pk) for c in claimed}


def test_turns_that_are_still_to_come_are_taken_early_when_nobody_waits(api: Api):
    api.create(*[person(idNumber=str(20000000 + n)) for n in range(100)])

    assert len(claim(300)) == 300
