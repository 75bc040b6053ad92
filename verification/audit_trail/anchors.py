"""Anchors: signed files outside the database with the number and hash of a seal.

An attacker who can write the database can change an event and recompute all later
hashes. Earlier anchors then disagree with the seals. The job writes one an hour, while
events are sealed, to the folder `audit` of the document storage, beside the journal of
erasures, and one for each run to the log. The key of certificates signs them. When the
next is due follows from the files: an attacker could move a time in the database.

A restore loses events that were sealed since the backup, and their numbers are used
again. `accept` records that in a signed file, and the former keys that count: the table
of published keys is in the database, where an attacker could add one. `explain` records
in such a file that the operator knows the cause of a fault.
"""

import logging
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, NamedTuple

import orjson

from verification.audit_trail.models import (
    AuditSeal,
    last_seal,
    read_state,
    write_state,
)
from verification.db.ids import time_of_id
from verification.privacy import certificates, journal
from verification.values.clock import now
from verification.values.local_time import utc_text

FOLDER = "audit"
# The end of the names of files by `accept` and `explain`, which are found without
# reading all anchors.
DECLARED = "declared"
# The beginning of the fault of a folder or bucket that is away.
UNREADABLE = "The folder of anchors cannot be read"
EVERY = timedelta(hours=1)
# After this an anchor that could not be written is a fault.
LATE = timedelta(hours=3)
BATCH_SIZE = 1_000

log = logging.getLogger("verification.audit_trail")


@dataclass(frozen=True, slots=True)
class Anchor:
    name: str
    number: int
    hash: str
    # The number of the anchor before; 0 for the first
    previous: int


class Explanation(NamedTuple):
    at: str
    reason: str


def anchor(*, is_new: bool) -> None:
    """Log an anchor of the last seal if it is new, and write a file every hour.

    No transaction is open. A folder that cannot be written stops no sealing: the next
    run writes the file, and `check_anchors` finds one that is late.
    """
    number, hashed = last_seal()
    previous, at = read_state().anchored_number, now()
    facts = {
        "type": "audit-anchor",
        "number": number,
        "hash": hashed.hex(),
        "at": utc_text(at),
        "previous": previous,
    }
    if is_new:
        log.info("audit trail sealed", extra=_logged(facts))
    try:
        # A second file of the same event would hide that the first is gone.
        if number in (0, previous):
            return
        files = _read([], newest_first=True)
        newest = next((file for file in files if "number" in file), None)
        if newest and newest["number"] > previous:
            # A run that wrote this file has died before it noted that.
            facts["previous"] = newest["number"]
            write_state(anchored_number=newest["number"])
        if not _is_due(newest, number, at):
            return
        journal.write_file(_name(at, number), _signed(facts))
    except journal.JournalUnavailable as e:
        log.error("an anchor was not written: %s", e)
        return
    write_state(anchored_number=number)


def _is_due(newest: dict[str, Any] | None, number: int, at: datetime) -> bool:
    """Return whether the last seal needs an anchor in a file after the newest."""
    if newest is None or newest["number"] == number:
        return newest is None
    age = at - datetime.fromisoformat(newest["at"])
    is_recent = timedelta(0) <= age < EVERY
    return newest["type"] == "audit-restore" or not is_recent


def accept(reason: str) -> tuple[int, Counter[str]]:
    """Declare that a restore has lost seals, or that there is a new key.

    Present anchors of higher numbers count no more. The check trusts the keys that have
    signed the present files. Returns the last number that was kept, and the number of
    files of each key. Raises JournalUnavailable.
    """
    files = list(_read([]))
    keys = _count_keys(files)
    differing = [n for n, _ in _compare(_anchors(files))]
    number, at = min([last_seal()[0] + 1, *differing]) - 1, now()
    facts = {
        "type": "audit-restore",
        "number": number,
        "at": utc_text(at),
        "reason": reason,
    }
    journal.write_file(_name(at, DECLARED), _signed(facts | {"keys": sorted(keys)}))
    log.warning("audit trail continues after a restore", extra=_logged(facts))
    write_state(anchored_number=number)
    return number, keys


def explain(faults: Sequence[str], reason: str) -> None:
    """Declare that the operator knows the cause of these faults.

    The text of a fault names the state of the rows: another change is another fault.
    Raises JournalUnavailable.
    """
    at = now()
    facts = {"type": "audit-explanation", "at": utc_text(at), "reason": reason}
    journal.write_file(_name(at, DECLARED), _signed(facts | {"faults": list(faults)}))
    for fault in faults:
        facts["fault"] = fault
        log.warning("a fault of the audit trail is explained", extra=_logged(facts))


def read_explanations(trusted: Collection[str] = ()) -> dict[str, Explanation]:
    """Return the explained faults; none while the folder cannot be read.

    `trusted` is that of `check_anchors`.
    """
    try:
        files = list(_read([], ending=f"-{DECLARED}.json"))
    except journal.JournalUnavailable as e:
        # `check_anchors` makes a fault of it.
        log.error("explanations were not read: %s", e)
        return {}
    trusted = trusted or _trusted_keys(files)
    return {
        fault: Explanation(file["at"], file["reason"])
        for file in files
        if file["type"] == "audit-explanation" and file["key"] in trusted
        # The signed line of the log has none.
        for fault in file.get("faults", ())
    }


def check_anchors(
    trusted: Collection[str] = (),
    lines: Sequence[dict[str, Any]] = (),
    newest: int | None = None,
) -> tuple[list[str], Counter[str]]:
    """Return the faults of the anchors, and the number of files of each key.

    `newest` limits the files that it reads: a job ends after two minutes, and a file
    of a bucket takes 50 ms. A changed event changes all hashes behind it, so each
    anchor that is younger than the event and older than the change differs.
    Files of a key that is not trusted are a fault, and count no more. Trusted are the
    given keys, or today's with those that it has accepted. `lines` are anchors that a
    log store kept.
    """
    found: list[str] = []
    try:
        signed = list(islice(_read(found, newest_first=True), newest))[::-1]
    except journal.JournalUnavailable as e:
        return [f"{UNREADABLE}: {e}."], Counter()
    keys = _count_keys(signed)
    trusted = trusted or _trusted_keys(signed)
    # A check of the newest files finds the same fault as one of all.
    newest_names = {file["key"]: file["name"] for file in signed}
    for key in sorted(set(keys) - set(trusted)):
        signed_file = f"which has signed {newest_names[key]}"
        found.append(f"Nobody has accepted the key {key}, {signed_file}.")
    files = [file for file in signed if file["key"] in trusted]
    anchored = _anchors([*files, *lines])
    found += [fault for _, fault in _compare(anchored)]
    there = {file.get("number") for file in signed} | {0}
    named = {a.previous for a in anchored[len(signed) == newest :]}
    named.add(read_state().anchored_number)
    seals = AuditSeal.objects.in_bulk(gone := named - there)
    for number in sorted(gone):
        seal = seals.get(number)
        hashed = bytes(seal.hash).hex() if seal else "which is missing"
        found.append(f"The anchor of event {number} ({hashed}) is gone.")
    return [*found, *_check_times(files)], keys


def _trusted_keys(files: list[dict[str, Any]]) -> set[str]:
    today = certificates.published_keys()[0].pk
    return {today}.union(*(f.get("keys", ()) for f in files if f["key"] == today))


def _count_keys(files: list[dict[str, Any]]) -> Counter[str]:
    return Counter(file["key"] for file in files)


def read_lines(path: str) -> list[dict[str, Any]]:
    """Return the anchors, restores and exported events of a file of JSON lines.

    Their time names them: another file has them at other places.
    """
    found = []
    with open(path, "rb") as file:
        for line in file:
            try:
                facts = orjson.loads(line)
                kind = facts.get("type", "audit-anchor")
            except (ValueError, AttributeError):
                continue
            is_known = kind == "audit-restore" or "hash" in facts
            if is_known and {"number", "at"} <= set(facts):
                name = {"name": f"the line of {facts['at']}", "type": kind}
                found.append({"previous": 0, **facts, **name})
    return found


def _check_times(files: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the faults of anchors that are late or of the future."""
    at, late = now(), utc_text(now() - LATE)
    first_of_all = {"number": 0, "at": ""}
    *_, newest = [first_of_all, *(file for file in files if "number" in file)]
    first = AuditSeal.objects.filter(number__gt=newest["number"]).first()
    if first and newest["at"] < late and at - time_of_id(first.event_id) > LATE:
        yield f"Event {first.number} and those behind it have no anchor."
    for file in files:
        if file["at"] > utc_text(at + EVERY):
            yield f"The anchor {file['name']} is of the future."


def _anchors(files: list[dict[str, Any]]) -> list[Anchor]:
    """Return the anchors of the files, except anchors that a restore has ended."""
    restores = [f for f in files if f["type"] == "audit-restore"]
    # It also declares that files which earlier anchors name are lost.
    restored_at = max((r["at"] for r in restores), default="")
    return [
        Anchor(
            f["name"],
            f["number"],
            f["hash"],
            f["previous"] if f["at"] > restored_at else 0,
        )
        for f in files
        if f["type"] == "audit-anchor"
        and not any(r["number"] < f["number"] and f["at"] <= r["at"] for r in restores)
    ]


def _compare(anchored: list[Anchor]) -> Iterator[tuple[int, str]]:
    """Yield the number of each anchor that differs from its seal, and the fault."""
    for start in range(0, len(anchored), BATCH_SIZE):
        batch = anchored[start : start + BATCH_SIZE]
        rows = AuditSeal.objects.in_bulk([a.number for a in batch])
        for one in batch:
            row = rows.get(one.number)
            if row is None:
                fault = f"Event {one.number} is missing, which {one.name} names."
                yield one.number, fault
            elif bytes(row.hash).hex() != one.hash:
                fault = f"Events up to {one.number} are not those of {one.name}"
                yield one.number, f"{fault}: {bytes(row.hash).hex()}."


def _read(
    found: list[str], *, newest_first: bool = False, ending: str = ""
) -> Iterator[dict[str, Any]]:
    """Yield the facts of each file that is signed; add others to `found`."""
    keys = {key.pk: key.pem for key in certificates.published_keys()}
    for month in sorted(journal.list_folder(FOLDER)[0], reverse=newest_first):
        names = journal.list_folder(f"{FOLDER}/{month}")[1]
        for file in sorted(names, reverse=newest_first):
            if not file.endswith(ending):
                continue
            name = f"{month}/{file}"
            try:
                entry = journal.read_file(f"{FOLDER}/{name}")
                facts = orjson.loads(entry["anchor"])
                text, signature = entry["anchor"], b64decode(entry["signature"])
                pem = keys.get(entry["key"])
                is_signed = pem is not None and certificates.is_signed(
                    text.encode(), signature, pem
                )
                if not f"{FOLDER}/{name}".startswith(_path(facts["at"])):
                    raise ValueError("a copy under another name")
                facts["name"], facts["key"] = name, entry["key"]
            except (ValueError, KeyError, TypeError, AttributeError):
                found.append(f"The anchor {name} cannot be read.")
                continue
            if is_signed:
                yield facts
            else:
                found.append(f"The anchor {name} is not signed by this service.")


def _logged(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the facts with their signature, in a form that the log does not mask."""
    _, signature = certificates.sign(_text(facts))
    return facts | {"signature": signature.hex()}


def _text(facts: dict[str, Any]) -> bytes:
    return orjson.dumps(facts, option=orjson.OPT_SORT_KEYS)


def _signed(facts: dict[str, Any]) -> dict[str, str]:
    text = _text(facts)
    key, signature = certificates.sign(text)
    return {
        "anchor": text.decode(),
        "key": key,
        "signature": b64encode(signature).decode(),
    }


def _name(at: datetime, end: int | str) -> str:
    return f"{_path(utc_text(at))}{end}.json"


def _path(time: str) -> str:
    at = datetime.fromisoformat(time)
    return f"{FOLDER}/{at:%Y-%m}/{at:%Y%m%dT%H%M%S%f}-"
