import pytest

from tests.webhooks.senders import connects as connects
from tests.webhooks.senders import post as post
from tests.webhooks.senders import under_way as under_way
from tests.world.receiver import Receiver
from tests.world.receiver import authority as authority
from tests.world.receiver import receiver as receiver


@pytest.fixture
def url(receiver: Receiver) -> str:
    return receiver.url("/hook", host="localhost")
