from decimal import Decimal

import pytest

from tests.world.clients import Api
from tests.world.logs import log_lines as log_lines
from tests.world.orders import _the_ledger_adds_up as _the_ledger_adds_up
from workspaces.ledger import top_up


@pytest.fixture
def paying_api(live_api: Api) -> Api:
    """A production key of a workspace with money; no live source is configured."""
    top_up(live_api.workspace, "production", Decimal(5_000), actor="tests", note="")
    return live_api
