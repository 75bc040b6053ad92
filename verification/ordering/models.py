from __future__ import annotations

from django.db import models
from django.utils.timezone import now

from verification.encryption import EncryptedJSONField, KeyedHashField
from verification.ids import uuid7
from workspaces.models import Environment, Workspace


class IdempotentAnswer(models.Model):
    """The answer to a request that carried an Idempotency-Key, to be given again."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    workspace = models.ForeignKey(Workspace, models.CASCADE)
    environment = models.CharField(max_length=10, choices=Environment)
    # Keyed hashes: a client may have put a person's number into its key.
    key = KeyedHashField()
    fingerprint = KeyedHashField()
    body = EncryptedJSONField()
    created_at = models.DateTimeField(default=now, editable=False, db_index=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "environment", "key"],
                name="one_answer_an_idempotency_key",
            )
        ]

    def __str__(self) -> str:
        return str(self.id)
