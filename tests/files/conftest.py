import pytest

from tests.console.conftest import owner as owner
from verification.batches.spreadsheet import WORKBOOKS, WORKBOOKS_OF_NEWCOMERS
from verification.files.inspection import DOCUMENTS, NEWCOMERS


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
    for inspector in (DOCUMENTS, NEWCOMERS, WORKBOOKS, WORKBOOKS_OF_NEWCOMERS):
        file = tmp_path / inspector.lock_file.name
        file.touch()
        monkeypatch.setattr(inspector, "lock_file", file)
