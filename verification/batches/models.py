"""Files of members: uploads that wait for their order, mappings, batches ordered."""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import F, Q

from verification.db.encryption import EncryptedJSONField, KeyedHashField
from verification.db.models import DatedRow, Row
from verification.jobs.queue import job
from verification.reports.models import IDENTIFIERS
from verification.values.clock import now
from workspaces.models import Environment, Workspace

# An upload that nobody orders is deleted after this time.
UPLOAD_RETENTION = timedelta(hours=24)
# The limit of each member; another upload deletes the oldest.
MAX_UPLOADS = 20
# The limit of each workspace and environment; another mapping deletes the oldest.
MAX_MAPPINGS = 100
# A number of fewer characters must be all that a cell holds.
SHORTEST_NUMBER = 5
# The digits of a phone number without the code of its country
PHONE_DIGITS = 9


class Upload(DatedRow):
    """The rows of a file, until they are ordered or UPLOAD_RETENTION is over."""

    # The index `uploads_of_a_workspace` begins with this column.
    workspace = models.ForeignKey(
        Workspace, models.PROTECT, related_name="uploads", db_index=False
    )
    environment = models.CharField(max_length=10, choices=Environment)
    # The member who may order it, as in timelines: "member 0199…"
    created_by = models.CharField(max_length=100)
    # {name, choice, common, lines, heading, columns, mended, skipped, workbook,
    # subjects}: see console/batches.py. `subjects` are ids, as reports have them.
    content = EncryptedJSONField()

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
    # True if the batch saved drafts and launched nothing
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
            # For the erasure of a file's name with the first of its people
            GinIndex(fields=["report_ids"], name="batches_of_a_report"),
        ]
        verbose_name_plural = "batches"

    def __str__(self) -> str:
        return str(self.pk)


class ColumnMapping(Row):
    """A workspace's choice of inputs for the columns of files with these headings.

    It applies to later files with the same headings. Headings are stored as a hash
    alone: in a file without headings, the first line has a person's data.
    """

    # The constraint `one_mapping_of_headings` begins with this column.
    workspace = models.ForeignKey(
        Workspace, models.PROTECT, related_name="column_mappings", db_index=False
    )
    environment = models.CharField(max_length=10, choices=Environment)
    # The keyed hash of all headings and of the kind of subjects
    headings = KeyedHashField()
    # By the headings in alphabetical order: the name of an input, "" for a column that
    # is ignored, or null to guess
    inputs = models.JSONField()
    updated_at = models.DateTimeField(default=now, editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "environment", "headings"],
                name="one_mapping_of_headings",
            )
        ]

    def __str__(self) -> str:
        return str(self.pk)


@job
def purge_uploads() -> int:
    """Delete uploads that nobody has ordered in time; return how many."""
    before = now() - UPLOAD_RETENTION
    deleted, _ = Upload.objects.filter(created_at__lt=before).delete()
    return deleted


def delete_uploads_about(
    workspace_id: UUID | None,
    environment: str,
    subject_ids: Iterable[UUID],
    before: datetime,
    details: Iterable[dict[str, Any]],
) -> int:
    """Delete the uploads of before this time that may name a subject.

    `details` are members of the subject as reports have them. A number in a file may be
    damaged, or in a column that is not read, so each row is searched for them. Returns
    how many uploads were deleted.
    """
    found = Upload.objects.filter(
        workspace=workspace_id, environment=environment, created_at__lte=before
    )
    if not found.exists():
        return 0
    wanted = set(map(str, subject_ids))
    names: set[frozenset[str]] = set()
    numbers: set[str] = set()
    for members in details:
        names.add(frozenset(_words(members.get("fullName", ""))))
        numbers.update(_numbers(members))
    ids = [
        one.pk
        for one in found.iterator()
        if not wanted.isdisjoint(one.content["subjects"])
        or any(_names_one_of(cells, names, numbers) for cells in _rows(one.content))
    ]
    Upload.objects.filter(pk__in=ids).delete()
    return len(ids)


def _numbers(members: dict[str, Any]) -> Iterator[str]:
    """Yield the numbers and addresses of the subject, as `_words` joined."""
    for key in (*IDENTIFIERS, "email", "phone"):
        value = "".join(_words(members.get(key, "")))
        value = value[-PHONE_DIGITS:] if key == "phone" else value.lstrip("0")
        if value:
            yield value


def _rows(content: dict[str, Any]) -> Iterator[list[str]]:
    yield [content["name"], *map(str, content["common"].values())]
    mended = content.get("mended", {})
    for number, cells in content["lines"]:
        yield [text for text, _ in cells] + list(mended.get(str(number), {}).values())


def _names_one_of(
    cells: list[str], names: set[frozenset[str]], numbers: set[str]
) -> bool:
    """Return whether a row has all words of a name, or a number anywhere in a cell."""
    if any(name and name <= {*_words(*cells)} for name in names):
        return True
    texts = ["".join(_words(cell)) for cell in cells]
    return any(
        number in text if len(number) >= SHORTEST_NUMBER else number == text.lstrip("0")
        for number in numbers
        for text in texts
    )


def _words(*texts: str) -> list[str]:
    """Return the words in capitals, without accents, direction marks and the like."""
    folded = unicodedata.normalize("NFKD", " ".join(texts)).upper()
    kept = (c for c in folded if unicodedata.category(c) not in {"Cf", "Mn"})
    return re.findall(r"[^\W_]+", "".join(kept))
