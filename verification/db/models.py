"""Base models: the id of nearly all rows, and the time of their creation."""

from django.db import models

from verification.db.ids import uuid7
from verification.values.clock import now


class Row(models.Model):
    """A row whose id grows with time (UUID version 7)."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)

    class Meta:
        abstract = True


class DatedRow(Row):
    """A row that also has the time of its creation."""

    created_at = models.DateTimeField(default=now, editable=False)

    class Meta:
        abstract = True
