from collections.abc import Callable, Iterator

import pytest

from tests.accounts.visitor import empty_cache as empty_cache
from tests.world.clients import Api
from tests.world.console import ConsoleVisitor
from tests.world.members import create_member
from verification.console import navigation, needs


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


@pytest.fixture
def stop_counting_at(
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[[int], None]]:
    """Return a function that sets where counts stop, also in the cached statement."""

    def stop_at(most: int) -> None:
        for module in (navigation, needs):
            monkeypatch.setattr(module, "MOST", most)

    navigation._counting.cache_clear()
    yield stop_at
    navigation._counting.cache_clear()
