import pytest

from tests.hosted.conftest import ask as ask
from tests.world import decisions
from tests.world.clients import Api
from tests.world.decisions import Officer


@pytest.fixture
def deciding_api(api: Api) -> Api:
    return decisions.deciding_api(api)


@pytest.fixture
def officer(api: Api) -> Officer:
    return Officer(api)


@pytest.fixture
def second(api: Api) -> Officer:
    return Officer(api, "OWNER", "wambui")
