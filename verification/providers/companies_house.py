"""Companies of the United Kingdom in their register, Companies House.

https://developer.company-information.service.gov.uk

The API key is the user name of HTTP Basic, without a password. It allows 600 requests
in five minutes; one company takes three.
"""

import re
import time
from base64 import b64encode
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from verification.providers import findings
from verification.providers.base import Finding, Inquiry, Provider
from verification.providers.http_api import (
    Api,
    Record,
    Reply,
    RequestRejected,
    refused_error,
    require_covered_country,
    unavailable_error,
)
from verification.providers.name_comparison import companies_alike

SOURCE, COUNTRY = "Companies House", "GB"
# For each of the four calls that a check may need.
SECONDS = 10.0
# The limit's window in seconds: no wait is longer, whatever the answer says.
WINDOW = 300.0
MOST_PEOPLE, MOST_FOUND = 100, 20

# `company_status_detail` of a company that is about to be dissolved.
ENDING = {"active-proposal-to-strike-off": "PROPOSAL_TO_STRIKE_OFF"}
TYPES = {
    "ltd": "PRIVATE_LIMITED_COMPANY",
    "plc": "PUBLIC_LIMITED_COMPANY",
    "llp": "LIMITED_LIABILITY_PARTNERSHIP",
}
REFUSALS = {
    401: "does not take the key",
    403: "does not let this key, or this address, ask",
}
OWNER = re.compile(r"(ownership-of-shares|right-to-share-surplus-assets)\b")
LINES = (
    "care_of",
    "po_box",
    "premises",
    "address_line_1",
    "address_line_2",
    "locality",
    "region",
    "postal_code",
    "country",
)
SEVERAL = "Several companies match, so none was taken."
NO_NAME = "The register has no such number, and no company of this name."


class CompaniesHouse(Provider):
    name = "companies_house"
    repeats_are_free = True
    longest_seconds = 4 * SECONDS
    countries = frozenset({COUNTRY})

    def __init__(self, api_key: str, url: str, opened: Collection[str]) -> None:
        basic = "Basic " + b64encode(f"{api_key}:".encode()).decode()
        self._api = Api(
            SOURCE,
            url,
            opened=opened,
            headers={"Authorization": basic},
            seconds=SECONDS,
            refusals=REFUSALS,
        )

    def ask(self, inquiry: Inquiry) -> Finding:
        subject = inquiry.subject
        stated = str(subject.get("registrationNumber") or "")
        if inquiry.check != "BUSINESS_VERIFICATION" or not stated:
            raise refused_error(SOURCE, "cannot be asked this")
        # Another register's number may belong to a different company in this one.
        require_covered_country(self, subject, SOURCE)
        number = company_number(stated)
        if number is None:
            return self._by_name(inquiry)
        profile, reply = self._get(f"/company/{number}", inquiry)
        if profile is None:
            digest = reply.digest
            return findings.company_finding(
                subject, None, self.name, response_digest=digest
            )
        return self._found(profile, reply, number, inquiry)

    def _by_name(self, inquiry: Inquiry) -> Finding:
        """Search by name, for a number that cannot be one of this register."""
        name = findings.stated_name(inquiry.subject)
        if not name:
            raise refused_error(SOURCE, "does not have numbers of this form")
        params = {"q": name, "items_per_page": str(MOST_FOUND)}
        answer, reply = self._get("/search/companies", inquiry, params)
        items = [] if answer is None else answer.records("items")
        same = [
            number
            for item in items
            if companies_alike(name, item.text("title")) == "MATCH"
            and (number := company_number(str(item.get("company_number") or "")))
        ]
        if len(same) != 1:
            return findings.undecided_company_finding(
                inquiry.subject,
                SEVERAL if same else NO_NAME,
                self.name,
                response_digest=reply.digest,
            )
        profile, reply = self._get(f"/company/{same[0]}", inquiry)
        if profile is None:
            raise unavailable_error(SOURCE, "found a company and does not know it")
        return self._found(profile, reply, same[0], inquiry, by_name=True)

    def _found(
        self,
        profile: Record,
        reply: Reply,
        number: str,
        inquiry: Inquiry,
        *,
        by_name: bool = False,
    ) -> Finding:
        if profile.get("company_number") != number:
            raise unavailable_error(SOURCE, "answered about something else")
        params = {"items_per_page": str(MOST_PEOPLE)}
        people = [
            self._get(f"/company/{number}/{kind}", inquiry, params)
            for kind in ("officers", "persons-with-significant-control")
        ]
        (officers, _), (owners, _) = people
        bodies = [reply.body, *(each.body for _, each in people)]
        return findings.company_finding(
            inquiry.subject,
            _company(profile, officers, owners),
            self.name,
            by_name=by_name,
            provider_reference=number,
            response_digest=sha256(b"".join(bodies)).hexdigest(),
        )

    def _get(
        self, path: str, inquiry: Inquiry, params: Mapping[str, str] | None = None
    ) -> tuple[Record | None, Reply]:
        """Return the record and the reply; the record is None after a 404."""
        reply = self._api.fetch("GET", path, params=params)
        if reply.status == 429:
            late = f"{SOURCE} has allowed no more requests for too long."
            now = datetime.now(UTC)
            raise findings.pending_error(inquiry, now, _until_reset(reply), late)
        try:
            return self._api.read_object(reply), reply
        except RequestRejected as e:
            if e.status == 404 and isinstance(e.answer, dict):
                return None, reply
            raise


def company_number(stated: str) -> str | None:
    """Return the number's eight characters, as 00445790 or SC123456.

    A number that cannot be one of this register gives None.
    """
    plain = re.sub(r"[\s-]", "", stated).upper()
    if re.fullmatch(r"\d{1,8}", plain, re.ASCII):
        return plain.zfill(8)
    if parts := re.fullmatch(r"([A-Z]{2})(\d{1,6})", plain, re.ASCII):
        return parts[1] + parts[2].zfill(6)
    # Societies and some older kinds of company.
    return plain if re.fullmatch(r"[A-Z][A-Z\d]\d{5}[A-Z\d]", plain) else None


def _until_reset(reply: Reply) -> float:
    """Return the seconds until the limit resets, between 1 and WINDOW."""
    reset = str(reply.headers.get("X-Ratelimit-Reset", ""))
    seconds = float(reset) - time.time() if reset.isdecimal() else WINDOW
    return min(max(seconds, 1.0), WINDOW)


def _company(
    profile: Record, officers: Record | None, owners: Record | None
) -> findings.Company:
    detail = profile.text("company_status_detail") or ""
    status = findings.company_status(SOURCE, profile.code("company_status"))
    return findings.Company(
        name=profile.text("company_name"),
        kind=TYPES.get(profile.text("type") or "", profile.code("type")),
        status=ENDING.get(detail, status),
        incorporated_on=profile.day("date_of_creation"),
        address=profile.record("registered_office_address").lines(*LINES),
        directors=_directors(officers),
        shareholders=_shareholders(owners),
        other_names=profile.names("previous_company_names"),
    )


def _directors(officers: Record | None) -> list[dict[str, Any]] | None:
    """Return the directors in office, or None if the answer lists only some."""
    if officers is None:
        return []
    if not _is_whole(officers):
        return None
    return [
        findings.director(
            _in_order(each.text("name")),
            each.code("officer_role"),
            each.text("nationality"),
            each.day("appointed_on"),
        )
        for each in officers.records("items")
        if not each.get("resigned_on")
    ]


def _shareholders(owners: Record | None) -> list[dict[str, Any]] | None:
    """Return the owners of more than a quarter, or None if the answer lists only some.

    The register publishes bands of ownership, not numbers of shares.
    """
    if owners is None:
        return []
    if not _is_whole(owners):
        return None
    return [
        {"fullName": each.text("name"), "shares": None, "percent": None}
        for each in owners.records("items")
        if not each.get("ceased_on")
        and any(OWNER.match(str(word)) for word in each.entries("natures_of_control"))
    ]


def _is_whole(answer: Record) -> bool:
    total, items = answer.get("total_results"), answer.get("items")
    return isinstance(items, list) and total in (None, len(items))


def _in_order(name: str | None) -> str | None:
    """Return "Jane Wanjiku KAMAU" for the register's "KAMAU, Jane Wanjiku"."""
    last, comma, first = (name or "").partition(", ")
    return f"{first} {last}" if comma and first else name
