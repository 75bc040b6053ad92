import pytest

from tests.accounts.visitor import empty_cache as empty_cache
from tests.console.visitor import Visitor
from tests.world.clients import Api
from tests.world.members import create_member


@pytest.fixture
def owner(api: Api) -> Visitor:
    return Visitor(create_member(api.workspace, "OWNER"))


@pytest.fixture
def admin(api: Api) -> Visitor:
    return Visitor(create_member(api.workspace, "ADMIN"))


@pytest.fixture
def viewer(api: Api) -> Visitor:
    return Visitor(create_member(api.workspace, "VIEWER"))


@pytest.fixture
def stranger(another_api: Api) -> Visitor:
    """The owner of another workspace."""
    return Visitor(create_member(another_api.workspace, "OWNER", "stranger"))
