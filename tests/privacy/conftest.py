"""A folder of each test's own for documents, and so for the journal."""

import pytest


@pytest.fixture(autouse=True)
def documents(settings, tmp_path):
    options = {
        **settings.STORAGES["documents"]["OPTIONS"],
        "location": tmp_path / "documents",
    }
    settings.STORAGES = {
        **settings.STORAGES,
        "documents": {**settings.STORAGES["documents"], "OPTIONS": options},
    }
    (tmp_path / "documents").mkdir()
    return tmp_path / "documents"
