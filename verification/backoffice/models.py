from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F
from django.utils.timezone import now

from verification.db.encryption import EncryptedJSONField
from verification.db.ids import uuid7


class ActorKind(models.TextChoices):
    STAFF = "STAFF"
    MEMBER = "MEMBER", "Member of a workspace"
    SERVICE = "SERVICE", "The service itself"


class AuditEvent(models.Model):
    """One act of an actor on a row. A trigger refuses changes and deletions."""

    Actor = ActorKind

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
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
    created_at = models.DateTimeField(default=now, editable=False)

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
    # A keyed hash of a constant, which tells the keys apart.
    fingerprint = models.BinaryField()
    since = models.DateTimeField(default=now, editable=False)
    # Whether hosted links of earlier keys ended, because the keys may have leaked.
    ends_links = models.BooleanField(default=False, editable=False)

    class Meta:
        default_permissions = ()
        ordering = ["pk"]

    def __str__(self) -> str:
        return f"LOOKUP_KEY since {self.since:%Y-%m-%d}"
