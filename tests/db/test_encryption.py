import io
import os
import re
from contextlib import closing

import pytest
from cryptography.exceptions import InvalidTag
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import DatabaseError, connection

from tests.world.clients import Api, person
from verification.db import encryption
from verification.db.encryption import UnknownKey, keyed_hash, keyed_uuid
from verification.db.ids import uuid7
from verification.reports.models import Report
from verification.values.masking import normalise_identifier
from webhooks.models import Event
from workspaces.create import create_workspace
from workspaces.models import Workspace

NEW_KEY = b"n" * 32
EVENT = b'{"workspaceId":"01a21e62-4a59-7077-b436-04bf134e8c89","reportId":null}'
PLACE = {"column": "reports_report.subject", "row": "7"}


@pytest.fixture
def sealed() -> bytes:
    return encryption.seal(b"12345678", **PLACE)


@pytest.fixture
def rotate(settings):
    """Put a new key in front of the old one, as an operator does."""

    def rotate():
        settings.FIELD_KEYS = [("new", NEW_KEY), *settings.FIELD_KEYS]

    return rotate


def stored(workspace: Workspace) -> bytes:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT owner_email FROM workspaces_workspace WHERE id = %s",
            [workspace.pk],
        )
        return bytes(cursor.fetchone()[0])


def store(workspace: Workspace, value: bytes) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE workspaces_workspace SET owner_email = %s WHERE id = %s",
            [value, workspace.pk],
        )


def reencrypt(batch: int = 500) -> tuple[int, int, int]:
    """Run the command; return the numbers of stale, resealed and skipped values."""
    out = io.StringIO()
    call_command("reencrypt", batch=batch, stdout=out)
    stale, resealed, left = map(int, re.findall(r"\d+", out.getvalue()))
    return stale, resealed, left


def test_unseal_returns_the_sealed_value(sealed):
    assert encryption.unseal(sealed, **PLACE) == b"12345678"
    assert b"12345678" not in sealed


def test_value_sealed_by_the_first_release_is_readable():
    sealed = bytes.fromhex(
        "01026b317b2f7d461434c4274ab0356c6cfbb9c7dde45e7118adeebb"
        "c092a1dfba2adfc74158ea49"
    )

    assert encryption.unseal(sealed, **PLACE) == b"12345678"


def test_compressed_value_of_the_first_such_release_is_readable():
    sealed = bytes.fromhex(
        "03026b31569d91842ceb16a3b14afcb3ddfd0ce37fe064e9411a22ff"
        "7489978ab141d1231f03100b37c9a455d374fd4e920aff96639112e2"
        "ff405a34c2ecd344e8d3fc986cfd8e9fcecb9b193e5faf05b9b29152"
        "0dfc091b41"
    )

    assert encryption.unseal(sealed, **PLACE) == EVENT
    assert encryption.is_compressed(sealed)


def test_payload_of_an_event_becomes_a_quarter(api: Api, settings):
    lengths = {}
    for compresses in (True, False):
        settings.COMPRESS_SEALED_VALUES = compresses
        report = api.create(person())
        created = Event.objects.get(report_id=report["id"])
        lengths[compresses] = len(created.__dict__["payload"])
        assert created.payload["reportId"] == report["id"]

    assert lengths[True] < lengths[False] / 4


def test_equal_values_are_sealed_differently(sealed):
    assert encryption.seal(b"12345678", **PLACE) != sealed


@pytest.mark.parametrize("elsewhere", [{"row": "8"}, {"column": "reports_report.name"}])
def test_value_copied_to_another_row_or_column_is_refused(sealed, elsewhere):
    with pytest.raises(InvalidTag):
        encryption.unseal(sealed, **PLACE | elsewhere)


def test_changed_byte_is_refused(sealed):
    for position in range(len(sealed)):
        changed = bytearray(sealed)
        changed[position] ^= 1
        with pytest.raises((InvalidTag, UnknownKey)):
            encryption.unseal(bytes(changed), **PLACE)


@pytest.mark.parametrize("length", [0, 1, 2, 4, 15, 20])
def test_cut_value_is_refused(sealed, length):
    with pytest.raises((InvalidTag, UnknownKey, ValueError)):
        encryption.unseal(sealed[:length], **PLACE)


def test_error_names_the_unknown_key(sealed):
    with pytest.raises(UnknownKey, match="FIELD_KEYS has no key 'zz'"):
        encryption.unseal(sealed.replace(b"\x02k1", b"\x02zz", 1), **PLACE)


def test_plain_text_in_the_column_is_refused(workspace):
    store(workspace, b'"owner@acacia.test"')

    with pytest.raises(UnknownKey):
        _ = Workspace.objects.get().owner_email


def test_value_of_another_row_is_refused(workspace):
    value = stored(workspace)
    workspace.pk = uuid7()
    workspace.save(force_insert=True)
    store(workspace, value)

    with pytest.raises(InvalidTag):
        _ = Workspace.objects.get(pk=workspace.pk).owner_email


def test_row_keeps_its_value_when_it_is_saved(workspace):
    row = Workspace.objects.get()
    before = stored(workspace)

    row.save()
    assert stored(workspace) == before

    assert row.owner_email == "owner@acacia.test"
    row.save()
    assert Workspace.objects.get().owner_email == "owner@acacia.test"


def test_value_may_be_changed_and_removed(workspace):
    row = Workspace.objects.get()
    row.owner_email = {"été": ["☂", None, 1.5]}
    row.save()
    assert Workspace.objects.get().owner_email == {"été": ["☂", None, 1.5]}


def test_update_refuses_a_plain_value(workspace):
    with pytest.raises(TypeError):
        Workspace.objects.update(owner_email="plain@acacia.test")


def test_old_values_are_readable_with_a_new_key(workspace, rotate):
    rotate()

    assert Workspace.objects.get().owner_email == "owner@acacia.test"
    assert encryption.key_id_of(stored(workspace)) == "k1"

    workspace.save()
    assert encryption.key_id_of(stored(workspace)) == "new"


def test_reencrypt_seals_all_columns_of_all_tables(api: Api, rotate):
    api.create(person(), person(idNumber="87654321"))
    api.work()
    rotate()

    stale, resealed, left = reencrypt(batch=3)

    # Each report has a subject, an attestation and three findings; one owner is shared.
    assert stale >= 2 * 5 + Event.objects.filter(payload__isnull=False).count() + 1
    assert (resealed, left) == (stale, 0)
    assert reencrypt() == (0, 0, 0)
    assert encryption.is_compressed(stored(api.workspace))
    report = Report.objects.first()
    assert report.subject
    assert report.consent.attestation
    assert all(result.finding for result in report.results.all())


@pytest.mark.django_db(transaction=True)
def test_reencrypt_leaves_locked_rows_for_the_next_run(workspace, rotate):
    rotate()
    with closing(connection.copy()) as other:
        other.set_autocommit(False)
        with other.cursor() as cursor:
            cursor.execute("UPDATE workspaces_workspace SET name = 'in use'")

        stale, resealed, left = reencrypt()
        # A connection that closes leaves its locks a moment later.
        other.rollback()

    # The address of the owner, and the contact.
    assert (stale - resealed, left) == (2, 2)
    assert reencrypt() == (2, 2, 0)


def test_reencrypt_keeps_the_trigger_of_an_append_only_table(workspace, rotate):
    rotate()
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute(
            """
            CREATE TRIGGER workspaces_workspace_append_only
            BEFORE UPDATE OR DELETE ON workspaces_workspace
            FOR EACH ROW EXECUTE FUNCTION append_only()
            """
        )

    stale, resealed, left = reencrypt()
    assert (stale - resealed, left) == (0, 0)
    assert stale

    with pytest.raises(DatabaseError, match="workspace is append-only"):
        workspace.save()


@pytest.mark.parametrize("start", [b"\x01\x02zz", b"\x01\x02k1", b"\x09"])
def test_reencrypt_goes_on_after_a_value_that_does_not_open(workspace, rotate, start):
    other = create_workspace(name="Other", owner_email="owner@other.test")
    rotate()
    store(workspace, start + os.urandom(40))

    with pytest.raises(CommandError, match=f"of those left: .* {workspace.pk}[.]"):
        reencrypt(batch=1)

    assert encryption.key_id_of(stored(other)) == "new"


def test_reencrypt_needs_a_batch_of_one_row_at_least(db):
    with pytest.raises(CommandError, match="at least one row"):
        reencrypt(batch=0)


def test_keyed_hash_is_hmac_sha256_of_its_parts(settings):
    settings.LOOKUP_KEY = (bytes([5]) * 32,)

    # printf 'identity\x1facc_1\x1fke\x1f12345678' |
    #     openssl dgst -sha256 -mac HMAC -macopt hexkey:0505...05
    assert keyed_hash("identity", "acc_1", "ke", "12345678").hex() == (
        "f32e69743e439e69ccea99827afa471439ae39d08db636577fdcd7b1410409f9"
    )


def test_keyed_hash_depends_on_purpose_parts_and_key(settings):
    one = keyed_hash("identity", "a", "b")

    assert keyed_hash("search", "a", "b") != one
    assert keyed_hash("identity", "ab", "") != one
    assert keyed_hash("identity", "a", "b") == one
    settings.LOOKUP_KEY = (bytes(32),)
    assert keyed_hash("identity", "a", "b") != one


def test_keyed_uuid_has_version_8():
    made = keyed_uuid("subject", "12345678")

    assert made == keyed_uuid("subject", "12345678")
    assert made != keyed_uuid("subject", "12345679")
    assert (made.version, made.variant) == (8, "specified in RFC 4122")


@pytest.mark.parametrize(
    ("written", "compared"),
    [
        (" 1234-5678 ", "12345678"),
        ("pvt/ab.12 cde", "PVTAB12CDE"),
        ("\uff11\uff12\uff13", "123"),
        ("1\u00a02\t3", "123"),
    ],
)
def test_identifiers_are_compared_without_case_and_spacing(written, compared):
    assert normalise_identifier(written) == compared
