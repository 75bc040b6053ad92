"""Companies in the global register of legal entity identifiers, which anybody may ask.

https://www.gleif.org/en/lei-data/gleif-api

Most companies have no identifier (LEI). Where none is found by number or name, that
says nothing of the company, and the result has no score; only an LEI that is not there
is one that does not exist.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from verification.providers.base import Finding, Inquiry, NotTold, Refused
from verification.providers.company_answers import (
    ACTIVE,
    DISSOLVED,
    Company,
    address_of,
    clean_text,
    company_found,
    company_not_found,
    company_undecided,
    iso_date,
    normalize_code,
    plain_number,
)
from verification.providers.http_api import REFUSED, Api, Reply, unavailable_error
from verification.providers.name_comparison import companies_alike
from verification.providers.scoring import stated_name

logger = logging.getLogger(__name__)

SOURCE = "GLEIF"
SECONDS = 12.0
# More records of one name than this are not told apart.
MOST = 10
Record = Mapping[str, Any]

# What the entity is, by what its registration says.
STATUSES = {"ACTIVE": ACTIVE, "INACTIVE": DISSOLVED}
# Of the LEI itself. Others than these doubt what the record says of the company.
IN_ORDER = {"ISSUED", "PENDING_TRANSFER", "PENDING_ARCHIVAL", "TRANSFERRED"}
DOUBTS = {
    "LAPSED": "The record has not been renewed: it may be out of date.",
    "PENDING_VALIDATION": "The record has not been validated yet.",
}
# The company is no more, or is another.
ENDED = {"MERGED", "RETIRED"}
# The record is no record of a company.
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
            raise Refused(REFUSED, f"{SOURCE} cannot be asked this.")
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
        record = _attributes(_object(self._api.read(reply)).get("data"))
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
            # One name in several places; the number tells which.
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
            # As it was written: the register compares it letter by letter.
            value = str(subject["registrationNumber"]).strip()
        params = {
            f"filter[{key}]": value,
            "filter[entity.legalAddress.country]": country,
            "page[size]": str(MOST + 1),
        }
        given = {name: each for name, each in params.items() if each}
        reply = self._api.fetch("GET", "/lei-records", params=given)
        data = _object(self._api.read(reply)).get("data")
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

    def _undecided(self, subject: Record, told: str, reply: Reply) -> Finding:
        return company_undecided(subject, self.name, told, response_digest=reply.digest)


def is_lei(number: str) -> bool:
    """Whether its two last digits are right (ISO 17442, ISO 7064 MOD 97-10)."""
    if not re.fullmatch(r"[A-Z0-9]{18}\d\d", number, re.ASCII):
        return False
    return int("".join(str(int(sign, 36)) for sign in number)) % 97 == 1


def _company(record: Record) -> Company | None:
    """None where the register has withdrawn the record."""
    entity, registration = (
        _member(record, "entity"),
        _member(record, "registration"),
    )
    of_lei, word = (
        normalize_code(registration.get("status")),
        normalize_code(entity.get("status")),
    )
    if of_lei in VOID:
        return None
    status = STATUSES.get(word or "", word)
    if of_lei in ENDED:
        status = DISSOLVED if of_lei == "RETIRED" else of_lei
    doubt = DOUBTS.get(of_lei or "", "")
    if of_lei not in IN_ORDER | ENDED | DOUBTS.keys() or status not in {
        *STATUSES.values(),
        *ENDED,
        None,
    }:
        shown = f"{of_lei} {word}"[:40]
        logger.warning("GLEIF gave a status that is not known: %s", shown)
        doubt = doubt or "The record does not say that it is in order."
    return Company(
        name=_name(record),
        kind=normalize_code(_member(entity, "legalForm").get("other")),
        status=status,
        incorporated_on=iso_date(entity.get("creationDate")),
        address=address_of(_member(entity, "legalAddress"), LINES),
        doubt=doubt,
    )


def _name(record: Record) -> str | None:
    return clean_text(_member(_member(record, "entity"), "legalName").get("name"))


def _has_number(record: Record, number: str) -> bool:
    told = plain_number(_member(record, "entity").get("registeredAs"))
    return told == number


def _attributes(record: Any) -> Record:
    return _member(_object(record), "attributes")


def _member(record: Record, key: str) -> Record:
    value = record.get(key)
    return value if isinstance(value, dict) else {}


def _object(answer: Any) -> Record:
    if not isinstance(answer, dict):
        raise unavailable_error(SOURCE, "answered with JSON that is no object")
    return answer
