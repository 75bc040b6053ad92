"""Storage of documents, which only the service can read."""

import pytest
from cryptography.exceptions import InvalidTag
from django.test import override_settings
from environs import Env

from tests.fakes.buckets import bucket as bucket
from tests.golive.applications import draft
from tests.golive.files import pdf
from verification.golive.documents import delete_unused, read_content, store
from verification.golive.models import Document
from verification.settings import STORAGES
from verification.settings.documents import document_storage


@pytest.fixture
def in_bucket(bucket, monkeypatch, tmp_path):
    """Configure the storage by environment variables."""
    for name, value in {
        "DOCUMENTS_BUCKET": "kyb",
        "DOCUMENTS_S3_URL": bucket.url,
        "DOCUMENTS_S3_REGION": "af-south-1",
        "DOCUMENTS_S3_ADDRESSING": "path",
        "DOCUMENTS_S3_ACCESS_KEY": "AKIATEST",
        "DOCUMENTS_S3_SECRET_KEY": "of no worth",
    }.items():
        monkeypatch.setenv(name, value)
    kept = {**STORAGES, "documents": document_storage(Env(), tmp_path)}
    with override_settings(STORAGES=kept):
        yield bucket


def document(stored) -> Document:
    return Document(file=stored.name, data_key=stored.data_key)


def test_bucket_holds_only_sealed_files(in_bucket, db):
    stored = store(pdf())

    ((path, sealed),) = in_bucket.objects.items()
    assert path == f"/kyb/{stored.name}"
    assert b"%PDF" not in sealed
    assert in_bucket.headers[0]["x-amz-acl"] == "private"
    assert read_content(document(stored)) == pdf()
    delete_unused(stored.name)
    assert in_bucket.objects == {}


def test_failed_deletion_does_not_stop_the_member(in_bucket, db, caplog):
    stored = store(pdf())
    in_bucket.keeps_all = True

    delete_unused(stored.name)

    assert f"document {stored.name} is left in the storage" in caplog.text


def test_file_stays_while_a_row_names_it(owner):
    found = draft(owner.member).documents.get(kind="CR12")

    delete_unused(found.file)

    assert read_content(found) == pdf()


def test_swapped_file_cannot_be_read(owner):
    one, two = draft(owner.member).documents.order_by("id")[:2]
    one.file = two.file

    with pytest.raises(InvalidTag):
        read_content(one)


def test_the_same_file_is_sealed_differently_each_time(db):
    one, two = store(pdf()), store(pdf())

    assert one.name != two.name
    assert one.data_key != two.data_key
