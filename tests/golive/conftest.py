import pytest

from tests.console.conftest import admin as admin
from tests.console.conftest import owner as owner
from tests.console.conftest import stranger as stranger
from tests.console.conftest import viewer as viewer
from verification.batches.spreadsheet import WORKBOOKS
from verification.golive.inspection import DOCUMENTS


@pytest.fixture(autouse=True)
def own_folder(settings, tmp_path):
    """Store documents in a folder of this test."""
    documents = settings.STORAGES["documents"]
    options = {**documents["OPTIONS"], "location": tmp_path / "documents"}
    settings.STORAGES = {
        **settings.STORAGES,
        "documents": {**documents, "OPTIONS": options},
    }


@pytest.fixture(autouse=True)
def own_lock_file(monkeypatch, tmp_path):
    """Use lock files of this test, so that other processes do not block it."""
    for inspector in (DOCUMENTS, WORKBOOKS):
        file = tmp_path / inspector.module
        file.touch()
        monkeypatch.setattr(inspector, "lock_file", file)


@pytest.fixture(autouse=True)
def sandbox_checks(settings):
    """Order the company's check in the sandbox, which answers without a source."""
    settings.GO_LIVE_ENVIRONMENT = "sandbox"
