"""The subject of a report: its members, its search name and its identity."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from verification.db.encryption import keyed_hash, keyed_uuid
from verification.reports.models import SubjectType
from verification.values.identifiers import normalise_identifier

# The members of the API's Subject, in its order
MEMBERS = (
    "subjectType",
    "fullName",
    "firstName",
    "middleName",
    "lastName",
    "idNumber",
    "registrationNumber",
    "email",
    "phone",
    "dateOfBirth",
    "country",
)
# A row of an index holds 2,704 bytes, and folding can turn one character into 18.
SEARCH_BYTES = 2500
# The first of these members that a subject has is its identity.
IDENTIFIERS = ("idNumber", "registrationNumber", "kraPin")


@dataclass(frozen=True, slots=True)
class Subject:
    """A person or company; `members` are those of the API that are known."""

    members: dict[str, Any]

    @classmethod
    def of(cls, members: dict[str, Any]) -> Subject:
        """Return the subject, with the full name or its parts derived if missing."""
        if members["subjectType"] == SubjectType.INDIVIDUAL:
            members = {**members, **_both_names(members)}
        return cls(members)

    @property
    def type(self) -> str:
        return self.members["subjectType"]

    @property
    def country(self) -> str:
        return self.members["country"]

    @property
    def name(self) -> str:
        return self.members.get("fullName") or self.members["registrationNumber"]

    @property
    def search_name(self) -> str:
        """The folded name for searches, cut to what fits in an index."""
        return fold_text(self.name).encode()[:SEARCH_BYTES].decode(errors="ignore")

    def in_workspace(self, workspace_id: UUID, environment: str) -> KnownSubject:
        """Return the subject with its id in this workspace and environment."""
        scope = (workspace_id, environment, *self._identity())
        return KnownSubject(
            # The same person or company has the same id in all its reports.
            id=keyed_uuid("subject", *scope),
            members=self.members,
            identity="\x1f".join(
                [
                    *map(str, scope),
                    fold_text(self.name),
                    self.members.get("dateOfBirth", ""),
                ]
            ),
        )

    def _identity(self) -> tuple[str, ...]:
        for key in IDENTIFIERS:
            if value := self.members.get(key):
                # A number of punctuation alone has an empty normal form.
                return (
                    self.type,
                    self.country,
                    key,
                    normalise_identifier(value) or value,
                )
        details = (self.members.get(key, "") for key in ("dateOfBirth", "email"))
        return self.type, self.country, "name", fold_text(self.name), *details


@dataclass(frozen=True, slots=True)
class KnownSubject:
    """A subject within one workspace and environment."""

    id: UUID
    members: dict[str, Any]
    identity: str

    def question(self, check: str, inputs: Iterable[str]) -> bytes:
        """Return a hash that is equal for the same check, inputs and subject."""
        values = [f"{key}={self.members[key]}" for key in inputs if key in self.members]
        return keyed_hash("question", self.identity, check, *values)


def fold_text(text: str) -> str:
    """Return the text without case and compatibility forms, for searches."""
    return unicodedata.normalize("NFKC", text).casefold()


def _both_names(members: dict[str, Any]) -> dict[str, str]:
    if "fullName" not in members:
        parts = (members.get(key) for key in ("firstName", "middleName", "lastName"))
        return {"fullName": " ".join(part for part in parts if part)}
    if "firstName" in members or "lastName" in members:
        return {}
    first, *middle = members["fullName"].split()
    last = middle.pop() if middle else ""
    names = {"firstName": first, "middleName": " ".join(middle), "lastName": last}
    return {k: v for k, v in names.items() if v and k not in members}
