"""A folder of each test's own for documents, and fakes of the providers."""

import pytest

from tests.fakes.africastalking import sms_gateway as sms_gateway
from tests.fakes.companies_house import companies_house as companies_house
from tests.fakes.gleif import gleif as gleif
from tests.fakes.kra import kra as kra
from tests.fakes.metropol import metropol as metropol
from tests.fakes.opensanctions import opensanctions as opensanctions
from tests.fakes.paystack import paystack as paystack
from tests.fakes.prembly import prembly as prembly
from tests.fakes.smile_id import smile_id as smile_id
from tests.fakes.smile_id_v3 import smile_id_v3 as smile_id_v3
from tests.fakes.stripe import stripe_api as stripe_api


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
