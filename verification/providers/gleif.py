"""Companies in the public register of legal entity identifiers (GLEIF).

https://www.gleif.org/en/lei-data/gleif-api

Most companies have no identifier (LEI). A number or name without a record therefore
proves nothing, and the result has no score. A missing LEI is different: it does not
exist.
"""

import logging
import re
from collections.abc import Collection
from typing import Any

from verification.providers import findings
from verification.providers.base import Finding, Inquiry, Provider, Subject
from verification.providers.findings import DISSOLVED
from verification.providers.http_api import (
    Api,
    Record,
    Reply,
    plain_number,
    refused_error,
    unavailable_error,
)
from verification.providers.name_comparison import companies_alike

logger = logging.getLogger(__name__)

SOURCE = "GLEIF"
SECONDS = 12.0
# A search asks for one record more than this.
MOST = 10

# Statuses of a valid LEI. Under other statuses the record may be wrong.
IN_ORDER = {"ISSUED", "PENDING_TRANSFER", "PENDING_ARCHIVAL", "TRANSFERRED"}
DOUBTS = {
    "LAPSED": "The record has not been renewed: it may be out of date.",
    "PENDING_VALIDATION": "The record has not been validated yet.",
}
# The company has ended, or is part of another.
ENDED = {"MERGED", "RETIRED"}
# The register has withdrawn the record.
VOID = {"ANNULLED", "CANCELLED", "DUPLICATE"}
LINES = ("addressLines", "city", "region", "postalCode", "country")
NO_LEI = "No record was found. Most companies have no identifier there."
SEVERAL = "Several records match, so none was taken."
VOIDED = "The record has been withdrawn by the register."


class Gleif(Provider):
    name = "gleif"
    repeats_are_free = True
    # A check needs up to two calls.
    longest_seconds = 2 * SECONDS
    not_told = {"BUSINESS_VERIFICATION": ("directors", "shareholders")}

    def __init__(self, url: str, opened: Collection[str]) -> None:
        accepted = {"Accept": "application/vnd.api+json"}
        self._api = Api(SOURCE, url, opened=opened, headers=accepted, seconds=SECONDS)

    def ask(self, inquiry: Inquiry) -> Finding:
        subject = inquiry.subject
        number = plain_number(subject.get("registrationNumber"))
        if inquiry.check != "BUSINESS_VERIFICATION" or not number:
            raise refused_error(SOURCE, "cannot be asked this")
        if is_lei(number):
            return self._by_lei(number, subject)
        # The register compares numbers letter by letter, so it gets ours unchanged.
        stated = str(subject["registrationNumber"]).strip()
        records, reply = self._search("entity.registeredAs", stated, subject)
        name = findings.stated_name(subject)
        same = [
            record
            for record in records
            # A country's other registers may give the number to other companies.
            if _has_number(record, number)
            and any(
                companies_alike(name, one) != "NO_MATCH"
                for one in (_name(record), *_other_names(record))
            )
        ]
        if len(same) == 1:
            return self._found(subject, same[0], reply)
        if same:
            return self._undecided(subject, SEVERAL, reply)
        return self._by_name(number, subject, reply)

    def _by_lei(self, lei: str, subject: Subject) -> Finding:
        reply = self._api.fetch("GET", f"/lei-records/{lei}")
        if reply.status == 404 and isinstance(reply.parsed(), dict):
            return findings.company_finding(
                subject, None, self.name, response_digest=reply.digest
            )
        record = _attributes(self._api.read_object(reply).get("data"))
        if record.get("lei") != lei:
            raise unavailable_error(SOURCE, "answered about something else")
        return self._found(subject, record, reply)

    def _by_name(self, number: str, subject: Subject, reply: Reply) -> Finding:
        name = findings.stated_name(subject)
        if not name:
            return self._undecided(subject, NO_LEI, reply)
        records, reply = self._search("entity.legalName", name, subject)
        same = [r for r in records if companies_alike(name, _name(r)) == "MATCH"]
        if len(same) > 1:
            # Companies in several places share the name; the number decides.
            same = [record for record in same if _has_number(record, number)]
            if len(same) != 1:
                return self._undecided(subject, SEVERAL, reply)
        if not same:
            return self._undecided(subject, NO_LEI, reply)
        by_name = not _has_number(same[0], number)
        return self._found(subject, same[0], reply, by_name=by_name)

    def _search(
        self, key: str, value: str, subject: Subject
    ) -> tuple[list[Record], Reply]:
        params = {f"filter[{key}]": value, "page[size]": str(MOST + 1)}
        if country := subject.get("country"):
            params["filter[entity.legalAddress.country]"] = str(country)
        reply = self._api.fetch("GET", "/lei-records", params=params)
        answer = self._api.read_object(reply)
        if not isinstance(answer.get("data"), list):
            raise unavailable_error(SOURCE, "answered without a list")
        return [_attributes(each) for each in answer.entries("data")], reply

    def _found(
        self, subject: Subject, record: Record, reply: Reply, *, by_name: bool = False
    ) -> Finding:
        if _lei_status(record) in VOID:
            return self._undecided(subject, VOIDED, reply)
        return findings.company_finding(
            subject,
            _company(record),
            self.name,
            by_name=by_name,
            provider_reference=record.text("lei"),
            response_digest=reply.digest,
        )

    def _undecided(self, subject: Subject, summary: str, reply: Reply) -> Finding:
        return findings.undecided_company_finding(
            subject, summary, self.name, response_digest=reply.digest
        )


def is_lei(number: str) -> bool:
    """Check the form and the two check digits (ISO 17442, ISO 7064 MOD 97-10)."""
    if not re.fullmatch(r"[A-Z0-9]{18}\d\d", number, re.ASCII):
        return False
    return int("".join(str(int(sign, 36)) for sign in number)) % 97 == 1


def _company(record: Record) -> findings.Company:
    entity, lei_status = record.record("entity"), _lei_status(record)
    word = entity.code("status")
    word = DISSOLVED if word == "INACTIVE" else word
    status = findings.company_status(SOURCE, word)
    if lei_status in ENDED:
        status = DISSOLVED if lei_status == "RETIRED" else lei_status
    doubt = DOUBTS.get(lei_status or "", "")
    if lei_status not in IN_ORDER | ENDED | DOUBTS.keys():
        shown = str(lei_status)[:40]
        logger.warning("GLEIF returned an unknown status of a record: %s", shown)
        doubt = "The record does not say that it is in order."
    return findings.Company(
        name=_name(record),
        kind=entity.record("legalForm").code("other"),
        status=status,
        incorporated_on=entity.day("creationDate"),
        address=entity.record("legalAddress").lines(*LINES),
        doubt=doubt,
        other_names=_other_names(record),
    )


def _lei_status(record: Record) -> str | None:
    return record.record("registration").code("status")


def _name(record: Record) -> str | None:
    return record.record("entity").record("legalName").text("name")


def _other_names(record: Record) -> list[str]:
    return record.record("entity").names("otherNames")


def _has_number(record: Record, number: str) -> bool:
    return plain_number(record.record("entity").get("registeredAs")) == number


def _attributes(resource: Any) -> Record:
    """Return the record of a JSON:API resource."""
    if not isinstance(resource, dict):
        raise unavailable_error(SOURCE, "answered with JSON that is no object")
    return Record(resource).record("attributes")
