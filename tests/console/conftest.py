import pytest

from tests.accounts.visitor import empty_cache as empty_cache
from tests.world.clients import Api
from tests.world.console import ConsoleVisitor
from tests.world.members import create_member


@pytest.fixture
def owner(api: Api) -> ConsoleVisitor:
    return ConsoleVisitor(create_member(api.workspace, "OWNER"))


@pytest.fixture
def admin(api: Api) -> ConsoleVisitor:
    return ConsoleVisitor(create_member(api.workspace, "ADMIN"))


@pytest.fixture
def officer(api: Api) -> ConsoleVisitor:
    return ConsoleVisitor(create_member(api.workspace, "OFFICER"))


@pytest.fixture
def viewer(api: Api) -> ConsoleVisitor:
    return ConsoleVisitor(create_member(api.workspace, "VIEWER"))


@pytest.fixture
def stranger(another_api: Api) -> ConsoleVisitor:
    """Return the owner of another workspace."""
    return ConsoleVisitor(create_member(another_api.workspace, "OWNER", "stranger"))
