"""Companies of the United Kingdom in their register, Companies House.

https://developer.company-information.service.gov.uk

A key is the user name of HTTP Basic, without a password, and allows 600 requests in
five minutes. What is known of a company takes three of them.
"""

from __future__ import annotations

import logging
import re
import time
from base64 import b64encode
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, ClassVar

from verification.providers.base import (
    Finding,
    Inquiry,
    NotTold,
    Refused,
    covers_subject,
)
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
)
from verification.providers.http_api import (
    FOREIGN,
    REFUSED,
    Api,
    Reply,
    RequestRejected,
    unavailable_error,
)
from verification.providers.name_comparison import companies_alike
from verification.providers.scoring import pending_error, stated_name

logger = logging.getLogger(__name__)

SOURCE, COUNTRY = "Companies House", "GB"
# Of one call, and of the three together: a check's lease is 60 seconds.
SECONDS = 10.0
# The window of the limit, after which it is over whatever the answer says.
WINDOW = 300.0
MOST_PEOPLE, MOST_FOUND = 100, 20
Record = Mapping[str, Any]

STATUSES = {
    "active": ACTIVE,
    "open": ACTIVE,
    "registered": ACTIVE,
    "dissolved": DISSOLVED,
    "closed": DISSOLVED,
    "converted-closed": DISSOLVED,
    "removed": DISSOLVED,
    # The register's own words: somebody else has power over the company.
    "administration": "ADMINISTRATION",
    "insolvency-proceedings": "INSOLVENCY_PROCEEDINGS",
    "liquidation": "LIQUIDATION",
    "receivership": "RECEIVERSHIP",
    "voluntary-arrangement": "VOLUNTARY_ARRANGEMENT",
}
# Beside the status, of a company that is going to be none.
ENDING = {"active-proposal-to-strike-off": "PROPOSAL_TO_STRIKE_OFF"}
TYPES = {
    "ltd": "PRIVATE_LIMITED_COMPANY",
    "plc": "PUBLIC_LIMITED_COMPANY",
    "llp": "LIMITED_LIABILITY_PARTNERSHIP",
}
# What a 4xx stands for, beside its status.
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
SEVERAL = "Several companies fit, so that none was taken."
NO_NAME = "The register has no such number, and no company of this name."


class CompaniesHouse:
    name: ClassVar[str] = "companies_house"
    waits_on_network: ClassVar[bool] = True
    repeats_are_free: ClassVar[bool] = True
    countries: ClassVar[frozenset[str]] = frozenset({COUNTRY})
    not_told: ClassVar[NotTold] = {}

    def __init__(
        self,
        api_key: str,
        url: str = "https://api.company-information.service.gov.uk",
        opened: Collection[str] = (),
    ) -> None:
        basic = "Basic " + b64encode(f"{api_key}:".encode()).decode()
        headers = {"Authorization": basic}
        self._api = Api(SOURCE, url, opened=opened, headers=headers, seconds=SECONDS)

    def ask(self, inquiry: Inquiry) -> Finding:
        subject = inquiry.subject
        stated = str(subject.get("registrationNumber") or "")
        if inquiry.check != "BUSINESS_VERIFICATION" or not stated:
            raise Refused(REFUSED, f"{SOURCE} cannot be asked this.")
        # A number of another register may be somebody else's in this one.
        if not covers_subject(self, inquiry.subject):
            raise Refused(REFUSED, FOREIGN.format(SOURCE))
        number = company_number(stated)
        if number is None:
            return self._by_name(inquiry)
        profile, reply = self._get(f"/company/{number}", inquiry)
        if profile is None:
            evidence = {"response_digest": reply.digest}
            return company_not_found(subject, self.name, **evidence)
        return self._found(profile, reply, number, inquiry)

    def _by_name(self, inquiry: Inquiry) -> Finding:
        """What is no number of this register: the name may be in it."""
        name = stated_name(inquiry.subject)
        if not name:
            raise Refused(REFUSED, f"{SOURCE} does not have numbers of this form.")
        params = {"q": name, "items_per_page": str(MOST_FOUND)}
        answer, reply = self._get("/search/companies", inquiry, params)
        items = [] if answer is None else _records(answer.get("items"))
        same = [
            number
            for item in items
            if companies_alike(name, clean_text(item.get("title"))) == "MATCH"
            and (number := company_number(str(item.get("company_number") or "")))
        ]
        if len(same) != 1:
            told = SEVERAL if same else NO_NAME
            digest = reply.digest
            return company_undecided(
                inquiry.subject, self.name, told, response_digest=digest
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
        return company_found(
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
        """None where there is none, which the register tells with a 404."""
        reply = self._api.fetch("GET", path, params=params)
        if reply.status == 429:
            late = f"{SOURCE} has allowed no more requests for too long."
            now = datetime.now(UTC)
            raise pending_error(inquiry, now, _until_reset(reply), late)
        try:
            answer = self._api.read(reply)
        except RequestRejected as e:
            if e.status == 404 and isinstance(e.answer, dict):
                return None, reply
            if e.status not in REFUSALS:
                raise
            told = f"{SOURCE} {REFUSALS[e.status]} (status {e.status})."
            raise Refused(REFUSED, told) from None
        if not isinstance(answer, dict):
            raise unavailable_error(SOURCE, "answered with JSON that is no object")
        return answer, reply


def company_number(stated: str) -> str | None:
    """Eight signs, as 00445790 and SC123456; None if it cannot be such a number."""
    plain = re.sub(r"[\s-]", "", stated).upper()
    if re.fullmatch(r"\d{1,8}", plain, re.ASCII):
        return plain.zfill(8)
    if parts := re.fullmatch(r"([A-Z]{2})(\d{1,6})", plain, re.ASCII):
        return parts[1] + parts[2].zfill(6)
    # Societies and some older kinds of company.
    return plain if re.fullmatch(r"[A-Z][A-Z\d]\d{5}[A-Z\d]", plain) else None


def _until_reset(reply: Reply) -> float:
    """Seconds until more is allowed, by their clock, and no longer than a window."""
    given = str(reply.headers.get("X-Ratelimit-Reset", ""))
    left = float(given) - time.time() if given.isdecimal() else WINDOW
    return min(max(left, 1.0), WINDOW)


def _company(
    profile: Record, officers: Record | None, owners: Record | None
) -> Company:
    word = clean_text(profile.get("company_status"))
    detail = clean_text(profile.get("company_status_detail")) or ""
    status = ENDING.get(detail) or STATUSES.get(word or "", normalize_code(word))
    if word and word not in STATUSES:
        logger.warning("Companies House gave a status that is not known: %s", word[:40])
    kind = clean_text(profile.get("type")) or ""
    return Company(
        name=clean_text(profile.get("company_name")),
        kind=TYPES.get(kind, normalize_code(kind)),
        status=status,
        incorporated_on=iso_date(profile.get("date_of_creation")),
        address=address_of(profile.get("registered_office_address"), LINES),
        directors=_directors(officers),
        shareholders=_shareholders(owners),
    )


def _directors(officers: Record | None) -> list[dict[str, Any]] | None:
    """Those who are in office; None where the register did not show all of them."""
    if officers is None:
        return []
    if not _is_whole(officers):
        return None
    return [
        {
            "fullName": _in_order(clean_text(each.get("name"))),
            "role": normalize_code(each.get("officer_role")),
            "nationality": clean_text(each.get("nationality")),
            "appointedOn": iso_date(each.get("appointed_on")),
        }
        for each in _records(officers.get("items"))
        if not each.get("resigned_on")
    ]


def _shareholders(owners: Record | None) -> list[dict[str, Any]] | None:
    """Who owns more than a quarter. The register tells bands and not shares."""
    if owners is None:
        return []
    if not _is_whole(owners):
        return None
    return [
        {"fullName": clean_text(each.get("name")), "shares": None, "percent": None}
        for each in _records(owners.get("items"))
        if not each.get("ceased_on")
        and any(OWNER.match(str(word)) for word in each.get("natures_of_control") or ())
    ]


def _is_whole(answer: Record) -> bool:
    total, items = answer.get("total_results"), answer.get("items")
    return isinstance(items, list) and total in {None, len(items)}


def _in_order(name: str | None) -> str | None:
    """ "KAMAU, Jane Wanjiku" is how the register writes people."""
    last, comma, first = (name or "").partition(", ")
    return f"{first} {last}" if comma and first else name


def _records(value: Any) -> list[Record]:
    found = value if isinstance(value, list) else []
    return [each for each in found if isinstance(each, dict)]
