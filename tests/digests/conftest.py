from datetime import UTC, datetime, timedelta

import pytest

from tests.world.clients import Api
from tests.world.members import create_member
from workspaces.models import Member

# Ten o'clock in Nairobi. The database's clock is later, so all messages are due.
TODAY = datetime(2026, 11, 16, 7, tzinfo=UTC)


class Clock:
    """The time of the tests, which goes on when it is told to."""

    def __init__(self, time_machine) -> None:
        self._machine = time_machine
        self.move_to(TODAY)

    def move_to(self, moment: datetime) -> None:
        self._at = moment
        self._machine.move_to(moment, tick=False)

    def pass_by(self, **time: float) -> None:
        self.move_to(self._at + timedelta(**time))


@pytest.fixture
def clock(time_machine) -> Clock:
    return Clock(time_machine)


@pytest.fixture
def officer(clock: Clock, live_api: Api) -> Member:
    member = create_member(live_api.workspace, "ADMIN", "officer")
    clock.pass_by(seconds=1)
    return member
