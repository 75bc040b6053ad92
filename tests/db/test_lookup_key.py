"""Replacing LOOKUP_KEY: `rehash` updates the stored hashes and changes no more."""

import io
from contextlib import closing
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import TOTP, generate_totp_secret
from cryptography.exceptions import InvalidTag
from django.apps import apps
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection, models, transaction
from django.test import Client

from monitoring.models import Rule
from tests.configuration.test_refusals_to_start import database_url, refusal
from tests.world.clients import HOSTED, Api, person
from tests.world.rules import create_rule
from tests.world.subject import EVIDENCE
from tests.world.threads import start_and_block
from verification import links
from verification.accounts.management.commands import rehash as command
from verification.backoffice.models import LookupKey, fingerprints
from verification.consents.models import Consent, ConsentRecord
from verification.consents.subject_decisions import digest_of, grant
from verification.db.encryption import EncryptedJSONField, KeyedHashField, keyed_hash
from verification.db.startup import DatabaseRefused, RightsMissing
from verification.notifications.models import Block, Notification
from verification.notifications.recipients import active_blocks, block
from verification.reports.models import Report

pytestmark = pytest.mark.django_db(transaction=True)
NEW_KEY = b"n" * 32
# Hashes without a key: of random tokens, of texts, and what `LookupKey` holds.
DIGESTS = {
    "accounts.StaffInvitation.token_digest",
    "audit_trail.AuditSeal.hash",
    "backoffice.LookupKey.fingerprint",
    "consents.Consent.token_digest",
    "consents.ConsentRecord.notice_sha256",
    "consents.RetiredLink.digest",
    "payments.Payment.token_digest",
    "payments.PaymentEvent.body_sha256",
    "privacy.Erasure.signature",
    "references.Reference.token_digest",
    "workspaces.ApiKey.digest",
    # A picture, which everybody may see
    "workspaces.Brand.logo",
    "workspaces.Invitation.token_digest",
}


@pytest.fixture
def made_with_the_key(settings: Any) -> None:
    """As a migration leaves it: tests that truncate tables take the row away."""
    LookupKey.objects.all().delete()
    LookupKey.objects.create(pk=1, fingerprint=fingerprints()[-1])


@pytest.fixture
def alone() -> None:
    """End connections that earlier tests of this process left open."""
    with connection.cursor() as cursor:
        cursor.execute(
            # It waits for the end of each, for a minute at most.
            "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            " AND usename IS NOT NULL"
        )


@pytest.fixture
def add_key(settings: Any, made_with_the_key: None, alone: None) -> Any:
    def add() -> None:
        settings.LOOKUP_KEY = (*settings.LOOKUP_KEY, NEW_KEY)

    return add


def rehash(**options: Any) -> str:
    out = io.StringIO()
    call_command("rehash", stdout=out, **options)
    return out.getvalue()


def path(url: str) -> str:
    return "/" + url.split("/", 3)[3]


def consent_url(api: Api, made: dict[str, Any]) -> str:
    return api.report(made["id"])["consentState"]["consentUrl"]


def printed(api: Api) -> list[str]:
    """Links that no table holds."""
    return [
        links.genuine_url(Report.objects.get().pk),
        links.top_up_url(api.account.pk),
        *(links.block_url(message.pk) for message in Notification.objects.all()),
    ]


def found(api: Api, text: str) -> list[str]:
    return [row["id"] for row in api.get("/reports", search=text).json()["content"]]


def test_rows_are_found_under_the_new_key(api: Api, client: Client, add_key: Any):
    body = {"reports": [person()]}
    made = api.post("/reports", body, Idempotency_Key="once").json()["reports"][0]
    api.work()
    rule = create_rule(api)
    block(api.workspace.pk, [("EMAIL", "x@y.test")], Block.Reason.UNWANTED)
    asked = api.create({**person(), "consent": HOSTED, "draft": True})["id"]
    grant(Consent.objects.get(report=asked).pk, 1, EVIDENCE)
    former = LookupKey.objects.get().fingerprint
    add_key()

    told = rehash()

    assert "Leave the former keys in LOOKUP_KEY" in told
    assert bytes(LookupKey.objects.last().fingerprint) == fingerprints()[-1] != former
    for text in ("anjik", "12345678", made["id"]):
        assert made["id"] in found(api, text)
    again = api.post("/reports", body, Idempotency_Key="once").json()["reports"][0]
    assert again["id"] == made["id"]
    assert active_blocks(api.workspace.pk, [("EMAIL", "x@y.test")])
    answer = api.get("/monitoring", search="anjik").json()
    assert [row["id"] for row in answer["content"]] == [rule["id"]]
    other = api.create(person())
    api.work()
    assert api.report(other["id"])["checkResults"][0]["reused"]
    assert len(set(Report.objects.values_list("subject_id", flat=True))) == 1
    assert set(Rule.objects.values_list("subject_id", flat=True)) == set(
        Report.objects.values_list("subject_id", flat=True)
    )
    record = ConsentRecord.objects.get()
    assert bytes(record.digest) == digest_of(record, record.evidence)


def test_sent_links_still_open(api: Api, client: Client, add_key: Any):
    made = api.create({**person(email="wanjiku@kamau.test"), "consent": HOSTED})
    sent = [consent_url(api, made), *printed(api)]
    add_key()

    rehash()

    assert consent_url(api, made) not in sent
    for url in [*sent, consent_url(api, made)]:
        assert client.get(path(url), follow=True).status_code == 200


def test_sent_links_end_when_the_operator_revokes_them(
    api: Api, client: Client, add_key: Any
):
    made = api.create({**person(email="wanjiku@kamau.test"), "consent": HOSTED})
    sent = [consent_url(api, made), *printed(api)]
    add_key()

    rehash(end_links=True)

    for url in sent:
        assert client.get(path(url), follow=True).status_code == 404
    now = consent_url(api, made)
    assert client.get(path(now), follow=True).status_code == 200


def test_former_key_makes_no_link_of_a_later_report(
    api: Api, client: Client, settings: Any, add_key: Any
):
    add_key()
    rehash()
    report = Report.objects.get(pk=api.create(person())["id"])
    good = links.genuine_url(report.pk)
    settings.LOOKUP_KEY = settings.LOOKUP_KEY[:1]
    forged = links.genuine_url(report.pk)
    settings.LOOKUP_KEY = (*settings.LOOKUP_KEY, NEW_KEY)

    assert client.get(path(good)).status_code == 200
    assert client.get(path(forged)).status_code == 404


def test_second_factors_still_work(add_key: Any):
    user = User.objects.create_user("grace")
    secret = generate_totp_secret()
    factor = TOTP.activate(user, secret).instance
    sealed = factor.data["secret"]
    add_key()

    rehash()

    factor.refresh_from_db()
    assert factor.data["secret"] != sealed
    assert TOTP(factor).instance.wrap().validate_code("") is False
    assert command.SecondFactorAdapter().decrypt(factor.data["secret"]) == secret


def test_former_key_alone_makes_no_hash(settings: Any):
    former = keyed_hash("question", "12345678")

    settings.LOOKUP_KEY = (*settings.LOOKUP_KEY, NEW_KEY)

    assert keyed_hash("question", "12345678") != former
    assert keyed_hash("question", "12345678") == KeyedHashField.rehashed(
        former, [NEW_KEY]
    )


def test_rehash_changes_nothing_with_the_newest_key(
    api: Api, made_with_the_key: None, alone: None
):
    api.create(person())
    before = Report.objects.values_list("subject_id", flat=True)[0]

    assert "is in use already" in rehash()
    assert Report.objects.values_list("subject_id", flat=True)[0] == before


def test_interrupted_rehash_changes_nothing(api: Api, add_key: Any, monkeypatch: Any):
    api.create(person())
    before = Report.objects.values_list("subject_id", flat=True)[0]
    add_key()
    User.objects.create_user("grace")
    TOTP.activate(User.objects.get(), generate_totp_secret())
    # The last thing that it does: this secret cannot be opened.
    Authenticator.objects.update(data={"secret": "AAAA" * 20})

    with pytest.raises(InvalidTag):
        rehash()

    assert Report.objects.values_list("subject_id", flat=True)[0] == before


def test_rehash_refuses_while_others_are_connected(add_key: Any):
    with closing(connection.copy()) as other:
        other.ensure_connection()
        add_key()

        with pytest.raises(CommandError, match="Connections beside this one: 1"):
            rehash()


def test_rehash_refuses_a_role_without_tables(add_key: Any):
    add_key()
    with connection.cursor() as cursor:
        cursor.execute("CREATE ROLE guest; SET ROLE guest")
        try:
            with pytest.raises(CommandError, match="owner of the tables"):
                rehash()
        finally:
            cursor.execute("RESET ROLE; DROP ROLE guest")


def test_rehash_refuses_without_the_former_key(settings: Any, add_key: Any):
    settings.LOOKUP_KEY = (NEW_KEY,)

    with pytest.raises(CommandError, match="LOOKUP_KEY=new,former"):
        rehash()


def test_process_with_another_key_gets_no_connection(settings: Any, add_key: Any):
    add_key()

    with (
        closing(connection.copy()) as other,
        pytest.raises(DatabaseRefused, match="rehash"),
    ):
        other.ensure_connection()


def test_process_that_connects_during_rehash_is_refused(
    made_with_the_key: None,
):
    with closing(connection.copy()) as other:
        other.inc_thread_sharing()
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(command.LOCK)
            waiting = start_and_block(other.ensure_connection)
            LookupKey.objects.create(pk=2, fingerprint=b"of another key")

        with pytest.raises(DatabaseRefused):
            waiting.result(timeout=60)
        # It is closed, so that nothing uses it after all.
        assert other.connection is None


def test_role_without_select_gets_no_connection(made_with_the_key: None):
    with closing(connection.copy()) as other, connection.cursor() as cursor:
        cursor.execute("DROP ROLE IF EXISTS blind; CREATE ROLE blind LOGIN")
        other.settings_dict = other.settings_dict | {"USER": "blind"}

        with pytest.raises(RightsMissing, match="blind has no rights to the tables"):
            other.ensure_connection()

        assert other.connection is None
        cursor.execute("DROP ROLE blind")


@pytest.mark.slow
def test_command_with_another_key_is_refused_in_one_sentence(
    made_with_the_key: None, tmp_path: Any
):
    # It makes keys of its own in this folder.
    url = database_url("postgres", connection.settings_dict["NAME"])

    told = refusal("audit_ledger", DATABASE_URL=url, DATA_DIR=str(tmp_path))

    assert told.startswith("LOOKUP_KEY is not the key that the database was written")


def test_rehash_knows_every_hash_of_the_tables():
    """A new column of bytes is a hash under LOOKUP_KEY, or it is in DIGESTS."""
    plain = {
        f"{model._meta.label}.{field.name}"
        for model in apps.get_models()
        for field in model._meta.local_concrete_fields
        if isinstance(field, models.BinaryField)
        and not isinstance(field, EncryptedJSONField | KeyedHashField)
    }

    assert plain == DIGESTS
