"""The journal of erasures, withdrawals and objections: no backup undoes them.

Django's storage `documents` holds it, in the folder `erasures`, by months. The file of
an erasure is written before the rows are erased, the other ones soon after the commit.
Files stay for ever. They name ids, digests and times, and nobody. `replay` carries out
what a restored database does not know.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from django.conf import settings
from django.core.files.storage import Storage, storages
from django.db import transaction

from verification.backoffice.models import fingerprints
from verification.db.encryption import KeyedUUIDField, KeyedUUIDsField
from verification.files.storage import save_whole
from verification.privacy.models import (
    Erasure,
    JournalEntry,
    RequestKind,
    RetentionRun,
    SubjectRequest,
)
from verification.privacy.requests import deadline
from verification.reports.models import Report
from verification.values.local_time import utc_text
from verification.web.log import error_name

FOLDER = "erasures"
RETENTION = "retention-"
SUFFIX = ".json"
# The actor of what is carried out again
ACTOR = "journal"
BATCH_SIZE = 1_000


class JournalUnavailable(Exception):
    """The storage cannot be read or written. The text says why."""


def write_erasure(erasure: Erasure) -> None:
    """Write the file of an erasure whose reports are known. No transaction is open."""
    request = erasure.request
    write_file(
        _name(erasure.created_at, str(erasure.pk)),
        {
            "erasure": str(erasure.pk),
            "request": str(request.pk),
            "origin": request.origin,
            "workspace": str(request.workspace_id),
            "environment": request.environment,
            **person_of(request),
            "searchedBy": sorted(erasure.searched_by),
            "requestedAt": utc_text(erasure.created_at),
            "foundAt": utc_text(erasure.found_at or erasure.created_at),
            "reports": sorted(map(str, erasure.report_ids)),
            "rules": sorted(map(str, erasure.rule_ids)),
        },
    )


@transaction.atomic
def restore_erasure(entry: dict[str, Any]) -> None:
    """Enter an erasure of the journal that a restored database lacks.

    It keeps its ids and time. Its job erases what the backup has brought back.
    """
    received_at = datetime.fromisoformat(entry["requestedAt"])
    request, _ = SubjectRequest.objects.get_or_create(
        pk=UUID(entry["request"]),
        defaults={
            "kind": RequestKind.ERASURE,
            "origin": entry["origin"],
            "workspace_id": UUID(entry["workspace"]),
            "environment": entry["environment"],
            **ids_of_person(entry),
            "requested_by": ACTOR,
            "received_at": received_at,
            "due_at": deadline(RequestKind.ERASURE, received_at),
        },
    )
    Erasure.objects.get_or_create(
        pk=UUID(entry["erasure"]),
        defaults={
            "request": request,
            "report_ids": list(map(UUID, entry["reports"])),
            "rule_ids": list(map(UUID, entry["rules"])),
            "searched_by": entry.get("searchedBy", []),
            "found_at": datetime.fromisoformat(entry["foundAt"]),
            "created_at": received_at,
        },
    )


def write_retention(run: RetentionRun) -> None:
    """Write the file of a run of the retention: the reports and rules of its claim.

    No transaction is open.
    """
    write_file(
        _name(run.created_at, f"{RETENTION}{run.pk}"),
        {
            "retention": str(run.pk),
            "at": utc_text(run.created_at),
            "workspace": str(run.workspace_id),
            "environment": run.environment,
            "before": utc_text(run.before),
            "days": run.workspace.retention(run.environment).days,
            "reports": list(map(str, run.report_ids or [])),
            "rules": list(map(str, run.rule_ids or [])),
            # Version 1.0.0, which may run beside this one, reads nothing else.
            "scopes": [],
        },
    )


def restore_run(entry: dict[str, Any]) -> RetentionRun:
    """Return the run of a file of the journal, which a restored database lacks.

    It claims what the run has erased, whatever holds it in the backup.
    """
    run, _ = RetentionRun.objects.get_or_create(
        pk=UUID(entry["retention"]),
        defaults={
            "workspace_id": UUID(entry["workspace"]),
            "environment": entry["environment"],
            "before": datetime.fromisoformat(entry["before"]),
            "report_count": len(entry["reports"]),
            "report_ids": list(map(UUID, entry["reports"])),
            "rule_ids": list(map(UUID, entry["rules"])),
            "created_at": datetime.fromisoformat(entry["at"]),
        },
    )
    return run


def write_stop(
    kind: str, row_id: UUID, at: datetime, report: Report, **more: Any
) -> None:
    """Write the file of a withdrawal or an objection. No transaction is open."""
    name = _name(at, f"{kind}-{row_id}")
    write_file(
        name,
        {
            kind: str(row_id),
            "at": utc_text(at),
            "workspace": str(report.workspace_id),
            "environment": report.environment,
            "report": str(report.pk),
            # Version 1.0.0 leaves such a file out.
            "scopes": [],
            **more,
        },
    )
    mark_known(name.removeprefix(f"{FOLDER}/"))


def unknown_names() -> list[str]:
    """Return the files that this database does not know, oldest first."""
    names, unknown = sorted(_names()), []
    for start in range(0, len(names), BATCH_SIZE):
        batch = names[start : start + BATCH_SIZE]
        known = set(
            JournalEntry.objects.filter(name__in=batch).values_list("name", flat=True)
        )
        ids = {name: row_id for name in batch if (row_id := _row_id(name))}
        rows = {
            pk
            for model in (Erasure, RetentionRun)
            for pk in model.objects.filter(pk__in=ids.values()).values_list(
                "pk", flat=True
            )
        }
        unknown += [n for n in batch if n not in known and ids.get(n) not in rows]
    return unknown


def person_of(request: SubjectRequest) -> dict[str, Any]:
    """Return the ids of the person, with the fingerprint of their LOOKUP_KEY."""
    return {
        "key": fingerprints()[-1].hex(),
        "subject": str(request.subject_id),
        "further": sorted(map(str, request.further_ids or [])),
    }


def ids_of_person(entry: dict[str, Any]) -> dict[str, Any]:
    """Return the ids of a file's person as they are under today's LOOKUP_KEY."""
    since = keys_since(entry) or ()
    # Files of version 1.0.0 name one number only.
    further = [UUID(one) for one in entry.get("further", [])]
    return {
        "subject_id": KeyedUUIDField.rehashed(UUID(entry["subject"]), since),
        "further_ids": KeyedUUIDsField.rehashed(further, since),
    }


def keys_since(entry: dict[str, Any]) -> tuple[bytes, ...] | None:
    """Return the keys of LOOKUP_KEY since the file.

    None: the backup is older than the file's key, and `rehash` is still to come.
    """
    known = [fingerprint.hex() for fingerprint in fingerprints()]
    # Files of version 1.0.0 name no key.
    key = entry.get("key", known[-1])
    return settings.LOOKUP_KEY[known.index(key) + 1 :] if key in known else None


def read(name: str) -> dict[str, Any]:
    return read_file(f"{FOLDER}/{name}")


def read_file(path: str) -> dict[str, Any]:
    with _use_storage() as storage, storage.open(path) as file:
        content = file.read()
    entry: dict[str, Any] = orjson.loads(content)
    return entry


def mark_known(name: str) -> None:
    JournalEntry.objects.get_or_create(name=name)


def _name(at: datetime, stem: str) -> str:
    return f"{FOLDER}/{at:%Y-%m}/{stem}{SUFFIX}"


def _names() -> Iterator[str]:
    for month in list_folder(FOLDER)[0]:
        for file in list_folder(f"{FOLDER}/{month}")[1]:
            if file.endswith(SUFFIX):
                yield f"{month}/{file}"


def list_folder(folder: str) -> tuple[list[str], list[str]]:
    """Return the folders and files in a folder, which may be missing."""
    with _use_storage() as storage:
        try:
            return storage.listdir(folder)
        except FileNotFoundError:
            return [], []


def _row_id(name: str) -> UUID | None:
    """Return the id of the erasure or run in the name of the file, or None."""
    stem = name.rpartition("/")[2].removesuffix(SUFFIX)
    with suppress(ValueError):
        return UUID(stem.removeprefix(RETENTION))
    return None


def write_file(name: str, entry: dict[str, Any]) -> None:
    """Write a file `folder/month/name` of the storage, and return when it is there."""
    content = orjson.dumps(entry, option=orjson.OPT_SORT_KEYS)
    with _use_storage() as storage:
        save_whole(storage, name, content)


@contextmanager
def _use_storage() -> Iterator[Storage]:
    """Yield the storage; raise JournalUnavailable for its errors."""
    try:
        yield storages["documents"]
    except Exception as e:
        # A bucket raises errors of its own.
        raise JournalUnavailable(error_name(e)) from e
