import threading

import pytest
from django.db import connection

from tests.world.threads import run_at_once
from verification.jobs.queue import slot

pytestmark = pytest.mark.django_db(transaction=True)


def test_no_more_than_so_many_hold_a_slot_at_once():
    all_asked = threading.Barrier(4)

    def hold(_: int) -> bool:
        with slot("tests", 2) as free:
            all_asked.wait()
            return free

    assert sorted(run_at_once(4, hold)) == [False, False, True, True]


def hold_another(_: int) -> bool:
    with slot("others", 1) as free:
        return free


def test_kinds_have_slots_of_their_own():
    with slot("tests", 1) as free:
        assert free
        assert run_at_once(1, hold_another) == [True]


def test_a_slot_that_was_given_back_is_free():
    assert run_at_once(1, hold_another) == [True]
    assert run_at_once(1, hold_another) == [True]


def test_the_slot_of_a_worker_that_died_is_free():
    def die(_: int) -> None:
        slot("others", 1).__enter__()
        connection.close()

    assert run_at_once(1, die) == [None]
    assert run_at_once(1, hold_another) == [True]
