"""What nearly all rows have: an id that grows with time, and when they were made."""

from __future__ import annotations

from django.db import models
from django.utils.timezone import now

from verification.db.ids import uuid7


class Row(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)

    class Meta:
        abstract = True


class DatedRow(Row):
    created_at = models.DateTimeField(default=now, editable=False)

    class Meta:
        abstract = True
