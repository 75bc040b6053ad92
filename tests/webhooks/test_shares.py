from uuid import uuid4

import pytest

from webhooks.claims import MAX_CLAIMED, MAX_CONCURRENT_REQUESTS, ClaimShares

ID = uuid4()


def grown(*notes: tuple[bool, float]) -> int:
    shares = ClaimShares()
    for acknowledged, seconds in notes:
        shares.note(ID, acknowledged=acknowledged, seconds=seconds)
    return shares.grown.get(ID, MAX_CONCURRENT_REQUESTS)


def test_quick_acknowledgements_make_the_share_grow_up_to_a_limit():
    assert grown(*[(True, 0.1)] * 5) == MAX_CONCURRENT_REQUESTS + 5
    assert grown(*[(True, 0.1)] * 1_000) == MAX_CLAIMED


@pytest.mark.parametrize("last", [(False, 0.1), (True, 1.5)])
def test_a_failure_or_a_slow_answer_makes_it_the_smallest(last: tuple[bool, float]):
    assert grown(*[(True, 0.1)] * 50, last) == MAX_CONCURRENT_REQUESTS
