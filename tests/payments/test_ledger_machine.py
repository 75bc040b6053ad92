from functools import partial

import pytest

from tests.payments.ledger_machine import Machine, play, played_source
from tests.world.clients import Api
from workspaces.models import ApiKey

HAPPENED = [
    "order",
    "launch",
    "edit",
    "cancel",
    "retry",
    "top up",
    "adjust",
    "work",
    "claim",
    "late",
    "crash",
]


@pytest.fixture
def prepaid_api(live_api: Api):
    """Return a prepaid client without rate limits, whose source answers."""
    limits = {"creates_per_minute": 10**6, "requests_per_minute": 10**6}
    ApiKey.objects.update(**limits)
    with played_source():
        yield live_api


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_books_add_up_after_each_operation(prepaid_api: Api):
    machine = partial(Machine, prepaid_api)
    play(machine, operations=300, steps=40, including=HAPPENED)
