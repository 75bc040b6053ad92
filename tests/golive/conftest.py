import pytest

from tests.console.conftest import admin as admin
from tests.console.conftest import owner as owner
from tests.console.conftest import stranger as stranger
from tests.console.conftest import viewer as viewer
from tests.files.conftest import own_folder as own_folder
from tests.files.conftest import own_lock_file as own_lock_file


@pytest.fixture(autouse=True)
def sandbox_checks(settings):
    """Order the company's check in the sandbox, which answers without a source."""
    settings.GO_LIVE_ENVIRONMENT = "sandbox"
