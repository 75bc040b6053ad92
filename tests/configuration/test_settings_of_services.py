from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from verification.settings.connections import document_storage
from verification.settings.providers import payment_providers


def test_empty_folder_of_documents_is_the_one_in_the_data(monkeypatch):
    monkeypatch.setenv("DOCUMENTS_DIR", "")

    storage = document_storage(Path("/data"))

    assert storage["OPTIONS"]["location"] == Path("/data/documents")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DOCUMENTS_BUCKET", "s3://kyb"),
        ("DOCUMENTS_S3_URL", "minio:9000"),
        ("DOCUMENTS_S3_ADDRESSING", "paths"),
        ("DOCUMENTS_S3_ACCESS_KEY", "half of the credentials"),
        ("DOCUMENTS_S3_SECRET_KEY", "half of the credentials"),
    ],
)
def test_setting_of_the_bucket_that_cannot_work_is_refused(name, value, monkeypatch):
    monkeypatch.setenv("DOCUMENTS_BUCKET", "kyb")
    monkeypatch.setenv(name, value)

    with pytest.raises(ImproperlyConfigured, match=name):
        document_storage(Path("/data"))


def test_address_in_place_of_the_domain_of_payers_is_refused(monkeypatch):
    monkeypatch.setenv("PAYSTACK_SECRET_KEY", "sk_live_of_no_worth")
    monkeypatch.setenv("PAYSTACK_FALLBACK_EMAIL", "pay@acacia.test")

    with pytest.raises(ImproperlyConfigured, match="PAYSTACK_FALLBACK_EMAIL must be"):
        payment_providers(14)
