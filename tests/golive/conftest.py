import pytest

from tests.console.conftest import admin as admin
from tests.console.conftest import owner as owner
from tests.console.conftest import stranger as stranger
from tests.console.conftest import viewer as viewer


@pytest.fixture(autouse=True)
def the_sandbox_answers(settings):
    """In production no register is configured."""
    settings.GO_LIVE_ENVIRONMENT = "sandbox"
