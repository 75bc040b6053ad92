"""The subject of a report: its members, and what it is recognised by."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from verification.db.encryption import keyed_hash, keyed_uuid
from verification.reports.models import SubjectType
from verification.values.identifiers import normalise_identifier

# The members of the interface's Subject, in its order.
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
# A row of an index holds 2,704 bytes; a ligature can be 18 letters when folded.
SEARCH_BYTES = 2500
# The first of these that a subject has says who it is.
IDENTIFIERS = ("idNumber", "registrationNumber", "kraPin")


@dataclass(frozen=True, slots=True)
class Subject:
    """`members` are the API's, without those that are not known."""

    members: dict[str, Any]

    @classmethod
    def of(cls, members: dict[str, Any]) -> Subject:
        """A subject from what the client sent, with the other form of its name."""
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
        """The name as it is searched, cut to what fits in an index."""
        return fold_text(self.name).encode()[:SEARCH_BYTES].decode(errors="ignore")

    def in_workspace(self, workspace_id: UUID, environment: str) -> KnownSubject:
        """The subject as this workspace knows it in this environment."""
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
                # A number of nothing but punctuation is still told from another.
                return (
                    self.type,
                    self.country,
                    key,
                    normalise_identifier(value) or value,
                )
        described = (self.members.get(key, "") for key in ("dateOfBirth", "email"))
        return self.type, self.country, "name", fold_text(self.name), *described


@dataclass(frozen=True, slots=True)
class KnownSubject:
    """A subject within one workspace and environment."""

    id: UUID
    members: dict[str, Any]
    identity: str

    def question(self, check: str, inputs: Iterable[str]) -> bytes:
        """Equal where the same would be asked of a source about the same subject."""
        asked = [f"{key}={self.members[key]}" for key in inputs if key in self.members]
        return keyed_hash("question", self.identity, check, *asked)


def fold_text(text: str) -> str:
    """A name as it is searched: no case, no compatibility forms."""
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
