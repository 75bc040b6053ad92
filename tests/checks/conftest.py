from decimal import Decimal

import pytest

from tests.checks.source import source as source
from tests.world.clients import Api
from tests.world.logs import log_lines as log_lines
from workspaces.ledger import top_up


@pytest.fixture
def paying_api(live_api: Api) -> Api:
    """A production key of a workspace with money."""
    top_up(live_api.workspace, "production", Decimal(1_000_000), actor="tests", note="")
    return live_api
