"""The audit trail, and what shows that a process has the keys of the database.

A process with the wrong LOOKUP_KEY gets no database connection: it would find no row by
its keyed hash, and write rows that other processes cannot find. Only `manage.py rehash`
may connect, to write the hashes with a new key. A process that cannot open the probe of
FIELD_KEYS gets none either: it could read nobody's data, and would seal new data with a
key that other processes lack.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from cryptography.exceptions import InvalidTag
from django.contrib.postgres.fields import ArrayField
from django.db import ProgrammingError, connection, models
from django.db.backends.signals import connection_created
from django.db.models import F
from psycopg.errors import InsufficientPrivilege, UndefinedTable

from verification.db.encryption import (
    EncryptedJSONField,
    UnknownKey,
    key_id_of,
    keyed_hashes,
)
from verification.db.models import DatedRow
from verification.db.startup import KeysRefused, RightsMissing
from verification.values.clock import now

KEYS = """
SELECT
    (SELECT fingerprint FROM backoffice_lookupkey ORDER BY id DESC LIMIT 1),
    (SELECT value FROM backoffice_keyprobe WHERE id = 1)
"""
OTHER_KEY = (
    "LOOKUP_KEY is not the key that the database was written with. Set that one again, "
    "or write LOOKUP_KEY=new,former, stop the service and run: verification rehash"
)
MISSING_KEY = (
    "FIELD_KEYS lacks the key {}, which the values of the database need. Add it at the "
    "end; docs/operator/access.md says how to rotate the keys."
)
WRONG_KEY = (
    "FIELD_KEYS has another key as {} than the one that the database was written with. "
    "Set the former one again."
)
NO_RIGHTS = (
    "The role {0} has no rights to the tables; as their owner, run: verification "
    "grant_rights {0}"
)


class ActorKind(models.TextChoices):
    STAFF = "STAFF"
    MEMBER = "MEMBER", "Member of a workspace"
    KEY = "KEY", "API key of a workspace"
    SERVICE = "SERVICE", "The service itself"


class AuditEvent(DatedRow):
    """One act of an actor on a row. A trigger refuses changes and deletions."""

    Actor = ActorKind

    actor_kind = models.CharField(max_length=7, choices=ActorKind)
    # The user name at that time.
    actor = models.CharField(max_length=150)
    # noun.verb, such as "refund.approved" or "report.revealed"
    action = models.CharField(max_length=60)
    # "reports.report" and its id, as the admin names them
    object_type = models.CharField(max_length=60)
    object_id = models.CharField(max_length=64)
    workspace_id = models.UUIDField(null=True)
    # Names of fields that the actor changed or saw, never their values.
    fields = ArrayField(models.CharField(max_length=60), default=list)
    reason = models.CharField(max_length=500, blank=True)
    request_id = models.CharField(max_length=128, blank=True)
    # The client's network address.
    address = EncryptedJSONField(null=True)

    class Meta:
        default_permissions = ("view",)
        permissions = [("reveal_personal", "Can reveal personal data, with a reason")]
        indexes = [
            models.Index(F("created_at").desc(), name="audit_by_time"),
            models.Index("actor", F("created_at").desc(), name="audit_of_an_actor"),
            models.Index(
                "object_id", F("created_at").desc(), name="audit_of_an_object"
            ),
            models.Index("action", F("created_at").desc(), name="audit_of_an_action"),
            models.Index(
                "workspace_id",
                F("created_at").desc(),
                condition=models.Q(workspace_id__isnull=False),
                name="audit_of_a_workspace",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.actor} {self.action}"


class LookupKey(models.Model):
    """A version of LOOKUP_KEY; the last row is the one that the tables use now."""

    # The number of keys in this LOOKUP_KEY.
    id = models.PositiveSmallIntegerField(primary_key=True, editable=False)
    # A keyed hash of a constant: each key has another one.
    fingerprint = models.BinaryField()
    since = models.DateTimeField(default=now, editable=False)
    # True if it ended hosted links of earlier keys, because the keys may have leaked.
    ends_links = models.BooleanField(default=False, editable=False)

    class Meta:
        default_permissions = ()
        ordering = ["pk"]

    def __str__(self) -> str:
        return f"LOOKUP_KEY since {self.since:%Y-%m-%d}"


class KeyProbe(models.Model):
    """One sealed value, which `migrate` writes and `reencrypt` seals again."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1, editable=False)
    value = EncryptedJSONField()

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return "probe of FIELD_KEYS"


def ensure_probe(**more: object) -> None:
    """Write the probe unless it is there; a handler of `post_migrate`."""
    # `migrate` may go back to a version without the table.
    if KeyProbe._meta.db_table in connection.introspection.table_names():
        KeyProbe.objects.get_or_create(pk=1, defaults={"value": "probe"})


def refuse_wrong_keys() -> None:
    connection_created.connect(_refuse_wrong_key, dispatch_uid="keys")


@contextmanager
def allow_wrong_key() -> Iterator[None]:
    connection_created.disconnect(dispatch_uid="keys")
    try:
        yield
    finally:
        refuse_wrong_keys()


def fingerprints() -> list[bytes]:
    """Return the fingerprint of each key of LOOKUP_KEY, the oldest first."""
    return keyed_hashes("lookup key")


def was_in_use(keys: int, at: datetime) -> bool:
    """Return whether links of that time use the first `keys` keys and still work.

    A later `rehash` may have ended them.
    """
    later = LookupKey.objects.filter(pk__gt=keys)
    return bool(later) and at < later[0].since and not any(k.ends_links for k in later)


def _refuse_wrong_key(connection: Any, **more: object) -> None:
    """Raise KeysRefused if the database has other keys, or RightsMissing."""
    role = connection.connection.info.user
    try:
        with connection.cursor() as cursor:
            cursor.execute(KEYS)
            fingerprint, probe = cursor.fetchone()
        if fingerprint and bytes(fingerprint) != fingerprints()[-1]:
            raise KeysRefused(OTHER_KEY)
        if probe:
            _open_probe(bytes(probe))
    except ProgrammingError as e:
        if isinstance(e.__cause__, UndefinedTable):
            return
        connection.close()
        if isinstance(e.__cause__, InsufficientPrivilege):
            raise RightsMissing(NO_RIGHTS.format(role)) from None
        raise
    except BaseException:
        # An open connection would be used again without this check.
        connection.close()
        raise


def _open_probe(sealed: bytes) -> None:
    try:
        KeyProbe._meta.get_field("value").open(sealed, 1)
    except UnknownKey:
        raise KeysRefused(MISSING_KEY.format(key_id_of(sealed))) from None
    except InvalidTag:
        raise KeysRefused(WRONG_KEY.format(key_id_of(sealed))) from None
