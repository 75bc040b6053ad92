import pytest

from tests.console.conftest import admin as admin
from tests.console.conftest import owner as owner
from tests.console.conftest import stranger as stranger
from tests.console.conftest import viewer as viewer
from verification.golive import inspection


@pytest.fixture(autouse=True)
def a_folder_of_its_own(settings, tmp_path):
    """Other tests hand documents in at the same time."""
    documents = settings.STORAGES["documents"]
    options = {**documents["OPTIONS"], "location": tmp_path / "documents"}
    settings.STORAGES = {
        **settings.STORAGES,
        "documents": {**documents, "OPTIONS": options},
    }


@pytest.fixture(autouse=True)
def turns_of_its_own(monkeypatch, tmp_path):
    """Other test processes look into files of this machine, too."""
    (tmp_path / "turn").touch()
    monkeypatch.setattr(inspection, "LOCK_FILE", tmp_path / "turn")


@pytest.fixture(autouse=True)
def the_sandbox_answers(settings):
    """In production no register is configured."""
    settings.GO_LIVE_ENVIRONMENT = "sandbox"
