"""Companies in the public register of legal entity identifiers (GLEIF).

https://www.gleif.org/en/lei-data/gleif-api

Most companies have no identifier (LEI). A number or name without a record therefore
proves nothing, and the result has no score. A missing LEI is different: it does not
exist.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection
from typing import Any, ClassVar

from verification.providers.base import Finding, Inquiry, NotTold
from verification.providers.findings import (
    ACTIVE,
    DISSOLVED,
    Company,
    address_of,
    company_found,
    company_not_found,
    company_undecided,
    stated_name,
)
from verification.providers.http_api import (
    Api,
    Record,
    Reply,
    as_object,
    clean_text,
    iso_date,
    normalize_code,
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

# Status of the company, by the record's `entity.status`.
STATUSES = {"ACTIVE": ACTIVE, "INACTIVE": DISSOLVED}
# Status of the LEI. With any other the record may be wrong about the company.
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
SEVERAL = "Several records fit, so that none was taken."
VOIDED = "The record has been withdrawn by the register."


class Gleif:
    name: ClassVar[str] = "gleif"
    waits_on_network: ClassVar[bool] = True
    repeats_are_free: ClassVar[bool] = True
    countries: ClassVar[frozenset[str]] = frozenset()
    not_told: ClassVar[NotTold] = {
        "BUSINESS_VERIFICATION": ("directors", "shareholders")
    }

    def __init__(
        self, url: str = "https://api.gleif.org/api/v1", opened: Collection[str] = ()
    ) -> None:
        accepted = {"Accept": "application/vnd.api+json"}
        self._api = Api(SOURCE, url, opened=opened, headers=accepted, seconds=SECONDS)

    def ask(self, inquiry: Inquiry) -> Finding:
        subject = inquiry.subject
        number = plain_number(subject.get("registrationNumber"))
        if inquiry.check != "BUSINESS_VERIFICATION" or not number:
            raise refused_error(SOURCE, "cannot be asked this")
        if is_lei(number):
            return self._by_lei(number, subject)
        country = str(subject.get("country") or "")
        records, reply = self._search("entity.registeredAs", number, subject, country)
        same = [record for record in records if _has_number(record, number)]
        if len(same) == 1:
            return self._found(subject, same[0], reply)
        if same:
            return self._undecided(subject, SEVERAL, reply)
        return self._by_name(number, country, subject, reply)

    def _by_lei(self, lei: str, subject: Record) -> Finding:
        reply = self._api.fetch("GET", f"/lei-records/{lei}")
        if reply.status == 404 and isinstance(reply.parsed(), dict):
            return company_not_found(subject, self.name, response_digest=reply.digest)
        record = _attributes(self._api.read_object(reply).get("data"))
        if record.get("lei") != lei:
            raise unavailable_error(SOURCE, "answered about something else")
        return self._found(subject, record, reply)

    def _by_name(
        self, number: str, country: str, subject: Record, reply: Reply
    ) -> Finding:
        name = stated_name(subject)
        if not name:
            return self._undecided(subject, NO_LEI, reply)
        records, reply = self._search("entity.legalName", name, subject, country)
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
        self, key: str, value: str, subject: Record, country: str
    ) -> tuple[list[Record], Reply]:
        if key == "entity.registeredAs":
            # The register compares numbers letter by letter, so it gets ours unchanged.
            value = str(subject["registrationNumber"]).strip()
        params = {
            f"filter[{key}]": value,
            "filter[entity.legalAddress.country]": country,
            "page[size]": str(MOST + 1),
        }
        params = {name: each for name, each in params.items() if each}
        reply = self._api.fetch("GET", "/lei-records", params=params)
        data = self._api.read_object(reply).get("data")
        if not isinstance(data, list):
            raise unavailable_error(SOURCE, "answered without a list")
        return [_attributes(each) for each in data], reply

    def _found(
        self, subject: Record, record: Record, reply: Reply, *, by_name: bool = False
    ) -> Finding:
        company = _company(record)
        if company is None:
            return self._undecided(subject, VOIDED, reply)
        return company_found(
            subject,
            company,
            self.name,
            by_name=by_name,
            provider_reference=clean_text(record.get("lei")),
            response_digest=reply.digest,
        )

    def _undecided(self, subject: Record, summary: str, reply: Reply) -> Finding:
        digest = reply.digest
        return company_undecided(subject, self.name, summary, response_digest=digest)


def is_lei(number: str) -> bool:
    """Check the form and the two check digits (ISO 17442, ISO 7064 MOD 97-10)."""
    if not re.fullmatch(r"[A-Z0-9]{18}\d\d", number, re.ASCII):
        return False
    return int("".join(str(int(sign, 36)) for sign in number)) % 97 == 1


def _company(record: Record) -> Company | None:
    """Return the company, or None if the register has withdrawn the record."""
    entity, registration = _entity(record), as_object(record.get("registration"))
    lei_status = normalize_code(registration.get("status"))
    word = normalize_code(entity.get("status"))
    if lei_status in VOID:
        return None
    status = STATUSES.get(word or "", word)
    if lei_status in ENDED:
        status = DISSOLVED if lei_status == "RETIRED" else lei_status
    doubt = DOUBTS.get(lei_status or "", "")
    if lei_status not in IN_ORDER | ENDED | DOUBTS.keys() or status not in {
        *STATUSES.values(),
        *ENDED,
        None,
    }:
        shown = f"{lei_status} {word}"[:40]
        logger.warning("GLEIF returned an unknown status: %s", shown)
        doubt = doubt or "The record does not say that it is in order."
    return Company(
        name=_name(record),
        kind=normalize_code(as_object(entity.get("legalForm")).get("other")),
        status=status,
        incorporated_on=iso_date(entity.get("creationDate")),
        address=address_of(entity.get("legalAddress"), LINES),
        doubt=doubt,
    )


def _name(record: Record) -> str | None:
    return clean_text(as_object(_entity(record).get("legalName")).get("name"))


def _has_number(record: Record, number: str) -> bool:
    return plain_number(_entity(record).get("registeredAs")) == number


def _entity(record: Record) -> Record:
    return as_object(record.get("entity"))


def _attributes(resource: Any) -> Record:
    """Return the record of a JSON:API resource."""
    if not isinstance(resource, dict):
        raise unavailable_error(SOURCE, "answered with JSON that is no object")
    return as_object(resource.get("attributes"))
