"""Files of members: uploads that wait for their order, and the batches ordered."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import F, Q
from django.utils.timezone import now

from verification.db.encryption import EncryptedJSONField, KeyedHashField
from verification.db.ids import uuid7
from verification.jobs.queue import job
from verification.values import clock
from workspaces.models import Environment, Workspace

# An upload that nobody orders is deleted after this time.
UPLOAD_RETENTION = timedelta(hours=24)
# Of each member; another upload deletes the oldest.
MAX_UPLOADS = 20


class Upload(models.Model):
    """The rows of a file, until they are ordered or UPLOAD_RETENTION is over."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    # The index `uploads_of_a_workspace` begins with this column.
    workspace = models.ForeignKey(
        Workspace, models.PROTECT, related_name="uploads", db_index=False
    )
    environment = models.CharField(max_length=10, choices=Environment)
    # The member who may order it, as in timelines: "member 0199…"
    created_by = models.CharField(max_length=100)
    # {name, choice, common, lines, workbook, subjects}: see console/batches.py.
    # `subjects` are their ids, as reports have them.
    content = EncryptedJSONField()
    created_at = models.DateTimeField(default=now, editable=False)

    class Meta:
        indexes = [
            models.Index(
                fields=["workspace", "environment", "created_at"],
                name="uploads_of_a_workspace",
            ),
            models.Index(fields=["created_at"], name="uploads_by_age"),
        ]

    def __str__(self) -> str:
        return str(self.pk)


class Batch(models.Model):
    """The reports that were ordered by one file. It has the id of its upload.

    The digest is that of the cells and of how often they were ordered before. Another
    name or format does not change it, so that an order of the same cells needs the
    number of the earlier ones, which its member has confirmed.
    """

    id = models.UUIDField(primary_key=True, editable=False)
    # The constraint `one_batch_a_file` begins with this column.
    workspace = models.ForeignKey(
        Workspace, models.PROTECT, related_name="batches", db_index=False
    )
    environment = models.CharField(max_length=10, choices=Environment)
    digest = KeyedHashField()
    # The name of the file; null once one of its reports is erased.
    name = EncryptedJSONField(null=True)
    # In the order of the rows
    report_ids = ArrayField(models.UUIDField())
    # The number of each row in the file
    row_numbers = ArrayField(models.PositiveSmallIntegerField())
    # Whether they were saved as drafts
    draft = models.BooleanField()
    created_by = models.CharField(max_length=100)
    created_at = models.DateTimeField(default=now, editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "environment", "digest"], name="one_batch_a_file"
            ),
            models.CheckConstraint(
                name="batches_number_their_reports",
                condition=Q(report_ids__len__gt=0)
                & Q(report_ids__len=F("row_numbers__len")),
            ),
        ]
        indexes = [
            models.Index(
                fields=["workspace", "environment", "created_at"],
                name="batches_by_time",
            ),
            # To erase the name of the file with the first of its people
            GinIndex(fields=["report_ids"], name="batches_of_a_report"),
        ]
        verbose_name_plural = "batches"

    def __str__(self) -> str:
        return str(self.pk)


@job
def purge_uploads() -> int:
    """Delete uploads that nobody has ordered in time; return how many."""
    before = clock.now() - UPLOAD_RETENTION
    deleted, _ = Upload.objects.filter(created_at__lt=before).delete()
    return deleted


def delete_uploads_about(
    workspace_id: UUID | None,
    environment: str,
    subject_id: UUID | None,
    before: datetime,
) -> int:
    """Delete the uploads of before this time that name the subject; return how many."""
    found = Upload.objects.filter(
        workspace=workspace_id, environment=environment, created_at__lte=before
    )
    ids = [one.pk for one in found if str(subject_id) in one.content["subjects"]]
    Upload.objects.filter(pk__in=ids).delete()
    return len(ids)
